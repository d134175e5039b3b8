# SPDX-License-Identifier: Apache-2.0
"""An RPC session with a board; every wait has a time limit, and every failure has a message."""

import errno
import gc
import hashlib
import os
import shutil
import socket
import struct
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path

import tvm
import tvm_ffi
from tvm import rpc

from arm_ext.common.errors import ArmExtError, EnvError, InternalError, ModelError, UsageError
from arm_ext.common.regular_file import UnreadableError, open_regular

# A board that is free answers in well under a second; tvm.exec.rpc_server starts a process for each session.
_CONNECT_SECONDS = 20
_ENDING_SECONDS = 5
# TCP keep-alive: a board that has lost power or network is noticed after the first probe plus three unanswered
# ones.
_KEEPALIVE = {socket.TCP_KEEPIDLE: 10, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 3}
_UNACKNOWLEDGED_MS = 25_000
# The server ends a session that exceeds its time limit; if it does not, the client ends it this much later.
_SERVER_GRACE_SECONDS = 10
# TVM's client begins the message of an error raised on the board with these words.
_REMOTE_ERROR = "Error caught from RPC call"
# An emulated server needs 0.15 seconds to receive a megabyte, and minutes for a gigabyte, of which it holds three
# copies.
_SHARED_BYTES = 2**20
_PIECE_BYTES = 2**20
_SECONDS_FORMAT = "ll"  # struct timeval of Linux on 64 bits


class BoardLostError(EnvError):
    """Error for a board that does not answer or went away; the request was right."""


class SessionTimeoutError(EnvError):
    """Error for a request to a board that exceeded the time limit of the session."""


@dataclass(frozen=True)
class ServerAddress:
    """Address of an RPC server.

    Attributes:
        host: Name or IP address.
        port: TCP port.
        key: The match key that it expects; "" for a server without tracker.
        board: How the user named the board, for messages.
    """

    host: str
    port: int
    key: str
    board: str


# TVM's message for more than 32 sessions per process. An ended session counts until Python frees it; if it is in a
# reference cycle, such as that of an exception's traceback, that is at the next garbage collection.
_TOO_MANY_SESSIONS = "maximum number of RPC session reached"


