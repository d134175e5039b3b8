# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import helper

import arm_ext
from arm_ext.board import Board
from arm_ext.common.errors import ModelError
from arm_ext.quantization.float_layers import units_of
from arm_ext.quantization.int16_layers import with_int16_nodes, with_nodes
from arm_ext.quantization.layers import Matching
from tests.arm_ext.models import model
from tests.arm_ext.quantization.test_float_layers import CASES, matched, normal, outputs

PAIRS = ("QuantizeLinear", "DequantizeLinear")


def integers(proto: onnx.ModelProto) -> dict[str, str]:
    """Tensor that is quantised → type."""
    types = {
        tensor.name: helper.tensor_dtype_to_np_dtype(tensor.data_type).name
        for tensor in proto.graph.initializer
    }
    return {
        node.input[0]: types[node.input[2]] for node in proto.graph.node if node.op_type == "QuantizeLinear"
    }


def names(matching: Matching) -> list[str]:
    return [node.name for node in matching.source.proto.graph.node]


@pytest.mark.parametrize("case", CASES)
def test_all_tensors_in_int16_leave_the_error_of_the_weights(case: str) -> None:
    matching = CASES[case]()
    proto = with_int16_nodes(matching, names(matching))
    onnx.checker.check_model(proto, full_check=True)
    assert set(integers(proto).values()) == {"int16"}
    shape = [dim.dim_value for dim in proto.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(9).uniform(0, 1, shape).astype(np.float32)
    exact = outputs(matching.source.proto, x)
    wide, narrow = (
        float(np.linalg.norm(outputs(each, x) - exact)) for each in (proto, matching.quantized.proto)
    )
    assert wide < narrow
    # Layers of the wide model are those of the narrow one.
    again = Matching(matching.source.proto, proto)
    assert [layer.nodes for layer in again.layers] == [layer.nodes for layer in matching.layers]


@pytest.mark.parametrize(
    ("nodes", "wide"),
    [
        (["conv3"], {"conv2/pointwise/relu"}),
        (["conv3", "pool"], {"conv2/pointwise/relu", "conv3/relu"}),
        # What moves integers goes with what reads them; nothing reads an output of the model.
        (["logits"], {"pool", "flatten", "logits_QuantizeLinear_Input"}),
        (["pool", "flatten"], {"conv3/relu"}),
    ],
)
def test_a_layer_takes_the_tensors_that_it_reads(nodes: list[str], wide: set[str]) -> None:
    types = integers(with_int16_nodes(CASES["digits"](), nodes))
    assert {name for name, kind in types.items() if kind == "int16"} == wide


def test_activations_that_zero_points_had_covered_are_computed() -> None:
    proto = with_int16_nodes(CASES["clipped"](), ["second"])
    assert [node.op_type for node in proto.graph.node if node.op_type not in PAIRS] == [
        "Conv",
        "Clip",
        "Conv",
    ]
    x = normal(1, 3, 5, 5)
    matching = CASES["clipped"]()
    exact = outputs(matching.source.proto, x)
    assert np.abs(outputs(proto, x) - exact).max() < np.abs(exact).max() / 20


def test_one_model_has_layers_of_three_kinds() -> None:
    matching = CASES["digits"]()
    units = {unit.name: unit.nodes for unit in units_of(matching)}
    proto = with_nodes(matching, keep_float=units["conv3"], int16=units["conv1"], float16=())
    onnx.checker.check_model(proto, full_check=True)
    types = integers(proto)
    assert types["image"] == "int16"
    assert {types["conv1/relu"], types["conv2/depthwise/relu"]} == {"int8"}
    assert next(node for node in proto.graph.node if node.name == "conv3").input[1] == "conv3/weight/float"


def test_nothing_in_int16_is_the_model_itself() -> None:
    matching = CASES["digits"]()
    assert with_int16_nodes(matching, ()) == matching.quantized.proto


def test_a_model_that_no_opset_with_int16_takes_is_told() -> None:
    matching = CASES["digits"]()
    matching.quantized.proto.graph.node[-1].op_type = "Unknown"
    with pytest.raises(ModelError, match="quantising needs opset 21"):
        with_int16_nodes(matching, ["conv3"])


def depthwise_and_more(channels: int, side: int) -> onnx.ModelProto:
    """An inverted residual block: expansion, depthwise convolution, projection, addition; and a pool."""
    weights = {
        "w1": normal(2 * channels, channels, 1, 1),
        "w2": normal(2 * channels, 1, 3, 3),
        "w3": normal(channels, 2 * channels, 1, 1),
        "low": np.float32(0),
        "high": np.float32(6),
    }
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["e"], name="expand"),
        helper.make_node("Clip", ["e", "low", "high"], ["e6"], name="expand/clip"),
        helper.make_node(
            "Conv", ["e6", "w2"], ["d"], name="depthwise", group=2 * channels, pads=[1, 1, 1, 1]
        ),
        helper.make_node("Clip", ["d", "low", "high"], ["d6"], name="depthwise/clip"),
        helper.make_node("Conv", ["d6", "w3"], ["p"], name="project"),
        helper.make_node("Add", ["x", "p"], ["s"], name="add"),
        helper.make_node("GlobalAveragePool", ["s"], ["y"], name="pool"),
    ]
    return model(nodes, {"x": [1, channels, side, side]}, ["y"], weights)


@pytest.mark.parametrize(
    ("channels", "side"),
    [(1, 7), (9, 5), (31, 4), *(pytest.param(*each, marks=pytest.mark.long) for each in ((7, 8), (8, 9)))],
)
def test_the_board_computes_int16_as_it_is_defined(channels: int, side: int, board: Board, tmp_path) -> None:
    matching = matched(depthwise_and_more(channels, side), normal(4, 1, channels, side, side))
    path = tmp_path / "m.onnx"
    onnx.save(with_int16_nodes(matching, names(matching)), path)
    x = normal(1, channels, side, side)
    compiled = arm_ext.compile(path, output=tmp_path / "p", inputs=[x])
    assert compiled.report.left_float == ()
    kernels = {node.source: node.kernel for node in compiled.report.nodes}
    assert kernels["depthwise"] == ("depthwise_s8_mlal" if channels > 3 else "generic")
    expected: Sequence[np.ndarray] = compiled.package.selftest().expected
    for ours, definition in zip(board.load(compiled.package.so).run([x]), expected, strict=True):
        np.testing.assert_array_equal(ours, definition)
