# SPDX-License-Identifier: Apache-2.0
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from arm_ext.report.advice.onnx_movement import (
    TO_FIRST,
    TO_LAST,
    channels_last_ends,
    channels_last_reshapes,
    without_nodes,
)
from tests.arm_ext.models import model

RNG = np.random.default_rng(0)
CHANNELS, SIDE = 5, 7


def weights(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


def shaped(
    nodes: list[onnx.NodeProto], inputs: dict[str, list[int]], **constants: np.ndarray
) -> onnx.ModelProto:
    return onnx.shape_inference.infer_shapes(model(nodes, dict(inputs), ["y"], constants))


def computed(proto: onnx.ModelProto, **inputs: np.ndarray) -> np.ndarray:
    onnx.checker.check_model(proto, full_check=True)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, inputs)
    return np.asarray(found)


def images() -> onnx.ModelProto:
    """Scale, convolution, relu, and the addition of what was read."""
    nodes = [
        helper.make_node("Mul", ["x", "scale"], ["m"], name="scale"),
        helper.make_node("Conv", ["m", "w"], ["c"], name="conv", pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("Add", ["r", "x"], ["y"], name="add"),
    ]
    constants = {"scale": np.float32(0.5), "w": weights(CHANNELS, CHANNELS, 3, 3)}
    return shaped(nodes, {"x": [2, CHANNELS, SIDE, 9]}, **constants)


def test_ends_with_channels_last_keep_the_numbers() -> None:
    proto, x = images(), weights(2, CHANNELS, SIDE, 9)
    changed = channels_last_ends(proto)
    assert changed is not None
    assert (changed.inputs, changed.outputs) == ({"x": TO_LAST}, {"y": TO_FIRST})
    assert changed.sources == ("scale", "add")
    found = computed(changed.model, x=np.transpose(x, TO_LAST))
    assert found.shape == (2, SIDE, 9, CHANNELS)
    np.testing.assert_array_equal(np.transpose(found, TO_FIRST), computed(proto, x=x))


@pytest.mark.parametrize(
    ("nodes", "shape"),
    [
        (
            [helper.make_node("Softmax", ["x"], ["y"], name="softmax")],
            [1, 4, SIDE, SIDE],
        ),  # heads of attention
        ([helper.make_node("Relu", ["x"], ["y"], name="relu")], [2, SIDE]),
        (
            [
                helper.make_node("Transpose", ["x"], ["t"], name="to_first", perm=[0, 3, 1, 2]),
                helper.make_node("MaxPool", ["t"], ["p"], name="pool", kernel_shape=[2, 2]),
                helper.make_node("Flatten", ["p"], ["y"], name="flatten"),
            ],
            [1, SIDE, SIDE, 4],
        ),
    ],
)
def test_ends_stay_that_are_no_images_with_channels_first(
    nodes: list[onnx.NodeProto], shape: list[int]
) -> None:
    assert channels_last_ends(shaped(nodes, {"x": shape})) is None


@pytest.mark.parametrize("transposed", [False, True])
def test_a_reshape_of_channels_last_permutes_the_weights(transposed: bool) -> None:
    rows = CHANNELS * SIDE * SIDE
    read = (
        helper.make_node("Gemm", ["f", "w"], ["y"], name="fc", transB=1)
        if transposed
        else helper.make_node("MatMul", ["f", "w"], ["y"], name="fc")
    )
    nodes = [helper.make_node("Flatten", ["x"], ["f"], name="flatten"), read]
    w = weights(3, rows) if transposed else weights(rows, 3)
    proto, x = shaped(nodes, {"x": [2, CHANNELS, SIDE, SIDE]}, w=w), weights(2, CHANNELS, SIDE, SIDE)
    changed = channels_last_reshapes(proto, ["flatten"])
    assert changed is not None
    assert (changed.sources, changed.comparable) == (("flatten",), True)
    assert [node.op_type for node in changed.model.graph.node][:2] == ["Transpose", "Reshape"]
    # Sums in another order.
    np.testing.assert_allclose(computed(changed.model, x=x), computed(proto, x=x), rtol=1e-4, atol=1e-4)


def test_a_reshape_that_no_product_reads_changes_the_numbers() -> None:
    nodes = [
        helper.make_node("Flatten", ["x"], ["f"], name="flatten"),
        helper.make_node("Softmax", ["f"], ["y"], name="softmax"),
    ]
    proto = shaped(nodes, {"x": [2, CHANNELS, SIDE, SIDE]})
    changed = channels_last_reshapes(proto, ["flatten"])
    assert changed is not None
    assert not changed.comparable
    assert computed(changed.model, x=weights(2, CHANNELS, SIDE, SIDE)).shape == (2, CHANNELS * SIDE * SIDE)
    assert channels_last_reshapes(proto, ["softmax"]) is None


def test_nodes_are_left_out_that_pass_on_as_many_elements() -> None:
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], name="transpose", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["t", "w"], ["h"], name="fc"),
        helper.make_node("Mul", ["h", "h"], ["q"], name="square"),
        helper.make_node("Add", ["q", "t"], ["a"], name="add"),
        helper.make_node("Relu", ["a"], ["y"], name="relu"),
    ]
    proto = shaped(nodes, {"x": [1, 9, 9]}, w=weights(9, 9))
    changed = without_nodes(proto, [node.name for node in proto.graph.node])
    assert changed is not None
    # A product stays, and so does what would leave one of its operands unread.
    assert changed.sources == ("transpose", "relu")
    assert not changed.comparable
    assert computed(changed.model, x=weights(1, 9, 9)).shape == (1, 9, 9)
    assert without_nodes(proto, ["fc", "square", "add"]) is None
