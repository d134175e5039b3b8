# SPDX-License-Identifier: Apache-2.0
"""Two trained int8 models, operator by operator and whole, against LiteRT's default kernels."""

from pathlib import Path

import numpy as np
import pytest

from arm_ext.frontends.tflite.importer import import_tflite
from arm_ext.frontends.tflite.reference import run_litert
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, last, run_phases
from arm_ext.pipeline.selftest import run_on_host
from arm_ext.target.profiles import baseline_host
from tests.arm_ext.frontends.tflite.builder import random_values, single_operators

MODELS = Path(__file__).parents[5] / "shared" / "models"
# A tie goes the other way, or the last bit of exp does.
WITHIN_ONE = {"AVERAGE_POOL_2D", "SOFTMAX"}


@pytest.fixture(params=["kws_ref_model", "pretrainedResnet_quant"])
def path(request: pytest.FixtureRequest) -> Path:
    found = MODELS / f"{request.param}.tflite"
    if not found.is_file():
        pytest.skip(f"{found} is not there")
    return found


def test_each_operator_equals_litert(tmp_path: Path, path: Path):
    rng = np.random.default_rng(2)
    for number, (operator, model) in enumerate(single_operators(path)):
        alone = tmp_path / f"{number}.tflite"
        alone.write_bytes(model)
        imported = import_tflite(alone)
        inputs = [random_values(rng, spec.dtype, spec.shape) for spec in imported.inputs]
        (found,), (expected,) = run_on_host(imported.mod, inputs), run_litert(model, inputs)
        assert len(np.unique(expected)) > 1
        steps = np.abs(found.astype(int) - expected).max()
        assert steps <= (operator in WITHIN_ONE), f"{number}: {operator} differs by {steps}"


def test_nothing_is_left_in_float(path: Path):
    start, options = PhaseResult(import_tflite(path).mod), PhaseOptions(baseline_host())
    result = last(run_phases(start, options, until="integerize"))
    assert result.left_float == ()
    main = str(result.mod["main"])
    assert "R.dequantize" not in main
    assert "R.quantize" not in main


def test_whole_model(path: Path):
    imported = import_tflite(path)
    # Of this range, more than one class is likely.
    inputs = [
        np.random.default_rng(4).integers(80, 90, spec.shape).astype(spec.dtype) for spec in imported.inputs
    ]
    (found,), (expected,) = run_on_host(imported.mod, inputs), imported.reference(inputs)[0]
    assert len(np.unique(expected)) > 4
    # The average pools and the softmax may each be a step off.
    np.testing.assert_allclose(found.astype(int), expected, rtol=0, atol=2)
