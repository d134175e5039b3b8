# SPDX-License-Identifier: Apache-2.0
import numpy as np
import onnx
import pytest
from onnx import helper

from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.load import import_model
from arm_ext.pipeline.selftest import run_on_host
from arm_ext.quantization.float_calls import with_quantized_calls
from relay_passes.ir.calls import nodes_of
from relay_passes.ir.sources import unnamed_calls
from tests.arm_ext.models import model
from tests.arm_ext.report.advice.formats import computed, prepared

X = np.random.default_rng(0).standard_normal((2, 9), dtype=np.float32)
PARAMETERS = {"s": np.float32(0.02), "z": np.int8(3)}
STEP = 0.02


def half_quantized(*between: onnx.NodeProto, **constants: np.ndarray) -> ImportedModel:
    """Q, DQ, nodes from "d" to "a" in float, Q, DQ: only the ends are quantised."""
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="q"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], name="dq"),
        *between,
        helper.make_node("QuantizeLinear", ["a", "s", "z"], ["aq"], name="last_q"),
        helper.make_node("DequantizeLinear", ["aq", "s", "z"], ["y"], name="last_dq"),
    ]
    return prepared(import_model(model(nodes, {"x": [2, 9]}, ["y"], {**PARAMETERS, **constants})))


def tanh() -> ImportedModel:
    return half_quantized(
        helper.make_node("Tanh", ["d"], ["t"], name="tanh"), helper.make_node("Abs", ["t"], ["a"], name="abs")
    )


def operators(found: ImportedModel) -> list[str]:
    assert unnamed_calls(found.mod) == []
    return [node.name.removeprefix("relax.") for node in nodes_of(found.mod["main"])]


@pytest.mark.parametrize("nodes", [["tanh"], ["tanh", "abs"]])
def test_what_is_float_between_is_quantised_once(nodes: list[str]) -> None:
    given = tanh()
    made = with_quantized_calls(given, nodes, {"x": X}, run_on_host)
    assert made is not None
    # What tanh reads and abs gives is quantised, and keeps its parameters.
    pair = ["quantize", "dequantize"]
    assert operators(made) == [*pair, "tanh", *pair, "abs", *pair]
    # A step of the result of tanh, 2 / 255, and one of the output.
    assert np.abs(computed(made, X) - computed(given, X)).max() <= STEP + 2 / 255
    assert with_quantized_calls(made, nodes, {"x": X}, run_on_host) is None


def test_what_a_call_alone_reads_in_float_is_quantised_for_it() -> None:
    made = with_quantized_calls(tanh(), ["abs"], {"x": X}, run_on_host)
    assert made is not None
    pair = ["quantize", "dequantize"]
    assert operators(made) == [*pair, "tanh", *pair, "abs", *pair]


def test_a_conversion_that_is_there_reads_the_float_value() -> None:
    between = [
        helper.make_node("Tanh", ["d"], ["t"], name="tanh"),
        helper.make_node("QuantizeLinear", ["t", "s", "z"], ["tq"], name="tq"),
        helper.make_node("DequantizeLinear", ["tq", "s", "z"], ["td"], name="tdq"),
        helper.make_node("Abs", ["t"], ["u"], name="abs"),
        helper.make_node("Add", ["td", "u"], ["a"], name="add"),
    ]
    made = with_quantized_calls(half_quantized(*between), ["tanh"], {"x": X}, run_on_host)
    assert made is not None
    nodes = nodes_of(made.mod["main"])
    (tanh_result,) = (node.var for node in nodes if node.name == "relax.tanh")
    readers = [node for node in nodes if tanh_result in node.operands]
    assert [node.name for node in readers] == ["relax.quantize"] * 2


def test_conversions_are_no_float_calls() -> None:
    assert with_quantized_calls(tanh(), ["q", "last_dq"], {"x": X}, run_on_host) is None


def test_a_product_gets_weights_in_integers_and_keeps_its_bias() -> None:
    rng = np.random.default_rng(1)
    w, b = rng.standard_normal((9, 9), dtype=np.float32) / 9, rng.standard_normal(9, dtype=np.float32)
    given = half_quantized(helper.make_node("Gemm", ["d", "w", "b"], ["a"], name="fc"), w=w, b=b)
    made = with_quantized_calls(given, ["fc"], {"x": X}, run_on_host)
    assert made is not None
    assert operators(made) == [
        "quantize",
        "dequantize",
        "dequantize",
        "matmul",
        "add",
        "quantize",
        "dequantize",
    ]
    # Half a step of each weight for nine inputs up to 3, and one of the output.
    assert np.abs(computed(made, X) - computed(given, X)).max() <= STEP + 9 * 3 * np.abs(w).max() / 127 / 2


def test_numbers_for_each_channel_are_integers_with_both_operands() -> None:
    gain = np.linspace(0.5, 2, 9, dtype=np.float32)
    given = half_quantized(helper.make_node("Mul", ["d", "g"], ["a"], name="scale"), g=gain)
    made = with_quantized_calls(given, ["scale"], {"x": X}, run_on_host)
    assert made is not None
    assert operators(made) == ["quantize", "dequantize", "dequantize", "multiply", "quantize", "dequantize"]
    # Half a step of the gain, of 2 / 255, times |x|, and one of the output.
    assert np.abs(computed(made, X) - computed(given, X)).max() <= STEP + np.abs(X).max() / 255
