# SPDX-License-Identifier: Apache-2.0
import numpy as np
import onnx
from onnx import helper

from arm_ext.quantization.float_operators import with_quantized_nodes
from arm_ext.quantization.session import TensorSession
from tests.arm_ext.models import model

X = np.random.default_rng(0).standard_normal((2, 9), dtype=np.float32)


def half_quantized() -> onnx.ModelProto:
    """Q, DQ, Tanh, Abs, Q, DQ: only the ends are quantised."""
    parameters = {"s": np.float32(0.02), "z": np.int8(3)}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], name="q"),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"], name="dq"),
        helper.make_node("Tanh", ["d"], ["t"], name="tanh"),
        helper.make_node("Abs", ["t"], ["a"], name="abs"),
        helper.make_node("QuantizeLinear", ["a", "s", "z"], ["aq"], name="last_q"),
        helper.make_node("DequantizeLinear", ["aq", "s", "z"], ["y"], name="last_dq"),
    ]
    return onnx.shape_inference.infer_shapes(model(nodes, {"x": [2, 9]}, ["y"], parameters))


def conversions(proto: onnx.ModelProto) -> int:
    return sum(node.op_type == "QuantizeLinear" for node in proto.graph.node)


def test_what_is_float_between_is_quantised_once() -> None:
    proto = half_quantized()
    made = with_quantized_nodes(proto, ["tanh"], [{"x": X}])
    assert made is not None
    assert conversions(made) == conversions(proto) + 1  # of its result; what it reads is quantised
    (found,) = TensorSession(made, "m", ["y"])({"x": X}).values()
    (exact,) = TensorSession(proto, "m", ["y"])({"x": X}).values()
    # A step of the result of Tanh, 2 / 255, and one of the output.
    assert np.abs(found - exact).max() <= 0.02 + 2 / 255
    assert [node.op_type for node in made.graph.node][3:5] == ["QuantizeLinear", "DequantizeLinear"]


def test_ends_that_are_quantised_keep_their_parameters() -> None:
    proto = half_quantized()
    made = with_quantized_nodes(proto, ["tanh", "abs"], [{"x": X}])
    assert made is not None
    assert conversions(made) == conversions(proto) + 1
    last = next(node for node in made.graph.node if node.name == "last_q/given")
    assert last.input[0] == "a"


def test_nothing_is_quantised_twice() -> None:
    proto = half_quantized()
    once = with_quantized_nodes(proto, ["tanh"], [{"x": X}])
    assert once is not None
    assert with_quantized_nodes(onnx.shape_inference.infer_shapes(once), ["tanh"], [{"x": X}]) is None
    assert with_quantized_nodes(proto, ["q"], [{"x": X}]) is None
