# SPDX-License-Identifier: Apache-2.0
"""Tasks of a small model, records, and measurers that need no board."""

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from arm_ext.board import Board
from arm_ext.frontends.load import import_model
from arm_ext.pipeline.phases import PhaseOptions
from arm_ext.target.profiles import Profile, resolve
from arm_ext.tune.candidate import Candidate, encode_workload
from arm_ext.tune.candidate_runner import CandidateRunner
from arm_ext.tune.measure import OnResult, Result, ignore
from arm_ext.tune.record import Record, Unit
from arm_ext.tune.task import Task, extract
from tests.arm_ext import models

A76 = resolve("cortex-a76")
A72 = resolve("cortex-a72")
MODEL = "virtual, a model"


@cache
def tasks(profile: Profile = A76) -> tuple[Task, ...]:
    """The two linear layers of a small network."""
    return tuple(extract(import_model(models.mlp()).mod, PhaseOptions(profile)))


def record(task: Task, candidate: Candidate | None = None, **fields: object) -> Record:
    """A record of the default, with other fields if wanted."""
    usual: dict[str, object] = {
        "task": task.key,
        "workload": encode_workload(task.workload),
        "candidate": (candidate or task.default).encode(),
        "default": candidate in (None, task.default),
        "core": task.profile.core.name,
        "features": task.profile.features,
        "tvm": "0.27",
        "unit": "cycles",
        "where": MODEL,
        "cost": 100.0,
        "when": "2026-01-01T00:00:00+00:00",
        "seed": 0,
    }
    return Record.model_validate(usual | fields)


class StandIn:
    """Measures by a function of the candidate; each call is noted in `seen`."""

    def __init__(
        self, cost: Callable[[Task, Candidate], Result], unit: Unit = "cycles", where: str = MODEL
    ) -> None:
        self.unit, self.where = unit, where
        self.seen: list[tuple[str, Candidate]] = []
        self._cost = cost

    def measure(self, batch: Sequence[tuple[Task, Candidate]], on_result: OnResult = ignore) -> list[Result]:
        results = []
        for index, (task, candidate) in enumerate(batch):
            self.seen.append((task.key, candidate))
            results.append(self._cost(task, candidate))
            on_result(index, results[-1])
        return results


class RunnerOnEmulators(CandidateRunner):
    """Takes the times of emulated boards, for tests of what boards do and not of how fast they are."""

    def _open(self) -> Board:
        board = super()._open()
        board.require_real = lambda info: None  # type: ignore[method-assign]
        return board


def hashed(_task: Task, candidate: Candidate) -> Result:
    """A cost between 50 and 150 that is always the same."""
    digest = hashlib.sha256(candidate.text().encode()).digest()
    return Result(50.0 + digest[0] * 100 / 255, instructions=7)


def model_file(folder: Path) -> Path:
    """The small network as a file."""
    path = folder / "mlp.onnx"
    path.write_bytes(models.mlp().SerializeToString())
    return path
