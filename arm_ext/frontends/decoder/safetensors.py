# SPDX-License-Identifier: Apache-2.0
"""Reading of safetensors files, with every offset checked against the file's size.

The package `safetensors` has no numpy dtype for bfloat16, which most models are stored in, and would need PyTorch.
Source: the format's README: the length of a JSON header, u64; the header; the tensors' bytes.
"""

import json
import math
import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from arm_ext.common.errors import ModelError, UsageError
from arm_ext.common.text import shown
from arm_ext.frontends.decoder.config import Array

INDEX = "model.safetensors.index.json"

SINGLE = "model.safetensors"

_DTYPES = {"F32": 4, "F16": 2, "BF16": 2}
"""Dtypes of weights → bytes of an element."""

_LENGTH, _LARGEST_HEADER, _LARGEST_AXES = 8, 100_000_000, 8


class TensorFiles:
    """The tensors of a folder's safetensors files."""

    def __init__(self, folder: Path) -> None:
        """Read the headers.

        Raises:
            UsageError: A file is missing or damaged.
        """
        self._found: dict[str, tuple[Path, mmap.mmap, Mapping[str, Any]]] = {}
        for file in files_of(folder):
            data, header = _header(file)
            for name, entry in header.items():
                if name in self._found:
                    raise UsageError(f"{file}: the tensor {shown(name)} is in another file, too")
                self._found[name] = file, data, entry
        self.names = frozenset(self._found)

    def read(self, name: str) -> Array:
        """Return a tensor as float32.

        Raises:
            UsageError: The tensor lies outside its file, or has another size than its shape.
            ModelError: Its dtype is unsupported.
        """
        file, data, entry = self._found[name]
        dtype, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        if dtype not in _DTYPES:
            raise ModelError(
                f"{file}: the tensor {shown(name)} is of {shown(str(dtype))}, which is unsupported"
            )
        start = _LENGTH + int.from_bytes(data[:_LENGTH], "little")
        size = math.prod(shape) * _DTYPES[dtype]
        if not 0 <= begin <= end <= len(data) - start or end - begin != size:
            raise UsageError(
                f"{file}: the file may be damaged: the tensor {shown(name)}, {dtype}{shape}, has the bytes {begin:,} "
                f"to {end:,} of {len(data) - start:,}"
            )
        raw = np.frombuffer(data, np.uint8, size, start + begin)
        if dtype == "BF16":
            return (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(shape)
        return np.asarray(raw.view(np.float32 if dtype == "F32" else np.float16).reshape(shape), np.float32)


def files_of(folder: Path) -> list[Path]:
    """Return the safetensors files of a folder.

    Raises:
        UsageError: There are none, or the index is damaged.
    """
    index = folder / INDEX
    if not index.is_file():
        if (folder / SINGLE).is_file():
            return [folder / SINGLE]
        raise UsageError(f"{folder}: holds neither {SINGLE} nor {INDEX}")
    try:
        parts = set(json.loads(index.read_bytes())["weight_map"].values())
    except (ValueError, KeyError, AttributeError, TypeError) as err:
        raise UsageError(f"{index}: the file may be damaged ({type(err).__name__}: {err})") from err
    files = [folder / str(part) for part in sorted(parts, key=str)]
    for file in files:
        if file.parent != folder or not file.is_file():
            raise UsageError(f"{index}: names the file {shown(str(file.name))}, which is not there")
    return files


def _header(file: Path) -> tuple[mmap.mmap, dict[str, Any]]:
    def damaged(reason: str) -> UsageError:
        return UsageError(f"{file}: the file may be damaged: {reason}")

    size = file.stat().st_size
    if size <= _LENGTH:
        raise damaged(f"it has {size} bytes")
    with file.open("rb") as opened:
        data = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    length = int.from_bytes(data[:_LENGTH], "little")
    if not 0 < length <= min(size - _LENGTH, _LARGEST_HEADER):
        raise damaged(f"its header has {length:,} bytes of {size:,}")
    try:
        header = json.loads(data[_LENGTH : _LENGTH + length])
    except (ValueError, RecursionError) as err:
        raise damaged(f"its header is no JSON ({err})") from err
    if not isinstance(header, dict):
        raise damaged("its header is no JSON object")
    header.pop("__metadata__", None)
    for name, entry in header.items():
        if not _is_entry(entry):
            raise damaged(f"the entry of tensor {shown(name)} is {shown(str(entry))}")
    return data, header


def _is_entry(entry: object) -> bool:
    """Whether an entry of the header has a dtype, a shape and two offsets."""
    if not isinstance(entry, dict) or not isinstance(entry.get("dtype"), str):
        return False
    shape, offsets = entry.get("shape"), entry.get("data_offsets")
    if not isinstance(shape, list) or not isinstance(offsets, list):
        return False
    counts = len(shape) <= _LARGEST_AXES and len(offsets) == 2
    return counts and all(type(n) is int and 0 <= n < 1 << 62 for n in (*shape, *offsets))
