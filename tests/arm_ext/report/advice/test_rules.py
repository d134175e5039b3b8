# SPDX-License-Identifier: Apache-2.0
import pytest

from arm_ext.report.advice.rules import RULES, Subject, findings
from arm_ext.report.calls import KernelCall
from schedules.diagnostic import Diagnostic
from tests.arm_ext.report.advice.records import call, kernel_of, profile_of, report_of
from tests.arm_ext.report.advice.test_onnx_changes import chain, silu

INTEGER = call(0, "conv", "gemm_s8_sdot", 0.5, macs=100)


def kernels(*calls: object, numerics: str = "float") -> tuple[KernelCall, ...]:
    return tuple(kernel_of(each, numerics) for each in calls)  # type: ignore[arg-type]


def test_every_rule_has_its_near_miss_in_a_model_without_faults() -> None:
    one = call(0, "conv", "gemm_f32", 1, macs=100)
    subject = Subject(profile_of(one), report_of(*kernels(one)), chain(32))
    assert len(RULES) == 5
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
    small = [call(i, f"add{i}", "elementwise", 0.006, bound="overhead") for i in range(4)]
    (found,) = findings(Subject(profile_of(*small), report_of(*kernels(*small)), None))
    assert found.rule == "small-calls"
    assert found.share == pytest.approx(0.024)
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


def test_float_operators_of_quantised_models_are_told_with_the_reason() -> None:
    erf = call(1, "erf", "elementwise", 0.1)
    left = Diagnostic("no table", "256", "300", nodes=("erf",), operator="Erf")
    kernels_found = (*kernels(INTEGER, numerics="qdq"), *kernels(erf))
    (found,) = findings(
        Subject(profile_of(INTEGER, erf), report_of(*kernels_found, left_float=(left,)), None)
    )
    assert found.rule == "float-operators"
    assert "Erf in float, 1 call of 10.0 % of the cost: no table (expected 256, found 300)" in found.evidence
