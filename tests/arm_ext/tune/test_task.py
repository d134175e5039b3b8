# SPDX-License-Identifier: Apache-2.0
import numpy as np
from onnx import helper

from arm_ext.api import digits
from arm_ext.frontends.load import import_model
from arm_ext.pipeline.phases import PhaseOptions
from arm_ext.target.profiles import resolve
from arm_ext.tune.task import extract
from schedules.select import kernel_named
from tests.arm_ext.models import model
from tests.arm_ext.tune.standins import A72, A76, tasks


def test_equal_layers_are_one_task():
    weights = {name: np.ones((8, 8), np.float32) * (index + 1) for index, name in enumerate("uv")}
    nodes = [
        helper.make_node("MatMul", ["x", "u"], ["h"], "first"),
        helper.make_node("MatMul", ["h", "v"], ["y"], "second"),
    ]
    (task,) = extract(import_model(model(nodes, {"x": [3, 8]}, ["y"], weights)).mod, PhaseOptions(A76))
    assert (task.name, task.times, sorted(task.sources)) == ("linear.1", 2, ["first", "second"])
    # The constants are those of one of them.
    assert len(np.unique(task.constants[0])) == 1


def test_default_is_the_cheapest_kernels_and_others_are_listed():
    found = extract(import_model(digits.model_path("int8")).mod, PhaseOptions(resolve("neoverse-n2")))
    for task in found:
        assert task.default.kernel in task.kernels
        estimates = [
            kernel.estimate(
                task.workload, kernel.default(task.workload, task.profile.core), task.profile.core
            )
            for kernel in map(kernel_named, task.kernels)
        ]
        assert task.estimate == min(estimates)
    assert {"gemm_s8_mmla", "gemm_s8_sdot", "gemm_s8_mlal"} <= set(found[0].kernels)


def test_key_is_of_the_workload_alone():
    assert [task.key for task in tasks(A76)] == [task.key for task in tasks(A72)]
    assert len({task.key for task in tasks(A76)}) == 2


def test_kernel_that_is_switched_off_is_none_of_them():
    options = PhaseOptions(resolve("neoverse-n2"), without=("gemm_s8_mmla",))
    for task in extract(import_model(digits.model_path("int8")).mod, options):
        assert "gemm_s8_mmla" not in (task.default.kernel, *task.kernels)
