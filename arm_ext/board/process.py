# SPDX-License-Identifier: Apache-2.0
"""A board server started by this process.

Its process group and folder are removed on close or when this process ends.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import BinaryIO

from arm_ext.common.errors import EnvError

_STOP_SECONDS = 1
_LOG = "log"
_LOG_BYTES = 1 << 20  # maximum number of bytes read from a log, which a program on the board may fill
# A shell that kills the complete process group when the command ends or when the parent's end of the pipe closes.
_GUARD = '("$@"; kill -9 0) & cat > /dev/null; rm -rf "$TMPDIR"; kill -9 0'
_POLL_SECONDS = 0.02


class ServerProcess:
    """A server process whose standard input is a pipe from us; when the pipe closes, it ends and removes its folder.

    So it does not outlive this process, however that ends. Output and errors go to a log in the folder.

    Attributes:
        folder: Folder of the process, removed in the end.
    """

    def __init__(
        self,
        command: Callable[[Path], Sequence[str]],
        env: Mapping[str, str],
        inherited: Mapping[str, str] | None = None,
    ) -> None:
        """Start the process.

        Args:
            command: Given the scratch folder, returns the command line.
            env: Variables that are added to the environment.
            inherited: The environment that they are added to; by default this process'.
        """
        self.folder = Path(tempfile.mkdtemp(prefix="arm-ext-board-"))
        # The log stays open, because a program on the board may replace the file.
        self._log = log = (self.folder / _LOG).open("w+b")
        self._process = subprocess.Popen(
            command(self.folder),
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=self.folder,
            env={**(os.environ if inherited is None else inherited), "TMPDIR": str(self.folder), **env},
            start_new_session=True,
        )
        # Runs at the latest at interpreter exit.
        self._stop = weakref.finalize(self, _stop, self._process, self.folder, log, os.getpid())

    def wait_for(self, sign: Callable[[str], str | None], seconds: float) -> str:
        """Wait until `sign` finds what it looks for in the log; return that.

        Args:
            sign: Given the log's text, returns what was looked for; None if it is not there yet.
            seconds: How long to wait.

        Raises:
            EnvError: The process ended or the time is over; carries the log, and the server is stopped.
        """
        deadline = monotonic() + seconds
        while True:
            ended = self._process.poll() is not None
            log = self.log()
            found = sign(log)
            if found is not None:
                return found
            if ended or monotonic() > deadline:
                self.close()
                raise EnvError(log.strip()[-1000:] or "it ended without a message")
            sleep(_POLL_SECONDS)

    def send(self, data: bytes) -> None:
        """Write to the process' standard input, which stays open; its log says why, where it ends meanwhile."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def log(self) -> str:
        """Return the end of the output of the process so far."""
        opened = self._log.fileno()
        begin = max(0, os.fstat(opened).st_size - _LOG_BYTES)
        return os.pread(opened, _LOG_BYTES, begin).decode("utf-8", errors="replace")

    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the process group and remove the folder; may be called twice."""
        self._stop()


def thread_environment(threads: int | None, cores: Sequence[int]) -> dict[str, str]:
    """Return the environment of a server whose runtime has this number of threads, or one for each of the cores."""
    # Without TVM_BIND_THREADS=0, TVM's threads would bind themselves to cores of TVM's choice.
    env = {"TVM_BIND_THREADS": "0"} if cores else {}
    number = threads or len(cores)
    return env | ({"TVM_NUM_THREADS": str(number)} if number else {})


def guarded(command: Sequence[str]) -> list[str]:
    """Return the command line that runs `command`, which does not watch its standard input, in a `ServerProcess`."""
    return ["/bin/sh", "-c", _GUARD, "sh", *command]


def _stop(process: subprocess.Popen[bytes], folder: Path, log: BinaryIO, owner: int) -> None:
    if os.getpid() != owner:
        return  # a fork of the process that started the board must not stop it
    assert process.stdin is not None
    process.stdin.close()
    log.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(_STOP_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    shutil.rmtree(folder, ignore_errors=True)
