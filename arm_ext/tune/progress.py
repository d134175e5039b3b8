# SPDX-License-Identifier: Apache-2.0
"""State of a tuning run, for the table that is displayed during the run."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from arm_ext.tune import search
from arm_ext.tune.candidate import Candidate
from arm_ext.tune.costs import BOUND
from arm_ext.tune.measure import Measurer, OnResult, Result, ignore
from arm_ext.tune.record import Unit
from arm_ext.tune.task import Task


@dataclass
class TaskProgress(search.SearchState):
    """State of a task in the run, and its share of the cost.

    Attributes:
        share: Share of the kernels' own estimates for one inference, at the start.
        bound: Share of the best's cost that no order of its instructions goes below, where that was estimated.
    """

    share: float = 0.0
    bound: float | None = None

    def note(self, candidate: Candidate, result: Result) -> None:
        """Record a trial's result."""
        super().note(candidate, result)
        if candidate == self.best and (bound := result.conditions.get(BOUND)):
            self.bound = float(bound)

    @property
    def gain(self) -> float | None:
        """Relative saving of the best candidate over the default; None if either is not known."""
        return None if self.default is None else 1 - self.cost / self.default


@dataclass
class Progress:
    """State of a run.

    Attributes:
        rows: A row a task, the largest share first.
        unit: Unit of the costs.
        where: Place of measurement.
        seconds_left: Until the budget is used up; None without one.
        trials: The most there may be; None without a limit.
        complaint: Message of the last candidate that failed.
    """

    rows: list[TaskProgress]
    unit: Unit
    where: str
    seconds_left: Callable[[], float | None]
    trials: int | None = None
    complaint: str = ""

    @property
    def tried(self) -> int:
        """Number of trials of all tasks."""
        return sum(row.trials for row in self.rows)

    @property
    def failures(self) -> Counter[str]:
        """Number of failures of all tasks, by kind."""
        return sum((row.failures for row in self.rows), Counter[str]())

    def totals(self) -> tuple[float, float] | None:
        """Return the cost of an inference's measured calls without tuning, and with the best candidates.

        None if unknown.
        """
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
    """Return the progress of a run that begins."""
    total = sum(task.times * task.estimate for task in tasks)
    rows = [TaskProgress(task, share=task.times * task.estimate / total if total else 0.0) for task in tasks]
    rows.sort(key=lambda row: -row.share)
    return Progress(rows, measurer.unit, measurer.where, seconds_left, trials)


class Watched:
    """A `Measurer` that reports each trial when it is done."""

    def __init__(self, inner: Measurer, progress: Progress, on_progress: OnProgress) -> None:
        self.unit, self.where = inner.unit, inner.where
        self._inner = inner
        self._progress = progress
        self._rows = {row.task.key: row for row in progress.rows}
        self._on_progress = on_progress

    def measure(self, batch: Sequence[tuple[Task, Candidate]], on_result: OnResult = ignore) -> list[Result]:
        """Measure a batch, as `Measurer.measure` does."""

        def done(index: int, result: Result) -> None:
            task, candidate = batch[index]
            self._rows[task.key].note(candidate, result)
            if result.failure:
                self._progress.complaint = f"{task.name}: {result.failure}: {result.detail}"
            self._on_progress(self._progress)
            on_result(index, result)

        return self._inner.measure(batch, done)
