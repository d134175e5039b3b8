# SPDX-License-Identifier: Apache-2.0
"""Calls of other runtimes in child processes, since some models crash the runtime.

onnxruntime, LiteRT and torch end their process at some models: at an integer division by 0 on x86, at an input that is
left out, where memory ends. A fork shares the model's weights with its parent and has the runtime loaded already.
"""

import faulthandler
import gc
import os
import pickle
import resource
import select
import signal
import sys
import threading
import traceback
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, NoReturn, TypeVar, cast

from arm_ext.common.errors import EnvError
from arm_ext.common.faults import is_out_of_memory, out_of_memory

Job = TypeVar("Job")
Answer = TypeVar("Answer")
Result = TypeVar("Result")

_PROTOCOL = 5  # copies an array once
_SAID_BYTES = 4096

_in_child = False  # set in the children


class DiedError(Exception):
    """Raised when a model has ended the runtime's process; the message says how."""


class Apart(Generic[Job, Answer]):
    """A function in a forked child process, which is terminated when this object is deleted or closed.

    In such a child, another `Apart` calls its function directly: what ends it ends the child, as its parent reports.
    """

    def __init__(self, make: Callable[[], Callable[[Job], Answer]], runtime: str) -> None:
        """Fork the process.

        Args:
            make: Called in the process; returns the function that does the jobs. Jobs and answers can be pickled.
            runtime: Name of the runtime that the function calls, for messages.

        Raises:
            DiedError: The process ended.
            EnvError: No process can be started.
            Exception: What `make` raises.
        """
        self._direct = make() if _in_child else None
        if self._direct is not None:
            return
        self._died = ""
        self._pipe, theirs = Pipe()
        self._said = os.memfd_create("said")
        try:
            with warnings.catch_warnings():
                # Python and jax warn about forking a process with threads. The child uses no locks that other
                # threads may hold.
                warnings.simplefilter("ignore")
                self._pid = os.fork()
        except OSError as err:
            os.close(self._said)
            raise EnvError(
                f"{runtime} runs in a child process, which cannot be started: {err.strerror}"
            ) from err
        if not self._pid:
            _serve(make, theirs, self._said)
        theirs.close()
        self._end = weakref.finalize(self, _end, os.getpid(), self._pid, self._pipe, self._said)
        self._answer()

    def __call__(self, job: Job) -> Answer:
        """Return the function's result for a job.

        Raises:
            DiedError: The process ended.
            Exception: What the function raises.
        """
        if self._direct is not None:
            return self._direct(job)
        self._begin(job)
        answer: Answer = self._answer()
        return answer

    def _begin(self, job: Job) -> None:
        if self._died:
            raise DiedError(self._died)
        with suppress(OSError):  # the child has ended already; `_answer` reports it
            self._pipe.send_bytes(pickle.dumps(job, _PROTOCOL))

    def close(self) -> None:
        """Terminate the child process."""
        if self._direct is None:
            self._end()

    def _answer(self) -> Any:
        try:
            answer, error = pickle.loads(self._pipe.recv_bytes())
        except (EOFError, OSError):
            self._died = self._reason()
            raise DiedError(self._died) from None
        if error is not None:
            raise error
        return answer

    def _reason(self) -> str:
        said = os.pread(self._said, _SAID_BYTES, max(0, os.fstat(self._said).st_size - _SAID_BYTES))
        last = (said.decode(errors="replace").strip().splitlines() or [""])[-1].strip()
        code = self._end() or 0
        if code == -signal.SIGFPE:
            return "it divides an integer by 0, or the smallest integer by -1"
        if code == -signal.SIGKILL:
            return "it was killed, as the system does when memory ends"
        if is_out_of_memory(RuntimeError(last)):
            return str(out_of_memory())
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return f"it ended its process with {how}{f' ({last})' if last else ''}"


