# SPDX-License-Identifier: Apache-2.0
"""Pools of threads and of worker processes; a worker that dies or exceeds its time loses its job and is replaced."""

import multiprocessing
import pickle
import signal
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from time import monotonic
from typing import Any, Generic, Literal, Protocol, TypeVar

from arm_ext.common.without_torch import without_torch

Job = TypeVar("Job")
Answer = TypeVar("Answer")
Taken = TypeVar("Taken", contravariant=True)
Given = TypeVar("Given", covariant=True)
Lost = Literal["died", "timeout"]

# Threads and locks of the parent do not survive a fork.
_START = multiprocessing.get_context("spawn")
_STOP_SECONDS = 5


@contextmanager
def threads(size: int) -> Iterator[ThreadPoolExecutor]:
    """Open a pool of threads; if the block is interrupted, running threads are not waited for."""
    pool = ThreadPoolExecutor(size)
    try:
        yield pool
    except BaseException as error:
        pool.shutdown(wait=isinstance(error, Exception), cancel_futures=True)
        raise
    pool.shutdown()


class Handler(Protocol[Taken, Given]):
    """The function that a worker process runs for each job."""

    def __call__(self, job: Taken, /) -> Given:
        """Do a job; an exception ends the process."""

    def close(self) -> None:
        """End the processes that the handler started."""


class Workers(Generic[Job, Answer]):
    """A pool of worker processes; a context manager that ends them."""

    def __init__(self, make: Callable[[], Handler[Job, Answer]], size: int, seconds: float) -> None:
        """Start nothing yet: a process is started for the first job that it gets.

        Args:
            make: Makes the handler in the process; can be pickled.
            size: Number of processes.
            seconds: Most seconds that a job may take.
        """
        self._make = make
        self._seconds = seconds
        self._idle: list[_Worker[Job, Answer]] = []
        self._busy: dict[_Worker[Job, Answer], int] = {}
        self._size = size

    def run(self, jobs: Sequence[Job], on_answer: Callable[[int, Answer | Lost], None]) -> None:
        """Run all jobs.

        Args:
            jobs: The jobs; they and their answers can be pickled.
            on_answer: Called as each job is done, with its index and its answer or the reason why its process was lost.
        """
        waiting = deque(enumerate(jobs))
        try:
            while waiting or self._busy:
                while waiting and len(self._busy) < self._size:
                    index, job = waiting.popleft()
                    worker = self._idle.pop() if self._idle else _Worker(self._make)
                    self._busy[worker] = index
                    worker.give(job, monotonic() + self._seconds)
                for worker in self._done():
                    index = self._busy.pop(worker)
                    answer = worker.answer()
                    if worker.alive:
                        self._idle.append(worker)
                    on_answer(index, answer)
        except BaseException:
            self._end(list(self._busy))
            raise

    def close(self) -> None:
        """End all processes."""
        self._end([*self._busy, *self._idle])

    def _end(self, workers: Sequence["_Worker[Job, Answer]"]) -> None:
        for worker in workers:
            worker.hang_up()
        for worker in workers:
            worker.end()
            self._busy.pop(worker, None)
        self._idle = [worker for worker in self._idle if worker.alive]

    def _done(self) -> list["_Worker[Job, Answer]"]:
        """Wait until some workers have answered, died or exceeded their time."""
        deadline = min(worker.deadline for worker in self._busy)
        ready = wait([worker.pipe for worker in self._busy], max(0.0, deadline - monotonic()))
        now = monotonic()
        return [worker for worker in self._busy if worker.pipe in ready or worker.deadline <= now]


class _Worker(Generic[Job, Answer]):
    """A worker process, and the parent's end of its pipe."""

    def __init__(self, make: Callable[[], Handler[Job, Answer]]) -> None:
        self.pipe, theirs = _START.Pipe()
        self.deadline = float("inf")
        self.alive = True
        # Not a daemon: a daemon process may have no children, such as the process of an emulated board.
        self._process = _START.Process(target=_serve, args=(theirs, pickle.dumps(make)))
        self._process.start()
        theirs.close()

    def give(self, job: Job, deadline: float) -> None:
        """Send a job."""
        self.deadline = deadline
        try:
            self.pipe.send(job)
        except OSError:  # the worker has died while idle; `answer` reports it
            return

    def answer(self) -> Answer | Lost:
        """Return the worker's answer; if there is none, end the worker's process and return why."""
        try:
            if self.pipe.poll():
                answer: Answer = self.pipe.recv()
                return answer
            lost: Lost = "timeout"
        except (EOFError, OSError):
            lost = "died"
        self._process.kill()
        self.end()
        return lost

    def hang_up(self) -> None:
        """Close the pipe, so that the process ends after its job."""
        self.pipe.close()

    def end(self) -> None:
        """Wait for the process to end; kill it after some seconds."""
        self.alive = False
        self.pipe.close()
        self._process.join(_STOP_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()


def _serve(pipe: Connection, make: bytes) -> None:
    """Run a worker process: answer jobs until the parent closes the pipe or ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C, and then ends this process
    with without_torch():  # unpickling loads the modules of the handler, and with them TVM
        made = pickle.loads(make)
    handler: Handler[Any, Any] = made()
    try:
        while True:
            try:
                job = pipe.recv()
            except EOFError:
                return
            answer = handler(job)
            try:
                pipe.send(answer)
            except OSError:
                return
    finally:
        handler.close()
