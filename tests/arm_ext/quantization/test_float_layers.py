# SPDX-License-Identifier: Apache-2.0
import numpy as np
import onnx
import pytest
from onnx import helper

from arm_ext.api import digits
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.pipeline.estimate import estimate
from arm_ext.quantization.float_layers import units_of, with_float_nodes
from arm_ext.quantization.layers import Matching
from arm_ext.quantization.session import TensorSession
from arm_ext.quantization.static import Quantizer
from arm_ext.target.profiles import resolve
from tests.arm_ext.models import model, residual_cnn
from tests.arm_ext.quantization.uneven import training_images


def matched(source: onnx.ModelProto, samples: np.ndarray) -> Matching:
    quantizer = Quantizer(source, {source.graph.input[0].name: samples}, "minmax", ({},))
    return Matching(quantizer.float_model({}), quantizer.quantized({}))


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape, dtype=np.float32)


def clipped() -> onnx.ModelProto:
    """Two convolutions with a ReLU6, which the quantiser drops."""
    weights = {
        "w1": normal(4, 3, 3, 3),
        "w2": normal(4, 4, 1, 1),
        "low": np.float32(0),
        "high": np.float32(6),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["t"], name="first"),
        helper.make_node("Clip", ["t", "low", "high"], ["a"], name="clip"),
        helper.make_node("Conv", ["a", "w2"], ["y"], name="second"),
    ]
    return model(nodes, {"x": [1, 3, 5, 5]}, ["y"], weights)


CASES = {
    "digits": lambda: matched(onnx.load(digits.model_path("fp32")), training_images(16)),
    "residual": lambda: matched(residual_cnn(), normal(4, 1, 3, 9, 7)),
    "clipped": lambda: matched(clipped(), normal(4, 1, 3, 5, 5)),
}


def outputs(proto: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    name = proto.graph.output[0].name
    return TensorSession(proto, "model", [name])({proto.graph.input[0].name: x})[name]


@pytest.mark.parametrize("case", CASES)
def test_with_all_layers_in_float_only_the_input_is_rounded(case: str) -> None:
    matching = CASES[case]()
    nodes = [node for unit in units_of(matching) for node in unit.nodes]
    assert set(nodes) == {node.name for node in matching.source.proto.graph.node}
    proto = with_float_nodes(matching, nodes)
    onnx.checker.check_model(proto, full_check=True)
    shape = [dim.dim_value for dim in proto.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(9).uniform(0, 1, shape).astype(np.float32)
    rounded = [n for n in proto.graph.node if n.op_type == "QuantizeLinear"]
    assert len(rounded) <= 1
    if rounded:
        scale, zero = (matching.quantized.constants[name] for name in rounded[0].input[1:])
        x = (np.clip(np.rint(x / scale) + zero, -128, 127) - zero).astype(np.float32) * scale
    np.testing.assert_array_equal(outputs(proto, x), outputs(matching.source.proto, x))


def test_a_layer_between_integers_has_float_weights_and_rounded_ends() -> None:
    matching = CASES["digits"]()
    units = {unit.name: unit for unit in units_of(matching)}
    assert units["pool"].nodes == ("pool", "flatten"), "what moves values goes with what computes them"
    proto = with_float_nodes(matching, units["conv3"].nodes)
    types = {n.name: n for n in proto.graph.node}
    held = {tensor.name for tensor in proto.graph.initializer}
    assert set(types["conv3"].input[1:]) <= held
    whole = [n for n in matching.quantized.proto.graph.node if n.op_type == "QuantizeLinear"]
    assert len([n for n in proto.graph.node if n.op_type == "QuantizeLinear"]) == len(whole)


def test_nothing_in_float_is_the_model_itself() -> None:
    matching = CASES["digits"]()
    x = digits.held_out()[0][0][None]
    np.testing.assert_array_equal(
        outputs(with_float_nodes(matching, ()), x), outputs(matching.quantized.proto, x)
    )


def test_layers_in_float_are_estimated_like_any_model() -> None:
    matching = CASES["digits"]()
    target = resolve("cortex-a76", None)
    nodes = [node for unit in units_of(matching) for node in unit.nodes]
    cycles = [
        estimate(import_onnx(each), target).cycles
        for each in (
            with_float_nodes(matching, ()),
            with_float_nodes(matching, ("conv3", "conv3/relu")),
            with_float_nodes(matching, nodes),
        )
    ]
    assert cycles == sorted(cycles)
    assert cycles[2] > 2 * cycles[0]
