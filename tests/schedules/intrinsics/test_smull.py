# SPDX-License-Identifier: Apache-2.0
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tvm import ir, tirx

from arm_ext.board import Board
from schedules.intrinsics import smull
from schedules.intrinsics.pin import pinned, pins
from schedules.intrinsics.vector import high, low
from schedules.tir.emit import i64, kernel_function, load, store
from tests.schedules.programs import BASELINE, assembly, model_so

# A core that issues in order: its scheduler moves code the most.
IN_ORDER = {**BASELINE, "mcpu": "cortex-a53"}


def pairs(second: Callable[[ir.Expr, ir.Expr, ir.Expr], ir.Expr]) -> tirx.PrimFunc:
    """int32x4: int8x16 by int8x16 in four partial sums, the second eight added or subtracted, added to int32x4."""
    with kernel_function(
        "pairs", [((16,), "int8"), ((16,), "int8"), ((4,), "int32"), ((4,), "int32")]
    ) as function:
        a, b, start, out = function.buffers
        x, y, total = load(a, i64(0), 16), load(b, i64(0), 16), load(start, i64(0), 4)
        products = second(smull.smull(low(x), low(y)), high(x), high(y))
        with pins():
            store(out, pinned(smull.sadalp(total, products)), i64(0), 4)
    return function.prim_func


def lanes() -> tirx.PrimFunc:
    """int32x4: for each lane of int16x8 the int16x4 times the lane, plus int32x4."""
    arguments = [((8,), "int16"), ((4,), "int16"), ((4,), "int32"), ((4,), "int32")]
    with kernel_function("lanes", arguments) as function:
        a, b, start, out = function.buffers
        x, y, total = load(a, i64(0), 8), load(b, i64(0), 4), load(start, i64(0), 4)
        for lane in range(8):
            total = smull.smlal_lane(total, y, x, lane)
        store(out, total, i64(0), 4)
    return function.prim_func


def sums() -> tirx.PrimFunc:
    """int32x4: pairwise sums of int32x4 and what SADDLP makes of int16x8, then SADDW of its lower half."""
    with kernel_function("sums", [((4,), "int32"), ((8,), "int16"), ((4,), "int32")]) as function:
        a, b, out = function.buffers
        x, y = load(a, i64(0), 4), load(b, i64(0), 8)
        store(out, smull.saddw(smull.addp(x, smull.saddlp(y)), low(y)), i64(0), 4)
    return function.prim_func


def test_values_on_a_board(tmp_path: Path, board: Board):
    rng = np.random.default_rng(5)
    bytes_ = [rng.integers(-128, 128, 16).astype(np.int8) for _ in range(2)]
    # The greatest sum of two that fits: (-128) * (-128) + (-128) * (-127); and the least.
    bytes_[0][[0, 8]], bytes_[1][[0, 8]] = (-128, -128), (-128, -127)
    bytes_[0][[1, 9]], bytes_[1][[1, 9]] = (-128, -128), (127, 127)
    halves = [rng.integers(-(2**15), 2**15, size).astype(np.int16) for size in (8, 4)]
    start = np.array([-(2**31), 2**31 - 1, 5, -7], np.int32)
    small = np.array([1, -2, 3, -(2**30)], np.int32)
    calls = [
        (pairs(smull.smlal), [*bytes_, start], (4,), "int32"),
        (pairs(smull.smlsl), [*bytes_, start], (4,), "int32"),
        (lanes(), [*halves, start], (4,), "int32"),
        (sums(), [small, halves[0]], (4,), "int32"),
    ]
    so = model_so(tmp_path / "model.so", calls, IN_ORDER)
    actual = board.load(so).run([array for _, arrays, _, _ in calls for array in arrays])
    wide = [array.astype(np.int64) for array in (*bytes_, *halves, small)]
    first, second = (wide[0] * wide[1]).reshape(2, 4, 2).sum(2)
    pairwise = np.concatenate([wide[4].reshape(2, 2).sum(1), wide[2].reshape(4, 2).sum(1)])
    expected = [
        start + first + second,
        start + first - second,
        start + wide[3] * wide[2].sum(),
        # ADDP of x and of the four sums of SADDLP.
        np.concatenate([pairwise[:2], pairwise[2:].reshape(2, 2).sum(1)]) + wide[2][:4],
    ]
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(one, other.astype(np.int32))


@pytest.mark.parametrize(
    ("func", "instructions"),
    [
        (pairs(smull.smlal), [r"smull v\d+.8h", r"smlal2 v\d+.8h", r"sadalp v\d+.4s, v\d+.8h"]),
        (pairs(smull.smlsl), [r"smull v\d+.8h", r"smlsl2 v\d+.8h", r"sadalp v\d+.4s, v\d+.8h"]),
        (lanes(), [rf"smlal v\d+.4s, v\d+.4h, v\d+.h\[{lane}\]" for lane in range(8)]),
        (sums(), [r"saddlp v\d+.4s", r"addp v\d+.4s", r"saddw v\d+.4s"]),
    ],
    ids=["pairs", "differences", "lanes", "sums"],
)
def test_the_instructions_are_emitted(func: tirx.PrimFunc, instructions: list[str]):
    asm = assembly(func, IN_ORDER).replace("\t", " ")
    assert [text for text in instructions if not re.search(text, asm)] == []


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (lambda v: smull.smull(v("int8x16"), v("int8x8")), "smull: an operand is int8x16, expected int8x8"),
        (
            lambda v: smull.smlal(v("int32x4"), v("int8x8"), v("int8x8")),
            "smlal: .* int32x4, expected int16x8",
        ),
        (
            lambda v: smull.smlsl(v("int32x4"), v("int8x8"), v("int8x8")),
            "smlsl: .* int32x4, expected int16x8",
        ),
        (lambda v: smull.sadalp(v("int16x8"), v("int16x8")), "sadalp: .* int16x8, expected int32x4"),
        (
            lambda v: smull.smlal_lane(v("int32x4"), v("int16x4"), v("int16x4"), 0),
            "smlal by lane: .* int16x4",
        ),
        (lambda v: pinned(v("int16x8")), "pinned: an operand is int16x8"),
    ],
)
def test_operands_of_another_dtype_are_refused(call, reason: str):
    def value(dtype: str) -> ir.Expr:
        return tirx.Var("v", dtype)

    with pytest.raises(ValueError, match=reason):
        call(value)
