# SPDX-License-Identifier: Apache-2.0
from collections import Counter

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import arm_ext
from arm_ext.quantization.float16_layers import with_float16_nodes
from arm_ext.quantization.float_layers import units_of
from arm_ext.quantization.int16_layers import with_nodes
from arm_ext.quantization.layers import Matching
from tests.arm_ext.models import model
from tests.arm_ext.quantization.test_float_layers import CASES, normal, outputs

STEP = 2.0**-10
"""Spacing of binary16 over the value, at most."""


def _input(proto: onnx.ModelProto, batch: int = 1) -> np.ndarray:
    shape = [dim.dim_value for dim in proto.graph.input[0].type.tensor_type.shape.dim]
    return np.random.default_rng(9).uniform(0, 1, [batch * shape[0], *shape[1:]]).astype(np.float32)


@pytest.mark.parametrize("case", CASES)
def test_all_layers_in_binary16_are_as_near_as_its_rounding(case: str) -> None:
    matching = CASES[case]()
    nodes = [node for unit in units_of(matching) for node in unit.nodes]
    proto = with_nodes(matching, keep_float=(), int16=(), float16=nodes)
    onnx.checker.check_model(proto, full_check=True)
    held = {tensor.name: tensor.data_type for tensor in proto.graph.initializer}
    read = {name for node in proto.graph.node if node.op_type == "Conv" for name in node.input[1:]}
    assert {held[name] for name in read} == {TensorProto.FLOAT16}
    assert set(held) <= {name for node in proto.graph.node for name in node.input}
    floats = with_nodes(matching, keep_float=nodes, int16=(), float16=())
    x = _input(proto)
    exact = outputs(floats, x)
    # A rounding of each operand and result in at most six layers, whose weights have sums of either sign.
    assert 0 < np.abs(outputs(proto, x) - exact).max() < 12 * STEP * np.abs(exact).max()


def test_values_between_two_layers_stay_in_binary16() -> None:
    matching = CASES["digits"]()
    units = {unit.name: unit.nodes for unit in units_of(matching)}
    pair = (*units["conv1"], *units["conv2/depthwise"])
    proto = with_nodes(matching, keep_float=(), int16=(), float16=pair)
    casts = [
        helper.get_attribute_value(node.attribute[0]) for node in proto.graph.node if node.op_type == "Cast"
    ]
    assert casts == [TensorProto.FLOAT16, TensorProto.FLOAT]
    # Layers in int8 are what they were.
    kinds = Counter(node.op_type for node in proto.graph.node if node.name.startswith("conv3/"))
    assert kinds == Counter(
        node.op_type for node in matching.quantized.proto.graph.node if node.name.startswith("conv3/")
    )
    names = [layer.name for layer in Matching(matching.source.proto, proto).layers]
    assert names == ["conv2/depthwise", "conv2/pointwise", "conv3", "pool", "flatten", "logits"]


def test_what_adds_up_and_what_computes_integers_stays() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("Softmax", ["c"], ["s"], name="softmax"),
        helper.make_node("Relu", ["s"], ["y"], name="relu"),
        helper.make_node("Shape", ["c"], ["n"], name="shape"),
    ]
    proto = model(nodes, {"x": [1, 3, 7, 9]}, ["y", "n"], {"w": 1e6 * normal(4, 3, 1, 1)})
    proto.graph.output[1].CopyFrom(helper.make_tensor_value_info("n", TensorProto.INT64, [4]))
    made = with_float16_nodes(proto, ["conv", "softmax", "relu", "shape"])
    onnx.checker.check_model(made, full_check=True)
    reads = {node.name: list(node.input) for node in made.graph.node}
    assert reads["softmax"] == ["c"]
    assert reads["conv"] == ["x/float16", "w/float16"]
    held = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in made.graph.initializer}
    assert np.isfinite(held["w/float16"]).all()  # clipped to the range of binary16
    assert outputs(made, normal(1, 3, 7, 9)).shape == (1, 4, 7, 9)


def test_no_node_is_the_model_itself() -> None:
    proto = CASES["digits"]().quantized.proto
    assert with_float16_nodes(proto, ()) == proto


def test_layers_of_three_kinds_are_computed_as_onnxruntime_does() -> None:
    matching = CASES["residual"]()
    units = [unit.nodes for unit in units_of(matching)]
    proto = with_nodes(matching, keep_float=(), int16=units[-1], float16=units[0])
    report = arm_ext.accuracy(proto, matching.source.proto, {"x": normal(2, 1, 3, 9, 7)})
    for output in report.outputs:
        assert output.integers.sqnr_db == pytest.approx(output.fake.sqnr_db, abs=1)
