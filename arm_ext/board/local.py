# SPDX-License-Identifier: Apache-2.0
"""This machine as a board: TVM's own RPC server on the loopback interface."""

import platform
import random
import re
import sys

from arm_ext.board.base import Board
from arm_ext.board.process import ServerProcess, guarded
from arm_ext.board.session import Address, Session
from arm_ext.errors import EnvError

# Imports all of TVM twice.
_START_SECONDS = 120
# TVM's server takes the first free port of a range. Below Linux's ephemeral ports, 32768 and up.
_PORTS = range(20000, 32000, 100)
# What TVM's server says when a crash in a session ends it; the port stays open, but nobody answers.
_CRASHED = "exited unsuccessfully"


class LocalBoard(Board):
    """Started with it and ended with it; started anew if a crash in a model ended it."""

    machines = (platform.machine(),)

    def __init__(self, timeout: float) -> None:
        """Starts the server.

        Args:
            timeout: Seconds that a session may last.

        Raises:
            EnvError: The server does not start.
        """
        super().__init__("local")
        self._timeout = timeout
        self._process, self._port = _start()

    def connect(self) -> Session:
        """Opens a session; see `Board.connect`."""
        if _CRASHED in self._process.log():
            self._process.close()
            self._process, self._port = _start()
        return Session(Address("127.0.0.1", self._port, "", self.name), self._timeout)

    def close(self) -> None:
        """Ends the session and the server."""
        super().close()
        self._process.close()


def _start() -> tuple[ServerProcess, int]:
    first = random.choice(_PORTS)
    ports = ["--port", str(first), "--port-end", str(first + _PORTS.step)]
    # -P: nothing of the working folder is imported.
    server = [sys.executable, "-P", "-m", "tvm.exec.rpc_server", "--host", "127.0.0.1", *ports]
    process = ServerProcess(lambda _folder: guarded(server), {})
    try:
        return process, int(process.wait_for(_bound, _START_SECONDS))
    except EnvError as error:
        raise EnvError(f"TVM's RPC server did not start: {error}") from error


def _bound(log: str) -> str | None:
    match = re.search(r"bind to 127\.0\.0\.1:(\d+)", log)
    return match and match[1]
