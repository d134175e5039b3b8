# SPDX-License-Identifier: Apache-2.0
"""Four trained TFLite models on a board: two of int8, a hybrid one, one of floats."""

from pathlib import Path

import numpy as np
import pytest

import arm_ext
from arm_ext.board import Board
from arm_ext.frontends.tflite.importer import import_tflite
from arm_ext.pipeline.selftest import run_on_host

MODELS = Path(__file__).parents[3] / "shared" / "models"
# How far floats are from LiteRT's, relative to the largest. Sums are taken in another order; that may move a value that
# a hybrid operator rounds by a whole step.
BOUNDS = {"pretrainedResnet": 1e-5, "kws_ref_model_float32": 5e-4}


@pytest.mark.parametrize(
    "name", ["kws_ref_model", pytest.param("pretrainedResnet_quant", marks=pytest.mark.long)]
)
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


@pytest.mark.parametrize(
    "name", [pytest.param("pretrainedResnet", marks=pytest.mark.long), "kws_ref_model_float32"]
)
def test_board_computes_floats_as_litert_does(tmp_path: Path, board: Board, name: str):
    path = MODELS / f"{name}.tflite"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    package = arm_ext.compile(path, output=tmp_path / "p").package
    imported = import_tflite(path)
    rng = np.random.default_rng(8)
    (spec,) = imported.inputs
    inputs = [rng.standard_normal(spec.shape, np.float32)]
    (found,), ((expected,), _) = board.load(package.so).run(inputs), imported.reference(inputs)
    assert np.abs(found - expected).max() <= BOUNDS[name] * np.abs(expected).max()
