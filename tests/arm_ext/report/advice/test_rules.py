# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from onnx import helper

from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.report.advice.rules import RULES, Subject, findings
from arm_ext.report.calls import KernelCall
from schedules.diagnostic import Diagnostic
from tests.arm_ext.report.advice.formats import chain, from_onnx, silu
from tests.arm_ext.report.advice.records import call, kernel_of, profile_of, report_of

INTEGER = call(0, "conv", "gemm_s8_sdot", 0.5, macs=100)


def kernels(*calls: object, numerics: str = "float") -> tuple[KernelCall, ...]:
    return tuple(kernel_of(each, numerics) for each in calls)  # type: ignore[arg-type]


def test_every_rule_has_its_near_miss_in_a_model_without_faults() -> None:
    one = call(0, "conv", "gemm_f32", 1, macs=100)
    subject = Subject(profile_of(one), report_of(*kernels(one)), chain(32))
    assert len(RULES) == 6
    assert findings(subject) == []


def test_silu_is_changed_in_float_alone() -> None:
    one = call(0, "conv", "gemm_f32", 0.5, macs=100)
    fused = one.model_copy(update={"sources": ("conv", "sigmoid", "mul")})
    (found,) = findings(Subject(profile_of(fused), report_of(*kernels(one)), silu()))
    assert (found.rule, found.sources, found.share) == ("cheaper-activation", ("sigmoid", "mul"), 0.5)
    assert found.change is not None
    assert findings(Subject(profile_of(fused), report_of(*kernels(one, numerics="qdq")), silu())) == []


def test_partial_tiles_are_padded() -> None:
    one = call(0, "first", "gemm_f32", 0.5, macs=100)
    (found,) = findings(Subject(profile_of(one), report_of(*kernels(one)), chain(28)))
    assert (found.rule, found.sources) == ("full-tiles", ("first",))
    assert "28 → 32 channels" in found.evidence
    assert found.change is not None


def test_calls_bound_by_overhead_are_summed_up() -> None:
    small = [call(i, f"add{i}", "elementwise", 0.006, bound="overhead", of_limit=0.5) for i in range(4)]
    (found,) = findings(Subject(profile_of(*small), report_of(*kernels(*small)), None))
    assert found.rule == "small-calls"
    assert found.share == pytest.approx(0.024)
    assert (found.change, found.estimate) == (None, pytest.approx(0.012))
    assert "add0 (elementwise), add1 (elementwise), add2 (elementwise) and 1 more" in found.evidence
    assert findings(Subject(profile_of(small[0]), report_of(*kernels(small[0])), None)) == []


def test_moves_at_the_borders_and_inside_are_told_apart() -> None:
    first = call(0, "first", "transpose", 0.02, reads=())
    inside = call(1, "inside", "transpose", 0.05)
    last = call(2, "last", "transpose", 0.01, reads=(1,))
    report = report_of(*kernels(first, inside, last), moves=("first", "inside", "last"))
    found = findings(Subject(profile_of(first, inside, last), report, None))
    assert [(each.rule, each.sources) for each in found] == [
        ("moved-data", ("inside",)),
        ("border-layout", ("first", "last")),
    ]


def test_a_small_gain_by_estimate_is_not_advised() -> None:
    small = [call(i, f"add{i}", "elementwise", 0.006, bound="overhead", of_limit=0.7) for i in range(4)]
    assert findings(Subject(profile_of(*small), report_of(*kernels(*small)), None)) == []


def shuffled() -> ImportedModel:
    """Conv, a shuffle of channels, a concatenation, and a flattened softmax."""
    weights = np.ones((4, 3, 1, 1), np.float32)
    shapes = {"s1": np.array([1, 2, 2, 6, 6]), "s2": np.array([1, 4, 6, 6]), "s3": np.array([1, 288])}
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("Reshape", ["c", "s1"], ["r"], name="split"),
        helper.make_node("Transpose", ["r"], ["t"], name="shuffle", perm=[0, 2, 1, 3, 4]),
        helper.make_node("Reshape", ["t", "s2"], ["m"], name="merge"),
        helper.make_node("Concat", ["m", "c"], ["k"], name="concat", axis=1),
        helper.make_node("Reshape", ["k", "s3"], ["f"], name="flatten"),
        helper.make_node("Softmax", ["f"], ["y"], name="softmax"),
    ]
    return from_onnx(nodes, [1, 3, 6, 6], w=weights, **shapes)


def test_moves_are_left_out_reshaped_or_priced() -> None:
    moves = [
        call(1, "shuffle", "transpose", 0.05),
        call(2, "concat", "copy", 0.04),
        call(3, "flatten", "transpose", 0.03),
        call(4, "softmax", "softmax_f32", 0.1, reads=(1, 2, 3)),
    ]
    report = report_of(*kernels(*moves), moves=("shuffle", "concat", "flatten"))
    found = findings(Subject(profile_of(*moves), report, shuffled()))
    assert [(each.rule, each.sources, each.change is not None) for each in found] == [
        ("moved-data", ("shuffle",), True),
        ("moved-data", ("concat",), False),
        ("reshape-layout", ("flatten",), True),
    ]
    assert (found[1].estimate, found[1].basis) == (pytest.approx(0.04), "all that these calls cost")
    assert "train it again" in found[2].how


def tokens(length: int) -> ImportedModel:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="fc")]
    return from_onnx(nodes, [1, length, 48], w=np.ones((48, 8), np.float32))


def test_a_size_just_above_a_block_is_made_smaller() -> None:
    one = call(0, "fc", "gemm_f32", 0.9, macs=100)
    subject = Subject(profile_of(one), report_of(*kernels(one)), tokens(33), ["x"])
    (found,) = findings(subject)
    assert (found.rule, found.sources) == ("size-above-block", ("x",))
    assert "sequence size 33 is 1 above 32" in found.evidence
    assert found.change is not None
    assert found.change.what == "sequence 33 → 32"
    assert found.least == pytest.approx(1 / 33 + 0.01)
    assert findings(Subject(profile_of(one), report_of(*kernels(one)), tokens(32), ["x"])) == []


def test_a_size_that_cannot_be_built_is_priced() -> None:
    one = call(0, "fc", "gemm_f32", 0.9, macs=100)
    (found,) = findings(Subject(profile_of(one), report_of(*kernels(one)), tokens(33)))
    assert found.change is None
    assert found.estimate == pytest.approx(0.9 * (1 - 32 / 64))


def test_float_operators_of_quantised_models_are_told_with_the_reason() -> None:
    erf = call(1, "erf", "elementwise", 0.1)
    left = Diagnostic("no table", "256", "300", nodes=("erf",), operator="Erf")
    kernels_found = (*kernels(INTEGER, numerics="qdq"), *kernels(erf))
    (found,) = findings(
        Subject(profile_of(INTEGER, erf), report_of(*kernels_found, left_float=(left,)), None)
    )
    assert found.rule == "float-operators"
    assert "Erf in float, 1 call of 10.0 % of the cost: no table (expected 256, found 300)" in found.evidence
    assert (found.change, found.estimate) == (None, pytest.approx(0.075))
