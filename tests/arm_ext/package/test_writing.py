# SPDX-License-Identifier: Apache-2.0
import errno
import os
from pathlib import Path

import pytest

from arm_ext.common.errors import EnvError, UsageError
from arm_ext.package import MANIFEST, REPORT_TEXT, SO, load_package
from arm_ext.package.writing import writing
from tests.arm_ext.packages import document, fill


def written(target: Path, text: str = "report", **options: bool) -> None:
    with writing(target, **options) as folder:
        fill(folder, text)


def refused(target: Path, says: str, **options: bool) -> None:
    """The refusal comes before the work, and changes nothing."""
    before = {path: path.lstat().st_ino for path in target.parent.rglob("*")}
    with pytest.raises(UsageError, match=says), writing(target, **options):
        pytest.fail("the work has begun")
    assert {path: path.lstat().st_ino for path in target.parent.rglob("*")} == before


def test_an_earlier_package_is_replaced(tmp_path: Path):
    for text in ("one", "two"):
        written(tmp_path / "p", text)
    assert load_package(tmp_path / "p").path == tmp_path / "p"
    assert (tmp_path / "p" / REPORT_TEXT).read_text() == "two"
    assert [*tmp_path.iterdir()] == [tmp_path / "p"]


def test_a_link_to_a_package_stays_one(tmp_path: Path):
    written(tmp_path / "p", "one")
    (tmp_path / "link").symlink_to("p")
    written(tmp_path / "link", "two")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "p" / REPORT_TEXT).read_text() == "two"


def interrupted(target: Path) -> None:
    with writing(target) as folder:
        fill(folder, "two")
        raise KeyboardInterrupt


def test_failed_writing_leaves_the_earlier_package(tmp_path: Path):
    written(tmp_path / "p", "one")
    with pytest.raises(KeyboardInterrupt):
        interrupted(tmp_path / "p")
    assert (tmp_path / "p" / REPORT_TEXT).read_text() == "one"
    assert [*tmp_path.iterdir()] == [tmp_path / "p"]


@pytest.mark.parametrize("manifest", [None, "{}", '{"name": "my extension", "manifest_version": 3}'])
def test_a_folder_that_is_no_package_is_refused(tmp_path: Path, manifest: str | None):
    target = tmp_path / "p"
    target.mkdir()
    (target / "precious").write_text("x")
    if manifest is not None:
        (target / MANIFEST).write_text(manifest)
    refused(target, "is not a package .*precious")


def test_a_manifest_of_somebody_elses_is_never_replaced(tmp_path: Path):
    target = tmp_path / "p"
    target.mkdir()
    (target / MANIFEST).write_text("{}")
    refused(target, "holds manifest.json")
    refused(target, "manifest.json is not known to be arm-ext's", force=True)


@pytest.mark.parametrize("name", ["notes.txt", "sub/notes.txt", "npu/notes.txt", "selftest_mine.npz"])
def test_a_package_with_a_file_of_the_users_is_refused(tmp_path: Path, name: str):
    written(tmp_path / "p")
    (tmp_path / "p" / name).parent.mkdir(exist_ok=True)
    (tmp_path / "p" / name).write_text("x")
    refused(tmp_path / "p", f"{name}, which arm-ext did not write; .*--force")


def test_an_empty_folder_and_a_link_of_the_users_count(tmp_path: Path):
    written(tmp_path / "p")
    (tmp_path / "p" / "mine").mkdir()
    refused(tmp_path / "p", "holds mine, ")
    (tmp_path / "p" / "mine").rmdir()
    (tmp_path / "p" / "link").symlink_to(tmp_path)
    refused(tmp_path / "p", "holds link, ")


def test_a_package_that_was_changed_is_refused(tmp_path: Path):
    written(tmp_path / "p")
    (tmp_path / "p" / REPORT_TEXT).write_text("my notes on it")
    refused(tmp_path / "p", "report.txt was changed")
    written(tmp_path / "p", "new", force=True)
    assert (tmp_path / "p" / REPORT_TEXT).read_text() == "new"


def test_a_folder_in_the_place_of_a_file_is_the_users(tmp_path: Path):
    written(tmp_path / "p")
    (tmp_path / "p" / REPORT_TEXT).unlink()
    (tmp_path / "p" / REPORT_TEXT).mkdir()
    (tmp_path / "p" / REPORT_TEXT / "notes.txt").write_text("x")
    refused(tmp_path / "p", f"holds {REPORT_TEXT}/notes.txt")
    refused(tmp_path / "p", f"{REPORT_TEXT}/notes.txt is not known to be arm-ext's", force=True)


def test_force_replaces_ours_and_leaves_the_others(tmp_path: Path):
    target = tmp_path / "p"
    written(target, "one")
    (target / "sub").mkdir(mode=0o750)
    (target / "sub" / "notes.txt").write_text("x")
    (target / "empty").mkdir()
    (target / "link").symlink_to("sub")
    inode = (target / "sub" / "notes.txt").stat().st_ino
    written(target, "two", force=True)
    assert (target / REPORT_TEXT).read_text() == "two"
    assert (target / "sub" / "notes.txt").stat().st_ino == inode
    assert (target / "sub").stat().st_mode & 0o777 == 0o750
    assert (target / "empty").is_dir()
    assert (target / "link").readlink() == Path("sub")
    assert [*tmp_path.iterdir()] == [target]


def test_a_file_that_comes_meanwhile_stays(tmp_path: Path):
    written(tmp_path / "p")
    with writing(tmp_path / "p") as folder:
        fill(folder)
        (tmp_path / "p" / "late.txt").write_text("x")
    assert (tmp_path / "p" / "late.txt").read_text() == "x"


def test_an_input_is_never_an_output(tmp_path: Path):
    written(tmp_path / "p")
    for given in ("p/selftest.npz", "p", "hard"):
        if given == "hard":
            os.link(tmp_path / "p" / SO, tmp_path / given)
        with (
            pytest.raises(UsageError, match="would overwrite the input"),
            writing(tmp_path / "p", [tmp_path / given]),
        ):
            pytest.fail("the work has begun")


def test_the_current_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "p").mkdir()
    monkeypatch.chdir(tmp_path / "p")
    refused(tmp_path / "p", "current folder")


def test_a_full_disk_is_one_sentence(tmp_path: Path):
    with pytest.raises(EnvError, match="no space left on"), writing(tmp_path / "p"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert [*tmp_path.iterdir()] == []


def test_a_package_of_an_earlier_version_is_refused(tmp_path: Path):
    written(tmp_path / "p")
    (tmp_path / "p" / MANIFEST).write_text('{"schema_version": 1}')
    refused(tmp_path / "p", "is not a package of this version")
    with pytest.raises(
        UsageError, match=r"by an earlier version of arm-ext \(schema_version 1, and this one reads 2\)"
    ):
        load_package(tmp_path / "p")


def test_a_manifest_cannot_claim_files_outside(tmp_path: Path):
    (tmp_path / "precious").write_text("x")
    written(tmp_path / "p")
    listed = [{"path": "../precious", "bytes": 1, "sha256": "0" * 64}]
    (tmp_path / "p" / MANIFEST).write_text(str(document(files=listed)).replace("'", '"'))
    refused(tmp_path / "p", "is not a package")
