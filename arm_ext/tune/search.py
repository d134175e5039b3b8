# SPDX-License-Identifier: Apache-2.0
"""The search: selection of the next candidates to measure, over all tasks of a model.

The default of each task is measured first. Then rounds of a task each: the candidates that the nearest tasks' records
make likely, next those that the cost model holds fastest, and a few at random, so that the model sees what it
would not have chosen. The task of a round is the one of which the whole model's time may fall most, by what its last
trials gained and by what it still takes (the gradient of Ansor, Zheng et al., OSDI 2020, equation 2).

No candidate of a round is a mutation of the best ones so far. Among 196 points of a float32 product in blocks of k
(24 x 1024 x 96 on Cortex-A53), the best of 16, 32 and 64 trials is 1.0, 0.1 and 0.0 % slower than the best of all, in
the mean of eight seeds; at random 2.3, 1.5 and 1.0 %; and 1.2, 0.4 and 0.0 % if two of a round differ in one parameter
from the best three so far. For traces of an einsum and a sine, 64 trials with five of eight made by MetaSchedule's
mutators came to 19.9 thousand cycles, and draws alone to 17.0, with one seed.

All of that is a function of tasks, seed, records and costs: the same of these make the same search. Time decides only
where it ends. What was measured before comes from the database, by the measurer, so that a search that is run
again goes the same way without measuring, and goes on from there.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from arm_ext.tune.candidate import Candidate
from arm_ext.tune.cost_model import CostModel, Point
from arm_ext.tune.measure import Measurer, Result
from arm_ext.tune.record import Record, book_of
from arm_ext.tune.space import counterpart, space
from arm_ext.tune.task import Task
from arm_ext.tune.transfer import Known, likely, points_of

ROUND = 8
"""Candidates of a round: few, since each round chooses by all that was measured before."""

AT_RANDOM = 2
"""Candidates of a round that are drawn at random: a quarter, as spaces are small and estimates good."""

MOMENTUM = 0.2
"""Weight of the gain of the last trials, against that of the task's remaining cost (alpha in Ansor)."""

WINDOW = 3 * ROUND
"""Number of last trials whose gain counts."""


@dataclass
class SearchState:
    """State of the search for one task.

    Attributes:
        task: The task that is tuned.
        default: Cost of what is taken without tuning; None if that failed or is not measured yet.
        best: The fastest candidate so far.
        cost: Cost of the fastest candidate.
        trials: Number of measured candidates.
        failures: How many failed, by kind.
    """

    task: Task
    default: float | None = None
    best: Candidate | None = None
    cost: float = math.inf
    trials: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    _costs: list[float] = field(default_factory=list)

    def note(self, candidate: Candidate, result: Result) -> None:
        """Record a trial's result."""
        self.trials += 1
        if result.cost is None:
            self.failures[result.failure] += 1
        elif result.cost < self.cost:
            self.best, self.cost = candidate, result.cost
        if candidate == self.task.default:
            self.default = result.cost
        self._costs.append(self.cost)

    def gradient(self) -> float:
        """Return the expected saving of a further trial for the whole model, in units of cost."""
        if not math.isfinite(self.cost):
            # A task is abandoned after a round without a successful trial.
            return math.inf if self.trials <= ROUND else 0.0
        before = self._costs[max(0, len(self._costs) - 1 - WINDOW)]
        recent = (before - self.cost) / min(WINDOW, len(self._costs)) if math.isfinite(before) else 0.0
        return self.task.times * (MOMENTUM * recent + (1 - MOMENTUM) * self.cost / self.trials)


