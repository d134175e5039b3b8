# SPDX-License-Identifier: Apache-2.0
"""Where a tuning run stands: what the table shows while it runs, and its report afterwards."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict

from arm_ext.target.profiles import Profile
from arm_ext.tune import search
from arm_ext.tune.candidate import Candidate
from arm_ext.tune.costs import BOUND
from arm_ext.tune.measure import Measurer, OnResult, Result, ignore
from arm_ext.tune.record import Unit
from arm_ext.tune.task import Task

Stopped = Literal["done", "budget", "interrupted"]


@dataclass
class Row(search.Progress):
    """A task so far, with its share.

    Attributes:
        share: Of the kernels' own estimates for one inference, at the start.
        bound: Share of the best's cost that no order of its instructions goes below, where that was estimated.
    """

    share: float = 0.0
    bound: float | None = None

    def note(self, candidate: Candidate, result: Result) -> None:
        """Takes a result in."""
        super().note(candidate, result)
        if candidate == self.best and (bound := result.conditions.get(BOUND)):
            self.bound = float(bound)

    @property
    def gain(self) -> float | None:
        """What the best takes less than the default, as a share of that; None if either is not known."""
        return None if self.default is None else 1 - self.cost / self.default


@dataclass
class Progress:
    """A run so far.

    Attributes:
        rows: A row a task, the largest share first.
        unit: Of the costs.
        where: Where they are measured.
        seconds_left: Until the budget is used up; None without one.
        trials: The most there may be; None without a limit.
        complaint: Message of the last candidate that failed.
    """

    rows: list[Row]
    unit: Unit
    where: str
    seconds_left: Callable[[], float | None]
    trials: int | None = None
    complaint: str = ""

    @property
    def tried(self) -> int:
        """Trials of all tasks."""
        return sum(row.trials for row in self.rows)

    @property
    def failures(self) -> Counter[str]:
        """Of all tasks."""
        return sum((row.failures for row in self.rows), Counter[str]())

    def totals(self) -> tuple[float, float] | None:
        """Costs of an inference's calls of all tasks that were measured, by default and by the best."""
        known = [(row.task.times, row.default, row.cost) for row in self.rows if row.default is not None]
        if not known:
            return None
        return sum(times * cost for times, cost, _ in known), sum(times * cost for times, _, cost in known)


OnProgress = Callable[[Progress], None]


def start(
    tasks: Sequence[Task],
    measurer: Measurer,
    seconds_left: Callable[[], float | None],
    trials: int | None,
) -> Progress:
    """The progress of a run that begins."""
    total = sum(task.times * task.estimate for task in tasks)
    rows = [Row(task, share=task.times * task.estimate / total if total else 0.0) for task in tasks]
    rows.sort(key=lambda row: -row.share)
    return Progress(rows, measurer.unit, measurer.where, seconds_left, trials)


class Watched:
    """A `Measurer` that tells of each trial as it is done."""

    def __init__(self, inner: Measurer, progress: Progress, on_progress: OnProgress) -> None:
        self.unit, self.where = inner.unit, inner.where
        self._inner = inner
        self._progress = progress
        self._rows = {row.task.key: row for row in progress.rows}
        self._on_progress = on_progress

    def measure(self, batch: Sequence[tuple[Task, Candidate]], on_result: OnResult = ignore) -> list[Result]:
        """Measures a batch; see `Measurer`."""

        def done(index: int, result: Result) -> None:
            task, candidate = batch[index]
            self._rows[task.key].note(candidate, result)
            if result.failure:
                self._progress.complaint = f"{task.name}: {result.failure}: {result.detail}"
            self._on_progress(self._progress)
            on_result(index, result)

        return self._inner.measure(batch, done)


class _Report(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TaskReport(_Report):
    """A task after the run.

    Attributes:
        task: Its name in the run.
        key: Its name in the database.
        sources: The model's nodes that it computes.
        times: Calls of it in one inference.
        share: Of the kernels' own estimates for one inference.
        trials: Candidates tried, failed ones included.
        default: Cost of one call without tuning; None if it was not measured.
        best: Of the fastest candidate; None if none was measured.
        candidate: That candidate.
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


class TuneReport(_Report):
    """What a run came to.

    Attributes:
        model: Its name.
        target: The profile.
        core: Its core.
        unit: Of all costs; an estimate is no time on a board.
        where: Where they were measured.
        db: The database's folder.
        seed: Of the search.
        stopped: Why it ended: the search was done or out of trials, the budget was used up, or it was interrupted.
        seconds: That it took.
        trials: Candidates tried.
        reused: Of these those whose result the database had.
        failures: By kind.
        before: Of one inference's calls of all tasks that were measured, without tuning.
        after: Likewise, by the best candidates.
        bound: Share of that which no order of their instructions goes below, where it was estimated.
        tasks: A row a task.
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
    """A run as it is reported; see `TuneReport`."""
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


def _bound(rows: Sequence[Row]) -> float | None:
    costs = [(row.task.times * row.cost, row.bound) for row in rows if row.bound is not None]
    return sum(cost * bound for cost, bound in costs) / sum(cost for cost, _ in costs) if costs else None


def _task_report(row: Row) -> TaskReport:
    """A row as it is reported."""
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
