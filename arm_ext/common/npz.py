# SPDX-License-Identifier: Apache-2.0
"""Reading of .npz and .npy files from untrusted sources: sizes are checked before anything is unpacked.

What a header says of sizes must agree with the bytes that are there, no Python object is read, and an archive grows to
no more than its contents can be.
"""

import io
import math
import zlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, is_zipfile

import numpy as np
import numpy.typing as npt

from arm_ext.common.errors import UsageError

# Data of sensors and networks usually compresses to far more than a hundredth of its size. A small archive may be
# all zeros.
_GROWTH, _SMALL_BYTES = 100, 1 << 28
_FORMAT: Any = np.lib.format  # which has no types
_MAGIC = b"\x93NUMPY"
DAMAGE = (
    OSError,
    ValueError,
    TypeError,
    EOFError,
    BadZipFile,
    zlib.error,
    RuntimeError,
    MemoryError,
    OverflowError,
    KeyError,
    TokenError,
)
"""Exceptions that zipfile, zlib and numpy raise for damaged files."""


def read_npz(path: Path, what: str) -> Mapping[str, npt.NDArray[Any]]:
    """Return the arrays of a file: name → array.

    Args:
        path: The file.
        what: Expected contents, such as "an array an input", for the message.

    Raises:
        UsageError: The file is missing, not of the format, or contains anything but arrays of numbers; or it would
            unpack to far more than its size.
    """
    wanted = f"expected an .npz, as numpy.savez writes it, with {what}"
    if not path.is_file():
        kind = "a folder" if path.is_dir() else "no such file"
        raise UsageError(f"{path}: {kind}; {wanted}")
    if not is_zipfile(path):
        raise UsageError(f"{path}: not an .npz file; {wanted}")
    try:
        with path.open("rb") as file:
            return unpacked(file)
    except DAMAGE as err:
        raise UsageError(f"{path}: its arrays cannot be read ({err}); {wanted}") from err


def read_npy(path: Path) -> npt.NDArray[Any]:
    """Return the array of an .npy file.

    Raises:
        UsageError: The file is missing or contains no array of numbers.
    """
    wanted = "expected one array, as numpy.save writes it"
    if not path.is_file():
        raise UsageError(f"{path}: {'a folder' if path.is_dir() else 'no such file'}; {wanted}")
    if is_zipfile(path):
        raise UsageError(f"{path}: an .npz file, which holds several arrays; write one array by numpy.save")
    try:
        with path.open("rb") as file:
            return _array(file, path.stat().st_size)
    except DAMAGE as err:
        raise UsageError(f"{path}: not a readable .npy file ({err}); {wanted}") from err


def unpacked(file: BinaryIO, most: int | None = None) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of an archive: name → array.

    Args:
        file: The archive.
        most: Bytes that the contents may take at most; by default, a limit that follows from the size of the
            file.

    Raises:
        ValueError: The archive would unpack to more, or contains anything but arrays of numbers. Damaged files raise
            many other types.
    """
    packed = file.seek(0, io.SEEK_END)
    with ZipFile(file) as archive:
        members = archive.infolist()
        limit = max(_SMALL_BYTES, _GROWTH * packed) if most is None else most
        if (total := sum(member.file_size for member in members)) > limit:
            raise ValueError(
                f"its {packed:,} bytes would unpack to {total:,}, but it can hold at most {limit:,}"
            )
        for member in members:
            if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):
                raise ValueError(f"{member.filename} is compressed in a way that numpy does not write")
        if twice := [name for name, count in Counter(archive.namelist()).items() if count > 1]:
            raise ValueError(f"{twice[0]} occurs twice in it")
        arrays = {}
        for member in members:
            content = archive.read(member)  # at most the size that was checked above
            if not content.startswith(_MAGIC):
                raise ValueError(f"{member.filename} is not an array")
            arrays[member.filename.removesuffix(".npy")] = _array(io.BytesIO(content), len(content))
        return arrays


def _array(file: BinaryIO, size: int) -> npt.NDArray[Any]:
    """Return the array in a file of `size` bytes."""
    version = _FORMAT.read_magic(file)
    read = _FORMAT.read_array_header_1_0 if version == (1, 0) else _FORMAT.read_array_header_2_0
    shape, _, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    if dtype.kind not in "biufcUV" or dtype.names is not None:
        raise ValueError(f"its elements are {dtype}, not numbers")
    if math.prod(shape) * dtype.itemsize != size - file.tell() or any(dim < 0 for dim in shape):
        raise ValueError(f"its header declares {dtype}{list(shape)}, which does not match its {size:,} bytes")
    file.seek(0)
    array: npt.NDArray[Any] = np.load(file, allow_pickle=False)
    return array
