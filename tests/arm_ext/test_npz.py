# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest

from arm_ext.errors import UsageError
from arm_ext.npz import read_npz


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
