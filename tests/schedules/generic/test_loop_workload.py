# SPDX-License-Identifier: Apache-2.0
"""Operators that no kernel takes: their tasks, what MetaSchedule draws for them, and packages by its records."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper
from tvm import relax, tirx

import arm_ext
from arm_ext.frontends.load import import_model
from arm_ext.pipeline.phases import PhaseOptions
from arm_ext.tune.candidate import Candidate, build
from arm_ext.tune.database import Database
from arm_ext.tune.fleet import Fleet
from arm_ext.tune.reference import sample
from arm_ext.tune.space import space
from arm_ext.tune.task import Task, extract
from schedules.generic import default_schedule, loop_workload, metaschedule_trace
from tests.arm_ext.models import model
from tests.arm_ext.tune.standins import A76, record


@cache
def product_model() -> onnx.ModelProto:
    """Rows of seven factors: no schedule of ours makes vectors of them."""
    node = helper.make_node("ReduceProd", ["x"], ["y"], "factors", axes=[1], keepdims=0)
    return model([node], {"x": [3, 31, 7]}, ["y"], {})


@cache
def task() -> Task:
    (found,) = extract(import_model(product_model()).mod, PhaseOptions(A76))
    return found


def sums(name: str) -> tirx.PrimFunc:
    builder, x = relax.BlockBuilder(), relax.Var(name, relax.TensorType((7, 9), "float32"))
    with builder.function("main", [x]):
        builder.emit_func_output(builder.emit(relax.op.sum(x, axis=[1])))
    module = relax.transform.LegalizeOps()(builder.get())
    return next(func for _, func in module.functions_items() if isinstance(func, tirx.PrimFunc))


def test_what_no_kernel_takes_is_a_task():
    assert (task().name, task().times, task().sources) == ("loops.1", 1, ("factors",))
    assert task().default == Candidate(default_schedule.NAME, default_schedule.Params())
    assert space(task())[0] == task().default
    assert {candidate.kernel for candidate in space(task())[1:]} == {metaschedule_trace.NAME}


def test_constants_that_loops_read_keep_their_values():
    weights = np.arange(2 * 3 * 8, dtype=np.float32).reshape(2, 3, 2, 2, 2)
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    (found,) = extract(
        import_model(model([node], {"x": [1, 3, 4, 5, 4]}, ["y"], {"w": weights})).mod, PhaseOptions(A76)
    )
    np.testing.assert_array_equal(found.fixed[1], weights)
    data, fixed = sample(found).inputs
    np.testing.assert_array_equal(fixed, weights)
    expected = sum(
        np.einsum("oc,ncdhw->nodhw", weights[:, :, d, h, w], data[:, :, d : d + 3, h : h + 4, w : w + 3])
        for d, h, w in np.ndindex(2, 2, 2)
    )
    np.testing.assert_allclose(sample(found).expected, expected, rtol=1e-4, atol=1e-3)


def test_a_workload_is_of_the_function_not_of_its_names():
    one, other = (
        loop_workload.workload_of(sums("x"), "aarch64"),
        loop_workload.workload_of(sums("image"), "aarch64"),
    )
    assert one is not None
    assert one == other
    assert loop_workload.workload_of(sums("x"), "x86_64") != one
    tvm.ir.assert_structural_equal(loop_workload.function_of(one).body, sums("x").body, map_free_vars=True)


def test_the_same_traces_are_drawn_each_time_and_each_once():
    first = metaschedule_trace.candidates(task().workload, A76.core)
    metaschedule_trace.candidates.cache_clear()
    assert metaschedule_trace.candidates(task().workload, A76.core) == first
    assert len(set(first)) == len(first) > 8


def test_a_trace_of_another_function_is_refused():
    workload = loop_workload.workload_of(sums("x"), "aarch64")
    assert workload is not None
    foreign = metaschedule_trace.candidates(task().workload, A76.core)[0]
    with pytest.raises(ValueError, match="the trace does not fit the function"):
        build(workload, Candidate(metaschedule_trace.NAME, foreign), (), A76.tvm_target())


def test_candidates_compute_what_the_operator_does_and_packages_take_the_fastest(tmp_path: Path):
    tried = space(task())[:2]
    with Fleet(A76, "virtual", jobs=1) as fleet:
        results = fleet.measure([(task(), candidate) for candidate in tried])
    assert [result.failure for result in results] == [""] * len(tried)
    # As if that were the fastest.
    chosen = record(task(), tried[1], cost=1.0, tvm=tvm.__version__)
    Database(tmp_path / "db", create=True).append([record(task(), tvm=tvm.__version__), chosen])
    result = arm_ext.compile(product_model(), "cortex-a76", tmp_path / "p", tuned=tmp_path / "db")
    (kernel,) = result.report.kernels
    assert kernel.kernel == metaschedule_trace.NAME
    assert kernel.tuned.startswith(f"record {chosen.id}: 1 cycles, by default 100 cycles")
    assert [tuned.record for tuned in result.package.manifest.tuned] == [chosen.id]
    arm_ext.run(tmp_path / "p", check=True)


@pytest.mark.parametrize(
    ("step", "reason"),
    [
        (
            ["Annotate", ["b0", '"define void @f()"'], ["pragma_import_llvm"], []],
            "pragma_import_llvm.*no rule draws",
        ),
        (["Tensorize", ["b0", '"intrinsic"', 1], [], []], "Tensorize .*no rule draws"),
        ([], "it is no trace"),
        (7, "it is no trace"),
    ],
)
def test_a_trace_that_no_rule_draws_is_refused(step: object, reason: str) -> None:
    workload = task().workload
    drawn = json.loads(space(task())[1].params.trace)
    with pytest.raises(ValueError, match=reason):
        metaschedule_trace.build(
            workload, metaschedule_trace.Params(json.dumps([[*drawn[0], step], drawn[1]]))
        )


def test_every_trace_that_rules_draw_is_taken() -> None:
    for candidate in space(task())[1:]:
        assert metaschedule_trace.build(task().workload, candidate.params) is not None
