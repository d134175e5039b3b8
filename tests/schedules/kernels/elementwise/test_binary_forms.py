# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from schedules.kernels.elementwise import binary_forms
from schedules.kernels.elementwise.binary_forms import (
    Exact,
    Linear,
    Op,
    Per,
    QuantizedBinary,
    Scaled,
    form_of,
)
from schedules.kernels.epilogues.requantize import Requantization
from tests.schedules.kernels.epilogues.test_requantize_fused import narrowed


def per(scale: float, zero_point: int, dtype: str = "int8") -> Per:
    return Per(float(np.float32(scale)), zero_point, dtype)


# As a calibration gives them: short decimals have near ties among their sums, and take the exact form.
A, B, Y = per(0.031247217, -3), per(0.027193646, 5), per(0.040118281, -1)
U, V = per(0.030137183, 5, "uint8"), per(0.040281913, 131, "uint8")
CASES = [(A, B, Y), (B, A, per(0.21371913, 127)), (U, B, V), (U, V, Y), (A, U, per(0.010173219, -128))]


def values(per: Per) -> np.ndarray:
    info = np.iinfo(per.dtype)
    return np.arange(info.min, info.max + 1)


def of_linear(form: Linear, what: QuantizedBinary) -> np.ndarray:
    """Words as the instructions compute them."""
    k, ma, mb = form.constants()
    with np.errstate(over="ignore"):
        a, b = (values(p).astype(np.int32) for p in (what.a, what.b))
        word = (a[:, None] + k) * ma + b[None, :] * mb
    return np.clip(word >> form.shift, what.low, what.high)


def of_scaled(form: Scaled, what: QuantizedBinary) -> np.ndarray:
    """One exact sum, in integers, rounded half to even once."""
    a, b = (values(p).astype(np.int64) - p.zero_point for p in (what.a, what.b))
    acc = (np.int64(form.base) + a[:, None] * b[None, :]).astype(np.int32)
    real = acc.view(np.float32).astype(np.int64)
    numerator, denominator = form.m.as_integer_ratio()
    to = Requantization(what.y.zero_point, what.low, what.high, what.y.dtype)
    return narrowed(real * numerator, (0, denominator), int(form.addend), to)


@pytest.mark.parametrize("limits", [(None, None), (-3, 90)], ids=str)
@pytest.mark.parametrize("op", ["add", "subtract", "multiply"])
@pytest.mark.parametrize(("a", "b", "y"), CASES, ids=str)
def test_form_equals_the_definition_for_every_pair(a: Per, b: Per, y: Per, op: Op, limits: tuple):
    info = np.iinfo(y.dtype)
    low, high = (int(info.min), int(info.max)) if limits[0] is None else (max(limits[0], info.min), limits[1])
    what = QuantizedBinary(op, a, b, y, low, high)
    form = form_of(what)
    assert isinstance(form, Scaled if op == "multiply" else Linear)
    actual = of_scaled(form, what) if isinstance(form, Scaled) else of_linear(form, what)
    np.testing.assert_array_equal(actual, what.definition())


def test_cheap_forms_are_nearly_always_found():
    rng = np.random.default_rng(0)
    forms = []
    for _ in range(60):
        scales, points = rng.uniform(0.01, 0.06, 3), rng.integers(-20, 20, 3)
        a, b, y = (per(s, int(z)) for s, z in zip(scales, points, strict=True))
        what = QuantizedBinary("add", a, b, y, -128, 127)
        forms.append(form_of(what))
        if isinstance(forms[-1], Linear):
            np.testing.assert_array_equal(of_linear(forms[-1], what), what.definition())
    assert sum(isinstance(form, Linear) for form in forms) >= 55


@pytest.mark.parametrize("zero_point", [0, 3, -128])
def test_products_with_ties_are_scaled(zero_point: int):
    what = QuantizedBinary("multiply", per(2.0**-4, 3), per(2.0**-3, -7), per(2.0**-1, zero_point), -128, 127)
    form = form_of(what)
    assert isinstance(form, Scaled)
    np.testing.assert_array_equal(of_scaled(form, what), what.definition())


@pytest.mark.parametrize("shift", binary_forms.SHIFTS)
def test_both_ends_of_the_interval_hold(shift: int, monkeypatch: pytest.MonkeyPatch):
    # With few bits the interval is a few units wide, so that its middle is near an end.
    monkeypatch.setattr(binary_forms, "SHIFTS", [shift])
    for scale in np.linspace(0.2, 0.5, 40):
        what = QuantizedBinary(
            "add", per(scale * 0.0731, 0), per(scale * 0.0317, 0), per(scale, 3), -128, 127
        )
        form = form_of.__wrapped__(what)
        if isinstance(form, Linear):
            np.testing.assert_array_equal(of_linear(form, what), what.definition())


def test_ties_take_the_exact_form_with_a_reciprocal():
    what = QuantizedBinary("add", per(2.0**-4, 3), per(2.0**-5, -7), per(2.0**-4, 1), -128, 127)
    assert form_of(what) == Exact(16.0)


def test_ratios_beyond_a_word_take_the_exact_form():
    assert isinstance(
        form_of(QuantizedBinary("add", per(1e9, 0), per(1.0, 0), per(1.0, 0), -128, 127)), Exact
    )
    assert isinstance(
        form_of(QuantizedBinary("multiply", per(1e3, 0), per(1e3, 0), per(1.0, 0), -128, 127)), Exact
    )


def test_reciprocal_that_differs_somewhere_is_not_taken():
    # Every other sum is a tie, which the division finds and a product with fl(1 / s) misses.
    half = per(0.05, 0)
    what = QuantizedBinary("add", half, half, per(0.1, 0), -128, 127)
    assert form_of(what) == Exact(None)
    real = values(half).astype(np.float32) * np.float32(half.scale)
    scaled = np.rint((real[:, None] + real[None, :]) * (np.float32(1) / np.float32(0.1)))
    assert (np.clip(scaled, -128, 127) != what.definition()).any()


DECIMAL = (per(0.05, -3), per(0.03, 5), per(0.08, -1))


@pytest.mark.parametrize(("abc", "form"), [((A, B, Y), Linear), (DECIMAL, Exact)], ids=str)
def test_pairs_that_are_tried_first_decide_nothing(
    abc: tuple[Per, Per, Per], form: type, monkeypatch: pytest.MonkeyPatch
):
    what, sizes, terms = QuantizedBinary("add", *abc, -128, 127), [], binary_forms._terms
    monkeypatch.setattr(binary_forms, "_terms", lambda *args: sizes.append(args[0].size) or terms(*args))
    found = form_of.__wrapped__(what)
    assert isinstance(found, form)
    assert sizes.count(256 * 256) < len(sizes) / 2
    monkeypatch.setattr(binary_forms, "COARSE", 1)
    assert form_of.__wrapped__(what) == found
