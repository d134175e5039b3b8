# SPDX-License-Identifier: Apache-2.0
import hashlib
from collections import Counter
from dataclasses import replace

import pytest

from arm_ext.tune.candidate import Candidate
from arm_ext.tune.measure import Result
from arm_ext.tune.search import ROUND, tune
from arm_ext.tune.space import space
from arm_ext.tune.task import Task
from tests.arm_ext.tune.standins import StandIn, hashed, tasks


def trials_of(seed: int, trials: int | None = 30) -> list[tuple[str, Candidate]]:
    measurer = StandIn(hashed)
    tune(tasks(), measurer, seed=seed, trials=trials)
    return measurer.seen


def test_same_seed_makes_the_same_search_and_another_another():
    assert trials_of(3) == trials_of(3)
    assert trials_of(3) != trials_of(4)


def test_defaults_come_first_and_nothing_is_measured_twice():
    seen = trials_of(0, None)
    assert seen[: len(tasks())] == [(task.key, task.default) for task in tasks()]
    assert len(seen) == len(set(seen)) == sum(len(space(task)) for task in tasks())


def test_ends_after_as_many_trials():
    assert [len(trials_of(0, trials)) for trials in (1, 2, 13)] == [1, 2, 13]


def test_ends_when_time_is_over_and_after_whole_rounds():
    measurer, asked = StandIn(hashed), iter([False, False, False])
    tune(tasks(), measurer, until=lambda: next(asked, True))
    assert len(measurer.seen) == len(tasks()) + 2 * ROUND


@pytest.mark.parametrize("trials", [9, 15, 22])
def test_best_is_the_cheapest_that_was_measured(trials: int):
    measurer = StandIn(hashed)
    for progress in tune(tasks(), measurer, trials=trials):
        costs = {c: hashed(progress.task, c).cost for key, c in measurer.seen if key == progress.task.key}
        assert progress.best is not None
        assert progress.cost == costs[progress.best] == min(c for c in costs.values() if c is not None)
        assert progress.trials == len(costs)


def test_failures_are_counted_and_end_nothing():
    def cost(task: Task, candidate: Candidate) -> Result:
        if candidate != task.default and int(hashlib.sha256(candidate.text().encode()).hexdigest(), 16) % 2:
            return Result(None, failure="run", detail="died")
        return hashed(task, candidate)

    for progress in tune(tasks(), StandIn(cost)):
        assert progress.trials == len(space(progress.task))
        assert 0 < progress.failures["run"] < progress.trials


def test_task_whose_default_fails_is_searched_all_the_same():
    def cost(task: Task, candidate: Candidate) -> Result:
        return Result(None, failure="build") if candidate == task.default else hashed(task, candidate)

    for progress in tune(tasks(), StandIn(cost)):
        assert progress.default is None
        assert progress.best is not None


def test_trials_go_where_the_models_time_is():
    often = [replace(task, times=1000 if task is tasks()[1] else 1) for task in tasks()]
    measurer = StandIn(hashed)
    tune(often, measurer, trials=2 + 2 * ROUND)
    assert Counter(key for key, _ in measurer.seen)[tasks()[1].key] == 1 + 2 * ROUND


def test_likely_candidates_of_all_kinds_are_found_before_the_space_is_half_tried():
    # Tiles of four vectors are twice as fast, which the estimates do not say.
    def cost(task: Task, candidate: Candidate) -> Result:
        fast = candidate.params.vectors == 4 and candidate.params.rows == 3
        return Result(50.0 if fast else 100.0 + len(candidate.text()) % 7)

    for progress in tune(tasks(), StandIn(cost), trials=sum(len(space(task)) for task in tasks()) // 2 + 4):
        assert progress.cost <= 100.0 + 7
