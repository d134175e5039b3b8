# SPDX-License-Identifier: Apache-2.0
"""The process of a command: signals end it by an exception, so that all is tidied up, and its streams may be closed.

Python handles a signal between two of its instructions, so not while the main thread is in native code, such as a
compilation by LLVM, or waits for a thread that is. A second thread ends such a process, since native code that takes
long releases the interpreter's lock.
"""

import _thread
import io
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from threading import RLock
from time import monotonic, sleep
from types import FrameType
from typing import Any, NoReturn, TextIO

from arm_ext.common.errors import EnvError
from arm_ext.common.faults import why
from arm_ext.common.scratch import remove_own
from arm_ext.common.text import visible

_ENDING = (
    *(signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM),
    *(signal.SIGVTALRM, signal.SIGPROF, signal.SIGPOLL, signal.SIGPWR, signal.SIGXCPU, signal.SIGSTKFLT),
)
"""Besides SIGINT, all that by default end a process and that it can catch, but for its own faults."""
_STDOUT, _STDERR = 1, 2
_GRACE_SECONDS = 1.0
"""Time from a signal on in which the main thread has to end or, where the signal only interrupts it, to begin to."""
_SHOW_CURSOR = b"\x1b[?25h"
_ended_by: signal.Signals | None = None
_interrupted_at = float("-inf")
_ending = RLock()  # who holds it decides how the process ends; a handler may interrupt another one


class EndedError(BaseException):
    """Raised when a signal asked this process to end; like KeyboardInterrupt, only the command line catches it."""


def code_of_end() -> int:
    """Return the exit code of an ended process, as a shell counts: 128 and the signal."""
    return 128 + (_ended_by or signal.SIGINT)


def was_ended() -> bool:
    """Whether a signal has asked this process to end, even where a library made another error of it."""
    return _ended_by is not None


def prepare() -> None:
    """Have this process end cleanly: on signals, and when nobody reads its output."""
    _open_streams()
    sys.stdout = _VisibleText(_Stdout(_STDOUT, "w", closefd=False), sys.stdout)
    sys.stderr = _VisibleText(_Stderr(_STDERR, "w", closefd=False), sys.stderr)
    for number in _ENDING:
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup has it ignored
            signal.signal(number, _end)
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(
            signal.SIGINT, _interrupt
        )  # it is noted, as TVM makes other errors of a KeyboardInterrupt
    signals, written = os.pipe()
    os.set_blocking(written, False)
    signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    # Not Thread.start, which waits for ever for a thread that dies at its start, where memory is short.
    with suppress(RuntimeError):
        _thread.start_new_thread(_watch, (signals,))


def interrupt_on_signals() -> None:
    """Handle signals that end the process like Ctrl-C, for work that stops and keeps its results."""
    for number in _ENDING:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)


def leave(code: int) -> NoReturn:
    """End the process with an exit code."""
    if was_ended():
        ignore_signals()
    try:
        sys.stdout.flush()
    except EnvError as error:
        sys.stderr.write(f"error: {error}\n")
        code = error.exit_code
    if was_ended():
        sys.stderr.flush()
        _end_at_once(code)  # threads may be in the middle of work that nobody waits for
    sys.exit(code)


def ignore_signals() -> None:
    """Ignore what would end the process from here on: a second signal would break into the tidying after the first."""
    for each in (*_ENDING, signal.SIGINT):
        signal.signal(each, signal.SIG_IGN)


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    ignore_signals()
    with _ending:
        _note(number)
    raise EndedError


def _interrupt(number: int, _frame: FrameType | None) -> NoReturn:
    global _interrupted_at
    with _ending:
        _note(number)
        _interrupted_at = monotonic()
    raise KeyboardInterrupt


def _note(number: int) -> None:
    global _ended_by
    _ended_by = signal.Signals(number)


def _watch(signals: int) -> None:
    """End the process after a signal if the main thread does not end it in time; run until then.

    Args:
        signals: Where the numbers of signals are read, as soon as they come.
    """
    while True:
        number = os.read(signals, 1)[0]
        if number not in (*_ENDING, signal.SIGINT):
            continue
        sleep(_GRACE_SECONDS)
        with _ending:  # from here on the main thread does not go on after its handler
            if monotonic() - _interrupted_at > 2 * _GRACE_SECONDS:
                _note(number)
                if os.isatty(_STDERR):
                    os.write(_STDERR, _SHOW_CURSOR)  # the progress bar has hidden it
                with suppress(OSError):
                    os.write(_STDERR, b"aborted\n")
                _end_at_once(code_of_end())


def _end_at_once(code: int) -> NoReturn:
    """End the process without waiting for threads, together with its child processes and scratch folders."""
    _kill_descendants()
    remove_own()
    os._exit(code)


def _kill_descendants() -> None:
    found: set[int] = set()
    while new := _descendants() - found:
        found |= new
        _send(new, signal.SIGSTOP)  # so that they start no others meanwhile
    _send(found, signal.SIGKILL)


def _descendants() -> set[int]:
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_bytes().rpartition(b")")[2].split()[1])
    ours = {os.getpid()}
    while found := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= found
    return ours - {os.getpid()}


def _send(processes: set[int], number: signal.Signals) -> None:
    for pid in processes:
        with suppress(OSError):
            os.kill(pid, number)


class _Stdout(io.FileIO):
    """A stdout that drops output after its reader has closed, without changing the exit code, as for `| head -1`."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or 0
        except OSError as error:
            _discard(_STDOUT)
            if isinstance(error, BrokenPipeError):
                return len(data)
            raise EnvError(why(error, "standard output")) from error


class _Stderr(io.FileIO):
    """A log whose write errors change no exit code."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or 0
        except OSError:
            _discard(_STDERR)
            return len(data)


def _discard(stream: int) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream)
    os.close(nowhere)


class _VisibleText(io.TextIOWrapper):
    """A stream of text in which names of models and files cannot change what a terminal shows.

    Attributes:
        rich_proxied_file: The stream without that, for rich's colours and progress bar; rich looks for this name.
    """

    def __init__(self, raw: io.FileIO, like: TextIO | None) -> None:
        """Write to `raw` in the encoding of the stream `like`, which is None where the stream was closed."""
        options: dict[str, Any] = {
            "encoding": None if like is None else like.encoding,
            "errors": "backslashreplace",  # a model's names may have characters that the locale's encoding lacks
            "line_buffering": raw.fileno() == _STDERR or raw.isatty(),
        }
        buffer = io.BufferedWriter(raw)
        super().__init__(buffer, **options)
        self.rich_proxied_file = io.TextIOWrapper(buffer, write_through=True, **options)

    def write(self, text: str) -> int:
        """Write text, its control characters visible."""
        return super().write(visible(text))


def _open_streams() -> None:
    """Open the standard streams that this process was started without, so that files do not get their numbers."""
    for number in range(_STDERR + 1):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # which takes the lowest number that is free
