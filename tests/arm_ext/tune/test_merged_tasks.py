# SPDX-License-Identifier: Apache-2.0
from arm_ext.frontends.load import import_model
from arm_ext.pipeline.phases import PhaseOptions
from arm_ext.target.profiles import resolve
from arm_ext.tune.merged_tasks import merge_tasks
from arm_ext.tune.task import extract
from tests.arm_ext.models import mlp


def test_a_workload_of_several_shapes_is_one_task_and_names_are_one_each():
    options = PhaseOptions(resolve("cortex-a76"))
    first, second = (extract(import_model(mlp("n"), {"x": (n, 31)}).mod, options) for n in (7, 14))
    together = merge_tasks([first, second, first])
    assert [task.workload for task in together] == [task.workload for task in (*first, *second)]
    assert [task.times for task in together] == [2] * len(first) + [1] * len(second)
    assert len({task.name for task in together}) == len(together)
