# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest
from tvm import tirx

from arm_ext.board import Board
from schedules.intrinsics.opaque import opaques
from schedules.kernels.gemm.gemm_s8_mmla import TILES
from schedules.kernels.tiles import mmla_tile
from schedules.tir.emit import i64, kernel_function, load, store
from tests.schedules.products import I8MM
from tests.schedules.programs import NEON, assembly, loops, model_so


def tile(row_pairs: int, column_pairs: int, steps: int, unroll: int) -> tirx.PrimFunc:
    """A panel of A by a panel of B, from accumulators that start at each column's offset."""
    accumulators = row_pairs * column_pairs * 4
    arguments = [
        ((row_pairs * 16 * steps,), "int8"),
        ((column_pairs * 16 * steps,), "int8"),
        ((4 * column_pairs,), "int32"),
        ((accumulators,), "int32"),
    ]
    with kernel_function("tile", arguments) as function, opaques():
        a, b, offset, output = function.buffers
        start = [load(offset, i64(4 * c), 4) for c in range(column_pairs)]
        pairs = (row_pairs, column_pairs)
        acc = mmla_tile.multiply(a, i64(0), b, i64(0), pairs, steps, unroll, lambda _: start)
        for at in range(0, accumulators, 4):
            store(output, acc.vload([i64(at)], "int32x4"), i64(at), 4)
    return function.prim_func


@pytest.mark.isa("i8mm")
def test_values_on_a_board(tmp_path: Path, board: Board):
    rng, calls, expected = np.random.default_rng(2), [], []
    for (row_pairs, column_pairs), steps in zip(TILES, (1, 2, 3, 4, 7, 8, 9, 12, 17), strict=True):
        a = rng.integers(-128, 128, (2 * row_pairs, 8 * steps)).astype(np.int8)
        b = rng.integers(-128, 128, (2 * column_pairs, 8 * steps)).astype(np.int8)
        offset = rng.integers(-1000, 1000, 2 * column_pairs).astype(np.int32)
        panel = a.reshape(row_pairs, 2, steps, 8).transpose(2, 0, 1, 3).ravel()
        operands = [panel, mmla_tile.pack_columns(b, column_pairs).ravel(), mmla_tile.in_blocks(offset)]
        product = a.astype(np.int32) @ b.astype(np.int32).T + offset
        blocks = product.reshape(row_pairs, 2, column_pairs, 2).transpose(0, 2, 1, 3).ravel()
        calls.append((tile(row_pairs, column_pairs, steps, 4), operands, blocks.shape, "int32"))
        expected.append(blocks)
    so = model_so(tmp_path / "model.so", calls, I8MM)
    outputs = board.load(so).run([array for _, arrays, _, _ in calls for array in arrays])
    for actual, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(actual, wanted)


@pytest.mark.parametrize(("row_pairs", "column_pairs"), TILES)
def test_the_loop_is_what_is_estimated_and_leaves_the_stack_alone(row_pairs: int, column_pairs: int):
    steps, unroll = 132, 4
    (loop,) = loops(assembly(tile(row_pairs, column_pairs, steps, unroll), NEON))
    products = unroll * row_pairs * column_pairs
    assert sum(line.startswith("smmla") for line in loop) == products
    assert not [line for line in loop if "[sp" in line]
    total, vector = mmla_tile.instructions(row_pairs, column_pairs, steps, unroll)
    start = row_pairs * column_pairs / 2
    assert vector == steps * row_pairs * column_pairs
    # One instruction off: LLVM counts down by one of the pointers, or loads an odd vector on its own.
    assert abs((total - start) / (steps / unroll) - len(loop)) <= 2


def test_register_file_limits_the_tile():
    mmla_tile.check_registers(6, 4)  # 24 + 6 + 2: all of it
    with pytest.raises(ValueError, match="a tile of 7 x 4 pairs takes 37 registers of 32"):
        mmla_tile.check_registers(7, 4)
    with pytest.raises(ValueError, match="0 x 4"):
        mmla_tile.check_registers(0, 4)


def test_layouts():
    b = np.arange(4 * 16, dtype=np.int8).reshape(4, 16)
    (panel,) = mmla_tile.pack_columns(b, 2)
    assert panel[:32].tolist() == [*range(8), *range(16, 24), *range(32, 40), *range(48, 56)]
    assert mmla_tile.in_blocks(np.arange(4)).tolist() == [0, 1, 0, 1, 2, 3, 2, 3]
