# SPDX-License-Identifier: Apache-2.0
"""Reading of GGUF files: fields, and tensors as weights of blocks.

The header is parsed here, with every count and offset checked against the file's size, because the reader of the
package `gguf` trusts both. Types and their sizes, and the conversion of K-quants to floats, are that package's.
Source: ggml's docs/gguf.md, version 3, and the block structures of ggml-common.h.
"""

import math
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from arm_ext.common.errors import ModelError, UsageError
from arm_ext.common.text import shown
from arm_ext.frontends.decoder.config import (
    Array,
    Decoder,
    Matrix,
    percent,
    refuse_not_finite,
    relative_error,
    sha256_of,
)
from arm_ext.frontends.decoder.gguf_names import architecture_of
from schedules.numerics.blocks import BLOCK, BlockWeights, quantized_weights

MAGIC = b"GGUF"

_VERSIONS = (2, 3)
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Type of a field → its code in `struct`; 8 is a string, 9 an array."""

_STRING, _ARRAY = 8, 9
_LEAST_STRING = 8
"""Bytes of an empty string: its length."""

_LARGEST_AXES = 4
_LARGEST_NAME = 64
"""Bytes of a tensor's name, by the specification."""

_LARGEST_ALIGNMENT = 1 << 20
_EIGHT = 8
_NIBBLE = 15
_MIDDLE = 8
"""Integer that stands for 0 in 4 bits without sign."""

_HALF = 2


@dataclass(frozen=True)
class Tensor:
    """A tensor of a GGUF file.

    Attributes:
        name: Its name.
        shape: Sizes, the slowest axis first.
        kind: Name of its type, such as "Q4_0".
        data: Bytes, uint8 [rows, bytes of a row].
    """

    name: str
    shape: tuple[int, ...]
    kind: str
    data: Array


@dataclass(frozen=True)
class GgufFile:
    """Fields and tensors of a file."""

    fields: Mapping[str, Any]
    tensors: Mapping[str, Tensor]


class _Cursor:
    """A reader of numbers and strings that refuses to read beyond the end of a file."""

    def __init__(self, path: Path, data: "mmap.mmap | bytes") -> None:
        self.path, self.data, self.at, self.what = path, data, 0, "the header"

    def refuse(self, reason: str) -> UsageError:
        """Return the error that the file is damaged at what is being read."""
        return UsageError(f"{self.path}: the GGUF file may be damaged: {self.what}: {reason}")

    def take(self, size: int) -> int:
        """Return the offset of the next `size` bytes, and go past them."""
        if size > len(self.data) - self.at:
            raise self.refuse(
                f"{size:,} bytes from {self.at:,} on are past the end of the file of {len(self.data):,}"
            )
        start, self.at = self.at, self.at + size
        return start

    def number(self, code: str) -> Any:
        """Read a number, little-endian."""
        (value,) = struct.unpack_from("<" + code, self.data, self.take(struct.calcsize("<" + code)))
        return value

    def text(self) -> str:
        """Read a string."""
        size = self.number("Q")
        start = self.take(size)
        return self.data[start : start + size].decode("utf-8", "replace")

    def value(self) -> Any:
        """Read the value of a field, with its type."""
        return self._value(self.number("I"))

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.text()
        if kind in _SCALARS:
            return self.number(_SCALARS[kind])
        if kind != _ARRAY:
            raise self.refuse(f"its type is {kind}; types are 0 to 12")
        element, count = self.number("I"), self.number("Q")
        if element in _SCALARS:
            dtype = np.dtype("<" + np.dtype(_SCALARS[element]).str[1:])
            return np.frombuffer(self.data, dtype, count, self.take(count * dtype.itemsize)).copy()
        if element != _STRING:
            raise self.refuse(f"it is an array of type {element}; arrays are of numbers or strings")
        if count * _LEAST_STRING > len(self.data) - self.at:
            raise self.refuse(f"{count:,} strings do not fit the rest of the file")
        return [self.text() for _ in range(count)]


