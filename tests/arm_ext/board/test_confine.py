# SPDX-License-Identifier: Apache-2.0
"""A hostile model.so on the virtual board: what its constructor, or its kernel, tries, and what comes of it."""

import errno
import fcntl
import json
import os
import platform
import re
import signal
import socket
import stat
import subprocess
import sys
import termios
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import ziglang

from arm_ext.board import Board, confine, open_board
from arm_ext.board.confine import OFF, Support, confined
from tests.arm_ext.board.models import attempt, attempts, hostile_model

pytestmark = pytest.mark.skipif(bool(confine.support().lacks()), reason="this kernel confines less")

_EPERM, _EACCES = 1, 13

_HEADERS = Path(ziglang.__file__).parent / "lib/libc/include"
# What is done to a file, a path beside it and a process, none of which are the model's.
_REACHES = (
    "chmod {file} 0666",
    "chmod {file} 4755",
    "fchmod own",
    "chown {file}",
    "utime {file}",
    "setxattr {file}",
    "getxattr {file}",
    "watch {file}",
    "watch {folder}",
    "symlink {file} link",
    "link {file} linked",
    "fifo pipe",
    "messages",
    "memory",
    "semaphores",
    "queue",
    "listen 0.0.0.0",
    "listen 127.0.0.1",
    "priority {process}",
    "affinity {process}",
    "scheduler {process}",
)
# As a program of this machine does it, since an emulator does not hand on all calls; prints errno of each.
_NATIVE = """
import ctypes, json, sys
calls = json.loads(sys.argv[1])
syscall = ctypes.CDLL(None, use_errno=True).syscall
errors = {}
for name, (number, *arguments) in calls.items():
    errors[name] = ctypes.get_errno() if syscall(number, *map(ctypes.c_long, arguments)) < 0 else 0
print(json.dumps(errors))
"""


@pytest.fixture(scope="module")
def board() -> Iterator[Board]:
    with open_board("virtual") as opened:
        yield opened


def reach(board: Board, so: Path, folder: Path) -> dict[str, int]:
    """What a model gives that tries each of _REACHES, by name."""
    file = folder / "file"
    file.write_text("")
    file.chmod(0o600)
    with subprocess.Popen(["sleep", "60"]) as victim:
        where = {"file": file, "folder": folder, "process": victim.pid}
        results = attempts(board, so, [what.format_map(where) for what in _REACHES])
        victim.kill()
    return dict(zip(_REACHES, results, strict=True))


def numbers(machine: str) -> dict[str, int]:
    """The system calls of a machine by the kernel's headers."""
    text = (_HEADERS / f"{machine}-linux-any/asm/unistd_64.h").read_text()
    return {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)", text)}


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
    assert attempt(board, hostile, "fork") == _EPERM
    assert attempt(board, hostile, "system", "true") != 0
    assert attempt(board, hostile, "execute", "/nowhere") == _EPERM


def test_it_kills_nobody(board: Board, hostile: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as victim:
        assert attempt(board, hostile, "kill", victim.pid) == _EPERM
        assert attempt(board, hostile, "kill", -1) == _EPERM
        assert attempt(board, hostile, "limit", victim.pid) == _EPERM
        assert victim.poll() is None
        victim.send_signal(signal.SIGKILL)


def test_it_reaches_nothing_that_landlock_does_not_govern(
    board: Board, hostile: Path, tmp_path: Path
) -> None:
    assert reach(board, hostile, tmp_path) == dict.fromkeys(_REACHES, _EPERM)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600


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
        assert attempt(board, hostile, "execute", "/nowhere") == errno.ENOENT
        results = reach(board, hostile, tmp_path)
        # Some file systems keep no attributes.
        assert results.pop("setxattr {file}") in {0, errno.EOPNOTSUPP}
        assert not any(results.values()), results
    assert (tmp_path / "canary").exists()


def _run(folder: Path, code: str, *arguments: str, tracker_port: int = 0) -> subprocess.CompletedProcess[str]:
    """Python confined, with a folder to write to."""
    command = [sys.executable, "-c", code, *arguments]
    line = confined(command, read=[Path("/")], write=[folder], tracker_port=tracker_port)
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=300)


