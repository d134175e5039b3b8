# SPDX-License-Identifier: Apache-2.0
import math
from dataclasses import replace

from arm_ext.tune.candidate import Candidate, decode_workload
from arm_ext.tune.cost_model import Point
from arm_ext.tune.measure import Result
from arm_ext.tune.record import Record, book_of
from arm_ext.tune.search import tune
from arm_ext.tune.space import space
from arm_ext.tune.task import Task
from arm_ext.tune.transfer import distance, likely, points_of
from schedules.cores import CORES
from tests.arm_ext.tune.standins import A72, A76, StandIn, record, tasks


def cost(_task: Task, candidate: Candidate) -> Result:
    """The last tile that anyone would try is the best, and not by the estimates."""
    params = candidate.params
    return Result(10.0 if (params.rows, params.vectors) == (8, 1) else 100.0 + params.rows)


def records_of(task: Task) -> list[Record]:
    return [record(task, candidate, cost=cost(task, candidate).cost) for candidate in space(task)]


def until_best(task: Task, records: list[Record]) -> int:
    """Trials until the best candidate is measured."""
    measurer = StandIn(cost)
    tune([task], measurer, records=records)
    assert len(set(measurer.seen)) == len(measurer.seen) == len(space(task))
    return next(i for i, (_, candidate) in enumerate(measurer.seen, 1) if cost(task, candidate).cost == 10.0)


def test_another_shape_gives_a_start():
    shape, other = tasks()
    assert until_best(other, records_of(shape)) == 2 < until_best(other, [])


def test_sibling_core_gives_a_start():
    sibling = tasks(A72)[0]
    assert until_best(sibling, records_of(tasks(A76)[0])) == 2 < until_best(sibling, [])


def test_records_of_the_task_itself_change_nothing():
    task = tasks()[0]
    assert points_of(records_of(task), {(task.key, records_of(task)[0].book)}) == []
    assert book_of(A76) != records_of(task)[0].book  # of another version of TVM


def test_nearer_sizes_come_first_and_other_operators_never():
    task = tasks()[0]
    point = Point(task.workload, A76.core, task.default, task.default)
    rows, columns = task.workload.output_shape
    doubled = replace(task.workload, output_shape=(rows, 2 * columns))
    assert distance(task, point) == 0.0
    assert distance(task, replace(point, workload=doubled)) == 1.0
    assert 0.0 < distance(task, replace(point, core=CORES["cortex-a72"])) < 1.0
    assert distance(task, replace(point, workload=replace(doubled, composite="arm.conv2d"))) == math.inf
    near, far = space(task)[1:3]
    known = [(replace(point, workload=doubled, candidate=far), 0.5), (replace(point, candidate=near), 0.9)]
    assert likely(task, known) == [near, far]


def test_records_without_a_default_or_of_another_version_are_passed_over():
    task = tasks()[0]
    other = space(task)[1]
    assert points_of([record(task, other)], ()) == []
    stale = record(task, other).model_copy(update={"candidate": {"kernel": "gone", "params": {}}})
    assert [point.candidate for point, _ in points_of([record(task), stale], ())] == [task.default]
    assert decode_workload(record(task).workload) == task.workload
