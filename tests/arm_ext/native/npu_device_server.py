# SPDX-License-Identifier: Apache-2.0
"""The socket to which `npu_socket_system.cc` brings system calls; a connection is a descriptor."""

import contextlib
import socket
import socketserver
import struct
import threading
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from tests.arm_ext.native.npu_objects import Connection

_HEADER = struct.Struct("<II")


class Answers(Protocol):
    """What answers the calls."""

    def connected(self, what: int, data: bytes) -> AbstractContextManager[Connection | int]:
        """A descriptor while it is open, or the error that there is instead."""

    def control(self, at: Connection, number: int, data: bytearray) -> int:
        """Answers an ioctl in place, and returns its errno."""


def serve(device: Answers, path: Path) -> socketserver.ThreadingUnixStreamServer:
    """Serves in threads of its own until it is shut down."""
    server = socketserver.ThreadingUnixStreamServer(str(path), _handler(device))
    server.daemon_threads = True
    server.block_on_close = False
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return server


def _handler(device: Answers) -> type[socketserver.BaseRequestHandler]:
    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError, EOFError):
                what, data = self._read()
                with device.connected(what, bytes(data)) as made:
                    self._answer(made if isinstance(made, int) else 0, bytearray())
                    while not isinstance(made, int):
                        number, data = self._read()
                        self._answer(device.control(made, number, data), data)

        def _read(self) -> tuple[int, bytearray]:
            number, size = _HEADER.unpack(self._bytes(_HEADER.size))
            return number, self._bytes(size)

        def _bytes(self, size: int) -> bytearray:
            data = bytearray()
            while len(data) < size:
                part = self.request.recv(min(size - len(data), 1 << 16), socket.MSG_WAITALL)
                if not part:
                    raise EOFError
                data += part
            return data

        def _answer(self, error: int, data: bytearray) -> None:
            self.request.sendall(_HEADER.pack(error, len(data)) + data)

    return Handler