def read_file(path: Path) -> GgufFile:
    """Read the fields of a file, and map its tensors.

    Raises:
        UsageError: The file is damaged, or of another version.
    """
    with path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    cursor = _Cursor(path, data)
    if data[: cursor.take(len(MAGIC)) + len(MAGIC)] != MAGIC:
        raise UsageError(f"{path}: the file is no GGUF file")
    version = cursor.number("I")
    if version not in _VERSIONS:
        raise UsageError(
            f"{path}: GGUF version {version}; versions 2 and 3 of little-endian machines can be read"
        )
    tensors, fields = cursor.number("Q"), {}
    count = cursor.number("Q")
    for _ in range(count):
        cursor.what = "the name of a field"
        name = cursor.text()
        cursor.what = f"field {shown(name)}"
        if name in fields:
            raise cursor.refuse("it occurs twice")
        fields[name] = cursor.value()
    return GgufFile(fields, _tensors(cursor, fields, tensors))


def _tensors(cursor: _Cursor, fields: Mapping[str, Any], count: int) -> dict[str, Tensor]:
    """Read the descriptions of all tensors, and map their bytes."""
    described = []
    for _ in range(count):
        cursor.what = "the name of a tensor"
        name = cursor.text()
        cursor.what = f"tensor {shown(name)}"
        if len(name) > _LARGEST_NAME:
            raise cursor.refuse(f"its name has {len(name):,} characters; at most {_LARGEST_NAME} are allowed")
        axes = cursor.number("I")
        if not 1 <= axes <= _LARGEST_AXES:
            raise cursor.refuse(f"it has {axes:,} axes; 1 to {_LARGEST_AXES} are allowed")
        shape = tuple(cursor.number("Q") for _ in range(axes))[::-1]
        described.append((name, shape, cursor.number("I"), cursor.number("Q")))
    alignment = fields.get("general.alignment", 32)
    cursor.what = "field general.alignment"
    if (
        not isinstance(alignment, int)
        or not 1 <= alignment <= _LARGEST_ALIGNMENT
        or alignment & (alignment - 1)
    ):
        raise cursor.refuse(f"{alignment!r} is no power of two")
    start = -(-cursor.at // alignment) * alignment
    tensors: dict[str, Tensor] = {}
    for name, shape, kind, offset in described:
        cursor.what = f"tensor {shown(name)}"
        if name in tensors:
            raise cursor.refuse("it occurs twice")
        if offset % alignment:
            raise cursor.refuse(f"its offset, {offset:,}, is no multiple of {alignment}")
        tensors[name] = _tensor(cursor, name, shape, kind, start + offset)
    return tensors


def _tensor(cursor: _Cursor, name: str, shape: tuple[int, ...], kind: int, start: int) -> Tensor:
    from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

    if kind not in GGMLQuantizationType.__members__.values():
        raise cursor.refuse(f"its type is {kind}, which is not known")
    known = GGMLQuantizationType(kind)
    elements, size = GGML_QUANT_SIZES[known]
    if 0 in shape:
        raise cursor.refuse(f"its shape is {list(shape)}")
    if shape[-1] % elements:
        raise cursor.refuse(
            f"its rows have {shape[-1]:,} elements; {known.name} needs a multiple of {elements}"
        )
    rows, width = math.prod(shape[:-1]), shape[-1] // elements * size
    cursor.at = min(start, len(cursor.data))
    data = np.frombuffer(cursor.data, np.uint8, rows * width, cursor.take(rows * width))
    return Tensor(name, shape, known.name, data.reshape(rows, width))


def import_gguf(path: Path) -> Decoder:
    """Read a decoder from a GGUF file.

    Raises:
        UsageError: The file is damaged, or lacks fields.
        ModelError: Its architecture, a field or a tensor is unsupported.
    """
    file = read_file(path)
    config, names = architecture_of(path, file.fields)
    matrices: dict[str, Matrix] = {}
    vectors: dict[str, Array] = {}
    converted: dict[str, list[float]] = {}
    for own, source in names.tensors.items():
        tensor = file.tensors.get(source)
        if tensor is None:
            if own in names.optional:
                continue
            raise UsageError(
                f"{path}: the tensor {source} is missing, which {config.architecture} models have"
            )
        expected = names.shapes[own]
        if tensor.shape != expected:
            raise UsageError(
                f"{path}: the tensor {source} is {list(tensor.shape)}; the fields of the file say {list(expected)}"
            )
        if len(expected) == 1:
            vectors[own] = _floats(path, tensor).reshape(expected)
        else:
            matrix, conversion = _matrix(path, tensor)
            refuse_not_finite(path, source, *_floats_of(matrix))
            matrices[own] = names.ordered(own, matrix)
            if conversion is not None:
                converted.setdefault(conversion[0], []).append(conversion[1])
    if left := sorted(set(file.tensors) - set(names.tensors.values()) - names.ignored):
        raise ModelError(
            f"{path}: {config.architecture} models with the tensor {shown(left[0])} are unsupported"
            + (f", and {len(left) - 1} further tensors are not known" if left[1:] else "")
        )
    return Decoder(
        config,
        path.stem,
        "gguf",
        sha256_of([path]),
        matrices,
        vectors,
        names.tensors,
        file.fields,
        tuple(
            f"{len(of)} matrices of {what}, off by at most {percent(max(of))} of their largest weight"
            for what, of in converted.items()
        ),
    )


def _floats_of(matrix: Matrix) -> tuple[Array, ...]:
    """Return the floats of which weights consist."""
    return matrix.constants[1:] if isinstance(matrix, BlockWeights) else (matrix,)


def _floats(path: Path, tensor: Tensor) -> Array:
    """Return a tensor as float32 [rows, columns]."""
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import dequantize

    try:
        values = np.asarray(dequantize(tensor.data, GGMLQuantizationType[tensor.kind]), np.float32)
    except (NotImplementedError, KeyError) as err:
        raise ModelError(f"{path}: the type {tensor.kind} of tensor {tensor.name} is unsupported") from err
    refuse_not_finite(path, tensor.name, values)
    return values


def _matrix(path: Path, tensor: Tensor) -> tuple[Matrix, tuple[str, float] | None]:
    """Return a tensor as weights, and if they are not the file's, what was converted and the largest relative error."""
    if tensor.kind == "Q4_0":
        (scales,), integers = _split(tensor.data, 1, BLOCK // 2)
        return BlockWeights.of(_nibbles(integers), scales, BLOCK, 4), None
    if tensor.kind == "Q4_1":
        (scales, offsets), integers = _split(tensor.data, 2, BLOCK // 2)
        return BlockWeights.of(_nibbles(integers), scales, BLOCK, 4, offsets, _MIDDLE), None
    if tensor.kind == "Q8_0":
        (scales,), integers = _split(tensor.data, 1, BLOCK)
        return BlockWeights.of(
            integers.view(np.int8).reshape(len(tensor.data), -1), scales, BLOCK, _EIGHT
        ), None
    values = _floats(path, tensor)
    if tensor.kind in ("F32", "F16", "BF16"):
        return values, None
    weights, bits = (
        (_of_q4_k(tensor.data), 4) if tensor.kind == "Q4_K" else (quantized_weights(values, _EIGHT), _EIGHT)
    )
    return weights, (f"{tensor.kind} became {bits}-bit blocks of {BLOCK}", relative_error(weights, values))


def _split(data: Array, count: int, size: int) -> tuple[list[Array], Array]:
    """Return `count` arrays of float16 [rows, blocks] from the start of each block, and its further `size` bytes."""
    blocks = data.reshape(len(data), -1, _HALF * count + size)
    halves = blocks[..., : _HALF * count].copy().view(np.float16)
    return [halves[..., k].copy() for k in range(count)], blocks[..., _HALF * count :].copy()


def _nibbles(held: Array) -> Array:
    """Return the integers of blocks [rows, blocks, 16 bytes], from -8 to 7; the low four bits come first."""
    values = np.concatenate([held & _NIBBLE, held >> 4], 2).reshape(len(held), -1)
    return np.asarray(values.astype(np.int8) - _MIDDLE)


def _of_q4_k(data: Array) -> BlockWeights:
    """Return Q4_K as 4-bit weights with rounded scales: its superblocks of 256 have 6-bit scales and minima."""
    from gguf.quants import Q4_K

    (d, least), rest = _split(data, 2, 140)
    scales, minima = Q4_K.get_scale_min(rest[..., :12].reshape(-1, 12))
    size = len(data), -1
    scale = d[..., None].astype(np.float32) * scales.reshape(*d.shape, 8)
    offset = -least[..., None].astype(np.float32) * minima.reshape(*d.shape, 8)
    pairs = rest[..., 12:].reshape(*d.shape, 4, 1, 32)
    integers = np.concatenate([pairs & _NIBBLE, pairs >> 4], -2).reshape(size).astype(np.int8) - _MIDDLE
    halves = scale.reshape(size).astype(np.float16), offset.reshape(size).astype(np.float16)
    return BlockWeights.of(integers, halves[0], BLOCK, 4, halves[1], _MIDDLE)
