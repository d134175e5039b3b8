# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import jax
import numpy as np
import onnx
import pytest
import torch
from onnx import helper
from torch.nn import functional

from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.report.advice.changes import (
    TO_FIRST,
    TO_LAST,
    channels_last_ends,
    channels_last_reshapes,
    hard_swish,
    without_nodes,
)
from relay_passes.ir.calls import nodes_of
from relay_passes.ir.sources import unnamed_calls
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder
from tests.arm_ext.report.advice.formats import (
    computed,
    from_jax,
    from_onnx,
    from_tflite,
    from_torch,
    silu,
    weights,
)

CHANNELS, SIDE = 5, 7


def operators(model: object) -> list[str]:
    assert isinstance(model, ImportedModel)
    assert unnamed_calls(model.mod) == []
    return [node.name.removeprefix("relax.") for node in nodes_of(model.mod["main"])]


def silu_of_tflite(folder: Path, dtype: str = "float32") -> ImportedModel:
    m, scale = TfliteBuilder(), 0.05 if dtype == "int8" else None
    x = m.take(dtype, 1, 6, 6, 3, scale=scale)
    s, y = m.tensor(dtype, 1, 6, 6, 3, scale=scale and 1 / 256), m.tensor(dtype, 1, 6, 6, 3, scale=scale)
    m.op("LOGISTIC", [x], [s])
    m.op("MUL", [x, s], [y])
    return from_tflite(m, folder)


@pytest.mark.parametrize("source", ["torch", "tflite", "jax"])
def test_silu_becomes_hard_swish(source: str, tmp_path: Path) -> None:
    model = {
        "torch": lambda: from_torch(functional.silu, torch.zeros(1, 6, 6, 3)),
        "tflite": lambda: silu_of_tflite(tmp_path),
        "jax": lambda: from_jax(jax.nn.silu, 1, 6, 6, 3),
    }[source]()
    changed = hard_swish(model)
    assert changed is not None
    assert changed.what == "1 SiLU → hard-swish"
    assert set(changed.sources) <= set(model.nodes)
    assert "clip" in operators(changed.model)
    x = weights(1, 6, 6, 3)
    # Some roundings of binary32.
    np.testing.assert_allclose(
        computed(changed.model, x), x * np.clip(x / 6 + 0.5, 0, 1), rtol=1e-6, atol=1e-6
    )


def test_a_change_is_made_again_of_other_shapes() -> None:
    one, three = (from_torch(functional.silu, torch.zeros(count, 4)) for count in (1, 3))
    changed = hard_swish(one)
    assert changed is not None
    x = weights(3, 4)
    expected = x * np.clip(x / 6 + 0.5, 0, 1)
    np.testing.assert_allclose(computed(changed.applied(three), x), expected, rtol=1e-6, atol=1e-6)
    without = from_torch(functional.relu, torch.zeros(3, 4))
    assert changed.applied(without) is without


def test_the_names_of_a_silu_of_two_nodes_are_told() -> None:
    changed = hard_swish(silu())
    assert changed is not None
    assert changed.sources == ("sigmoid", "mul")
    assert operators(changed.model) == ["nn.conv2d", "multiply", "add", "clip", "multiply", "add"]


def test_a_sigmoid_stays_that_is_read_elsewhere_or_quantised(tmp_path: Path) -> None:
    assert hard_swish(silu(gate_elsewhere=True)) is None
    assert hard_swish(silu_of_tflite(tmp_path, "int8")) is None