class BoardSession:
    """An RPC session with a board, which is closed after the first error."""

    def __init__(
        self, find: Callable[[], ServerAddress], timeout: float, *, shared: Path | None = None
    ) -> None:
        """Connect to a server.

        Args:
            find: Returns the address of a server that is free. It is called for each attempt, since a match key of a
                tracker holds for one connection.
            timeout: Seconds that the session may last.
            shared: A folder of this machine that the server can read, too.

        Raises:
            BoardLostError: There is no server, or it does not answer.
        """
        self._address = find()
        self._timeout = self._waits = timeout
        self._shared = shared
        self._copies: list[Path] = []
        self._sockets: list[socket.socket] = []
        try:
            self._rpc = self._connect()
        except BoardLostError as error:
            if _TOO_MANY_SESSIONS not in str(error.__cause__):
                raise
            gc.collect()
            self._address = find()
            self._rpc = self._connect()

    def load(self, so: Path, sha256: str = "") -> tvm.runtime.Module:
        """Upload and load a shared library under its own name; use the shared folder, if any, for a large one.

        Args:
            so: The library.
            sha256: SHA-256 that the bytes that are loaded must have; any by default.

        Raises:
            UsageError: The file cannot be read, or has another hash.
        """
        try:
            with open_regular(so) as file:
                return self._load(file, so, sha256)
        except UnreadableError as error:
            raise UsageError(str(error)) from error

    def _load(self, file: BufferedReader, so: Path, sha256: str) -> tvm.runtime.Module:
        size = os.fstat(file.fileno()).st_size
        if self._shared is not None and size > _SHARED_BYTES:
            # The file is copied, since the model could write to the package through a link.
            folder = Path(tempfile.mkdtemp(dir=self._shared))
            self._copies.append(folder)
            name = str(folder / so.name)
            with self.guard():
                found = _copied(file, name)
            _require_hash(so, found, sha256)
        else:
            name, data = so.name, bytearray(size)
            del data[file.readinto(data) :]
            _require_hash(so, hashlib.sha256(data).hexdigest(), sha256)
            with self.guard():
                self._rpc.upload(data, name)
        with self.guard():
            return self._rpc.load_module(name)

    @contextmanager
    def waiting_at_most(self, seconds: float) -> Iterator[None]:
        """Limit the wait for each answer within the block; the session's own limit holds if it is shorter."""
        self._bound(min(seconds, self._timeout))
        try:
            yield
        finally:
            self._bound(self._timeout)

    def _bound(self, seconds: float) -> None:
        self._waits = seconds
        for held in self._sockets:
            _bound_waits(held, seconds + (_SERVER_GRACE_SECONDS if seconds == self._timeout else 0))

    def function(self, name: str) -> tvm_ffi.Function:
        """Return a global function of the server.

        Raises:
            EnvError: The server has no function of that name, or the session failed.
        """
        with self.guard():
            return self._rpc.get_function(name)

    def device(self) -> tvm.runtime.Device:
        """Return the board's CPU."""
        return self._rpc.cpu()

    def close(self) -> None:
        """Close the session; the server is then free for the next one."""
        for held in self._sockets:
            with suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)
            held.close()
        self._sockets = []
        while self._copies:
            shutil.rmtree(self._copies.pop(), ignore_errors=True)

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Raise the error of a remote call as one of this package's errors; close a session that died."""
        if not self._sockets:
            raise EnvError(f"the session with board {self._address.board} has ended; load the model again")
        try:
            yield
        except (
            RuntimeError,
            OSError,
        ) as error:  # all exceptions that TVM raises for a remote call or its channel
            raise self._explain(error) from error

    def _connect(self) -> rpc.RPCSession:
        """Return the session of `rpc.connect`, which runs in a thread of its own, since it has no time limit."""
        address = self._address
        before = _sockets_to(address.port)
        outcome: list[rpc.RPCSession | Exception] = []

        def connect() -> None:
            try:
                outcome.append(rpc.connect(address.host, address.port, address.key, self._timeout))
            except Exception as error:  # raised again in the waiting thread
                outcome.append(error)

        thread = threading.Thread(target=connect, daemon=True)
        thread.start()
        thread.join(_CONNECT_SECONDS)
        sockets = _sockets_to(address.port)
        self._sockets = [
            socket.socket(fileno=os.dup(fd)) for node, fd in sockets.items() if node not in before
        ]
        if not outcome:
            self.close()
            # The connection is closed so that the thread that connects ends; a thread left in TVM's C++ code would
            # abort the process.
            thread.join(_ENDING_SECONDS)
            raise BoardLostError(
                f"board {address.board} gave no answer in {_CONNECT_SECONDS} s: it is busy with another session, "
                "or off. Wait for the other one, or restart the server there."
            )
        if isinstance(outcome[0], Exception):
            self.close()
            raise BoardLostError(
                f"no RPC server of a board answers at {address.host}:{address.port} ({_last_line(outcome[0])}). "
                "Start one there: python -m tvm.exec.rpc_server --host 0.0.0.0 --port PORT"
            ) from outcome[0]
        self._bound(self._timeout)
        return outcome[0]

    def _explain(self, error: Exception) -> ArmExtError:
        """Return this package's error for one of TVM's; close the session unless it is still usable."""
        text, board = str(error), self._address.board
        ended = "RPCSessionTimeoutError" in text or "the session died by signal" in text
        if _REMOTE_ERROR in text and not ended:
            return ModelError(f"the model failed on board {board}: {_last_line(error)}")
        self.close()
        if (
            "RPCSessionTimeoutError" in text or os.strerror(errno.EAGAIN) in text
        ):  # the time limit of the server, or of this client
            if self._waits < self._timeout:
                return BoardLostError(
                    f"board {board} took the connection, and gave no answer in {self._waits:g} s; restart its server"
                )
            return SessionTimeoutError(
                f"the session with board {board} took longer than its {self._timeout:g} s and was ended"
            )
        if "SIGILL" in text:
            return EnvError(
                f"the code needs an instruction that board {board} lacks (SIGILL); compile for that board's "
                "features, or take a board that has them"
            )
        if ended:
            return InternalError(f"the model crashed on board {board}: {_last_line(error)}")
        reason = "it closed the connection" if "kShutdown" in text else _last_line(error)
        return BoardLostError(
            f"board {board} went away in the middle of a session ({reason}). A crash in a model ends "
            "tvm.exec.rpc_server: restart it if you started it, and run again"
        )


def _copied(file: BufferedReader, to: str) -> str:
    """Copy a file, and return the hash of the bytes that were written."""
    found = hashlib.sha256()
    with Path(to).open("wb") as copy:
        while piece := file.read(_PIECE_BYTES):
            found.update(piece)
            copy.write(piece)
    return found.hexdigest()


def _require_hash(so: Path, found: str, sha256: str) -> None:
    if sha256 and found != sha256:
        raise UsageError(f"{so}: was changed since the package was opened; run the command again")


def _sockets_to(port: int) -> dict[int, int]:
    """Return this process's TCP connections to a port, inode → descriptor; TVM does not reveal its own socket."""
    found = {}
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # a descriptor closed meanwhile, or an unconnected socket
            if not str(entry.readlink()).startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(entry.name))) as held:
                if held.family in (socket.AF_INET, socket.AF_INET6) and held.getpeername()[1] == port:
                    found[os.fstat(held.fileno()).st_ino] = int(entry.name)
    return found


def _bound_waits(held: socket.socket, seconds: float) -> None:
    """Limit every wait on a connection: for an answer, and for a peer that disappeared silently."""
    limit = struct.pack(_SECONDS_FORMAT, int(seconds), 0)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    held.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    held.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED_MS)
    for option, value in _KEEPALIVE.items():
        held.setsockopt(socket.IPPROTO_TCP, option, value)


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