@dataclass
class _Search:
    """A task with the candidates that are not tried yet; `first` has those that other tasks' records suggest."""

    state: SearchState
    seed: int
    left: list[Point]
    first: list[Point]

    @classmethod
    def of(cls, task: Task, seed: int, known: Known) -> "_Search":
        """Return the search for a task, before the first trial."""
        points = {
            candidate: Point(task.workload, task.profile.core, candidate, task.default)
            for candidate in space(task)[1:]
        }
        found = (counterpart(candidate, list(points)) for candidate in likely(task, known))
        first = dict.fromkeys(points[candidate] for candidate in found if candidate is not None)
        return cls(SearchState(task), seed, [p for p in points.values() if p not in first], list(first))

    def propose(self, count: int, model: CostModel) -> list[Point]:
        """Return the next points, and remove them from those that are left."""
        taken, self.first = self.first[:count], self.first[count:]
        order = list(np.argsort(model.predict(self.left), kind="stable"))
        chosen = order[: max(0, count - len(taken) - AT_RANDOM)]
        # Each round has its own random generator, so that the order of tasks does not change their candidates.
        random = np.random.default_rng([self.seed, int(self.state.task.key, 16), self.state.trials])
        chosen += list(random.permutation(order[len(chosen) :]))[: count - len(taken) - len(chosen)]
        taken += [self.left[index] for index in chosen]
        self.left = [point for index, point in enumerate(self.left) if index not in chosen]
        return taken


@dataclass
class _SearchRun:
    """State of a run: all tasks, the cost model, and the number of remaining trials."""

    searches: Sequence[_Search]
    model: CostModel
    measurer: Measurer
    trials: float
    until: Callable[[], bool]

    def room(self) -> int:
        """Return the maximum number of candidates in the next round."""
        spent = sum(search.state.trials for search in self.searches)
        return 0 if self.until() else int(min(ROUND, self.trials - spent))

    def next(self) -> _Search | None:
        """Return the task of the next round; None if all tasks are exhausted or abandoned."""
        open_ = [each for each in self.searches if (each.first or each.left) and each.state.gradient()]
        return max(open_, key=lambda search: search.state.gradient(), default=None)

    def measure(self, batch: Sequence[tuple[_Search, Point]]) -> None:
        """Measure a round, and train the cost model with it."""
        asked = [(search.state.task, point.candidate) for search, point in batch]
        learnt = []
        for (search, point), result in zip(batch, self.measurer.measure(asked), strict=True):
            search.state.note(point.candidate, result)
            if result.cost is not None and search.state.default:
                learnt.append((point, result.cost / search.state.default))
        self.model.add(learnt)


def never() -> bool:
    """Return False; the stop condition of a search without a time limit."""
    return False


def tune(
    tasks: Sequence[Task],
    measurer: Measurer,
    *,
    seed: int = 0,
    trials: int | None = None,
    until: Callable[[], bool] = never,
    records: Sequence[Record] = (),
) -> list[SearchState]:
    """Search for the fastest candidate of each task; return the final state of each task.

    Args:
        tasks: The tasks to tune.
        measurer: Measures candidates.
        seed: Seed of random choices.
        trials: How many candidates to measure at most, over all tasks; without a limit, until every space is exhausted.
        until: Asked before each round whether to end.
        records: Records of earlier searches, for any target: those of the tasks themselves for this one are left aside,
            as the measurer has them.

    Returns:
        How far each task came, in the order of `tasks`.

    Raises:
        EnvError: As the measurer does.
    """
    known = points_of(records, {(task.key, book_of(task.profile)) for task in tasks})
    model = CostModel()
    model.add(known)
    searches = [_Search.of(task, seed, known) for task in tasks]
    run = _SearchRun(searches, model, measurer, math.inf if trials is None else trials, until)
    waiting = [(each, _default(each.state.task)) for each in searches]
    while waiting and (count := run.room()):
        run.measure(waiting[:count])
        waiting = waiting[count:]
    while (count := run.room()) and (search := run.next()):
        run.measure([(search, point) for point in search.propose(count, model)])
    return [search.state for search in searches]


def _default(task: Task) -> Point:
    return Point(task.workload, task.profile.core, task.default, task.default)
