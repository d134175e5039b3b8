# SPDX-License-Identifier: Apache-2.0
"""Commands that start at once: forks of a process that has imported what they need.

Most of a short command's time goes into imports, and a kill there meets nothing that is written.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import Self

from arm_ext.cli import main
from arm_ext.cli.loading import load_tvm

# Commands import what they run late, for the sake of --help.
_MODULES = (
    "arm_ext.cli.export_payload",
    "arm_ext.frontends.onnx.extract",
    *(
        f"arm_ext.api.{verb}"
        for verb in ("accuracy", "advise", "compile", "profile", "quantize", "run", "tune")
    ),
    "arm_ext.tune.database_maintenance",
)
_WAIT = "wait"
_LOG = 2000  # characters of what was printed that are shown
_POLL_SECONDS = 0.01


class Nursery:
    """The process that forks, and where its children write; a context manager that ends it."""

    def __init__(self, tmp: Path, log: Path, cache: Path) -> None:
        """Starts it.

        Args:
            tmp: TMPDIR of the commands.
            log: What they print.
            cache: Where they keep what they compile.
        """
        self._log = log
        log.touch()
        # What imports leave in TMPDIR lies beside that of the commands.
        paths = {"TMPDIR": str(log.parent), "PYTHONPATH": os.pathsep.join(sys.path)}
        env = {**os.environ, **paths, "OMP_NUM_THREADS": "1", "ARM_EXT_CACHE": str(cache)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.kills.nursery", str(tmp), str(log)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=env,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.kill()
        self._process.wait()

    def start(self, world: Path, arguments: Sequence[str]) -> "Child":
        """Starts a command in a folder."""
        return Child(self, int(self.ask(json.dumps([str(world), *arguments]))))

    def ask(self, line: str) -> str:
        """The answer of the process to a line."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()

    def log(self) -> str:
        """What the commands have printed last."""
        return self._log.read_text(errors="replace")[-_LOG:]


class Child:
    """A command, at the head of a process group of its own."""

    def __init__(self, nursery: Nursery, pid: int) -> None:
        self._nursery, self._pid = nursery, pid

    def kill(self, number: signal.Signals, *, group: bool) -> bool:
        """Sends a signal; returns whether the command had not ended."""
        state = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()[0]
        (os.killpg if group else os.kill)(self._pid, number)
        return state != "Z"

    def wait(self, seconds: float) -> int:
        """Waits for the end of it and of all that it has started, and returns how it ended, as subprocess has it."""
        status = os.waitstatus_to_exitcode(int(self._nursery.ask(_WAIT)))
        end = monotonic() + seconds
        with suppress(ProcessLookupError):
            while monotonic() < end:
                os.killpg(self._pid, 0)
                sleep(_POLL_SECONDS)
        return status


def _serve() -> list[str] | None:
    """Forks for each line that asks for a command, and returns in the child with its folder and arguments."""
    pid = 0
    while line := sys.stdin.readline():
        if line == f"{_WAIT}\n":
            answer = os.waitpid(pid, 0)[1]
        else:
            answer = pid = os.fork()
            if pid == 0:
                job: list[str] = json.loads(line)
                return job
            with suppress(OSError):  # the child has
                os.setpgid(pid, pid)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()
    return None


def _become(world: str, tmp: str, log: str) -> None:
    """Make a process of this one that a shell might have started."""
    with suppress(OSError):  # the parent has
        os.setpgid(0, 0)
    os.chdir(world)
    os.environ["TMPDIR"], tempfile.tempdir = tmp, None
    for stream, (path, mode) in enumerate(
        [(os.devnull, os.O_RDONLY), *[(log, os.O_WRONLY | os.O_APPEND)] * 2]
    ):
        file = os.open(path, mode)
        os.dup2(file, stream)
        os.close(file)


if __name__ == "__main__":
    load_tvm()
    for name in _MODULES:
        importlib.import_module(name)
    asked = _serve()
    if asked is not None:
        _become(asked[0], *sys.argv[1:])
        main(asked[1:])
