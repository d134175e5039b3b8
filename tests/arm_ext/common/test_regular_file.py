# SPDX-License-Identifier: Apache-2.0
import os
import socket
from pathlib import Path

import pytest

from arm_ext.common.regular_file import UnreadableError, open_regular, read_regular


def test_a_file_is_read(tmp_path: Path):
    (tmp_path / "f").write_bytes(b"abc")
    (tmp_path / "link").symlink_to("f")
    assert read_regular(tmp_path / "f", most=3, follow=False) == b"abc"
    assert read_regular(tmp_path / "link", most=3) == b"abc"


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("missing", "no such file"),
        ("fifo", "is a named pipe"),
        ("folder", "is a folder"),
        ("zero", "is a device"),
        ("link", "is a symbolic link"),
        ("loop", "is a symbolic link"),
        ("socket", "f: "),
        ("huge", r"has 1,099,511,627,776 bytes, and the most .* is 10"),
    ],
)
def test_anything_else_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, says: str
):
    monkeypatch.chdir(tmp_path)
    path = Path("f")
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "zero":
            path = Path("/dev/zero")
        case "link":
            path.symlink_to("/dev/zero")
        case "loop":
            path.symlink_to("f")
        case "socket":
            with socket.socket(socket.AF_UNIX) as bound:
                bound.bind("f")
        case "huge":
            path.touch()
            os.truncate(path, 1 << 40)
    with pytest.raises(UnreadableError, match=says):
        read_regular(path, most=10, follow=False)


def test_a_file_that_grows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "f").write_bytes(b"abcd")
    small = os.stat_result([0o100600, 0, 0, 1, 0, 0, 3, 0, 0, 0])
    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", lambda opened: small)
        with pytest.raises(UnreadableError, match="grows beyond 3 bytes"):
            read_regular(tmp_path / "f", most=3)


def test_a_file_of_any_size_is_opened(tmp_path: Path):
    (tmp_path / "f").touch()
    os.truncate(tmp_path / "f", 1 << 40)
    with open_regular(tmp_path / "f") as file:
        assert file.read(2) == b"\0\0"
