# SPDX-License-Identifier: Apache-2.0
"""Clients that connect to a board and say nothing more, or nothing that it understands."""

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread
from time import monotonic, sleep

import numpy as np
import pytest

from arm_ext.board import base, open_board
from arm_ext.board.session import BoardLostError
from arm_ext.board.virtual import VirtualServer
from tests.arm_ext.board.models import COPY

_MAGIC = 0xFF271
_GREETING = struct.pack("<ii", _MAGIC, 7) + b"client:"
_IDLE = 300
_GREETING_SECONDS = 5
# For two sessions on a machine under load; one silent client after the other would take 25 minutes.
_PROMPTLY = 100


@pytest.fixture(scope="module")
def server() -> Iterator[VirtualServer]:
    started = VirtualServer("cortex-a72")
    yield started
    started.close()


def _connections(port: int, count: int, said: bytes = b"") -> ExitStack:
    held = ExitStack()
    for _ in range(count):
        connection = held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
        connection.sendall(said)
    return held


@pytest.mark.parametrize("said", [b"", struct.pack("<i", _MAGIC), _GREETING[:-1], _GREETING])
def test_silent_clients_keep_nobody_waiting(server: VirtualServer, fault: Path, said: bytes) -> None:
    with _connections(server.port, _IDLE, said), open_board(f"127.0.0.1:{server.port}") as board:
        began = monotonic()
        value = [np.array([COPY], np.float32)]
        assert board.load(fault).run(value) == value
        assert monotonic() - began < _PROMPTLY


def test_clients_that_come_during_a_session_keep_nobody_waiting_after_it(
    server: VirtualServer, fault: Path
) -> None:
    value = [np.array([COPY], np.float32)]
    with open_board(f"127.0.0.1:{server.port}") as board:
        loaded = board.load(fault)
        with _connections(server.port, _IDLE):
            assert loaded.run(value) == value
            loaded.close()
            began = monotonic()
            assert board.load(fault).run(value) == value
            assert monotonic() - began < _PROMPTLY


@pytest.mark.parametrize(
    "said", [b"GET / HT", struct.pack("<ii", _MAGIC, -1), struct.pack("<ii", _MAGIC, 2**30)]
)
def test_what_is_no_greeting_is_hung_up_on(server: VirtualServer, said: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=_GREETING_SECONDS - 1) as client:
        client.sendall(said)
        assert client.recv(1) == b""


def test_silent_clients_are_hung_up_on(server: VirtualServer) -> None:
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=_PROMPTLY) as silent,
        socket.create_connection(("127.0.0.1", server.port), timeout=_PROMPTLY) as greeted,
    ):
        greeted.sendall(_GREETING)
        answer = struct.pack("<ii", _MAGIC, 7) + b"server:"
        with greeted.makefile("rb") as said:
            assert said.read() == answer  # and then its end
        assert silent.recv(1) == b""


def _forward(source: socket.socket, sink: socket.socket, stalled: Event, seconds: float) -> None:
    while data := source.recv(1 << 16):
        sleep(seconds)
        if not stalled.is_set():
            sink.sendall(data)


@contextmanager
def _network(port: int, stalled: Event | None = None, seconds: float = 0) -> Iterator[int]:
    """Yield the port of a proxy for one client, which delays each message, and swallows it once `stalled` is set."""
    with socket.create_server(("127.0.0.1", 0)) as listening, ExitStack() as held:

        def proxy() -> None:
            client = listening.accept()[0]
            board = socket.create_connection(("127.0.0.1", port))
            for each in (client, board):  # a close alone waits for the thread that reads
                held.callback(each.close)
                held.callback(each.shutdown, socket.SHUT_RDWR)
            for pair in ((client, board), (board, client)):
                Thread(target=_forward, args=(*pair, stalled or Event(), seconds), daemon=True).start()

        Thread(target=proxy, daemon=True).start()
        yield listening.getsockname()[1]


def test_a_client_on_a_slow_network_gets_in_among_silent_ones(server: VirtualServer) -> None:
    with (
        _connections(server.port, 30, _GREETING),
        _network(server.port, seconds=0.4) as port,
        open_board(f"127.0.0.1:{port}") as board,
    ):
        board.connect().close()


def test_a_board_that_hangs_after_its_greeting_is_given_up(
    server: VirtualServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "_PROBE_SECONDS", 1)
    stalled = Event()
    with _network(server.port, stalled) as port, open_board(f"127.0.0.1:{port}") as board:
        session = board.connect()
        stalled.set()
        with pytest.raises(BoardLostError, match="took the connection, and gave no answer in 1 s"):
            board.ask(session)


def test_a_greeting_in_pieces_is_understood(server: VirtualServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in struct.pack("<ii", _MAGIC, 7) + b"client:":
            client.sendall(bytes([byte]))
        assert struct.unpack("<i", client.recv(4, socket.MSG_WAITALL)) == (_MAGIC,)
