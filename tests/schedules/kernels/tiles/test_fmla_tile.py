# SPDX-License-Identifier: Apache-2.0
import pytest

from schedules.cores import CORES
from schedules.kernels.common.cost_model import Cost
from schedules.kernels.gemm.gemm_f32 import TILES
from schedules.kernels.tiles import fmla_tile


def test_register_file_limits_the_tile():
    fmla_tile.check_registers(7, 3)  # 21 + 7 + 4: all of it
    with pytest.raises(ValueError, match="a tile of 6 x 4 vectors takes 34 registers of 32"):
        fmla_tile.check_registers(6, 4)
    with pytest.raises(ValueError, match="0 x 4"):
        fmla_tile.check_registers(0, 4)


def test_every_tile_of_the_kernel_fits():
    for rows, vectors in TILES:
        fmla_tile.check_registers(rows, vectors)


@pytest.mark.parametrize(
    ("rows", "vectors", "width", "expected"),
    [
        (7, 3, 5, 64 * 21 / 2 + (21 + 4) / 2),  # the FMLA pipes
        (1, 4, 5, 64 * 4 + (4 + 4) / 2),  # the chain of one accumulator
        (7, 3, 2, 64 * 21 + (21 + 4)),  # the one FMLA pipe of a two-wide core
    ],
)
def test_cycles_are_those_of_the_slowest(rows: int, vectors: int, width: int, expected: float):
    core = CORES[{5: "neoverse-n2", 2: "cortex-a53"}[width]]
    assert core.issue_width == width
    after = Cost(instructions=10, vector=4)
    assert fmla_tile.cycles(rows, vectors, ((0, 64),), after, core) == expected


@pytest.mark.parametrize("length", [1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 47, 48, 61, 64, 250])
def test_each_k_is_summed_once(length: int):
    assert sorted(fmla_tile.order(((0, length), (500, length)))) == list(range(2 * length))


@pytest.mark.parametrize("length", range(4, 33))
def test_pieces_cover_the_rest_in_order_and_stay_inside(length: int):
    for done in range(0, length + 1, 4):
        found = fmla_tile.pieces(length, done)
        assert [at + lane for at, lanes in found for lane in lanes] == list(range(done, length))
        assert all(0 <= at <= length - 4 for at, _ in found)


def test_vectors_of_one_iteration_are_no_neighbours():
    assert fmla_tile.unrolled(64) == (4, 4)
    assert fmla_tile.order(((0, 64),))[:20:4] == [0, 16, 32, 48, 4]
    assert fmla_tile.unrolled(24) == (2, 3)
    assert fmla_tile.unrolled(12) == (0, 0)


def test_segments_at_equal_distances_are_one_loop():
    square = [(100 * y + 10 * x, 5) for y in range(2) for x in range(3)]
    assert fmla_tile.runs(square) == [(0, 10, 3, 5), (100, 10, 3, 5)]
    assert fmla_tile.runs([(0, 8), (8, 4)]) == [(0, 0, 1, 8), (8, 0, 1, 4)]
