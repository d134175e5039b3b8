# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from schedules.cores import CORES
from schedules.intrinsics.fmla_f16 import WIDENING_FEATURE
from schedules.kernels.common.cost_model import arithmetic
from schedules.kernels.epilogues import epilogue_half
from schedules.kernels.gemm.product import NOTHING
from schedules.kernels.tiles import fmla_tile
from schedules.kernels.tiles.fmla_f16_tile import CHUNK, WINDOW_LIMIT, column_powers, cycles, order, steps_of


@pytest.mark.parametrize("segments", [((0, 16),), ((0, 9), (40, 9)), ((3, 5),), ((0, 31), (64, 8), (90, 1))])
def test_order_has_each_k_once(segments):
    found = order(segments)
    depth = sum(length for _, length in segments)
    assert sorted(k for k in found if k != NOTHING) == list(range(depth))
    assert len(found) == sum(8 * steps_of(n) if n >= 8 else n for _, n in segments)


def test_the_last_vector_of_a_segment_reaches_back():
    assert order([(0, 9)]).tolist() == [*range(8), *[NOTHING] * 7, 8]


@pytest.mark.parametrize("scale", [2.0**-20, 1.0, 2.0**10])
def test_magnitudes_of_any_chunk_stay_below_the_limit(scale: float):
    b = (np.random.default_rng(1).normal(size=(2, 5 * CHUNK + 7, 9)) * scale).astype(np.float16)
    b[:, :, 3] = 0
    b[:, 1:, 5] = 0
    powers = column_powers(b)
    scaled = np.abs(b.astype(np.float64)) * powers[:, None]
    sums = np.lib.stride_tricks.sliding_window_view(scaled, CHUNK, axis=1).sum(axis=-1)
    assert sums.max() <= WINDOW_LIMIT
    assert (sums.max(axis=1)[:, [0, 1, 2, 4]] > WINDOW_LIMIT / 2).all()
    np.testing.assert_array_equal(np.frexp(powers)[0], 0.5)
    assert (powers[:, 3] == 1).all()


def test_registers_are_enough():
    with pytest.raises(ValueError, match="8 x 3 vectors takes 36 registers of 32"):
        fmla_tile.check_registers(8, 3)


@pytest.mark.parametrize(
    ("core", "depth", "after", "measured"),
    [
        # Eight chunks that are added up in binary32: 24 iterations of 84.1 cycles, and eight of 194.1 or 137.6.
        ("cortex-a76", 256, 0, 24 * 84.1 + 8 * 194.1),
        ("neoverse-n2", 256, 0, 24 * 84.1 + 8 * 137.6),
        # One chunk, and the rounding of its 42 vectors of four: three iterations, and one with all of that.
        ("cortex-a76", 32, 42, 3 * 84.1 + 282.1),
        ("neoverse-n2", 32, 42, 3 * 84.1 + 257.2),
    ],
)
def test_cycles_are_those_of_the_blocks(core: str, depth: int, after: int, measured: float):
    """Against llvm-mca's cycles of the blocks of a tile of 7 x 3 vectors: conversions take two turns of a pipe."""
    cpu = CORES[core]
    rounded = (arithmetic(1) + epilogue_half.cost((), "float16", cpu)) * after
    widening = WIDENING_FEATURE in cpu.features
    assert cycles(7, 3, ((0, depth),), rounded, cpu, widening=widening) == pytest.approx(measured, rel=0.1)
