# SPDX-License-Identifier: Apache-2.0
"""Measurement on boards: several emulated ones of this process, a given one, or all boards of a tracker's key."""

import functools
import math
import multiprocessing
import os
import pickle
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from arm_ext.board import open_board
from arm_ext.board.remote import TrackedBoard
from arm_ext.board.spec import BoardSpec, parse_spec
from arm_ext.common.errors import EnvError, UsageError
from arm_ext.common.workers import Lost, Workers
from arm_ext.measure.mca import find_mca
from arm_ext.target.profiles import Profile
from arm_ext.tune.candidate import Candidate
from arm_ext.tune.candidate_runner import AWAY_SECONDS, CandidateRunner, Job, MeasurementSite
from arm_ext.tune.costs import ESTIMATE
from arm_ext.tune.measure import OnResult, Result, ignore
from arm_ext.tune.record import Unit
from arm_ext.tune.reference import sample
from arm_ext.tune.task import Task
from schedules.cores import CORES

# Limits; the slowest build of a kernel takes some seconds, and so does running it on an emulated board.
_BUILD_SECONDS = 120
_SESSION_SECONDS = 60
# A job may include two sessions that hang, each noticed with some delay, and the restart of a board.
_JOB_SECONDS = _BUILD_SECONDS + AWAY_SECONDS + 3 * _SESSION_SECONDS


class Fleet:
    """A `Measurer` on boards; a context manager that ends the processes and boards that it started.

    Builds go on in processes of this machine. For board "virtual" each of them has an emulated board, which
    counts instructions; on other boards one candidate is measured at a time, while the next ones are built.

    Attributes:
        unit: Estimated cycles on emulated boards that this package starts, seconds on others.
        where: The board, or the model that estimates.
        width: Candidates in work at once.
    """

    def __init__(
        self, profile: Profile, board: str = "virtual", jobs: int | None = None, until: float = math.inf
    ) -> None:
        """Start no process and no board yet; ask a tracker for its boards.

        Args:
            profile: Profile that candidates are built for.
            board: Board as `open_board` takes it.
            jobs: Processes on this machine; as many as it has cores by default, or as the boards keep busy.
            until: Time (of `time.monotonic`) until which a board that went away is waited for.

        Raises:
            UsageError: No such board, or none that can run code for the profile.
            EnvError: llvm-mca is not installed, or the tracker does not answer.
        """
        spec = parse_spec(board)
        counting = spec.kind == "virtual"
        self.unit: Unit = "cycles" if counting else "seconds"
        self.where = _model(profile) if counting else board
        self.width = jobs or _jobs(spec)
        self._files = tempfile.TemporaryDirectory(prefix="arm-ext-tune-")
        self._folder = Path(self._files.name)
        alone = spec.kind in {"local", "ssh", "adb", "remote"}
        turns = multiprocessing.get_context("spawn").Lock() if alone else None
        site = MeasurementSite(profile, board, counting, _SESSION_SECONDS, self._folder, turns, until)
        self._workers: Workers[Job, Result] = Workers(
            functools.partial(CandidateRunner, site), self.width, _JOB_SECONDS
        )
        self._samples: dict[str, Path] = {}

    def measure(self, batch: Sequence[tuple[Task, Candidate]], on_result: OnResult = ignore) -> list[Result]:
        """Measure a batch, as `Measurer.measure` does."""
        jobs = [Job(task.workload, candidate, self._sample(task)) for task, candidate in batch]
        results: dict[int, Result] = {}

        def done(index: int, answer: Result | Lost) -> None:
            results[index] = _lost(answer) if isinstance(answer, str) else answer
            on_result(index, results[index])

        self._workers.run(jobs, done)
        if jobs and all(result.failure == "board" for result in results.values()):
            raise EnvError(results[0].detail)
        return [results[index] for index in range(len(batch))]

    def close(self) -> None:
        """End processes and boards."""
        self._workers.close()
        self._files.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def _sample(self, task: Task) -> Path:
        """Return the file with a task's sample; it is written when the task is first measured."""
        if task.key not in self._samples:
            path = self._folder / f"{task.key}.sample"
            path.write_bytes(pickle.dumps(sample(task)))
            self._samples[task.key] = path
        return self._samples[task.key]


def reach(board: str) -> None:
    """Refuse a board that cannot be reached, before any work; a board that goes away later is waited for.

    Raises:
        UsageError: No board has such a name.
        EnvError: The board does not answer, or the tracker has no board of its key.
    """
    spec = parse_spec(board)
    if spec.kind in {"ssh", "adb", "remote"}:
        with open_board(board) as opened:
            opened.connect().close()
    elif spec.kind == "tracker" and not _tracked(spec).registered():
        raise EnvError(f"no board is registered as {spec.key!r} at the tracker {spec.host}:{spec.port}")


def _lost(lost: Lost) -> Result:
    if lost == "timeout":
        return Result(None, failure="timeout", detail=f"not built and measured in {_JOB_SECONDS} s")
    return Result(None, failure="build", detail="the process that built and measured it died")


def _model(profile: Profile) -> str:
    core = profile.core
    if core.name not in CORES:
        raise UsageError(
            f"there is no cycle model for this machine's {core.name}; tune on --board local, or for "
            "a profile that `arm-ext targets` lists"
        )
    return f"virtual, {core.mca_cpu} of llvm-mca {find_mca().version}, estimate {ESTIMATE}"


def _jobs(spec: BoardSpec) -> int:
    """Return the default number of processes: two per given board, one of which measures while the other builds."""
    cores = len(os.sched_getaffinity(0))
    if spec.kind == "virtual":
        return cores
    if spec.kind == "local":
        return 1  # builds would disturb the timing
    boards = 1
    if spec.kind == "tracker":
        boards = _tracked(spec).registered()
    return min(2 * max(boards, 1), max(boards, 1) + cores)


def _tracked(spec: BoardSpec) -> TrackedBoard:
    return TrackedBoard(spec.host, spec.port, spec.key, _SESSION_SECONDS)
