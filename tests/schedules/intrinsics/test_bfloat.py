# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from tvm import tirx

from arm_ext.board import Board
from schedules.intrinsics import bfloat
from schedules.tir.emit import i64, kernel_function, load, store
from tests.schedules.programs import NEON, assembly, model_so

BF16 = ml_dtypes.bfloat16


OPERANDS = [((4,), "float32"), ((8,), "bfloat16"), ((8,), "bfloat16")]


def products() -> tirx.PrimFunc:
    """out = acc + the 2 x 2 block of a and b; then acc + the sums of pairs of a * b."""
    with kernel_function("products", [*OPERANDS, ((2, 4), "float32")]) as function, bfloat.functions():
        acc = load(function.buffers[0], i64(0), 4)
        a, b = (load(bfloat.bits(buffer), i64(0), 8) for buffer in function.buffers[1:3])
        store(function.buffers[3], bfloat.bfmmla(acc, a, b), i64(0), 4)
        store(function.buffers[3], bfloat.bfdot(acc, a, b), i64(4), 4)
    return function.prim_func


def rounding() -> tirx.PrimFunc:
    """out = x in bfloat16."""
    with kernel_function("rounding", [((8,), "float32"), ((8,), "bfloat16")]) as function, bfloat.functions():
        value = function.buffers[0].vload([i64(0)], "float32x8")
        store(bfloat.bits(function.buffers[1]), bfloat.rounded(value), i64(0), 8)
    return function.prim_func


@pytest.mark.isa("bf16")
def test_values(tmp_path: Path, board: Board):
    # Small integers, whose sums are exact in whatever order.
    acc = np.array([1, -2, 3, 0.5], np.float32)
    a, b = (np.random.default_rng(seed).integers(-9, 10, 8).astype(BF16) for seed in (1, 2))
    # Ties to even, beyond a tie, a NaN, an infinity, and what rounds to one.
    x = np.array(
        [1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 1.01 * 2.0**-8, -0.3, np.nan, np.inf, 3.4e38, 1e-40], np.float32
    )
    calls = [
        (products(), [acc, a, b], (2, 4), "float32"),
        (rounding(), [x], (8,), "bfloat16"),
    ]
    so = model_so(tmp_path / "model.so", calls, NEON)
    sums, rounded = board.load(so).run([acc, a, b, x])
    a, b = a.astype(np.float32), b.astype(np.float32)
    np.testing.assert_array_equal(sums[0], acc + (a.reshape(2, 4) @ b.reshape(2, 4).T).ravel())
    np.testing.assert_array_equal(sums[1], acc + (a * b).reshape(4, 2).sum(axis=1))
    np.testing.assert_array_equal(rounded.astype(np.float32)[:7], x.astype(BF16).astype(np.float32)[:7])


def test_the_instructions_are_emitted():
    lines = [line.split() for line in assembly(products(), NEON).splitlines()]
    assert [line[0] for line in lines if line and line[0].startswith("bf")].count("bfmmla") == 1
    assert sum(line[:1] == ["bfdot"] for line in lines) == 1
    names = [line.split()[0] for line in assembly(rounding(), NEON).splitlines() if line.split()]
    assert {"bfcvtn", "bfcvtn2"} <= set(names)


def test_another_look_at_a_buffer_begins_where_the_buffer_does():
    with kernel_function("look", [((8,), "bfloat16")]) as function:
        buffer = function.buffers[0]
        assert not isinstance(buffer.elem_offset, tirx.IntImm)
        assert bfloat.bits(buffer).elem_offset.same_as(buffer.elem_offset)
        store(bfloat.bits(buffer), tirx.Broadcast(tirx.IntImm("int16", 0), 8), i64(0), 8)


def test_wrong_dtypes_are_refused():
    bits, wide = tirx.Var("b", "int16x8"), tirx.Var("w", "float32x4")
    with pytest.raises(ValueError, match="bfmmla: an operand is int16x8, expected float32x4"):
        bfloat.bfmmla(bits, bits, bits)
    with pytest.raises(ValueError, match="bfdot: an operand is float32x4, expected int16x8"):
        bfloat.bfdot(wide, bits, wide)
    with pytest.raises(ValueError, match="rounded: an operand is float32x4, expected float32x8"):
        bfloat.rounded(wide)