def _native(folder: Path, calls: dict[str, tuple[int, ...]]) -> dict[str, int]:
    """errno of system calls, of given numbers and arguments, in a program of this machine that is confined."""
    done = _run(folder, _NATIVE, json.dumps(calls))
    assert done.stdout, done.stderr
    return dict(json.loads(done.stdout))


def test_the_table_has_the_kernels_numbers() -> None:
    x86, arm64 = numbers("x86"), numbers("aarch64")
    table = {**confine._CALLS, **confine._OTHER_CALLS}
    assert table == {name: (x86[name], arm64.get(name)) for name in table}
    assert confine._OPTIONAL == x86["pidfd_send_signal"] == arm64["pidfd_send_signal"]


def test_every_other_system_call_is_refused(tmp_path: Path) -> None:
    known = numbers("x86" if platform.machine() == "x86_64" else "aarch64")
    # The kernel itself makes the last two, whatever a filter says.
    others = known.keys() - confine._CALLS.keys() - {"uretprobe", "uprobe"}
    assert {"fchmodat2", "ioprio_set", "sched_setattr", "memfd_secret", "landlock_create_ruleset"} <= others
    errors = _native(tmp_path, {name: (known[name], *[-1] * 6) for name in sorted(others)})
    assert {name for name, error in errors.items() if error not in {errno.EPERM, errno.ENOSYS}} == set()
    optional = {name for name in others if known[name] >= confine._OPTIONAL} | {"memfd_create"}
    assert {name for name, error in errors.items() if error == errno.ENOSYS} == optional


def test_arguments_decide(tmp_path: Path) -> None:
    known = numbers("x86" if platform.machine() == "x86_64" else "aarch64")
    calls = {
        "fcntl": [
            (0, fcntl.F_SETOWN, 1),
            (0, fcntl.F_SETSIG, 9),
            (0, fcntl.F_NOTIFY, 1),
            (0, fcntl.F_SETLEASE),
        ],
        "ioctl": [(0, termios.TIOCSTI, 0)],
        "prctl": [(36, 1), (22, 2), (62, 1)],  # a subreaper, seccomp, scheduling on a core with others
        "socket": [(socket.AF_INET6, socket.SOCK_STREAM), (socket.AF_INET, socket.SOCK_RAW)],
        "setsockopt": [(0, socket.SOL_SOCKET, socket.SO_REUSEADDR, 0, 4), (0, socket.IPPROTO_TCP, 31, 0, 4)],
        "kill": [(0, 0), (-1, 0)],
        "prlimit64": [(1, 0)],
    }
    tried = {f"{name} {given}": (known[name], *given) for name, cases in calls.items() for given in cases}
    assert _native(tmp_path, tried) == dict.fromkeys(tried, errno.EPERM)


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
except PermissionError:
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
    def lacks(landlock: int, *, seccomp: bool = True, supervised: bool = True) -> str:
        return "; ".join(Support(landlock, seccomp=seccomp, supervised=supervised).lacks())

    assert lacks(7) == ""
    assert lacks(5) == "signal your other processes"
    assert lacks(2) == (
        "empty files of the emulator's and the runtime's folders that are yours; signal your other processes"
    )
    assert "read and write your files" in lacks(0)
    assert lacks(7, supervised=False) == (
        "start processes, and serve ports to the network; connect to the port of the board's tracker on any machine"
    )
    assert "connect to any machine while the board has a tracker" in lacks(3, supervised=False)
    assert "use the network, and start any number" in lacks(7, seccomp=False, supervised=False)
    assert "change modes, owners and times of your files" in lacks(7, seccomp=False, supervised=False)


def test_below_another_supervisor_a_board_runs_without_one(hostile: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")

    def supervised() -> tuple[bool, bool, int, int]:
        before = confine.support().supervised
        # It asks nothing, but it is the one that Linux takes for a thread and its children.
        listener = confine._install(confine._return(confine._RET_ALLOW), confine._NEW_LISTENER)
        after = confine.support().supervised
        with open_board("virtual") as board:
            results = attempt(board, hostile, "fork"), attempt(board, hostile, "chmod", file, "0666")
        os.close(listener)
        return before, after, *results

    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(supervised).result() == (True, False, 0, _EPERM)
