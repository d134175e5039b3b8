# SPDX-License-Identifier: Apache-2.0
"""Repeated measurement of each task's best candidates in a database, for example on a real board."""

from collections.abc import Callable, Iterable, Sequence

from arm_ext.tune.candidate import Candidate
from arm_ext.tune.database import same_candidate
from arm_ext.tune.measure import Measurer
from arm_ext.tune.record import Record
from arm_ext.tune.task import Task


def rerank(
    tasks: Sequence[Task],
    measurer: Measurer,
    records: Sequence[Record],
    top: int,
    until: Callable[[], bool],
) -> None:
    """Measure the default and the best candidates of each task.

    Args:
        tasks: Tasks to measure; one without records is skipped.
        measurer: Measures candidates and records the results.
        records: Records for the target of these tasks, with costs in another unit than the measurer's or from
            other places.
        top: How many candidates of each task to measure.
        until: Whether to stop, asked before each task.
    """
    for task in tasks:
        if until():
            return
        others = [
            record
            for record in records
            if record.task == task.key and (record.unit, record.where) != (measurer.unit, measurer.where)
        ]
        if others:
            best = [candidate for candidate in fastest(others, top) if candidate != task.default]
            measurer.measure([(task, candidate) for candidate in [task.default, *best]])


def fastest(records: Iterable[Record], top: int) -> list[Candidate]:
    """Return the candidates with the lowest costs, without duplicates and those that this version does not support."""
    right = sorted((r for r in records if r.cost is not None), key=lambda record: record.cost or 0.0)
    found: dict[str, Candidate] = {}
    for record in right:
        if len(found) == top:
            break
        try:
            found.setdefault(same_candidate(record.candidate), Candidate.decode(record.candidate))
        except ValueError:
            continue
    return list(found.values())
