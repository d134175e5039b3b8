# SPDX-License-Identifier: Apache-2.0
"""Report of a tuning run."""

from collections.abc import Sequence
from typing import Literal

from arm_ext.common.json_record import ClosedRecord
from arm_ext.target.profiles import Profile
from arm_ext.tune.progress import Progress, TaskProgress
from arm_ext.tune.record import Unit

Stopped = Literal["done", "budget", "interrupted"]


class TaskReport(ClosedRecord):
    """Result of a task in a run.

    Attributes:
        task: Name of the task in the run.
        key: Key of the task in the database.
        sources: Source nodes that it computes.
        times: Number of calls in one inference.
        share: Share of one inference, by the kernels' own estimates.
        trials: Number of tried candidates, including failed ones.
        default: Cost of one call without tuning; None if it was not measured.
        best: Cost of the fastest candidate; None if none was measured.
        candidate: The fastest candidate.
        bound: Share of `best` that no order of the same instructions goes below, where that was estimated.
        failures: How many failed, by kind.
    """

    task: str
    key: str
    sources: list[str]
    times: int
    share: float
    trials: int
    default: float | None
    best: float | None
    candidate: str | None
    bound: float | None
    failures: dict[str, int]


class TuneReport(ClosedRecord):
    """Report of a tuning run.

    Attributes:
        model: Name of the model.
        target: Name of the profile.
        core: Name of the profile's core.
        unit: Unit of all costs; an estimate is no time on a board.
        where: Place of measurement.
        db: The database's folder.
        seed: Seed of the search.
        stopped: Why it ended: the search was done or out of trials, the budget was used up, or it was interrupted.
        seconds: Seconds that the run took.
        trials: Number of tried candidates.
        reused: Number of these whose result the database had already.
        failures: Number of failed candidates by kind of failure.
        before: Cost without tuning of one inference's calls of all measured tasks.
        after: Cost of the same calls with the best candidates.
        bound: Lower bound of `after` for any order of the candidates' instructions, as a share, if it was
            estimated.
        tasks: One row per task.
    """

    schema_version: Literal[1] = 1
    model: str
    target: str
    core: str
    unit: Unit
    where: str
    db: str
    seed: int
    stopped: Stopped
    seconds: float
    trials: int
    reused: int
    failures: dict[str, int]
    before: float | None
    after: float | None
    bound: float | None
    tasks: list[TaskReport]


def make_report(
    progress: Progress,
    *,
    model: str,
    profile: Profile,
    db: str,
    seed: int,
    stopped: Stopped,
    seconds: float,
    reused: int,
) -> TuneReport:
    """Return the report of a run."""
    totals = progress.totals()
    return TuneReport(
        model=model,
        target=profile.name,
        core=profile.core.name,
        unit=progress.unit,
        where=progress.where,
        db=db,
        seed=seed,
        stopped=stopped,
        seconds=round(seconds, 1),
        trials=progress.tried,
        reused=reused,
        failures=dict(progress.failures),
        before=totals and totals[0],
        after=totals and totals[1],
        bound=_bound(progress.rows),
        tasks=[_task_report(row) for row in progress.rows],
    )


def _bound(rows: Sequence[TaskProgress]) -> float | None:
    costs = [(row.task.times * row.cost, row.bound) for row in rows if row.bound is not None]
    return sum(cost * bound for cost, bound in costs) / sum(cost for cost, _ in costs) if costs else None


def _task_report(row: TaskProgress) -> TaskReport:
    """Return a row of the progress as a row of the report."""
    return TaskReport(
        task=row.task.name,
        key=row.task.key,
        sources=list(row.task.sources),
        times=row.task.times,
        share=row.share,
        trials=row.trials,
        default=row.default,
        best=None if row.best is None else row.cost,
        candidate=None if row.best is None else row.best.text(),
        bound=row.bound,
        failures=dict(row.failures),
    )
