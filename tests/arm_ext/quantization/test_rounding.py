# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import arm_ext
from arm_ext.api import digits
from arm_ext.package.manifest import Correction
from arm_ext.quantization.layers import QdqGraph
from arm_ext.quantization.prune import prune_two_of_four
from arm_ext.quantization.rounding import rounded_weights, with_integers
from arm_ext.quantization.session import TensorSession
from arm_ext.quantization.static import Quantizer
from arm_ext.quantization.weight_only import WeightOnly, quantize_weights
from tests.arm_ext.quantization.uneven import training_images

Case = tuple[tuple[int, ...], tuple[int, ...], dict[str, object]]


def single(operator: str, x: Sequence[int], w: np.ndarray, **attributes: object) -> onnx.ModelProto:
    node = helper.make_node(operator, ["x", "w"], ["y"], "layer", **attributes)
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)]
    ends.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    graph = helper.make_graph([node], "single", ends[:1], ends[1:], [numpy_helper.from_array(w, "w")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return onnx.shape_inference.infer_shapes(model)


def samples(shape: Sequence[int], count: int = 24) -> list[dict[str, np.ndarray]]:
    """Inputs of which neighbours go together, as in images and embeddings."""
    values = np.random.default_rng(1).standard_normal((count, *shape)).astype(np.float32)
    for axis in range(2, values.ndim):
        values = values + 0.8 * np.roll(values, 1, axis)
    return [{"x": value} for value in values]


def integers_of(model: onnx.ModelProto) -> np.ndarray:
    graph = QdqGraph(model)
    (node,) = (n for n in model.graph.node if n.name == "layer")
    return graph.constants[graph.producers[node.input[1]].input[0]].astype(np.int8)


def dequantized(model: onnx.ModelProto) -> np.ndarray:
    graph = QdqGraph(model)
    (node,) = (n for n in model.graph.node if n.name == "layer")
    producer = graph.producers[node.input[1]]
    quantizer = graph.quantizer(producer)
    assert quantizer is not None
    return quantizer.dequantize(graph.constants[producer.input[0]])


def by_definition(
    weights: np.ndarray, steps: np.ndarray, limits: tuple[int, int], x: np.ndarray
) -> np.ndarray:
    """Round one row after another; those that are left are solved anew by least squares each time."""
    moment = (x.T @ x).astype(np.float64)
    solved = moment + 0.01 * np.diag(moment).mean() * np.eye(len(moment))
    order = list(np.argsort(-np.diag(moment), kind="stable"))
    left, made = weights.astype(np.float64), np.zeros(weights.shape)
    for at, row in enumerate(order):
        made[row] = np.where(weights[row] == 0, 0, np.clip(np.rint(left[row] / steps[row]), *limits))
        done, rest = order[: at + 1], order[at + 1 :]
        gap = made[done] * steps[done] - weights[done]
        if rest:
            left[rest] = weights[rest] - np.linalg.solve(
                solved[np.ix_(rest, rest)], solved[np.ix_(rest, done)] @ gap
            )
    nearest = np.clip(np.rint(weights / steps), *limits)
    errors = [((d := weights - q * steps) * (moment @ d)).sum(0) for q in (made, nearest)]
    return np.where(errors[0] < errors[1], made, nearest)


@pytest.mark.parametrize("depth", [1, 7, 8, 9, 31, 131])
@pytest.mark.parametrize("how", [WeightOnly("int8", 32), WeightOnly("int4", 8)], ids=["int8", "int4"])
@pytest.mark.parametrize("operator", ["MatMul", "Gemm"])
def test_rows_are_rounded_one_after_another(depth: int, how: WeightOnly, operator: str) -> None:
    weights = np.random.default_rng(depth).standard_normal((depth, 5), np.float32)
    weights[depth // 2, 1] = 0
    turned = {"transB": 1} if operator == "Gemm" else {}
    source = single(operator, (6, depth), weights.T.copy() if turned else weights, **turned)
    model, feeds = quantize_weights(source, how), samples((6, depth))
    found = rounded_weights(source, model, feeds)["layer"]
    scales = how.quantize(weights)[1]
    steps = np.broadcast_to(scales, weights.shape) if scales.ndim == 1 else np.repeat(scales, 8, 0)[:depth]
    x = np.concatenate([feed["x"] for feed in feeds]).astype(np.float64)
    expected = by_definition(weights, steps, (-8, 7) if how.type == "int4" else (-127, 127), x)
    np.testing.assert_array_equal(found.T if turned else found, expected)
    held = integers_of(with_integers(model, {"layer": found}))
    np.testing.assert_array_equal(held, found)


CONVOLUTIONS: dict[str, Case] = {
    "strides and pads": ((1, 3, 9, 7), (5, 3, 3, 3), {"strides": [2, 1], "pads": [1, 0, 2, 1]}),
    "dilations": ((2, 4, 9, 9), (3, 4, 3, 2), {"dilations": [2, 3]}),
    "groups": ((1, 6, 7, 7), (4, 3, 3, 3), {"group": 2, "pads": [1] * 4}),
    "depthwise": ((1, 5, 8, 8), (5, 1, 3, 3), {"group": 5}),
    "same upper": ((1, 3, 8, 7), (4, 3, 3, 4), {"auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    "same lower": ((1, 3, 8, 7), (4, 3, 3, 4), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}),
    "valid": ((1, 3, 8, 7), (4, 3, 3, 3), {"auto_pad": "VALID"}),
    "one dimension": ((1, 3, 31), (4, 3, 5), {"pads": [2, 2], "strides": [2]}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_no_channel_of_a_convolution_is_worse_than_nearest(name: str) -> None:
    shape, kernel, attributes = CONVOLUTIONS[name]
    weights = np.random.default_rng(2).standard_normal(kernel).astype(np.float32)
    source = single("Conv", shape, weights, **attributes)
    feeds = samples(shape)
    given = {"x": np.stack([feed["x"] for feed in feeds])}

    def errors(*corrections: Correction) -> np.ndarray:
        model = Quantizer(source, given, "minmax", ({},), corrections=corrections).quantized({})
        rounded = single("Conv", shape, dequantized(model), **attributes)
        runs = [TensorSession(each, "single", ["y"]) for each in (source, rounded)]
        difference = [np.subtract(*(run(feed)["y"] for run in runs)).astype(np.float64) for feed in feeds]
        return np.square(difference).sum(tuple(i for i in range(len(shape) + 1) if i != 2))

    ours, nearest = errors("round"), errors()
    assert (ours <= nearest * (1 + 1e-6)).all()
    assert ours.sum() < 0.8 * nearest.sum()


def test_inputs_that_are_always_zero_change_nothing() -> None:
    weights = np.random.default_rng(3).standard_normal((9, 4), np.float32)
    source = single("MatMul", (2, 9), weights)
    model = quantize_weights(source, WeightOnly("int8", 32))
    found = rounded_weights(source, model, [{"x": np.zeros((2, 9), np.float32)}])
    np.testing.assert_array_equal(found["layer"], integers_of(model))


def test_pruned_weights_stay_0_and_biases_are_corrected_behind() -> None:
    source, _ = prune_two_of_four(onnx.load(digits.model_path("fp32")))
    made = Quantizer(source, {"inputs": training_images(16)}, "minmax", ({},), corrections=("round", "bias"))
    before, after = QdqGraph(made.float_model({})), QdqGraph(made.quantized({}))
    (node,) = (n for n in after.proto.graph.node if n.name == "conv3")
    integers = after.constants[after.producers[node.input[1]].input[0]]
    (twin,) = (n for n in before.proto.graph.node if n.name == "conv3")
    assert not integers[before.constants[twin.input[1]] == 0].any()
    assert np.abs(integers.astype(int)).max() == 127


def test_weights_of_several_products_stay_nearest() -> None:
    source = single("MatMul", (5, 5), np.random.default_rng(4).standard_normal((5, 5), np.float32))
    source.graph.node.append(helper.make_node("MatMul", ["y", "w"], ["z"], "other"))
    source.graph.output[0].name = "z"
    model = quantize_weights(source, WeightOnly("int8", 32))
    assert rounded_weights(source, model, samples((5, 5))) == {}


@pytest.mark.parametrize("how", [WeightOnly("int4", 32), pytest.param(None, marks=pytest.mark.long)])
def test_the_output_is_nearer_on_data_that_was_not_seen(how: WeightOnly | None) -> None:
    seen, unseen = {"inputs": training_images(64)}, {"inputs": digits.held_out()[0][:100]}

    def sqnr(*corrections: Correction) -> float:
        made = Quantizer(
            digits.model_path("fp32"), seen, "minmax", ({},), corrections=corrections, weights=how
        )
        report = arm_ext.accuracy(made.quantized({}), digits.model_path("fp32"), unseen)
        assert report.to_blame() == []
        return report.outputs[0].integers.sqnr_db

    if how is None:
        assert sqnr("round") > sqnr() + 0.3
    else:
        assert sqnr("round") > sqnr() + 6
