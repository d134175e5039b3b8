# SPDX-License-Identifier: Apache-2.0
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tvm import tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from arm_ext.board import Board
from schedules.intrinsics import sve
from schedules.intrinsics.vector_f32 import Vector
from schedules.kernels.epilogues import activation_f32
from schedules.kernels.epilogues.activation_f32 import ERF_P, ERF_Q
from schedules.tir.emit import i64, kernel_function, load, store
from tests.schedules.kernels import fits
from tests.schedules.programs import (
    BASELINE,
    NEON,
    SVE_PROFILE,
    Array,
    assembly,
    loops,
    model_so,
    run_on_host,
)

FUNCTIONS = {**activation_f32.FUNCTIONS, "softplus": activation_f32.softplus}

EPS = 2.0**-24
FLUSHED = 2.0**-119


def function(name: str, size: int, lanes: int = 4, *, by_sve: bool = False) -> tirx.PrimFunc:
    arguments = [((size,), "float32")] * 2
    with kernel_function(name, arguments) as built, sve.functions(by_sve):
        x, y = built.buffers
        with T.serial(i64(0), i64(size // lanes)) as index:
            value = FUNCTIONS[name](Vector(lanes, sve=by_sve), load(x, index * lanes, lanes))
            store(y, value, index * lanes, lanes)
    return built.prim_func


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


def _gelu(x: Array) -> Array:
    return x / 2 * np.vectorize(math.erfc)(-x / math.sqrt(2))


def _gelu_tanh(x: Array) -> Array:
    return x * _sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def _hard_sigmoid(x: Array) -> Array:
    return np.clip(x / 6 + 0.5, 0, 1)


def _unit(x: Array, _y: Array) -> Array:
    return np.ones_like(x)


def _value(_x: Array, y: Array) -> Array:
    return np.abs(y)


def _argument(x: Array, _y: Array) -> Array:
    return np.abs(x)


# Reference in float64; the bound in units of EPS of what the third gives.
REFERENCES: dict[str, tuple[Callable[[Array], Array], int, Callable[[Array, Array], Array]]] = {
    "sigmoid": (_sigmoid, 4, _value),
    "tanh": (np.tanh, 5, _value),
    "silu": (lambda x: x * _sigmoid(x), 4, _value),
    "gelu": (_gelu, 4, _argument),
    "gelu_tanh": (_gelu_tanh, 4, _argument),
    "hard_sigmoid": (_hard_sigmoid, 1, _unit),
    "hard_swish": (lambda x: x * _hard_sigmoid(x), 2, _argument),
    "softplus": (lambda x: np.logaddexp(x, 0), 4, _value),
}


def arguments(count: int) -> Array:
    """Half of them near 0, a quarter up to where exp ends, a quarter of any size that is no infinity."""
    rng = np.random.default_rng(5)
    sizes = 10.0 ** rng.uniform(-30, 38, count // 4) * rng.choice([-1, 1], count // 4)
    near, far = np.linspace(-12, 12, count // 2), np.linspace(-100, 100, count // 4)
    return np.concatenate([near, far, sizes]).astype(np.float32)


def check(name: str, x: Array, actual: Array) -> None:
    reference, bound, scale = REFERENCES[name]
    wide = x.astype(np.float64)
    with np.errstate(over="ignore"):
        expected = reference(wide)
    error = np.abs(actual - expected)
    assert (error <= np.maximum(bound * EPS * scale(wide, expected), FLUSHED)).all()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_error_is_within_the_stated_bound(name: str):
    x = arguments(1 << 18)
    check(name, x, run_on_host(function(name, x.size), [x], x.shape, "float32"))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bound_is_stated_where_the_functions_are(name: str):
    _, bound, _ = REFERENCES[name]
    (line,) = (row for row in (activation_f32.__doc__ or "").splitlines() if row.split()[:1] == [name])
    assert line.split()[1:3] == [str(bound), "eps"]


def test_all_on_a_board(tmp_path: Path, board: Board):
    x = arguments(1 << 12)
    calls = [(function(name, x.size), [x], x.shape, "float32") for name in FUNCTIONS]
    so = model_so(tmp_path / "model.so", calls, BASELINE)
    for name, actual in zip(FUNCTIONS, board.load(so).run([x] * len(FUNCTIONS)), strict=True):
        check(name, x, actual)


def test_all_by_sve(tmp_path: Path, sve_board: Board):
    x = arguments(1 << 14)
    ends = np.array([1e30, -1e30, 88.72, 88.73, -88.0, -89.0, 127, -127], np.float32)
    x[: len(ends)] = ends
    calls = [(function(name, x.size, by_sve=True), [x], x.shape, "float32") for name in FUNCTIONS]
    so = model_so(tmp_path / "model.so", calls, SVE_PROFILE.tvm_target())
    for name, actual in zip(FUNCTIONS, sve_board.load(so).run([x] * len(FUNCTIONS)), strict=True):
        check(name, x, actual)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_scalars_are_as_vectors(name: str):
    x = arguments(64)
    whole, single = (run_on_host(function(name, 64, lanes), [x], (64,), "float32") for lanes in (4, 1))
    np.testing.assert_array_equal(whole, single)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nan_stays_nan_and_the_ends_are_exact(name: str):
    x = np.array([np.nan, 1e30, -1e30, 0], np.float32)
    nan, high, low, zero = run_on_host(function(name, 4), [x], (4,), "float32")
    assert np.isnan(nan)
    others = {
        "sigmoid": (1, 0, 0.5),
        "tanh": (1, -1, 0),
        "hard_sigmoid": (1, 0, 0.5),
        "softplus": (x[1], 0, np.log(np.float32(2))),
    }
    assert (high, low, zero) == others.get(name, (x[1], 0, 0))


def test_tanh_keeps_the_sign_of_zero():
    x = np.array([-0.0, 0.0, -0.0, 0.0], np.float32)
    actual = run_on_host(function("tanh", 4), [x], (4,), "float32")
    np.testing.assert_array_equal(np.signbit(actual), np.signbit(x))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_instructions_are_those_of_the_assembly(name: str):
    (loop,) = loops(assembly(function(name, 1 << 20), NEON))
    around = 5  # load, store, pointer, count, branch
    assert len(loop) - around == activation_f32.INSTRUCTIONS[name]
    assert not [line for line in loop if "[sp" in line or line.startswith(("bl ", "blr "))]


def test_rounded_coefficients_are_within_two_eps():
    assert fits.erf_error(np.array(ERF_P), np.array(ERF_Q)) <= 2 * EPS


def test_coefficients_are_those_of_the_fit():
    p, q = fits.erf_ratio(5)
    assert fits.erf_error(p, q) <= 2.3e-8
    np.testing.assert_allclose(ERF_P, p, rtol=1e-4)
    np.testing.assert_allclose(ERF_Q, q, rtol=1e-4)