class Pool(Generic[Job, Answer]):
    """A function in several forked child processes, which compute the results of different jobs at the same time."""

    def __init__(self, make: Callable[[], Callable[[Job], Answer]], runtime: str, processes: int) -> None:
        """Fork the processes; the arguments and errors are those of `Apart`."""
        self._workers = [Apart(make, runtime) for _ in range(processes)]

    def map(self, jobs: Iterable[Job]) -> list[Answer]:
        """Return the function's results for jobs, in their order.

        Raises:
            DiedError: A process ended; the pool can compute no more jobs then.
            Exception: What the function raises for a job; the other jobs' results are lost.
        """
        waiting, answers = deque(enumerate(jobs)), dict[int, Answer]()
        idle, busy = list(self._workers), dict[Connection, tuple[Apart[Job, Answer], int]]()
        try:
            while waiting or busy:
                while waiting and idle:
                    worker, (index, job) = idle.pop(), waiting.popleft()
                    worker._begin(job)
                    busy[worker._pipe] = worker, index
                for pipe in cast("list[Connection]", wait(list(busy))):
                    worker, index = busy.pop(pipe)
                    idle.append(worker)
                    answers[index] = worker._answer()
        except BaseException:
            for worker, _ in busy.values():  # their answers would be taken for those of later jobs
                worker.close()
            raise
        return [answers[index] for index in range(len(answers))]

    def close(self) -> None:
        """Terminate the processes."""
        for worker in self._workers:
            worker.close()


def call_apart(function: Callable[[], Result], runtime: str) -> Result:
    """Call a function once in a child process and return its result; the arguments are as for `Apart`."""

    def make() -> Callable[[None], Result]:
        return lambda _: function()

    apart = Apart(make, runtime)
    try:
        return apart(None)
    finally:
        apart.close()


def _end(owner: int, pid: int, pipe: Connection, said: int) -> int | None:
    """Terminate a process, and return its exit code, or minus the number of the signal that ended it."""
    if os.getpid() != owner:  # a fork has a copy of this object, but must not terminate the process
        return None
    pipe.close()
    os.close(said)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)  # no effect on the exit status of a child that has ended already
    with suppress(ChildProcessError):
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return None


def _serve(make: Callable[[], Callable[[Any], Any]], pipe: Connection, said: int) -> NoReturn:
    """Run jobs in the child until the parent closes the pipe or ends."""
    global _in_child
    _in_child, code = True, 1
    try:
        _detach(pipe.fileno(), said)
        threading.Thread(target=_end_with_parent, args=(pipe.fileno(),), daemon=True).start()
        made: list[Callable[[Any], Any]] = []
        _send(pipe, lambda: made.append(make()))
        while made:
            _send(pipe, lambda: made[0](pickle.loads(pipe.recv_bytes())))
        code = 0
    except BaseException:
        traceback.print_exc()  # to the file whose last line the parent reports
    finally:
        os._exit(code)  # skips the exit handlers and open files, which belong to the parent


def _send(pipe: Connection, function: Callable[[], Any]) -> None:
    """Send the function's result through the pipe, or the exception that it raises."""
    try:
        answer = pickle.dumps((function(), None), _PROTOCOL)
    except Exception as err:
        answer = pickle.dumps((None, _portable(err)), _PROTOCOL)
    pipe.send_bytes(answer)


def _portable(error: Exception) -> Exception:
    """Return an exception, or a RuntimeError with the same message if it cannot be pickled and unpickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # of many types
        return RuntimeError(str(error))
    return error


def _detach(pipe: int, said: int) -> None:
    """Detach the child from the parent's output, signals and files."""
    faulthandler.disable()
    gc.freeze()  # objects of the parent may have finalizers
    signal.set_wakeup_fd(-1)
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # the parent handles Ctrl-C, and then terminates this process
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.dup2(said, 1)
    os.dup2(said, 2)
    # The parent may have replaced sys.stdout and sys.stderr by objects that write to other files.
    sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
    # Locks and sockets that the parent closes must not stay open here.
    first, second = sorted((pipe, said))
    os.closerange(3, first)
    os.closerange(first + 1, second)
    os.closerange(second + 1, os.sysconf("SC_OPEN_MAX"))


def _end_with_parent(pipe: int) -> None:
    """Wait until the parent closes its end of the pipe, then end the process."""
    poll = select.poll()
    poll.register(pipe, 0)  # poll always reports a closed end
    poll.poll()
    os._exit(0)
