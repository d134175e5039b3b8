# SPDX-License-Identifier: Apache-2.0
"""A network as onnxruntime's quantiser writes it, in each of its two formats."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.frontends.onnx.reference import run_onnxruntime
from arm_ext.pipeline.selftest import run_on_host
from relay_passes.ir.sources import bindings_of, sources_of
from tests.arm_ext.models import model


def float_network() -> onnx.ModelProto:
    """Return a network of what becomes QLinear operators, and of what stays a plain operator on integers."""
    rng = np.random.default_rng(4)
    weights = {
        "w": rng.standard_normal((8, 3, 3, 3), dtype=np.float32) / 5,
        "b": rng.standard_normal(8, dtype=np.float32),
        "pads": np.array([0, 0, 1, 0, 0, 0, 0, 1], np.int64),
        "sizes": np.array([1, 8, 12, 12], np.int64),
        "halves": np.array([5, 3], np.int64),
        "fc": rng.standard_normal((8, 7), dtype=np.float32),
    }
    pool = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["conv"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["conv"], ["relu"], "relu"),
        helper.make_node("MaxPool", ["relu"], ["max"], "max", **pool),
        helper.make_node("Pad", ["max", "pads"], ["pad"], "pad"),
        helper.make_node("Resize", ["pad", "", "", "sizes"], ["size"], "size", mode="nearest"),
        helper.make_node("Split", ["size", "halves"], ["left", "right"], "split", axis=1),
        helper.make_node("Sigmoid", ["left"], ["sigmoid"], "sigmoid"),
        helper.make_node("LeakyRelu", ["right"], ["leaky"], "leaky"),
        helper.make_node("Concat", ["leaky", "sigmoid"], ["concat"], "concat", axis=1),
        helper.make_node("Mul", ["concat", "size"], ["mul"], "mul"),
        helper.make_node("GlobalAveragePool", ["mul"], ["pool"], "pool"),
        helper.make_node("Flatten", ["pool"], ["flat"], "flat"),
        helper.make_node("MatMul", ["flat", "fc"], ["y"], "fc"),
    ]
    return model(nodes, {"x": [1, 3, 17, 9]}, ["y"], weights)


class Samples(CalibrationDataReader):
    def __init__(self, samples: list[np.ndarray]) -> None:
        self.left = [{"x": sample} for sample in samples]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self.left.pop() if self.left else None


@pytest.mark.each_once
@pytest.mark.parametrize("dtype", [QuantType.QUInt8, QuantType.QInt8], ids=str)
@pytest.mark.parametrize("form", list(QuantFormat), ids=str)
def test_network(tmp_path: Path, form: QuantFormat, dtype: QuantType):
    rng = np.random.default_rng(6)
    samples = [rng.standard_normal((1, 3, 17, 9)).astype(np.float32) for _ in range(4)]
    path = tmp_path / "quantized.onnx"
    quantize_static(
        float_network(),
        path,
        Samples(samples[1:]),
        quant_format=form,
        activation_type=dtype,
        weight_type=QuantType.QInt8,
        per_channel=dtype == QuantType.QInt8,
    )
    proto = onnx.load(path)
    imported = import_onnx(proto)
    (found,) = run_on_host(imported.mod, samples[:1])
    (expected,) = run_onnxruntime(
        proto.SerializeToString(), samples[:1], integers=form is QuantFormat.QOperator
    )
    # One value that rounds the other way on its way through moves the result by a step or two of 255.
    np.testing.assert_allclose(found, expected, rtol=0, atol=np.abs(expected).max() * 2 / 127)
    assert len(np.unique(expected)) > 1
    named = {name for b in bindings_of(imported.mod["main"]) for name in sources_of(b.value)}
    assert named == set(imported.nodes)
