# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)
from tvm_ffi import structural_walk

from schedules.generic.functions_f32 import FUNCTIONS
from schedules.intrinsics.vector_f32 import Vector
from schedules.tir.emit import i64, kernel_function, load, store
from tests.schedules.programs import run_on_host

LANES = 8
EPS = 2.0**-24

# As the module states them.
CASES = {
    "exp": (np.exp, 4 * EPS, (-87, 88)),
    "erf": (np.vectorize(math.erf), 6 * EPS, (-6, 6)),
    "log": (np.log, 2 * EPS, (2.0**-126, 9)),
}


def _run(name, x):
    """As `_run`, by one loop over all arguments."""

    with kernel_function("f", [(x.shape, "float32")] * 2) as function:
        source, target = function.buffers
        with T.serial(i64(0), i64(x.size // LANES)) as index:
            value = FUNCTIONS[name](Vector(LANES), load(source, index * LANES, LANES))
            store(target, value, index * LANES, LANES)
    return run_on_host(function.prim_func, [x], x.shape, "float32")


@pytest.mark.parametrize("name", CASES)
def test_error_is_within_its_bound(name):
    exact, bound, (low, high) = CASES[name]
    rng = np.random.default_rng(5)
    small = np.exp2(rng.uniform(-30, 0, 1 << 17)) * rng.choice([-1, 1], 1 << 17)
    if name == "log":  # of all magnitudes, and near 1, where it is small itself
        small = np.concatenate([np.exp2(rng.uniform(-149, 128, 1 << 17)), 1 + small / 2])
    x = np.concatenate([np.linspace(low, high, 1 << 17), small]).astype(np.float32)
    x = x[x != 1] if name == "log" else x
    x = np.append(x, np.full(-x.size % LANES, x[0]))
    expected = exact(x.astype(np.float64))
    actual = _run(name, x)
    error = np.abs(actual - expected) / np.abs(expected)
    assert error.max() <= bound


def test_ends():
    x = np.array([-np.inf, -1e30, -89, 89.5, 1e30, np.inf, np.nan, 0], np.float32)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(_run("exp", x), [0, 0, 0, np.inf, np.inf, np.inf, np.nan, 1])
    np.testing.assert_array_equal(_run("erf", x), [-1, -1, -1, 1, 1, 1, np.nan, 0])
    x = np.array([-np.inf, -1, -0.0, 0, 1, np.inf, np.nan, -(2.0**-149)], np.float32)
    expected = [np.nan, np.nan, -np.inf, -np.inf, 0, np.inf, np.nan, np.nan]
    np.testing.assert_array_equal(_run("log", x), expected)


PURE = 1  # of tirx.CallEffectKind, the last that the simplifier puts in the place of a variable


def test_what_a_function_is_given_stays_a_variable():
    with kernel_function("f", [((LANES,), "float32")] * 2) as function:
        source, target = function.buffers
        value = load(source, i64(0), LANES)
        for name in ("exp", "log") * 3:
            value = FUNCTIONS[name](Vector(LANES), value)
        store(target, value, i64(0), LANES)
    # Of each variable, the uses in its value with the values of others in their places.
    sizes: dict[tirx.Var, int] = {}

    def measure(bind: tirx.Bind) -> None:
        op = getattr(bind.value, "op", None)
        if isinstance(op, ir.Op) and op.get_attr("TCallEffectKind") > PURE:
            sizes[bind.var] = 1
            return
        used: list[tirx.Var] = []
        structural_walk(bind.value, [(tirx.Var, used.append)])
        sizes[bind.var] = 1 + sum(sizes.get(var, 1) for var in used)

    structural_walk(function.prim_func.body, [(tirx.Bind, measure)])
    assert len(sizes) >= 90
    assert max(sizes.values()) < 100_000
