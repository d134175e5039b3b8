# SPDX-License-Identifier: Apache-2.0
"""A hostile model.so on the virtual board: what its constructor, or its kernel, tries, and what comes of it."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from arm_ext.board import Board, confine, open_board
from arm_ext.board.confine import OFF, Support, confined
from tests.arm_ext.board.models import hostile_model, words_for_hostile

pytestmark = pytest.mark.skipif(bool(confine.support().lacks()), reason="this kernel confines less")

_EPERM, _EACCES, _EAGAIN = 1, 13, 11


@pytest.fixture(scope="module")
def board() -> Iterator[Board]:
    with open_board("virtual") as opened:
        yield opened


def attempt(board: Board, so: Path, what: str, *words: object) -> int:
    """What a model gives that tries something: 0 where it succeeds, errno where it does not."""
    return int(board.load(so).run(words_for_hostile(what, *words))[0][0])


@pytest.mark.parametrize(
    "path", [*("~/canary", "/tmp/arm-ext-canary", "/usr/lib/canary"), "/proc/sys/kernel/core_pattern"]
)
def test_it_writes_no_file(board: Board, hostile: Path, path: str) -> None:
    file = Path(path).expanduser()
    before = file.read_bytes() if file.exists() else None
    assert attempt(board, hostile, "write", file) == _EACCES
    assert (file.read_bytes() if file.exists() else None) == before


def test_it_reads_none_of_the_users_files(board: Board, hostile: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    for path in (
        secret,
        "/etc/passwd",
        "/etc/hostname",
        f"/proc/{os.getpid()}/environ",
        f"/proc/{os.getpid()}/mem",
    ):
        assert attempt(board, hostile, "read", path) == _EACCES, path
    assert attempt(board, hostile, "list", Path.home()) == _EACCES


def test_it_writes_and_reads_in_its_own_folder(board: Board, hostile: Path) -> None:
    assert attempt(board, hostile, "write", "own") == 0
    assert attempt(board, hostile, "read", "/proc/self/maps") == 0


def test_it_removes_and_renames_nothing(board: Board, hostile: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("kept")
    assert attempt(board, hostile, "remove", kept) == _EACCES
    assert attempt(board, hostile, "rename", kept, tmp_path / "other") == _EACCES
    assert kept.read_text() == "kept"


def test_it_connects_to_nothing(board: Board, hostile: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert attempt(board, hostile, "connect", server.getsockname()[1]) == _EPERM
        assert attempt(board, hostile, "fastopen", server.getsockname()[1]) == _EPERM
    assert attempt(board, hostile, "datagram", 53) == _EPERM
    assert attempt(board, hostile, "unix", 0) == _EPERM


def test_it_starts_no_process(board: Board, hostile: Path) -> None:
    assert attempt(board, hostile, "fork") == _EAGAIN
    assert attempt(board, hostile, "system", "true") != 0


def test_it_kills_nobody(board: Board, hostile: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as victim:
        assert attempt(board, hostile, "kill", victim.pid) == _EPERM
        assert attempt(board, hostile, "kill", -1) == _EPERM
        assert attempt(board, hostile, "limit", victim.pid) == _EPERM
        assert victim.poll() is None
        victim.send_signal(signal.SIGKILL)


def test_it_sees_no_secret_of_the_environment(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("TVM_SEEN", "1")
    with open_board("virtual") as board:
        assert attempt(board, hostile, "environment", "AWS_SECRET_ACCESS_KEY") != 0
        assert attempt(board, hostile, "environment", "TVM_SEEN") == 0


def test_its_constructor_achieves_no_more(board: Board, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    so = hostile_model(tmp_path, constructor=f"write {canary}")
    board.load(so)
    assert not canary.exists()


def test_without_it_all_of_this_succeeds(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Else the tests above would show nothing.
    monkeypatch.setenv(OFF, "no")
    with open_board("virtual") as board, socket.create_server(("127.0.0.1", 0)) as server:
        assert attempt(board, hostile, "write", tmp_path / "canary") == 0
        assert attempt(board, hostile, "read", "/etc/passwd") == 0
        assert attempt(board, hostile, "connect", server.getsockname()[1]) == 0
        assert attempt(board, hostile, "fork") == 0
        assert attempt(board, hostile, "system", "true") == 0
    assert (tmp_path / "canary").exists()


def _run(folder: Path, code: str, **changes: object) -> subprocess.CompletedProcess[str]:
    """Python confined, with a folder to write to."""
    line = confined([sys.executable, "-c", code], read=[Path("/")], write=[folder], **changes)
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=300)


def test_memory_is_bounded(tmp_path: Path) -> None:
    done = _run(tmp_path, "import mmap; mmap.mmap(-1, 1 << 46)")
    assert "Cannot allocate memory" in done.stderr


def test_the_exit_code_is_handed_on(tmp_path: Path) -> None:
    assert _run(tmp_path, "raise SystemExit(7)").returncode == 7
    assert (
        "No such file"
        in subprocess.run(
            confined(["/nowhere"], read=[], write=[]), capture_output=True, text=True, check=False
        ).stderr
    )


def test_the_leader_forks_and_its_children_do_not(tmp_path: Path) -> None:
    code = """
import os
first = os.fork()
if first:
    raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(first, 0)[1]))
try:
    os.fork()
except BlockingIOError:
    os._exit(5)
os._exit(6)
"""
    assert _run(tmp_path, code).returncode == 5


def test_a_tracker_is_connected_to_and_no_other_port(tmp_path: Path) -> None:
    code = "import socket, sys; socket.create_connection(('127.0.0.1', {}), 5)"
    with socket.create_server(("127.0.0.1", 0)) as tracker, socket.create_server(("127.0.0.1", 0)) as other:
        port = tracker.getsockname()[1]
        assert _run(tmp_path, code.format(port), tracker_port=port).returncode == 0
        refused = _run(tmp_path, code.format(other.getsockname()[1]), tracker_port=port)
        assert "PermissionError" in refused.stderr


def test_what_a_kernel_lacks_is_said() -> None:
    assert Support(7, seccomp=True, forks=True).lacks() == []
    assert Support(3, seccomp=True, forks=True).lacks() == ["signal your other processes"]
    assert "read and write your files" in Support(0, seccomp=True, forks=True).lacks()
    assert (
        "use the network, and start any number of processes" in Support(7, seccomp=False, forks=False).lacks()
    )