def images() -> list[onnx.NodeProto]:
    """Scale, convolution, relu, and the addition of what was read."""
    return [
        helper.make_node("Mul", ["x", "scale"], ["m"], name="scale"),
        helper.make_node("Conv", ["m", "w"], ["c"], name="conv", pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("Add", ["r", "x"], ["y"], name="add"),
    ]


@pytest.mark.parametrize("source", ["onnx", "torch"])
def test_ends_with_channels_last_keep_the_numbers(source: str) -> None:
    w, x = weights(CHANNELS, CHANNELS, 3, 3), weights(2, CHANNELS, SIDE, 9)
    if source == "onnx":
        model = from_onnx(images(), [*x.shape], scale=np.float32(0.5), w=w)
    else:
        filters = torch.from_numpy(w)
        model = from_torch(
            lambda x: functional.relu(functional.conv2d(x * 0.5, filters, padding=1)) + x, torch.from_numpy(x)
        )
    changed = channels_last_ends(model)
    assert changed is not None
    (name,), (result,) = ([spec.name for spec in specs] for specs in (model.inputs, model.outputs))
    assert (changed.inputs, changed.outputs) == ({name: TO_LAST}, {result: TO_FIRST})
    assert changed.sources == (("scale", "add") if source == "onnx" else ("mul", "add"))
    assert operators(changed.model)[0] == operators(changed.model)[-1] == "permute_dims"
    assert isinstance(changed.model, ImportedModel)
    assert [spec.shape for spec in (*changed.model.inputs, *changed.model.outputs)] == [
        (2, SIDE, 9, CHANNELS)
    ] * 2
    found = computed(changed.model, np.transpose(x, TO_LAST).copy())
    assert found.shape == (2, SIDE, 9, CHANNELS)
    # A kernel may sum in another order where data have another layout.
    np.testing.assert_allclose(np.transpose(found, TO_FIRST), computed(model, x), rtol=1e-5, atol=1e-5)


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
    assert channels_last_ends(from_onnx(nodes, shape)) is None


def pooled(folder: Path, dtype: str = "float32") -> ImportedModel:
    """TFLite: a pool of one pixel, a logistic, and an addition of both."""
    m, scale = TfliteBuilder(), 0.05 if dtype == "int8" else None
    x = m.take(dtype, 1, SIDE, SIDE, CHANNELS, scale=scale)
    p, s, y = (m.tensor(dtype, 1, SIDE, SIDE, CHANNELS, scale=scale) for _ in range(3))
    m.op("MAX_POOL_2D", [x], [p], strideH=1, strideW=1, filterHeight=1, filterWidth=1)
    m.op("LOGISTIC", [p], [s])
    m.op("ADD", [s, p], [y])
    return from_tflite(m, folder)


def test_channels_of_tflite_are_last_as_they_are(tmp_path: Path) -> None:
    assert channels_last_ends(pooled(tmp_path)) is None


@pytest.mark.parametrize("reader", ["MatMul", "Gemm", "linear"])
def test_a_reshape_of_channels_last_permutes_the_weights(reader: str) -> None:
    rows, x = CHANNELS * SIDE * SIDE, weights(2, CHANNELS, SIDE, SIDE)
    filters = weights(CHANNELS, CHANNELS, 1, 1)
    if reader == "linear":
        given, matrix = torch.from_numpy(filters), torch.from_numpy(weights(3, rows))
        model = from_torch(
            lambda x: functional.linear(functional.conv2d(x, given).flatten(1), matrix), torch.from_numpy(x)
        )
    else:
        nodes = [
            helper.make_node("Conv", ["x", "k"], ["c"], name="conv2d"),
            helper.make_node("Flatten", ["c"], ["f"], name="flatten"),
            helper.make_node(
                reader, ["f", "w"], ["y"], name="fc", **({"transB": 1} if reader == "Gemm" else {})
            ),
        ]
        w = weights(3, rows) if reader == "Gemm" else weights(rows, 3)
        model = from_onnx(nodes, [*x.shape], k=filters, w=w)
    changed = channels_last_reshapes(model, ["flatten"])
    assert changed is not None
    assert (changed.sources, changed.comparable) == (("flatten",), True)
    assert operators(changed.model)[:4] == ["nn.conv2d", "permute_dims", "reshape", "matmul"]
    # Sums in another order.
    np.testing.assert_allclose(computed(changed.model, x), computed(model, x), rtol=1e-4, atol=1e-4)


def test_a_reshape_that_no_product_reads_changes_the_numbers() -> None:
    nodes = [
        helper.make_node("MaxPool", ["x"], ["p"], name="pool", kernel_shape=[1, 1]),
        helper.make_node("Flatten", ["p"], ["f"], name="flatten"),
        helper.make_node("Softmax", ["f"], ["y"], name="softmax"),
    ]
    model = from_onnx(nodes, [2, CHANNELS, SIDE, SIDE])
    changed = channels_last_reshapes(model, ["flatten"])
    assert changed is not None
    assert not changed.comparable
    assert computed(changed.model, weights(2, CHANNELS, SIDE, SIDE)).shape == (2, CHANNELS * SIDE * SIDE)
    assert channels_last_reshapes(model, ["softmax"]) is None


def test_a_reshape_of_channels_that_are_last_stays(tmp_path: Path) -> None:
    m = TfliteBuilder()
    x, p, y = (m.tensor("float32", *shape) for shape in ((2, 4, 4, 3), (2, 4, 4, 3), (2, 48)))
    m.inputs = [x]
    m.op("MAX_POOL_2D", [x], [p], strideH=1, strideW=1, filterHeight=1, filterWidth=1)
    m.op("RESHAPE", [p, m.hold([2, 48])], [y])
    model = from_tflite(m, tmp_path)
    assert channels_last_reshapes(model, list(model.nodes)) is None


def test_nodes_are_left_out_that_pass_on_as_many_elements() -> None:
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], name="transpose", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["t", "w"], ["h"], name="fc"),
        helper.make_node("Mul", ["h", "h"], ["q"], name="square"),
        helper.make_node("Add", ["q", "t"], ["a"], name="add"),
        helper.make_node("Clip", ["a", "low"], ["y"], name="clip"),
    ]
    model = from_onnx(nodes, [1, 9, 9], w=weights(9, 9), low=np.float32(0))
    changed = without_nodes(model, list(model.nodes))
    assert changed is not None
    # A product stays, and so does what would leave one of its operands unread.
    assert changed.sources == ("transpose", "square", "clip")
    assert not changed.comparable
    assert operators(changed.model) == ["reshape", "matmul", "reshape", "add", "reshape"]
    x = weights(1, 9, 9)
    np.testing.assert_allclose(
        computed(changed.model, x), x @ computed_weights(model) + x, rtol=1e-5, atol=1e-5
    )
    assert without_nodes(model, ["fc", "add"]) is None


def computed_weights(model: ImportedModel) -> np.ndarray:
    (product,) = (node for node in nodes_of(model.mod["main"]) if node.name == "relax.matmul")
    return np.asarray(product.operands[1].value.numpy())


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_nodes_of_tflite_are_left_out_and_conversions_stay(dtype: str, tmp_path: Path) -> None:
    model = pooled(tmp_path, dtype)
    changed = without_nodes(model, list(model.nodes))
    assert changed is not None
    assert set(changed.sources) == {name for name, kind in model.nodes.items() if kind != "ADD"}
    left, before = operators(changed.model), operators(model)
    assert "sigmoid" in before
    assert not {"sigmoid", "nn.max_pool2d"} & set(left)
    for conversion in ("quantize", "dequantize"):
        assert left.count(conversion) == before.count(conversion)
