# SPDX-License-Identifier: Apache-2.0
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from arm_ext.frontends.onnx.reference import run_onnxruntime
from arm_ext.quantization.in_float32 import in_float32
from arm_ext.quantization.static import quantize
from tests.arm_ext.models import model

HALF = TensorProto.FLOAT16


def halves() -> onnx.ModelProto:
    """A convolution in float16, with a constant in a node, a cast, and a branch of an If that has a constant, too."""
    rng = np.random.default_rng(2)
    weights = {"w": rng.standard_normal((4, 3, 3, 3)).astype(np.float16), "b": np.ones(4, np.float16)}
    twice = numpy_helper.from_array(np.array(2, np.float16))
    branches = {
        f"{name}_branch": helper.make_graph(
            [
                helper.make_node("Constant", [], [f"{name}_factor"], f"{name}_constant", value=twice),
                helper.make_node(operator, ["r", f"{name}_factor"], [name], f"{name}_op"),
            ],
            name,
            [],
            [helper.make_tensor_value_info(name, HALF, [1, 4, 6, 6])],
        )
        for name, operator in (("then", "Mul"), ("else", "Add"))
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], "conv"),
        helper.make_node("Relu", ["c"], ["r"], "relu"),
        helper.make_node("If", ["on"], ["i"], "choice", **branches),
        helper.make_node("Cast", ["i"], ["wide"], "widen", to=TensorProto.FLOAT),
        helper.make_node("Cast", ["wide"], ["y"], "narrow", to=HALF),
    ]
    proto = model(nodes, {"x": [1, 3, 8, 8]}, ["y"], weights | {"on": np.array(True)})
    for value in (*proto.graph.input, *proto.graph.output):
        value.type.tensor_type.elem_type = HALF
    del proto.graph.value_info[:]
    return proto


def test_a_model_in_float16_computes_the_same_in_float32():
    source = halves()
    wide = in_float32(source)
    onnx.checker.check_model(wide)
    assert HALF not in {value.type.tensor_type.elem_type for value in (*wide.graph.input, *wide.graph.output)}
    assert source.graph.input[0].type.tensor_type.elem_type == HALF
    x = np.random.default_rng(3).standard_normal((1, 3, 8, 8)).astype(np.float16)
    (narrow,) = run_onnxruntime(source.SerializeToString(), [x], integers=False)
    (found,) = run_onnxruntime(wide.SerializeToString(), [x.astype(np.float32)], integers=False)
    assert found.dtype == np.float32
    # float16 has 11 bits, and rounds the sum, the bias' addition and the product.
    assert np.abs(found - narrow).max() <= 3 * 2**-11 * np.abs(found).max()


def test_a_model_in_float32_is_the_same_object():
    wide = in_float32(halves())
    assert in_float32(wide) is wide


def test_it_is_quantised_on_samples_of_either_type():
    samples = np.random.default_rng(4).standard_normal((4, 1, 3, 8, 8)).astype(np.float16)
    for dtype in (np.float16, np.float32):
        made = quantize(halves(), {"x": samples.astype(dtype)})
        onnx.checker.check_model(made)
        assert {"QuantizeLinear", "Conv"} <= {node.op_type for node in made.graph.node}
