# SPDX-License-Identifier: Apache-2.0
"""Transfer of records of other shapes and cores to a task without records: the candidates to try first."""

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

from arm_ext.tune.candidate import Candidate, decode_workload
from arm_ext.tune.cost_model import Point
from arm_ext.tune.record import Record
from arm_ext.tune.task import Task
from schedules.composites.workload import Workload
from schedules.cores import CORES

NEIGHBOURS = 4
"""Number of records that a task starts from."""

OTHER_CORE = 0.5
"""Distance of another core, in doublings of a size."""

OTHER_ATTRIBUTE = 1.0
"""Distance of another stride, padding or epilogue step, in doublings of a size."""

Known = Sequence[tuple[Point, float]]
"""Measured candidates with their cost as a multiple of the default's."""


def points_of(records: Sequence[Record], without: Collection[tuple[str, str]]) -> list[tuple[Point, float]]:
    """Return records as training points of the cost model, if their task's default was measured in the same place.

    Args:
        records: Records of any task, core and age; those of other versions of a kernel are left out.
        without: Task and book whose records are left out.
    """
    places: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        if record.cost is not None and (record.task, record.book) not in without and record.core in CORES:
            places.setdefault((record.task, record.book, record.where), []).append(record)
    found = []
    for group in places.values():
        default = next((record for record in group if record.default), None)
        for record in group if default else ():
            point = _point(record, default)
            if point is not None and default is not None and default.cost and record.cost:
                found.append((point, record.cost / default.cost))
    return found


def likely(task: Task, known: Known) -> list[Candidate]:
    """Return the best candidates of the nearest workloads, nearest first."""
    best: dict[tuple[Workload, str], tuple[float, Point]] = {}
    for point, ratio in known:
        place = (point.workload, point.core.name)
        if place not in best or ratio < best[place][0]:
            best[place] = (ratio, point)
    ranked = sorted(
        ((distance(task, point), point.candidate) for _, point in best.values()), key=lambda pair: pair[0]
    )
    near = (candidate for far, candidate in ranked if math.isfinite(far))
    return list(dict.fromkeys(near))[:NEIGHBOURS]


def distance(task: Task, point: Point) -> float:
    """Return the distance of a point from a task, in doublings of sizes; infinite for other composites."""
    own, other = task.workload, point.workload
    sizes = [_sizes(workload) for workload in (own, other)]
    if own.composite != other.composite or len(sizes[0]) != len(sizes[1]):
        return math.inf
    doublings = sum(abs(math.log2(a / b)) for a, b in zip(*sizes, strict=True))
    differing = sum(a != b for a, b in zip(own.attributes, other.attributes, strict=False))
    steps = [{step.name for step in workload.epilogue} for workload in (own, other)]
    differing += len(steps[0] ^ steps[1])
    return doublings + OTHER_ATTRIBUTE * differing + OTHER_CORE * (task.profile.core.name != point.core.name)


def _sizes(workload: Workload) -> list[int]:
    shapes = (workload.output_shape, *(operand.shape for operand in workload.operands))
    return [max(1, size) for shape in shapes for size in shape]


def _point(record: Record, default: Record | None) -> Point | None:
    if default is None:
        return None
    core = replace(CORES[record.core], features=record.features)
    try:
        workload = decode_workload(record.workload)
        return Point(workload, core, Candidate.decode(record.candidate), Candidate.decode(default.candidate))
    except ValueError:
        return None
