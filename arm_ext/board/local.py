# SPDX-License-Identifier: Apache-2.0
"""This machine as a board: TVM's own RPC server on the loopback interface."""

import os
import platform
import random
import re
import sys
from collections.abc import Sequence
from time import monotonic, sleep

from arm_ext.board.base import Board
from arm_ext.board.process import ServerProcess, guarded, thread_environment
from arm_ext.board.session import BoardSession, ServerAddress
from arm_ext.common.cores import cores_text
from arm_ext.common.errors import EnvError, UsageError

# Imports all of TVM.
_START_SECONDS = 120
# Time between the end of a connection by a crash and the server's log entry about it.
_CRASH_SECONDS, _POLL_SECONDS = 5, 0.02
# TVM's server uses the first free port of a range, here below Linux's ephemeral ports, which begin at 32768.
_PORTS = range(20000, 32000, 100)
# TVM's server logs this when a crash in a session ends the server; its port stays open, but does not answer.
_CRASHED = "exited unsuccessfully"


class LocalBoard(Board):
    """An RPC server on this machine, started and ended with the board, and restarted if a crash in a model ended it."""

    machines = (platform.machine(),)

    def __init__(self, timeout: float, cores: Sequence[int] = (), threads: int | None = None) -> None:
        """Start the server.

        Args:
            timeout: Seconds that a session may last.
            cores: Cores that the server may run on, with as many threads; by default all that this process
                may use.
            threads: Threads of the runtime, in place of that number.

        Raises:
            UsageError: This process may not run on one of them.
            EnvError: The server does not start.
        """
        super().__init__("local")
        _check_allowed(cores)
        self._timeout = timeout
        self._cores, self._threads = cores, threads
        self._process, self._port = _start(cores, threads)

    def has_crashed(self) -> bool:
        """Whether a crash in a session ended the server; see `Board.has_crashed`."""
        deadline = monotonic() + _CRASH_SECONDS
        while monotonic() < deadline:
            if _CRASHED in self._process.log():
                return True
            sleep(_POLL_SECONDS)
        return False

    def connect(self) -> BoardSession:
        """Open a session; see `Board.connect`."""
        if _CRASHED in self._process.log():
            self._process.close()
            self._process, self._port = _start(self._cores, self._threads)
        address = ServerAddress("127.0.0.1", self._port, "", self.name)
        return BoardSession(lambda: address, self._timeout)

    def close(self) -> None:
        """Close the session and stop the server."""
        super().close()
        self._process.close()


# Restricts the process to the cores in the first argument, and then executes the command that follows.
_PIN = "import os, sys; os.sched_setaffinity(0, map(int, sys.argv[1].split(','))); os.execv(sys.argv[2], sys.argv[2:])"


def _check_allowed(cores: Sequence[int]) -> None:
    allowed = os.sched_getaffinity(0)
    if beyond := sorted(set(cores) - allowed):
        raise UsageError(
            f"--cores {cores_text(cores)}: this process may run on {cores_text(allowed)}, not on {cores_text(beyond)}"
        )


# Equivalent to tvm.exec.rpc_server, but in one process instead of two that import TVM, and without PyTorch, which
# TVM imports if it is installed: starting takes 2 CPU seconds instead of 9.
_SERVE = """
import logging, sys
sys.modules["torch"] = None
from tvm.rpc.server import PopenRPCServerState
logging.basicConfig(level=logging.INFO)
PopenRPCServerState("127.0.0.1", *map(int, sys.argv[1:])).thread.join()
"""


def _start(cores: Sequence[int], threads: int | None) -> tuple[ServerProcess, int]:
    first = random.choice(_PORTS)
    # With -P, Python imports no modules from the working folder.
    server = [sys.executable, "-P", "-c", _SERVE, str(first), str(first + _PORTS.step)]
    env = thread_environment(threads, cores)
    if threads is None and "TVM_NUM_THREADS" in os.environ:  # the server inherits it
        env.pop("TVM_NUM_THREADS", None)
    if cores:
        server = [sys.executable, "-P", "-c", _PIN, ",".join(map(str, cores)), *server]
    process = ServerProcess(lambda _folder: guarded(server), env)
    try:
        return process, int(process.wait_for(_bound, _START_SECONDS))
    except EnvError as error:
        raise EnvError(f"TVM's RPC server did not start: {error}") from error


def _bound(log: str) -> str | None:
    match = re.search(r"bind to 127\.0\.0\.1:(\d+)", log)
    return match and match[1]
