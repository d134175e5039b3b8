# SPDX-License-Identifier: Apache-2.0
"""Boards that others serve: an RPC server at an address, or boards that a tracker assigns."""

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tvm.rpc import base as protocol

from arm_ext.board.base import Board
from arm_ext.board.session import BoardLostError, BoardSession, ServerAddress

_TRACKER_SECONDS = 10
# Maximum time to wait for a board that another user has.
_QUEUE_SECONDS = 60


class RemoteBoard(Board):
    """A board at host:port, where `python -m tvm.exec.rpc_server` runs."""

    def __init__(self, host: str, port: int, timeout: float) -> None:
        """Store the address; nothing is connected yet.

        Args:
            host: Name or IP address.
            port: TCP port.
            timeout: Seconds that a session may last.
        """
        super().__init__(f"{host}:{port}")
        self._address = ServerAddress(host, port, "", self.name)
        self._timeout = timeout

    def connect(self) -> BoardSession:
        """Open a session; see `Board.connect`."""
        return BoardSession(lambda: self._address, self._timeout)


class TrackedBoard(Board):
    """Any board that `python -m tvm.exec.rpc_tracker` assigns for a key; each session may be with another board."""

    def __init__(self, host: str, port: int, key: str, timeout: float) -> None:
        """Store the address of the tracker and the key; nothing is connected yet.

        Args:
            host: Name or IP address of the tracker.
            port: TCP port.
            key: The kind of board, as its servers registered.
            timeout: Seconds that a session may last.
        """
        super().__init__(f"tracker-{host}:{port}/{key}")
        self._tracker = (host, port)
        self._key = key
        self._timeout = timeout

    def connect(self) -> BoardSession:
        """Ask the tracker for a board and open a session; see `Board.connect`."""
        return BoardSession(self._request, self._timeout)

    def registered(self) -> int:
        """Return the number of boards that the tracker knows by this key, busy ones included."""
        with self._connected() as tracker:
            return self._keys(tracker).count(self._key)

    @contextmanager
    def _connected(self) -> Iterator[socket.socket]:
        """Open a connection to the tracker, and exchange the greeting."""
        host, port = self._tracker
        try:
            with socket.create_connection(self._tracker, timeout=_TRACKER_SECONDS) as tracker:
                _greet(tracker)
                yield tracker
        except (OSError, struct.error, ValueError) as error:
            raise BoardLostError(
                f"no RPC tracker answers at {host}:{port} ({error}). "
                f"Start one there: python -m tvm.exec.rpc_tracker --host 0.0.0.0 --port {port}"
            ) from error

    def _keys(self, tracker: socket.socket) -> list[str]:
        """Return the key of each board."""
        return [
            server["key"].removeprefix("server:") for server in self._ask(tracker, "SUMMARY")["server_info"]
        ]

    def _request(self) -> ServerAddress:
        """Get a board's address and its match key, which is valid for one connection."""
        with self._connected() as tracker:
            host, port, key = self._granted(tracker)
        return ServerAddress(host, port, key, self.name)

    def _granted(self, tracker: socket.socket) -> tuple[str, int, str]:
        """Return host, port and match key of the next board that is free."""
        keys = self._keys(tracker)
        if self._key not in keys:
            known = ", ".join(sorted(set(keys))) or "none"
            raise BoardLostError(
                f"no board is registered as {self._key!r} at the tracker; registered are: {known}"
            )
        tracker.settimeout(_QUEUE_SECONDS)
        priority, no_user = 1, ""
        try:
            host, port, key = self._ask(tracker, "REQUEST", self._key, no_user, priority)
        except TimeoutError as error:
            raise BoardLostError(
                f"no board {self._key!r} came free in {_QUEUE_SECONDS} s; try again later"
            ) from error
        return host, port, key

    @staticmethod
    def _ask(tracker: socket.socket, code: str, *args: object) -> Any:
        protocol.sendjson(tracker, [getattr(protocol.TrackerCode, code), *args])
        status, value = protocol.recvjson(tracker)
        if status != protocol.TrackerCode.SUCCESS:
            raise ValueError(f"it refused: {value}")
        return value


def _greet(tracker: socket.socket) -> None:
    tracker.sendall(struct.pack("<i", protocol.RPC_TRACKER_MAGIC))
    if struct.unpack("<i", protocol.recvall(tracker, 4))[0] != protocol.RPC_TRACKER_MAGIC:
        raise ValueError("the server at this address uses another protocol")
