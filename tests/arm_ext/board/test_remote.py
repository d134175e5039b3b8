# SPDX-License-Identifier: Apache-2.0
import errno
import gc
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from arm_ext.board import confine, open_board
from arm_ext.board.remote import TrackedBoard
from arm_ext.board.virtual import VirtualServer
from arm_ext.common.errors import EnvError
from tests.arm_ext.board.models import attempt, hostile_model
from tests.arm_ext.board.trackers import running


@pytest.fixture(scope="module")
def tracker() -> Iterator[str]:
    """TVM's own tracker, with two virtual boards under the key vb."""
    with running() as address:
        servers = [VirtualServer("cortex-a76", tracker=address, key="vb") for _ in range(2)]
        yield address
        for server in servers:
            server.close()


def test_a_tracker_hands_out_the_board_again_and_again(tracker: str, fault: Path) -> None:
    with open_board(f"tracker-{tracker}/vb") as board:
        assert "dotprod" in board.info.features
        for what in (7, 8, 9):
            outputs = board.load(fault).run([np.array([what], np.float32)])
            assert outputs == [np.array([what], np.float32)]


@pytest.mark.skipif(bool(confine.support().lacks()), reason="this kernel confines less")
def test_a_model_does_not_talk_to_the_tracker(tracker: str, tmp_path: Path) -> None:
    hostile, port = hostile_model(tmp_path), tracker.rpartition(":")[2]
    with open_board(f"tracker-{tracker}/vb") as board:
        assert attempt(board, hostile, "peer", port) == 0  # no descriptor is the server's connection to it
        assert attempt(board, hostile, "connect", port) == errno.EPERM
        assert attempt(board, hostile, "fastopen", port) == errno.EPERM


def test_ended_sessions_that_python_has_not_freed_take_no_place(tracker: str) -> None:
    """TVM allows 32 sessions, and the attempt that finds no place has used up the tracker's match key."""
    board = TrackedBoard("127.0.0.1", int(tracker.rpartition(":")[2]), "vb", 60)
    gc.disable()
    try:
        for _ in range(34):
            session = board.connect()
            session.close()
            vars(session)["cycle"] = session
    finally:
        gc.enable()
        gc.collect()  # else the next test's sessions find no place


def test_two_clients_get_two_boards(tracker: str, fault: Path) -> None:
    with open_board(f"tracker-{tracker}/vb") as one, open_board(f"tracker-{tracker}/vb") as other:
        models = [one.load(fault), other.load(fault)]
        assert [model.run([np.array([5], np.float32)])[0][0] for model in models] == [5, 5]


def test_an_unknown_key_is_refused_with_those_known(tracker: str) -> None:
    with pytest.raises(EnvError, match=r"'rpi9'.* registered are: vb"):
        _ = open_board(f"tracker-{tracker}/rpi9").info


def test_no_tracker(fault: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        board = open_board(f"tracker-127.0.0.1:{taken.getsockname()[1]}/vb")
        with pytest.raises(EnvError, match=r"python -m tvm\.exec\.rpc_tracker"):
            board.load(fault)
