# SPDX-License-Identifier: Apache-2.0
import numpy as np

from arm_ext.tune.cost_model import LEAST_SAMPLES, CostModel, Point
from arm_ext.tune.space import space
from tests.arm_ext.tune.standins import A72, A76, tasks

POINTS = [
    Point(task.workload, profile.core, candidate, task.default)
    for profile in (A76, A72)
    for task in tasks(profile)
    for candidate in space(task)
]


def planted(point: Point) -> float:
    """A rule that no estimate has: three rows are good, and four vectors."""
    params = point.candidate.params
    return (0.5 if params.rows == 3 else 1.0) * (0.8 if params.vectors == 4 else 1.0)


def measured(points: list[Point]) -> list[tuple[Point, float]]:
    return [(point, planted(point)) for point in points]


def test_estimates_rank_as_long_as_little_is_known():
    model = CostModel()
    model.add(measured(POINTS[: LEAST_SAMPLES - 1]))
    assert model.predict(POINTS).tolist() == [point.ratio for point in POINTS]


def test_rule_is_learnt_and_holds_for_another_task_and_core():
    known = [point for point in POINTS if point.core is A76.core]
    model = CostModel()
    model.add(measured(known))
    others = [point for point in POINTS if point.core is A72.core]
    predicted, truth = model.predict(others), np.array([planted(point) for point in others])
    assert truth[np.argsort(predicted)[:2]].max() < 0.6
    assert np.corrcoef(predicted, truth)[0, 1] > 0.9


def test_same_samples_give_the_same_predictions():
    def predicted() -> list[float]:
        model = CostModel()
        model.add(measured(POINTS))
        return list(model.predict(POINTS))

    assert predicted() == predicted()
