# SPDX-License-Identifier: Apache-2.0
import os
import platform
import signal
import socket
import subprocess
import sys
from pathlib import Path
from threading import Timer

import numpy as np
import pytest
from tvm import rpc

from arm_ext.board import Board, open_board
from arm_ext.board import session as session_module
from arm_ext.board.model import LoadedModel
from arm_ext.board.virtual import VirtualBoard
from arm_ext.common.errors import ArmExtError, EnvError, InternalError, UsageError
from tests.arm_ext.board.models import COPY, CRASH, ILLEGAL, SLEEP, SPIN
from tests.arm_ext.board.processes import processes_of


def _wait_at_most(seconds: float, model: LoadedModel) -> None:
    """Cut our own limit for an answer, which is the session's, when all that takes time under load is done."""
    for held in model.session._sockets:
        session_module._bound_waits(held, seconds)


def _value(what: int) -> list[np.ndarray]:
    return [np.array([what], np.float32)]


@pytest.mark.parametrize(
    ("what", "error", "message"),
    [
        (ILLEGAL, EnvError, "needs an instruction that board .* lacks"),
        (CRASH, InternalError, r"signal 11 \(Segmentation fault\)"),
        (SPIN, EnvError, "took longer than its 6 s"),
    ],
)
def test_a_virtual_board_survives_its_session(
    virtual: Board,
    fault: Path,
    what: int,
    error: type[ArmExtError],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert virtual.info.machine == "aarch64"  # in a session of its own
    with monkeypatch.context() as patched:
        if what == SPIN:
            patched.setattr(virtual, "_timeout", 6)
        with pytest.raises(error, match=message):
            virtual.load(fault).run(_value(what))
    assert virtual.load(fault).run(_value(COPY)) == _value(COPY)


def test_a_virtual_board_reads_a_large_library_where_it_lies(
    virtual: Board, fault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "_SHARED_BYTES", 0)
    monkeypatch.setattr(rpc.RPCSession, "upload", None)
    assert isinstance(virtual, VirtualBoard)
    folder = virtual._server.folder
    loaded = virtual.load(fault)
    assert loaded.run(_value(COPY)) == _value(COPY)
    assert len(list(folder.glob(f"*/{fault.name}"))) == 1
    loaded.close()
    assert not list(folder.glob(f"*/{fault.name}"))


def test_the_local_board_serves_again_after_a_crash_and_a_timeout(
    host_fault: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_board("local", timeout=300) as board:
        assert board.info.machine == platform.machine()
        for what, message in ((SLEEP, "took longer than its 10 s"), (ILLEGAL, "it closed the connection")):
            with monkeypatch.context() as patched:
                if what == SLEEP:  # only the server can end a session that exceeds its time limit
                    patched.setattr(board, "_timeout", 10)
                with pytest.raises(EnvError, match=message):
                    board.load(host_fault).run(_value(what))
            loaded = board.load(host_fault)
            assert loaded.run(_value(COPY)) == _value(COPY)
        times = loaded.time(_value(COPY), repeats=3, warmup=2)
        assert len(times) == 3
        assert all(seconds > 0 for seconds in times)


def test_a_client_that_leaves_frees_the_board_from_a_running_kernel(fault: Path) -> None:
    with open_board("virtual", timeout=600) as board:
        loaded = board.load(fault)
        Timer(2, loaded.close).start()
        with pytest.raises(EnvError, match="went away"):
            loaded.run(_value(SPIN))
        # One that is still held gives no answer for as long as a connection may take.
        assert board.load(fault).run(_value(COPY)) == _value(COPY)


def test_a_board_that_is_killed_is_reported_at_once(fault: Path) -> None:
    with open_board("virtual", timeout=60) as board:
        loaded = board.load(fault)
        leader = processes_of(os.getpid())[-1]
        Timer(0.5, os.killpg, (leader, signal.SIGKILL)).start()
        with pytest.raises(EnvError, match="went away in the middle"):
            loaded.run(_value(SPIN))
        with pytest.raises(EnvError, match=r"session .* has ended"):
            loaded.run(_value(COPY))
        with pytest.raises(EnvError, match="terminated by another process; open it again"):
            board.load(fault)


def test_a_board_that_freezes_is_not_waited_for_for_ever(fault: Path) -> None:
    with open_board("virtual", timeout=60) as board:
        loaded = board.load(fault)
        _wait_at_most(1, loaded)
        os.killpg(processes_of(os.getpid())[-1], signal.SIGSTOP)
        with pytest.raises(EnvError, match="took longer than its 60 s"):
            loaded.run(_value(COPY))


def test_nobody_listens(fault: Path) -> None:
    with socket.socket() as taken:  # bound and not listening: the port refuses
        taken.bind(("127.0.0.1", 0))
        board = open_board(f"127.0.0.1:{taken.getsockname()[1]}")
        with pytest.raises(EnvError, match=r"Start one there: python -m tvm\.exec\.rpc_server"):
            board.load(fault)


def test_a_busy_board_is_not_waited_for_for_ever(fault: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_module, "_CONNECT_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        board = open_board(f"127.0.0.1:{silent.getsockname()[1]}")
        with pytest.raises(EnvError, match="busy with another session"):
            board.load(fault)


def test_a_model_for_another_machine_is_refused(virtual: Board, host_fault: Path, tmp_path: Path) -> None:
    if platform.machine() != "aarch64":
        with pytest.raises(EnvError, match=r"is for x86_64, but board virtual:.* is aarch64"):
            virtual.load(host_fault)
    text = tmp_path / "model.so"
    text.write_text("not a library")
    with pytest.raises(UsageError, match="not a shared library"):
        virtual.load(text)


_SILENT = """
import socket
import subprocess
import sys
from arm_ext.board import open_board, session
from arm_ext.common.errors import EnvError

session._CONNECT_SECONDS = 0.2
with socket.socket() as silent:
    silent.bind(("127.0.0.1", 0))
    silent.listen()
    for _ in range(5):
        try:
            open_board(f"127.0.0.1:{silent.getsockname()[1]}").connect()
        except EnvError as error:
            print(error)
"""


def test_a_board_that_accepts_and_says_nothing_is_given_up_without_a_crash() -> None:
    # Of threads that are left behind, two of three abort the process at its end.
    done = subprocess.run([sys.executable, "-c", _SILENT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("gave no answer in 0.2 s") == 5
