# SPDX-License-Identifier: Apache-2.0
import os
import signal
from functools import partial
from pathlib import Path
from time import sleep

import pytest

from arm_ext.common.workers import Workers
from tests.arm_ext.board.processes import eventually, processes_of

_SECONDS = 30


class Handler:
    """Does what its jobs say; notes its end in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, job: str) -> str:
        if job == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if job == "hang":
            sleep(20 * _SECONDS)
        return f"{job} done"

    def close(self) -> None:
        (self._folder / str(os.getpid())).touch()


def _run(workers: Workers[str, str], *jobs: str) -> list[str]:
    answers: dict[int, str] = {}
    workers.run(jobs, answers.__setitem__)
    return [answers[index] for index in range(len(jobs))]


def test_a_process_that_dies_costs_its_job_and_is_replaced(tmp_path: Path) -> None:
    workers: Workers[str, str] = Workers(partial(Handler, tmp_path), 2, _SECONDS)
    try:
        assert _run(workers, "a", "die", "b", "c") == ["a done", "died", "b done", "c done"]
        assert _run(workers, "d") == ["d done"]
    finally:
        workers.close()
    assert eventually(lambda: not _workers())
    assert list(tmp_path.iterdir())  # those that lived on have closed what they had


def test_a_process_that_hangs_is_ended_in_time(tmp_path: Path) -> None:
    # Not less, for "a" begins with a new process, on a machine that may be under load.
    workers: Workers[str, str] = Workers(partial(Handler, tmp_path), 1, 20)
    try:
        assert _run(workers, "hang", "a") == ["timeout", "a done"]
    finally:
        workers.close()


def test_an_interrupt_ends_the_busy_processes(tmp_path: Path) -> None:
    workers: Workers[str, str] = Workers(partial(Handler, tmp_path), 2, _SECONDS)

    def interrupt(_index: int, _answer: str) -> None:
        raise KeyboardInterrupt

    try:
        with pytest.raises(KeyboardInterrupt):
            workers.run(["a", "b", "c"], interrupt)
        assert _run(workers, "d") == ["d done"]
    finally:
        workers.close()
    assert eventually(lambda: not _workers())


def _workers() -> list[int]:
    """Child processes that `Workers` started."""
    marks = (Path(f"/proc/{child}/cmdline").read_bytes() for child in processes_of(os.getpid()))
    return [1 for mark in marks if b"spawn_main" in mark]
