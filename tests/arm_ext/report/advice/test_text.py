# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

from arm_ext.report.advice.record import (
    Advice,
    AdviceReport,
    Alternative,
    CostlyCall,
    Declined,
    LayerAlternative,
)
from arm_ext.report.advice.text import text

Golden = Callable[[str, str], None]


def report() -> AdviceReport:
    """A report with a row of each kind."""
    return AdviceReport(
        model="m",
        target="cortex-a76",
        board="virtual",
        core="cortex-a76",
        unit="cycles",
        cost=123456,
        given={"target": "cortex-a76"},
        max_error=0.05,
        calls=(CostlyCall(anchor="conv", kernel="gemm_f32", cost=60000, share=0.486, bound="vector pipes"),),
        alternatives=(
            Alternative(
                name="int8",
                options={"quantize": "s.npz"},
                why="",
                predicted=0.7,
                status="measured",
                note="error above 0.05",
                cost=37037,
                gain=0.7,
                error=0.4,
                calls=(15000.0,),
            ),
            Alternative(name="tuned", options={"tuned": "db"}, why="", status="failed", note="no database"),
        ),
        layers=(
            LayerAlternative(
                name="int8",
                anchor="conv",
                sources=("conv", "relu"),
                how="arm-ext quantize m.onnx --data FILE.npz --only conv,relu -o int8.onnx, and compile int8.onnx",
                status="measured",
                now=60000,
                cost=20000,
                gain=0.3,
                layer_error=0.01,
                error=0.02,
            ),
            LayerAlternative(
                name="int8",
                anchor="softmax",
                sources=("softmax",),
                how="",
                status="measured",
                note="slower",
                now=3000,
                cost=9000,
                gain=-0.05,
                layer_error=0.01,
                error=0.02,
            ),
            LayerAlternative(
                name="ethos-u55-128",
                anchor="-",
                sources=(),
                how="",
                note="all of it stays on the CPU: it takes longer on the NPU",
                now=123456,
            ),
        ),
        recommended={},
        gain=0,
        error=0,
        advice=(
            Advice(
                rule="border-layout",
                sources=("conv",),
                evidence="inputs are transposed in 1 call of 8.0 % of the cost: conv (transpose)",
                at_most=0.08,
                gain=0.09,
                error=0.0,
                how="give the model inputs with channels last",
            ),
            Advice(
                rule="moved-data",
                sources=("concat",),
                evidence="elements are only moved in 1 call of 4.0 % of the cost: concat (copy)",
                at_most=0.04,
                estimated=0.04,
                basis="all that these calls cost",
                how="concatenate along the outer axes",
            ),
        ),
        declined=(
            Declined(rule="full-tiles", sources=("conv",), reason="built and measured, it costs 3.0 % more"),
        ),
        note="Cycles are of a model.",
    )


def test_a_report_as_text(golden: Golden) -> None:
    golden("advise.txt", text(report()))


def test_an_estimate_is_not_told_as_a_measurement() -> None:
    said = " ".join(text(report()).split())
    assert "border-layout: saves 9.0 %, measured" in said
    assert "moved-data: would save 4.0 %, estimated and not measured (all that these calls cost)" in said
    assert "moved-data: saves" not in said
