# SPDX-License-Identifier: Apache-2.0
"""ONNX operators that move data, in forms that onnx's node tests lack, against onnxruntime."""

import numpy as np
import onnx
import pytest
from onnx import helper

from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.frontends.onnx.reference import run_onnxruntime
from arm_ext.pipeline.selftest import run_on_host
from tests.arm_ext.models import model


def check(
    nodes: list[onnx.NodeProto], x: np.ndarray, weights: dict[str, np.ndarray], atol: float = 0
) -> None:
    proto = model(nodes, {"x": list(x.shape)}, ["y"], weights)
    proto.opset_import[0].version, proto.ir_version = 19, 9
    (expected,) = run_onnxruntime(proto.SerializeToString(), [x], integers=False)
    (found,) = run_on_host(import_onnx(proto).mod, [x])
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


@pytest.mark.parametrize("pads", [(3, 4), (9, 12), (-1, 3), (3, -1), (-2, 4), (-1, -1)])
def test_pads_wrap_what_is_left_of_a_crop(pads: tuple[int, int]) -> None:
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    node = helper.make_node("Pad", ["x", "pads"], ["y"], "pad", mode="wrap")
    check([node], x, {"pads": np.array([0, pads[0], 1, pads[1]])})


def test_a_triangle_is_resized_convolved_and_padded() -> None:
    """Outputs of the resize lie in the middle between two elements, and are the upper one."""
    rng = np.random.default_rng(0)
    weights = {
        "sizes": np.array([1, 3, 41, 14]),
        "w": rng.standard_normal((4, 3, 2, 3), np.float32),
        "around": np.array([0, 0, 2, 1, 0, 0, 1, 5]),
        "mirrored": np.array([0, 1, 0, 3, 0, 0, 2, 1]),
    }
    convolution = {"auto_pad": "VALID", "kernel_shape": [2, 3], "strides": [2, 2], "dilations": [2, 1]}
    middle = {
        "coordinate_transformation_mode": "pytorch_half_pixel",
        "nearest_mode": "round_prefer_ceil",
        "mode": "nearest",
    }
    nodes = [
        helper.make_node("Trilu", ["x"], ["triangle"], "trilu"),
        helper.make_node("Resize", ["triangle", "", "", "sizes"], ["resized"], "resize", **middle),
        helper.make_node("Conv", ["resized", "w"], ["convolved"], "conv", **convolution),
        helper.make_node("Pad", ["convolved", "around"], ["wrapped"], "wrap", mode="wrap"),
        helper.make_node("Pad", ["wrapped", "mirrored"], ["y"], "reflect", mode="reflect"),
    ]
    # Sums of 18 products near 1, in another order.
    check(nodes, rng.standard_normal((1, 3, 2, 4), np.float32), weights, atol=1e-5)


@pytest.mark.parametrize("mode", ["SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize(
    ("kernel", "strides"), [((1, 1), (1, 1)), ((2, 3), (1, 1)), ((2, 3), (2, 3)), ((4, 5), (2, 3))]
)
def test_automatic_padding_becomes_explicit(
    mode: str, kernel: tuple[int, int], strides: tuple[int, int]
) -> None:
    """Of a convolution, an average with and one without its padding, and a maximum; not one stays a pad of its own."""
    x = np.random.default_rng(1).standard_normal((1, 3, 9, 8), np.float32)
    given = {"auto_pad": mode, "strides": strides, "kernel_shape": kernel}
    weights = {"w": np.random.default_rng(2).standard_normal((3, 3, *kernel), np.float32)}
    for operator, more in (
        ("Conv", {}),
        ("AveragePool", {}),
        ("AveragePool", {"count_include_pad": 1}),
        ("MaxPool", {}),
    ):
        inputs = ["x", *(["w"] if operator == "Conv" else [])]
        node = helper.make_node(operator, inputs, ["y"], "node", **given, **more)
        own = weights if operator == "Conv" else {}
        proto = model([node], {"x": list(x.shape)}, ["y"], own)
        proto.opset_import[0].version, proto.ir_version = 19, 9
        assert "nn.pad" not in str(import_onnx(proto).mod)
        assert "call_tir" not in str(import_onnx(proto).mod)
        # Sums of up to 60 products, in another order.
        check([node], x, own, atol=1e-5)


def test_operands_of_a_concatenation_without_elements_are_left_out():
    x = np.arange(8, dtype=np.float32).reshape(1, 8, 1)
    empty = np.zeros((1, 0, 1), np.float32)
    nodes = [helper.make_node("Concat", ["none", "x", "none"], ["y"], axis=1)]
    check(nodes, x, {"none": empty})
    (output,) = import_onnx(model(nodes, {"x": [1, 8, 1]}, ["y"], {"none": empty})).outputs
    assert output.shape == x.shape
