# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import tvm
from tvm import te, tirx

from arm_ext.pipeline import codegen
from schedules import generic
from schedules.cores import X86_64
from schedules.tir.wrapping_casts import hide_wrapping_casts
from tests.schedules.programs import host

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
# What reads the sign or a bound of x: the operation in TIR, and its definition in numpy.
READERS = {
    "floor_mod": (lambda x, k: tirx.floormod(x, k(7)), lambda x: np.mod(x, x.dtype.type(7))),
    "floor_div": (lambda x, k: tirx.floordiv(x, k(7)), lambda x: x // x.dtype.type(7)),
    "mod": (lambda x, k: tirx.truncmod(x, k(7)), lambda x: np.fmod(x, x.dtype.type(7))),
    "div": (
        lambda x, k: tirx.truncdiv(x, k(7)),
        lambda x: (x - np.fmod(x, x.dtype.type(7))) // x.dtype.type(7),
    ),
    "max": (lambda x, k: tirx.max(x, k(0)), lambda x: np.maximum(x, x.dtype.type(0))),
    "min": (lambda x, k: tirx.min(x, k(100)), lambda x: np.minimum(x, x.dtype.type(100))),
    "not_negative": (
        lambda x, k: tirx.Select(x >= k(0), x, k(5)),
        lambda x: np.where(x >= 0, x, x.dtype.type(5)),
    ),
    "less": (
        lambda x, k: tirx.if_then_else(x < k(9), k(1), k(2)),
        lambda x: np.where(x < 9, 1, 2).astype(x.dtype),
    ),
    "abs": (
        lambda x, k: tirx.Select(x < k(0), k(0) - x, x),
        lambda x: np.where(x < 0, 0 - x, x).astype(x.dtype),
    ),
    "widened": (
        lambda x, _: tirx.Select(
            tirx.Cast("float64", x) < 0, tirx.Cast("float64", x), tirx.FloatImm("float64", 1)
        ),
        lambda x: np.where(x < 0, x, 1).astype("float64"),
    ),
}


def _edges(dtype: str, size: int = 31) -> np.ndarray:
    limits = np.iinfo(dtype)
    known = [limits.min, limits.max, limits.max - 1, limits.max // 2 + 1, limits.max // 2, 0, 1, 7, 100]
    drawn = np.random.default_rng(0).integers(limits.min, limits.max, size - len(known), dtype, endpoint=True)
    return np.array([*known, *map(int, drawn)], dtype)


def _reader(old: str, new: str, read) -> tirx.PrimFunc:
    x = te.placeholder((31,), old, "x")
    c = te.compute((31,), lambda i: tirx.Cast(new, x[i]), "c")  # its own loop: TE simplifies what is in one
    y = te.compute((31,), lambda i: read(c[i], lambda n: tirx.IntImm(new, n)), "y")
    return generic.schedule(te.create_prim_func([x, y]), X86_64).func


@pytest.mark.parametrize("old", INTEGERS)
def test_all_that_reads_a_sign_or_a_bound_reads_it_after_the_cast(old):
    x, functions, expected = _edges(old), {}, {}
    for new in (dtype for dtype in INTEGERS if dtype != old):
        for name, (read, define) in READERS.items():
            with np.errstate(over="ignore"):
                expected[f"{new}_{name}"] = define(x.astype(new))
            functions[f"{new}_{name}"] = _reader(old, new, read)
    assert len(expected) == 7 * len(READERS)
    named = {name: func.with_attr("global_symbol", name) for name, func in functions.items()}
    module = tvm.tirx.build(tvm.IRModule(named), target=host(), pipeline=codegen.registered())
    for name, right in expected.items():
        y = tvm.runtime.tensor(np.zeros(x.shape, right.dtype))
        module[name](tvm.runtime.tensor(x), y)
        np.testing.assert_array_equal(y.numpy(), right, err_msg=f"{old} -> {name}")


@pytest.mark.parametrize(
    ("expr", "is_hidden"),
    [
        (lambda x: tirx.Cast("int8", tirx.min(tirx.max(x, -128), 127)), False),  # as after a requantisation
        (lambda x: tirx.Cast("int8", tirx.min(tirx.max(x, -129), 127)), True),
        (lambda x: tirx.Cast("int64", x), False),
        (lambda x: tirx.Cast("uint8", x), True),
        (lambda x: tirx.Cast("float32", x), False),
    ],
)
def test_a_cast_that_provably_fits_stays(expr, is_hidden):
    x = tirx.Var("x", "int32")
    before = expr(x)
    after = hide_wrapping_casts(before)
    assert isinstance(after, tvm.ir.Call) == is_hidden
    assert after.ty.dtype == before.ty.dtype


def test_a_loop_variable_stays():
    i = tirx.Var("i", "int64")
    cast = tirx.Cast("int32", i)
    assert isinstance(hide_wrapping_casts(cast), tvm.ir.Call)
    assert hide_wrapping_casts(cast, [(i, tvm.ir.Range(0, 9))]).same_as(cast)
