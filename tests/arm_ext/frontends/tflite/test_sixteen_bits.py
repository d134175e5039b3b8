# SPDX-License-Identifier: Apache-2.0
"""Functions of 16-bit tensors against LiteRT: of all 65,536 values."""

from pathlib import Path

import numpy as np
import pytest

from arm_ext.frontends.tflite.importer import import_tflite
from arm_ext.frontends.tflite.reference import run_litert
from arm_ext.pipeline.selftest import run_on_host
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder

EVERY = np.arange(-(2**15), 2**15).astype(np.int16).reshape(1, -1)
FINEST = 2.0**-15

# Operator, scales of data and result. Of powers of two, gemmlowp's functions; of others, tables.
EXACT = {
    "logistic": ("LOGISTIC", 2.0**-12, FINEST),
    "logistic of another scale": ("LOGISTIC", 0.0003, FINEST),
    "logistic beyond its table": ("LOGISTIC", 0.01, FINEST),
    "tanh": ("TANH", 2.0**-12, FINEST),
    "tanh of twice the scale": ("TANH", 2.0**-11, FINEST),
    "tanh of another scale": ("TANH", 0.0017, FINEST),
}
# Where binary32's functions, which the tables are made of, round otherwise.
WITHIN_ONE = {
    "exp": ("EXP", 0.00013, 0.002),
    "gelu": ("GELU", 0.00015, 0.00014),
    "log": ("LOG", 0.00013, 0.00012),
    "rsqrt": ("RSQRT", 0.00013, 0.0018),
}
# Longer, and in a run behind `-m long`.
LONG = ("logistic of another scale", "tanh of twice the scale", "gelu", "log")


def cases(names: dict[str, tuple[str, float, float]]) -> list[object]:
    return [pytest.param(*case, id=n, marks=[pytest.mark.long] * (n in LONG)) for n, case in names.items()]


def steps_from_litert(folder: Path, operator: str, x: float, y: float) -> np.ndarray:
    """Return how far we are from LiteRT, value by value; log's and rsqrt's domain is above 0."""
    m, values = TfliteBuilder(), EVERY if operator not in ("LOG", "RSQRT") else np.maximum(EVERY, 1)
    m.op(operator, [m.take("int16", *EVERY.shape, scale=x)], [m.tensor("int16", *EVERY.shape, scale=y)])
    path = folder / "model.tflite"
    path.write_bytes(m.build())
    (found,), (expected,) = (
        run_on_host(import_tflite(path).mod, [values]),
        run_litert(path.read_bytes(), [values]),
    )
    assert len(np.unique(expected)) > 500
    return np.abs(found.astype(int) - expected)


@pytest.mark.parametrize(("operator", "x", "y"), cases(EXACT))
def test_function_is_exact(tmp_path: Path, operator: str, x: float, y: float):
    assert steps_from_litert(tmp_path, operator, x, y).max() == 0


@pytest.mark.parametrize(("operator", "x", "y"), cases(WITHIN_ONE))
def test_function_is_within_a_step(tmp_path: Path, operator: str, x: float, y: float):
    assert steps_from_litert(tmp_path, operator, x, y).max() <= 1


def test_softmax_is_exact(tmp_path: Path):
    # A scale that moves the rows' exponents through all of the table, and beyond; rows of one value and of many.
    m = TfliteBuilder()
    x = m.take("int16", 31, 7, scale=0.001)
    m.op("SOFTMAX", [x], [m.tensor("int16", 31, 7, scale=FINEST)], beta=0.5)
    path = tmp_path / "model.tflite"
    path.write_bytes(m.build())
    (values,) = m.values()
    values[0] = -32768
    values[1, 1:] = -32768
    imported = import_tflite(path)
    (found,), (expected,) = run_on_host(imported.mod, [values]), run_litert(path.read_bytes(), [values])
    assert len(np.unique(expected)) > 50
    np.testing.assert_array_equal(found, expected)


# Types and scales of data and result: between 8, 16 and 32 bits.
@pytest.mark.parametrize(
    ("x", "x_scale", "y", "y_scale"),
    [("int16", 0.0004, "int8", 0.07), ("int16", 0.0004, "int32", 1.1e-6), ("int32", 6e-9, "int16", 0.0003)],
)
def test_quantize_is_exact(tmp_path: Path, x: str, x_scale: float, y: str, y_scale: float):
    m = TfliteBuilder()
    m.op("QUANTIZE", [m.take(x, 3, 3111, scale=x_scale)], [m.tensor(y, 3, 3111, scale=y_scale)])
    path = tmp_path / "model.tflite"
    path.write_bytes(m.build())
    values = m.values()
    (found,), (expected,) = (
        run_on_host(import_tflite(path).mod, values),
        run_litert(path.read_bytes(), values),
    )
    assert len(np.unique(expected)) > 200
    np.testing.assert_array_equal(found, expected)


def test_an_npu_is_given_qdq_form(tmp_path: Path):
    m = TfliteBuilder()
    m.op("TANH", [m.take("int16", 1, 3, scale=FINEST)], [m.tensor("int16", 1, 3, scale=FINEST)])
    path = tmp_path / "model.tflite"
    path.write_bytes(m.build())
    imported = import_tflite(path)
    assert imported.for_npu is not None
    forms = [str(model.mod) for model in (imported, imported.for_npu())]
    assert ["R.tanh" in form for form in forms] == [False, True]
    assert ["R.quantize" in form for form in forms] == [False, True]
