# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest
from tvm import tirx

from arm_ext.board import Board
from schedules.cores import CORES
from schedules.intrinsics.pin import pins
from schedules.intrinsics.quad import quads
from schedules.kernels.gemm import implicit_rows as implicit
from schedules.kernels.gemm.gemm_s8_sdot import TILES
from schedules.kernels.gemm.k_chunks_s8 import Chunk, Reading
from schedules.kernels.gemm.product import reordered
from schedules.kernels.tiles import sdot_tile
from schedules.tir.emit import i64, kernel_function, load, store
from tests.schedules.programs import DOTPROD, assembly, loops, model_so

A76 = {**DOTPROD, "mcpu": "cortex-a76", "mattr": []}


def _reading(depth: int) -> Reading:
    return Reading.in_vectors(implicit.linear(1, depth), sdot_tile.K_STEP)


def tile(
    rows: int, vectors: int, depth: int, chunks: list[list[Chunk]], *, by_quads: bool = False
) -> tirx.PrimFunc:
    """Dense rows by a panel, from accumulators that start at each column's offset."""
    steps = sum(chunk.used for segment in chunks for chunk in segment) // sdot_tile.K_STEP
    arguments = [
        ((rows * depth,), "int8"),
        ((vectors * 16 * steps,), "int8"),
        ((4 * vectors,), "int32"),
        ((rows * vectors * 4,), "int32"),
    ]
    with kernel_function("tile", arguments) as function, pins(), quads():
        a, b, offset, output = function.buffers
        start = [load(offset, i64(4 * v), 4) for v in range(vectors)]
        starts = [i64(row * depth) for row in range(rows)]
        acc = sdot_tile.multiply(a, starts, b, i64(0), vectors, chunks, lambda _: start, by_quads=by_quads)
        for at in range(0, rows * vectors * 4, 4):
            store(output, acc.vload([i64(at)], "int32x4"), i64(at), 4)
    return function.prim_func


@pytest.mark.isa("dotprod")
def test_values_on_a_board(tmp_path: Path, board: Board):
    rng, calls, expected = np.random.default_rng(2), [], []
    for (rows, vectors), depth in zip(TILES, (4, 8, 12, 16, 20, 31, 64, 65, 128, 300, 7, 9), strict=True):
        reading = _reading(depth)
        a = rng.integers(-128, 128, (rows, depth)).astype(np.int8)
        b = rng.integers(-128, 128, (4 * vectors, depth)).astype(np.int8)
        offset = rng.integers(-1000, 1000, 4 * vectors).astype(np.int32)
        weights = reordered(b[None], reading.order())[0]
        operands = [a.ravel(), sdot_tile.pack_columns(weights, vectors).ravel(), offset]
        chunks = reading.chunks()
        for by_quads in (False, True):
            function = tile(rows, vectors, depth, chunks, by_quads=by_quads)
            calls.append((function, operands, (rows * vectors * 4,), "int32"))
            expected.append((a.astype(np.int32) @ b.astype(np.int32).T + offset).ravel())
    so = model_so(tmp_path / "model.so", calls, DOTPROD)
    outputs = board.load(so).run([array for _, arrays, _, _ in calls for array in arrays])
    for actual, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(actual, wanted)


@pytest.mark.parametrize(("rows", "vectors"), [(6, 4), (5, 4), (8, 2)])
@pytest.mark.parametrize("by_quads", [False, True], ids=["pairs", "quads"])
def test_the_loop_is_what_is_estimated_and_leaves_the_stack_alone(rows: int, vectors: int, by_quads: bool):
    depth = 16 * 4 * 33
    reading = _reading(depth)
    (loop,) = loops(assembly(tile(rows, vectors, depth, reading.chunks(), by_quads=by_quads), A76))
    products = sum(line.startswith("sdot") for line in loop)
    assert products % (4 * rows * vectors) == 0
    assert not [line for line in loop if "[sp" in line]
    trips = depth / 16 / (products / (4 * rows * vectors))
    whole = sdot_tile.cost(rows, vectors, reading, CORES["cortex-a76"], reload=True, by_quads=by_quads)
    estimated = whole.instructions - rows * vectors / (4 if by_quads and vectors == 4 else 2)
    # Rows that lie too far apart for one register's offsets take an addition each.
    assert abs(estimated / trips - len(loop)) <= 2


def test_register_file_limits_the_tile():
    sdot_tile.check_registers(6, 4)
    with pytest.raises(ValueError, match="a tile of 7 x 4 vectors takes 37 registers of 32"):
        sdot_tile.check_registers(7, 4)


def test_layout_of_a_panel():
    b = np.arange(8 * 8, dtype=np.int8).reshape(8, 8)
    (panel,) = sdot_tile.pack_columns(b, 2)
    assert panel[:16].tolist() == [*range(4), *range(8, 12), *range(16, 20), *range(24, 28)]
    assert panel[32:36].tolist() == [4, 5, 6, 7]
