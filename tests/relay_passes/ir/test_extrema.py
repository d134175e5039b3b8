# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import relax, tirx
from tvm.relax import op

from relay_passes.ir.legalize import legalize
from schedules.cores import X86_64
from schedules.generic import schedule
from tests.schedules.generic.operators import run
from tests.schedules.programs import host

AXES = pytest.mark.parametrize(
    ("axis", "keepdims"), [([1], True), ([0, 2], False), ([-1], True), (None, True), (None, False)], ids=str
)
NAMES = pytest.mark.parametrize("name", ["max", "min"])


def check(
    name: str, x: np.ndarray, axis: list[int] | int | None, keepdims: bool, expected: np.ndarray
) -> None:
    """Hold the loops, as legalized and as scheduled, against `expected`."""
    builder = relax.BlockBuilder()
    var = relax.Var("x", relax.TensorType(x.shape, str(x.dtype)))
    with builder.function("main", [var]):
        builder.emit_func_output(builder.normalize(getattr(op, name)(var, axis, keepdims)))
    with host():
        mod = legalize(builder.get())
    (func,) = [func for func in mod.functions.values() if isinstance(func, tirx.PrimFunc)]
    for *_, actual in run([func, schedule(func, X86_64).func], [x, np.zeros_like(expected)]):
        np.testing.assert_array_equal(actual, expected)


@AXES
@NAMES
def test_truths_are_joined(name: str, axis: list[int] | None, keepdims: bool):
    x = np.random.default_rng(0).random((2, 7, 9)) < (0.05 if name == "max" else 0.95)
    join = {"max": np.any, "min": np.all}[name]
    expected = np.asarray(join(x, None if axis is None else tuple(axis), keepdims=keepdims))
    assert expected.size == 1 or 0 < expected.sum() < expected.size
    check(name, x, axis, keepdims, expected)


@AXES
@NAMES
def test_a_row_of_infinities_is_infinite(name: str, axis: list[int] | None, keepdims: bool):
    x = np.random.default_rng(0).normal(size=(2, 7, 9)).astype(np.float32)
    x[0, 0] = x[:, 1] = x[0] = {"max": -np.inf, "min": np.inf}[name]
    expected = getattr(np, name)(x, None if axis is None else tuple(axis), keepdims=keepdims)
    assert axis is None or np.isinf(expected).any()
    check(name, x, axis, keepdims, np.asarray(expected))


@pytest.mark.parametrize(("axis", "keepdims"), [(1, True), (-1, False), (None, True), (None, False)], ids=str)
@NAMES
def test_the_place_is_that_of_the_first_nan(name: str, axis: int | None, keepdims: bool):
    x = np.random.default_rng(0).normal(size=(2, 7, 9)).astype(np.float32)
    x[0, 2:4, 3] = x[1, 1, 5:] = x[1, 6] = np.nan
    x[0, 0] = {"max": -np.inf, "min": np.inf}[name]
    expected = getattr(np, f"arg{name}")(x, axis, keepdims=keepdims)
    check(f"arg{name}", x, axis, keepdims, np.asarray(expected))
