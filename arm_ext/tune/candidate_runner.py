# SPDX-License-Identifier: Apache-2.0
"""Measurement of a candidate in a worker process: build, check instructions, load, check values, measure."""

import math
import multiprocessing
import pickle
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm

from arm_ext.board import Board, open_board
from arm_ext.board.session import BoardLostError, BoardSession, SessionTimeoutError
from arm_ext.pipeline import codegen
from arm_ext.target.isa import check_isa
from arm_ext.target.profiles import Profile
from arm_ext.target.toolchain import LibraryLinker
from arm_ext.tune.candidate import Candidate, build
from arm_ext.tune.costs import Cost, Cycles, Loaded, seconds
from arm_ext.tune.measure import Result
from arm_ext.tune.record import Failure
from arm_ext.tune.reference import Sample
from schedules.composites.workload import Workload

# Time limit for a board that is away; restarting one takes a minute.
AWAY_SECONDS = 90
_POLL_SECONDS = 1
# Time between the closing of a process's pipes and its end.
_ENDING_SECONDS = 0.1
# A candidate whose board is lost is tried only once more, since the candidate may have crashed the board.
_ATTEMPTS = 2


@dataclass(frozen=True)
class MeasurementSite:
    """Place where candidates are measured; can be pickled.

    Attributes:
        profile: Profile that they are built for.
        board: Board as `open_board` takes it.
        counting: Whether the board counts; else it times.
        seconds: Most seconds that a session may last.
        folder: Folder for files; its creator removes it.
        turns: A lock where there is one board for all workers that serves one at a time.
        until: Time (of `monotonic`) until which a board that is away is waited for.
    """

    profile: Profile
    board: str
    counting: bool
    seconds: float
    folder: Path
    turns: AbstractContextManager[Any] | None = None
    until: float = math.inf


@dataclass(frozen=True)
class Job:
    """A candidate to be measured.

    Attributes:
        workload: The workload that it computes.
        candidate: Kernel and parameters to measure.
        sample: File with the task's pickled `Sample`.
    """

    workload: Workload
    candidate: Candidate
    sample: Path


class FailedError(Exception):
    """A step of a candidate's measurement failed; `kind` names the step."""

    def __init__(self, kind: Failure, error: Exception | str) -> None:
        # In TVM's errors the last line is the message; in those of TVMScript an underline follows.
        lines = [line.strip() for line in str(error).splitlines() if any(map(str.isalnum, line))]
        super().__init__(lines[-1] if lines else type(error).__name__)
        self.kind = kind


class CandidateRunner:
    """Function that measures candidates one after the other, on its own board or on one shared by all workers."""

    def __init__(self, site: MeasurementSite, cost: Cost | None = None) -> None:
        """Store the site; the board is opened for the first candidate.

        Args:
            site: Place of measurement.
            cost: Measures a loaded candidate; by default cycles where the site counts, and seconds elsewhere.
        """
        self._site = site
        self._target = site.profile.tvm_target()
        self._folder = Path(tempfile.mkdtemp(dir=site.folder))
        self._board: Board | None = None
        self._cost = cost or (Cycles(site.profile.core) if site.counting else seconds)

    def __call__(self, job: Job) -> Result:
        """Return the candidate's cost, or what failed."""
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        try:
            sample = _read(job.sample)
            with _failing("build"):
                name, so, packed = self._build(job, sample, folder)
            with _failing("isa"):
                check_isa(so, self._site.profile.features)
            return self._measure(name, so, sample, packed)
        except FailedError as failed:
            return Result(None, failure=failed.kind, detail=str(failed))
        finally:
            shutil.rmtree(folder)

    def close(self) -> None:
        """Close the board if this object opened it, and remove its files."""
        if self._board is not None:
            self._board.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        parent = multiprocessing.parent_process()
        if parent is not None:
            parent.join(_ENDING_SECONDS)
            if not parent.is_alive():  # the parent was killed, and can no longer remove its folder
                shutil.rmtree(self._site.folder, ignore_errors=True)

    def _build(
        self, job: Job, sample: Sample, folder: Path
    ) -> tuple[str, Path, tuple[npt.NDArray[Any], ...]]:
        func, packed = build(job.workload, job.candidate, sample.constants, self._target)
        name = str(func.attrs["global_symbol"])
        module = tvm.tirx.build(
            tvm.IRModule({name: func}), target=self._target, pipeline=codegen.registered()
        )
        so = folder / "model.so"
        module.export_library(str(so), fcompile=LibraryLinker(self._site.profile.triple))
        return name, so, packed

    def _measure(self, name: str, so: Path, sample: Sample, packed: tuple[npt.NDArray[Any], ...]) -> Result:
        for attempt in range(_ATTEMPTS):
            with self._site.turns or nullcontext():
                session = self._connect()
                try:
                    return self._at(session, name, so, sample, packed)
                except BoardLostError as error:
                    if attempt + 1 == _ATTEMPTS:
                        raise FailedError("run", error) from error
                finally:
                    session.close()
        raise AssertionError("unreachable")

    def _at(
        self, session: BoardSession, name: str, so: Path, sample: Sample, packed: tuple[npt.NDArray[Any], ...]
    ) -> Result:
        board, info = self._open(), None
        if not self._site.counting:
            with _failing("board"):
                info = board.ask(session)
                board.require_real(info)
                board.require(self._site.profile.features, info)
        with _failing("load"):
            module = session.load(so)
            device = session.device()
            with session.guard():
                values = [np.ascontiguousarray(value) for value in (*sample.inputs, *packed)]
                output = sample.unwritten()
                arguments = [tvm.runtime.tensor(value, device) for value in (*values, output)]
        with _failing("run"):
            with session.guard():
                module[name](*arguments)
                actual = arguments[-1].numpy()
            if fault := sample.fault(actual):
                raise FailedError("wrong values", fault)
            return self._cost(Loaded(session, info, board.dump, module, name, arguments, so))

    def _connect(self) -> BoardSession:
        """Return a session; wait for a board that is away."""
        deadline = min(monotonic() + AWAY_SECONDS, self._site.until)
        while True:
            try:
                with _failing("board"):
                    return self._open().connect()
            except BoardLostError as error:
                if monotonic() > deadline:
                    raise FailedError("board", error) from error
            # A virtual board of this process that another process has terminated.
            if self._board is not None and self._board.emulated:
                self._board.close()
                self._board = None
            sleep(_POLL_SECONDS)

    def _open(self) -> Board:
        if self._board is None:
            site, core = self._site, self._site.profile.core
            self._board = open_board(
                site.board,
                profile=site.profile.name,
                profile_cpu=site.profile.qemu_cpu,
                counting=site.counting,
                caches=(core.l1d.size, core.l2.size) if site.counting else None,
                timeout=site.seconds,
            )
            if site.counting:
                self._board.require(site.profile.features)
        return self._board


@contextmanager
def _failing(kind: Failure) -> Iterator[None]:
    """Open a scope in which exceptions become a FailedError of this kind, except for the loss of a board."""
    try:
        yield
    except (FailedError, BoardLostError):
        raise
    except SessionTimeoutError as error:
        raise FailedError("timeout", error) from error
    except Exception as error:
        raise FailedError(kind, error) from error


@lru_cache(maxsize=4)  # as many tasks as current batches have
def _read(path: Path) -> Sample:
    sample: Sample = pickle.loads(path.read_bytes())
    return sample
