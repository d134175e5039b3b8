# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import numpy as np
import pytest
from tvm import ir, tirx

from schedules.intrinsics.vector import combine, high, lanes_of, low, unzip, zip_halves
from schedules.tir.emit import i64, kernel_function, load, store
from tests.schedules.programs import BASELINE, assembly, run_on_host

A, B = np.arange(16, dtype=np.int8), np.arange(16, 32, dtype=np.int8)


def two(emit: Callable[[ir.Expr, ir.Expr], tuple[ir.Expr, ir.Expr]]) -> tirx.PrimFunc:
    """Two vectors of 16 bytes from two."""
    with kernel_function("two", [((16,), "int8")] * 2 + [((32,), "int8")]) as function:
        a, b = (load(buffer, i64(0), 16) for buffer in function.buffers[:2])
        for half, value in enumerate(emit(a, b)):
            store(function.buffers[2], value, i64(16 * half), 16)
    return function.prim_func


def _lanes(values: np.ndarray, size: int) -> np.ndarray:
    return values.reshape(-1, size)


@pytest.mark.parametrize(("dtype", "size"), [("int64x2", 8), ("int32x4", 4), ("int16x8", 2), ("int8x16", 1)])
def test_zip_and_unzip_are_each_one_instruction(dtype: str, size: int):
    zipped, unzipped = two(lambda a, b: zip_halves(a, b, dtype)), two(lambda a, b: unzip(a, b, dtype))
    pairs = np.stack([_lanes(A, size), _lanes(B, size)], axis=1).ravel()
    np.testing.assert_array_equal(run_on_host(zipped, [A, B], (32,), "int8"), pairs)
    lanes = _lanes(np.concatenate([A, B]), size)
    expected = np.concatenate([lanes[::2].ravel(), lanes[1::2].ravel()])
    np.testing.assert_array_equal(run_on_host(unzipped, [A, B], (32,), "int8"), expected)
    words = assembly(zipped, BASELINE).split()
    # LLVM joins ZIP1 of what is stored with the store.
    assert (words.count("zip1") + words.count("st2"), words.count("zip2")) == (1, 1)
    # Of two lanes, UZP is ZIP.
    one, other = ("zip1", "zip2") if size == 8 else ("uzp1", "uzp2")
    words = assembly(unzipped, BASELINE).split()
    assert (words.count(one), words.count(other)) == (1, 1)


def test_halves():
    swapped = two(lambda a, b: (combine(high(a), low(a)), combine(low(b), low(a))))
    actual = run_on_host(swapped, [A, B], (32,), "int8")
    np.testing.assert_array_equal(actual, np.concatenate([A[8:], A[:8], B[:8], A[:8]]))


def test_lanes():
    assert lanes_of(tirx.Var("v", "uint8x16")) == 16
