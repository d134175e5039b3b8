# SPDX-License-Identifier: Apache-2.0
"""The combined tasks of a model for several shapes."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

from arm_ext.tune.task import Task
from schedules.composites.workload import Workload


def merge_tasks(buckets: Iterable[Sequence[Task]]) -> list[Task]:
    """Return each workload once, in the order of the buckets; its count is the sum over all buckets."""
    found: dict[Workload, Task] = {}
    for task in (task for tasks in buckets for task in tasks):
        known = found.get(task.workload, replace(task, times=0))
        sources = dict.fromkeys((*known.sources, *task.sources))
        found[task.workload] = replace(known, times=known.times + task.times, sources=tuple(sources))
    names: Counter[str] = Counter()
    tasks = []
    for task in found.values():
        short = task.name.rpartition(".")[0]
        names[short] += 1
        tasks.append(replace(task, name=f"{short}.{names[short]}"))
    return tasks
