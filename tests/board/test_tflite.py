# SPDX-License-Identifier: Apache-2.0
"""Two trained int8 TFLite models on a board."""

from pathlib import Path

import numpy as np
import pytest

import arm_ext
from arm_ext.board import Board
from arm_ext.frontends.tflite import import_tflite
from arm_ext.selftest import run_on_host

MODELS = Path(__file__).parents[3] / "shared" / "models"


@pytest.mark.parametrize("name", ["kws_ref_model", "pretrainedResnet_quant"])
def test_board_computes_what_the_host_does(tmp_path: Path, board: Board, name: str):
    path = MODELS / f"{name}.tflite"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    result = arm_ext.compile(path, output=tmp_path / "p")
    assert result.report.left_float == ()
    imported = import_tflite(path)
    rng = np.random.default_rng(8)
    (spec,) = imported.inputs
    inputs = [rng.integers(80, 90, spec.shape).astype(spec.dtype)]
    (found,), (expected,) = board.load(result.package.so).run(inputs), run_on_host(imported.mod, inputs)
    assert len(np.unique(expected)) > 4
    np.testing.assert_array_equal(found, expected)
