# SPDX-License-Identifier: Apache-2.0
import errno
import os
from pathlib import Path

import pytest

from arm_ext.common import output_folder
from arm_ext.common.errors import EnvError, UsageError
from arm_ext.common.output_folder import LIST, OutputFolder
from arm_ext.common.outputs import replace_file


def write(folder: Path, content: bytes, name: str = "f", **options: bool) -> None:
    OutputFolder(folder, "-o", **options).write(name, content)


def test_what_was_written_is_replaced(tmp_path: Path):
    for content in (b"one", b"two", b"two"):
        write(tmp_path / "out", content)
        write(tmp_path / "out", content, "sub/f")
    assert (tmp_path / "out" / "f").read_bytes() == b"two"
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == [LIST, "f", "sub"]


def test_a_file_of_the_users_is_refused(tmp_path: Path):
    (tmp_path / "f").write_text("mine")
    for force in (False, True):
        with pytest.raises(UsageError, match="arm-ext did not write it; move it away"):
            write(tmp_path, b"ours", force=force)
    assert (tmp_path / "f").read_text() == "mine"
    assert [*tmp_path.iterdir()] == [tmp_path / "f"]


def test_a_file_that_was_changed_is_replaced_by_force(tmp_path: Path):
    write(tmp_path, b"ours")
    (tmp_path / "f").write_text("ours, with notes")
    with pytest.raises(UsageError, match="was changed since"):
        write(tmp_path, b"new")
    write(tmp_path, b"new", force=True)
    assert (tmp_path / "f").read_bytes() == b"new"


def test_a_link_in_the_place_of_a_file_is_the_users(tmp_path: Path):
    write(tmp_path, b"ours")
    (tmp_path / "precious").write_bytes(b"ours")
    (tmp_path / "f").unlink()
    (tmp_path / "f").symlink_to("precious")
    with pytest.raises(UsageError, match="did not write it"):
        write(tmp_path, b"new", force=True)
    assert (tmp_path / "precious").read_bytes() == b"ours"


def test_an_input_is_not_written_over(tmp_path: Path):
    write(tmp_path / "out", b"ours")
    os.link(tmp_path / "out" / "f", tmp_path / "x")
    for given in (tmp_path / "x", tmp_path / "out" / ".." / "out" / "f"):
        with pytest.raises(UsageError, match="would overwrite the input"):
            OutputFolder(tmp_path / "out", "-o", [given])
    (tmp_path / "out" / "other").write_text("an input beside them")
    OutputFolder(tmp_path / "out", "-o", [tmp_path / "out" / "other"]).write("f", b"new")


def test_names_that_may_be_wanted_are_seen_before_the_work(tmp_path: Path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "00-import.py").write_text("mine")
    folder = OutputFolder(tmp_path, "-o")
    folder.check_like("[0-9][0-9]-*.py")
    with pytest.raises(UsageError, match=r"old/00-import\.py: arm-ext did not write it"):
        folder.check_like("old/[0-9][0-9]-*.py")


@pytest.mark.parametrize("content", ["", "[]", '{"files": {"f": "x"}}', '{"schema_version": 2}'])
def test_a_list_of_somebody_elses_is_left_alone(tmp_path: Path, content: str):
    (tmp_path / LIST).write_text(content)
    with pytest.raises(UsageError, match="is not the list of files"):
        OutputFolder(tmp_path, "-o")
    assert (tmp_path / LIST).read_text() == content


def test_an_end_between_the_list_and_the_file_leaves_it_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    write(tmp_path, b"one")
    folder = OutputFolder(tmp_path, "-o")

    def ending(path: Path, content: bytes) -> None:
        replace_file(path, content)
        raise KeyboardInterrupt

    monkeypatch.setattr(output_folder, "replace_file", ending)
    with pytest.raises(KeyboardInterrupt):
        folder.write("f", b"two")
    monkeypatch.undo()
    write(tmp_path, b"three")
    assert (tmp_path / "f").read_bytes() == b"three"


def test_of_several_files_none_is_left_where_the_disk_has_no_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(path: Path, content: bytes) -> None:
        if content == b"two":
            raise OSError(errno.ENOSPC, "No space left on device")
        path.write_bytes(content)

    monkeypatch.setattr(output_folder, "write_through", full)
    with pytest.raises(EnvError, match="no space left"):
        OutputFolder(tmp_path / "out", "-o").write_all({"f": b"one", "g": b"two"})
    assert not [*tmp_path.iterdir()]


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path):
    with pytest.raises((UsageError, EnvError), match="cannot be written"):
        write(Path("/proc/out"), b"x")
