# SPDX-License-Identifier: Apache-2.0
"""QDQ models in float arithmetic, operator by operator, against onnxruntime with its optimiser off."""

from pathlib import Path

import numpy as np
import pytest

import arm_ext
from arm_ext.board import Board
from arm_ext.frontends.onnx_reference import run_onnxruntime
from tests.board.qdq_models import CHANNELS, Scale, every_operator

# Both round once to quantise, after the same binary32 operations: equal. Elsewhere a sum taken in another order, or
# another exp, moves a value across a tie.
EXACT = {"Add", "Mul", "LeakyRelu", "Concat", "Relu"}
ONE_STEP = {"Conv", "Depthwise", "MatMul", "Sigmoid", "GlobalAveragePool", "Softmax", "AveragePool"}

SCALES = {
    "powers of two": ((1 / 32, 0), (1 / 8, 0), 1 / 256),
    "decimal, odd zero points": ((0.03, 3), (0.1, -7), 0.005),
    "random, zero points near the end": ((0.0317264, -101), (0.0917235, -99), 0.0048211),
}


@pytest.mark.parametrize("scales", SCALES.values(), ids=SCALES)
def test_every_operator(tmp_path: Path, board: Board, scales: tuple[Scale, Scale, float]):
    x_scale, out_scale, weight_scale = scales
    model = every_operator(x_scale, out_scale, weight_scale)
    compiled = arm_ext.compile(model, output=tmp_path / "p").package
    x = np.random.default_rng(3).normal(0, 40 * x_scale[0], (1, CHANNELS, 9, 8)).astype(np.float32)
    outputs = board.load(compiled.so).run([x])
    reference = run_onnxruntime(model.SerializeToString(), [x], integers=False)
    names = [tensor.name for tensor in compiled.manifest.outputs]
    assert set(names) == EXACT | ONE_STEP
    for name, actual, expected in zip(names, outputs, reference, strict=True):
        assert actual.dtype == np.int8
        # A constant output would agree with anything.
        assert len(np.unique(expected)) > 1, name
        worst = np.abs(actual.astype(int) - expected.astype(int)).max()
        assert worst <= (0 if name in EXACT else 1), f"{name} differs by {worst}"
