# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from arm_ext.api import digits
from arm_ext.package.manifest import Correction
from arm_ext.quantization.error_sums import ErrorSums
from arm_ext.quantization.rescale import rescale
from arm_ext.quantization.session import TensorSession
from arm_ext.quantization.static import Quantizer
from tests.arm_ext.models import model
from tests.arm_ext.quantization.uneven import WIDTH, feed_forward, training_images, uneven_digits

TOKENS = np.random.default_rng(1).standard_normal((32, 1, 6, WIDTH)).astype(np.float32)


def sqnr(
    source: onnx.ModelProto, samples: np.ndarray, unseen: np.ndarray, corrections: tuple[Correction, ...]
) -> float:
    quantizer = Quantizer(source, {"inputs": samples}, "minmax", ({},), corrections=corrections)
    return distance(source, quantizer.quantized({}), unseen).sqnr_db


def distance(source: onnx.ModelProto, other: onnx.ModelProto, samples: np.ndarray) -> ErrorSums:
    name, output = source.graph.input[0].name, source.graph.output[0].name
    exact, ours = (TensorSession(each, "model", [output]) for each in (source, other))
    sums = ErrorSums()
    for sample in samples:
        sums.add(ours({name: sample})[output], exact({name: sample})[output])
    return sums


def test_equalized_channels_around_a_depthwise_layer_fit_int8() -> None:
    source, samples, unseen = uneven_digits(), training_images(64), digits.held_out()[0][:60, None]
    assert sqnr(source, samples, unseen, ()) < 20
    assert sqnr(source, samples, unseen, ("equalize",)) > 31


@pytest.mark.parametrize("decomposed", [False, True])
def test_smoothed_outliers_of_a_normalization_fit_int8(decomposed: bool) -> None:
    source = feed_forward(decomposed)
    assert sqnr(source, TOKENS[:16], TOKENS[16:], ()) < 8
    assert sqnr(source, TOKENS[:16], TOKENS[16:], ("smooth",)) > 30


@pytest.mark.parametrize(
    ("source", "samples", "expected"),
    [
        (
            uneven_digits,
            training_images(8)[:, None],
            {
                *("conv1", "conv1/relu", "conv2/depthwise", "conv2/depthwise/relu"),
                *("conv2/pointwise", "conv2/pointwise/relu"),
            },
        ),
        (feed_forward, TOKENS[:8], {"n", "u", "ub", "a"}),
    ],
)
def test_the_float_model_computes_the_same(
    source: Callable[[], onnx.ModelProto], samples: np.ndarray, expected: set[str]
) -> None:
    proto = source()
    name = proto.graph.input[0].name
    result, tensors = rescale(proto, ("equalize", "smooth"), [{name: sample} for sample in samples])
    assert set(tensors) == expected
    # Factors are no powers of two: weights are rounded once more.
    assert distance(proto, result, samples).relative < 1e-6
    assert distance(proto, result, samples).noise > 0


def chain(step: str = "Relu", **inputs: str) -> onnx.ModelProto:
    """Conv, a step, Conv."""
    rng = np.random.default_rng(4)
    weights = {name: rng.standard_normal((4, 4, 1, 1)).astype(np.float32) for name in ("w1", "w2")}
    weights |= {"low": np.float32(0), "high": np.float32(6)}
    given = ["t", "low", "high"] if step == "Clip" else ["t"]
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["t"], name="first"),
        helper.make_node(step, given, ["a"], name="step"),
        helper.make_node("Conv", ["a", inputs.get("weights", "w2")], ["y"], name="second"),
    ]
    return model(nodes, {"x": [1, 4, 3, 3]}, ["y"], weights)


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(chain("Clip"), id="6 is no multiple of another 6"),
        pytest.param(chain("Tanh"), id="not homogeneous"),
        pytest.param(chain(weights="w1"), id="weights of both layers"),
    ],
)
def test_what_would_change_the_model_is_left(source: onnx.ModelProto) -> None:
    feeds = [{"x": np.ones((1, 4, 3, 3), np.float32)}]
    result, tensors = rescale(source, ("equalize", "smooth"), feeds)
    assert tensors == ()
    assert result == source


def test_what_a_caller_reads_is_left() -> None:
    source = chain()
    feeds = [{"x": np.ones((1, 4, 3, 3), np.float32)}]
    assert rescale(source, ("equalize",), feeds)[1] == ("t", "a")
    source.graph.output.append(onnx.ValueInfoProto(name="a"))
    assert rescale(source, ("equalize",), feeds)[1] == ()


def test_channels_of_zeros_keep_the_weights_finite() -> None:
    source = chain()
    held = source.graph.initializer[0]
    weights = numpy_helper.to_array(held).copy()
    weights[1] = 0
    held.CopyFrom(numpy_helper.from_array(weights, held.name))
    result, _ = rescale(source, ("equalize",), [{"x": np.ones((1, 4, 3, 3), np.float32)}])
    assert all(np.isfinite(numpy_helper.to_array(tensor)).all() for tensor in result.graph.initializer)
