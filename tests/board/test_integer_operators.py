# SPDX-License-Identifier: Apache-2.0
"""QDQ models in integer arithmetic, operator by operator: the board against the host, and against onnxruntime."""

from pathlib import Path

import numpy as np
import pytest

import arm_ext
from arm_ext.board import Board
from arm_ext.frontends.onnx.reference import run_onnxruntime
from tests.board.qdq_models import CHANNELS, Scale, every_operator

OPERATORS = {
    "Add",
    "AveragePool",
    "Concat",
    "Conv",
    "ConvTranspose",
    "Depthwise",
    "GlobalAveragePool",
    "LeakyRelu",
    "MatMul",
    "Mul",
    "Relu",
    "Sigmoid",
    "Softmax",
}
# Told to run integers, onnxruntime has kernels of the same definition for these. Its other integer kernels add the
# zero point before they round, take a step's reciprocal, or another exp: one step.
EXACT_IN_INTEGERS = {"Conv", "Depthwise", "MatMul", "GlobalAveragePool", "LeakyRelu", "Concat", "Relu"}
# Unoptimised it computes in float32: the same operations for these; sums in another order, or another exp, elsewhere.
EXACT_UNOPTIMISED = {"Add", "Mul", "LeakyRelu", "Concat", "Relu"}

SCALES = {
    "powers of two": ((1 / 32, 0), (1 / 8, 0), 1 / 256),
    "decimal, odd zero points": ((0.03, 3), (0.1, -7), 0.005),
    "random, zero points near the end": ((0.0317264, -101), (0.0917235, -99), 0.0048211),
}


@pytest.mark.parametrize(
    "scales",
    [
        pytest.param(scales, marks=[pytest.mark.long] * name.startswith("random"))
        for name, scales in SCALES.items()
    ],
    ids=SCALES,
)
def test_every_operator(tmp_path: Path, board: Board, scales: tuple[Scale, Scale, float]):
    x_scale, out_scale, weight_scale = scales
    model = every_operator(x_scale, out_scale, weight_scale)
    x = np.random.default_rng(3).normal(0, 40 * x_scale[0], (1, CHANNELS, 9, 8)).astype(np.float32)
    result = arm_ext.compile(model, output=tmp_path / "p", inputs=[x])
    assert result.report.left_float == ()
    outputs = board.load(result.package.so).run([x])
    names = [tensor.name for tensor in result.package.manifest.outputs]
    assert set(names) == OPERATORS
    data = model.SerializeToString()
    oracles = {
        "the host": (result.package.selftest().expected, OPERATORS),
        "onnxruntime in integers": (run_onnxruntime(data, [x], integers=True), EXACT_IN_INTEGERS),
        "onnxruntime unoptimised": (run_onnxruntime(data, [x], integers=False), EXACT_UNOPTIMISED),
    }
    for oracle, (expected, exact) in oracles.items():
        for name, ours, theirs in zip(names, outputs, expected, strict=True):
            assert ours.dtype == np.int8
            # A constant output would agree with anything.
            assert len(np.unique(theirs)) > 1, name
            worst = np.abs(ours.astype(int) - theirs.astype(int)).max()
            assert worst <= (0 if name in exact else 1), f"{name} differs by {worst} from {oracle}"
