# SPDX-License-Identifier: Apache-2.0
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from arm_ext.common.errors import EnvError
from arm_ext.common.scratch import NEW, OLD, remove_dead, scratch, temporary, temporary_files

HOLD = """
import sys, time
from pathlib import Path
from arm_ext.common.scratch import scratch
with scratch(Path(sys.argv[1])) as folder:
    (folder / "new").mkdir()
    print(folder, flush=True)
    sys.stdin.read()
"""


def holder(parent: Path) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(parent)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_folder_is_there_for_the_time_of_the_block(tmp_path: Path):
    with scratch(tmp_path) as folder:
        (folder / "f").write_text("x")
        assert folder.parent == tmp_path
    assert list(tmp_path.iterdir()) == []


def test_the_next_run_removes_what_a_kill_left_and_only_that(tmp_path: Path):
    alive, of_alive = holder(tmp_path)
    dead, of_dead = holder(tmp_path)
    dead.send_signal(signal.SIGKILL)
    dead.wait()
    mine = tmp_path / ".arm-ext-notes"
    mine.mkdir()
    with scratch(tmp_path) as folder:
        assert {*tmp_path.iterdir()} == {of_alive, mine, folder}
    assert not of_dead.exists()
    alive.communicate("")
    assert [*tmp_path.iterdir()] == [mine]


INTERRUPT = """
import sys
from pathlib import Path
from arm_ext.common import scratch

def interrupt(left):
    def trace(frame, event, _):
        nonlocal left
        if frame.f_code.co_filename != scratch.__file__:
            return None
        left -= event == "line"
        if left == 0:
            raise KeyboardInterrupt
        return trace
    return trace

count, ended = 0, False
while not ended:
    count += 1
    sys.settrace(interrupt(count))
    try:
        with scratch.scratch(Path(sys.argv[1])) as folder:
            (folder / "new").mkdir()
        ended = True
    except KeyboardInterrupt:
        pass
    sys.settrace(None)
    scratch.remove_own()
    assert not [*Path(sys.argv[1]).iterdir()], f"interrupted at line event {count}"
print(count)
"""


def test_a_signal_at_any_step_leaves_nothing(tmp_path: Path):
    """A command ends with remove_own after a signal, which Python handles between two of its lines."""
    command = [sys.executable, "-c", INTERRUPT, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20


def dead_folder(parent: Path) -> Path:
    process, folder = holder(parent)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return folder


def test_what_was_moved_aside_comes_back(tmp_path: Path):
    folder = dead_folder(tmp_path)
    (folder / OLD / "p").mkdir(parents=True)
    (folder / OLD / "p" / "f").write_text("old")
    remove_dead(tmp_path)
    assert (tmp_path / "p" / "f").read_text() == "old"
    assert [*tmp_path.iterdir()] == [tmp_path / "p"]


def test_what_was_moved_aside_goes_where_the_new_is_in_its_place(tmp_path: Path):
    folder = dead_folder(tmp_path)
    (folder / OLD / "p").mkdir(parents=True)
    (folder / NEW).rename(tmp_path / "p")
    remove_dead(tmp_path)
    assert [*tmp_path.iterdir()] == [tmp_path / "p"]


def test_what_was_moved_aside_stays_where_its_name_is_taken(tmp_path: Path):
    folder = dead_folder(tmp_path)
    (folder / OLD / "p").mkdir(parents=True)
    (tmp_path / "p").mkdir()
    remove_dead(tmp_path)
    assert (folder / OLD / "p").is_dir()


def test_a_link_of_such_a_name_is_not_followed(tmp_path: Path):
    (tmp_path / "mine").mkdir()
    (tmp_path / ".arm-ext-abcdefgh.scratch").symlink_to("mine")
    remove_dead(tmp_path)
    assert (tmp_path / "mine").is_dir()
    assert (tmp_path / ".arm-ext-abcdefgh.scratch").is_symlink()


def test_temporary_files_of_all_libraries_lie_in_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    before = tempfile.tempdir
    with temporary_files():
        tempfile.mkdtemp()  # as libraries leave them
        subprocess.run(["mktemp"], check=True, stdout=subprocess.DEVNULL)
        assert len([*tmp_path.iterdir()]) == 1
    assert [*tmp_path.iterdir()] == []
    assert (tempfile.tempdir, os.environ["TMPDIR"]) == (before, str(tmp_path))


def test_a_tmpdir_that_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "gone"))
    with (
        pytest.raises(EnvError, match=r"gone: no such file or directory; name another folder in"),
        temporary(),
    ):
        pass


def test_imports_leave_no_files_of_telemetry(tmp_path: Path):
    (tmp_path / "tmp").mkdir()
    where = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path), "TMPDIR": str(tmp_path / "tmp")}
    env = {**os.environ, **where, "PYTHONPATH": os.pathsep.join(sys.path)}
    env.pop("ORT_DISABLE_TELEMETRY", None)
    subprocess.run([sys.executable, "-c", "import arm_ext.frontends.load"], env=env, check=True)
    assert [*tmp_path.rglob("*")] == [tmp_path / "tmp"]


def test_processes_that_make_folders_at_once_do_not_take_each_others(tmp_path: Path):
    code = (
        "import sys; from pathlib import Path; from arm_ext.common.scratch import scratch\n"
        "for _ in range(200):\n"
        "    with scratch(Path(sys.argv[1])) as folder: (folder / 'f').touch()"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) for _ in range(4)]
    assert [process.wait() for process in running] == [0] * 4
    assert not [*tmp_path.iterdir()]
