# SPDX-License-Identifier: Apache-2.0
"""The process of a command: signals become exceptions, so that files are cleaned up, and its streams may be closed.

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
_ending = RLock()  # the holder decides how the process ends; a handler may interrupt another one


class EndedError(BaseException):
    """Raised when a signal asked this process to end; like KeyboardInterrupt, only the command line catches it."""


def code_of_end() -> int:
    """Return the exit code of a process that a signal has ended, as in a shell: 128 plus the signal's number."""
    return 128 + (_ended_by or signal.SIGINT)


def was_ended() -> bool:
    """Whether a signal has asked this process to end, even if a library has turned the signal into another error."""
    return _ended_by is not None


def prepare() -> None:
    """Prepare for a clean end: on signals, and when the reader of the output has closed it."""
    _open_streams()
    sys.stdout = _VisibleText(_Stdout(_STDOUT, "w", closefd=False), sys.stdout)
    sys.stderr = _VisibleText(_Stderr(_STDERR, "w", closefd=False), sys.stderr)
    for number in _ENDING:
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup has it ignored
            signal.signal(number, _end)
    if signal.getsignal(signal.SIGINT) == signal.default_int_handler:
        signal.signal(
            signal.SIGINT, _interrupt
        )  # the interrupt is recorded, since TVM turns a KeyboardInterrupt into other errors
    signals, written = os.pipe()
    os.set_blocking(written, False)
    signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    # Not Thread.start, which waits forever for a thread that dies at its start for lack of memory.
    with suppress(RuntimeError):
        _thread.start_new_thread(_watch, (signals,))


def interrupt_on_signals() -> None:
    """Handle signals that end the process like Ctrl-C, for commands that then stop and keep their results."""
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
        _end_at_once(code)  # do not wait for threads, whose work is not needed any more
    sys.exit(code)


def ignore_signals() -> None:
    """Ignore signals that would end the process, since a second signal would interrupt the clean-up after the first."""
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
        with _ending:  # while this lock is held, the main thread cannot continue after its handler
            if monotonic() - _interrupted_at > 2 * _GRACE_SECONDS:
                _note(number)
                if os.isatty(_STDERR):
                    os.write(_STDERR, _SHOW_CURSOR)  # the progress bar hides the cursor
                with suppress(OSError):
                    os.write(_STDERR, b"aborted\n")
                _end_at_once(code_of_end())


def _end_at_once(code: int) -> NoReturn:
    """End the process, its child processes and its scratch folders at once, without waiting for threads."""
    _kill_descendants()
    remove_own()
    os._exit(code)


def _kill_descendants() -> None:
    found: set[int] = set()
    while new := _descendants() - found:
        found |= new
        _send(new, signal.SIGSTOP)  # so that they do not start further processes
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
    """A log stream whose write errors do not change the exit code."""

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
    """A text stream in which names of models and files cannot send control sequences to a terminal.

    Attributes:
        rich_proxied_file: The stream without that, for rich's colours and progress bar; rich looks for this name.
    """

    def __init__(self, raw: io.FileIO, like: TextIO | None) -> None:
        """Write to `raw` in the encoding of the stream `like`, which is None where the stream was closed."""
        options: dict[str, Any] = {
            "encoding": None if like is None else like.encoding,
            "errors": "backslashreplace",  # a model's names may have characters outside of the locale's encoding
            "line_buffering": raw.fileno() == _STDERR or raw.isatty(),
        }
        buffer = io.BufferedWriter(raw)
        super().__init__(buffer, **options)
        self.rich_proxied_file = io.TextIOWrapper(buffer, write_through=True, **options)

    def write(self, text: str) -> int:
        """Write text with its control characters escaped."""
        return super().write(visible(text))


def _open_streams() -> None:
    """Open the standard streams that are closed at the start, so that other files do not get their descriptors."""
    for number in range(_STDERR + 1):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # which takes the lowest free descriptor
