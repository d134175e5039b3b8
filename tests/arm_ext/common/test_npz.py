# SPDX-License-Identifier: Apache-2.0
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arm_ext.common.errors import UsageError
from arm_ext.common.npz import read_npy, read_npz


def test_arrays_come_by_name(tmp_path: Path):
    np.savez(tmp_path / "a.npz", x=np.arange(3), y=np.float32(1))
    read = read_npz(tmp_path / "a.npz", "an array an input")
    assert {name: value.tolist() for name, value in read.items()} == {"x": [0, 1, 2], "y": 1.0}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, r"c\.npz: no such file; expected an \.npz, .*with an array an input"),
        (b"", "not an .npz file"),
        (b"x = 1", "not an .npz file"),
        (b"PK\x03\x04 nonsense", "not an .npz file"),
    ],
)
def test_what_is_no_npz_is_said_without_numpys_advice(tmp_path: Path, content: bytes | None, says: str):
    path = tmp_path / "c.npz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=says) as caught:
        read_npz(path, "an array an input")
    assert "pickle" not in str(caught.value)


def test_one_array_alone_and_a_folder_are_none(tmp_path: Path):
    np.save(tmp_path / "c.npy", np.zeros(3))
    with pytest.raises(UsageError, match=r"not an \.npz file"):
        read_npz(tmp_path / "c.npy", "arrays")
    with pytest.raises(UsageError, match="a folder"):
        read_npz(tmp_path, "arrays")


def test_python_objects_are_named(tmp_path: Path):
    np.savez(tmp_path / "o.npz", x=np.array([{}]))
    with pytest.raises(UsageError, match=r"o\.npz: its arrays cannot be read \(it holds Python objects\)"):
        read_npz(tmp_path / "o.npz", "arrays")


def archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return path


def npy(shape: object, dtype: str = "<f4", data: bytes = b"", version: int = 1) -> bytes:
    header = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape!r}}}".encode()
    size = len(header).to_bytes(2 if version == 1 else 4, "little")
    return b"\x93NUMPY" + bytes([version, 0]) + size + header + data


def test_an_archive_that_grows_too_much_is_refused(tmp_path: Path):
    size = 300 << 20
    with (
        zipfile.ZipFile(tmp_path / "b.npz", "w", zipfile.ZIP_DEFLATED) as file,
        file.open("x.npy", "w") as member,
    ):
        member.write(npy((size,), "|u1"))
        for _ in range(300):
            member.write(bytes(1 << 20))
    with pytest.raises(UsageError, match=r"its 305,\d+ bytes would unpack to 314,\d+,\d+"):
        read_npz(tmp_path / "b.npz", "arrays")


def lying(path: Path) -> Path:
    """An archive that says of its member that it is small."""
    archive(path, x=npy((1 << 20,), "|u1", bytes(1 << 20)))
    data = bytearray(path.read_bytes())
    place = data.rindex(b"PK\x01\x02") + 24
    data[place : place + 4] = (200).to_bytes(4, "little")
    path.write_bytes(data)
    return path


def twice(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for _ in range(2):
            file.writestr("x.npy", npy((), data=bytes(4)))
    return path


def encrypted(path: Path) -> Path:
    archive(path, x=npy((), data=bytes(4)))
    data = bytearray(path.read_bytes())
    data[6] |= 1
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(data)
    return path


def otherwise_compressed(path: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as file:
        file.writestr("x.npy", npy((), data=bytes(4)))
    return path


def damaged(path: Path) -> Path:
    archive(path, x=npy((1000,), data=np.arange(1000, dtype="f").tobytes()))
    data = bytearray(path.read_bytes())
    data[200:300] = bytes(100)
    path.write_bytes(data)
    return path


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("make", [lying, twice, encrypted, otherwise_compressed, damaged])
def test_archives_that_zip_knows_but_numpy_does_not_write(tmp_path: Path, make: Callable[[Path], Path]):
    with pytest.raises(UsageError, match="its arrays cannot be read"):
        read_npz(make(tmp_path / "a.npz"), "arrays")


MEMBERS = [
    ("larger than the bytes", npy((1 << 60,)), "which does not match its"),
    ("a negative size", npy((-1,)), "which does not match its"),
    ("sizes whose product overflows", npy((1 << 62, 4), data=b""), "which does not match its"),
    ("objects", npy((1,), "|O", bytes(8)), "Python objects"),
    ("records", npy((1,), [("a", "<f4")], bytes(4)), "not numbers"),  # type: ignore[arg-type]
    ("times", npy((1,), "<M8[s]", bytes(8)), "not numbers"),
    ("no shape", npy("x"), "cannot be read"),
    ("nested without end", npy(None).replace(b"None", b"(" * 5000), "cannot be read"),
    ("a version of the future", npy((), data=bytes(4), version=9), "cannot be read"),
    ("nothing", b"", "is not an array"),
]


@pytest.mark.parametrize(("content", "says"), [m[1:] for m in MEMBERS], ids=[m[0] for m in MEMBERS])
def test_headers_that_lie(tmp_path: Path, content: bytes, says: str):
    with pytest.raises(UsageError, match=says):
        read_npz(archive(tmp_path / "a.npz", x=content), "arrays")
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(UsageError, match=r"not a readable \.npy"):
        read_npy(tmp_path / "a.npy")


@pytest.mark.parametrize(
    "value", [np.arange(6).reshape(2, 3).T, np.float32(1), np.zeros((0, 3)), np.array("text")]
)
def test_arrays_that_numpy_writes_are_read(tmp_path: Path, value: Any):
    np.save(tmp_path / "a.npy", value)
    np.savez_compressed(tmp_path / "a.npz", x=value)
    for read in (read_npy(tmp_path / "a.npy"), read_npz(tmp_path / "a.npz", "arrays")["x"]):
        np.testing.assert_array_equal(read, value)
        assert read.dtype == np.asarray(value).dtype


def test_what_is_no_npy_is_said(tmp_path: Path):
    with pytest.raises(UsageError, match="no such file"):
        read_npy(tmp_path / "a.npy")
    np.savez(tmp_path / "a.npz", x=1)
    with pytest.raises(UsageError, match="several arrays"):
        read_npy(tmp_path / "a.npz")
