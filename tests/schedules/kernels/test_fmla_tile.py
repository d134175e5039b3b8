# SPDX-License-Identifier: Apache-2.0
import pytest

from schedules.cores import CORES
from schedules.kernels import fmla_tile
from schedules.kernels.matmul_f32 import TILES


def test_register_file_limits_the_tile():
    fmla_tile.check_registers(6, 4)  # 24 + 6 + 2: all of it
    with pytest.raises(ValueError, match="a tile of 7 x 4 vectors takes 37 registers of 32"):
        fmla_tile.check_registers(7, 4)
    with pytest.raises(ValueError, match="0 x 4"):
        fmla_tile.check_registers(0, 4)


def test_every_tile_of_the_kernel_fits():
    for rows, vectors in TILES:
        fmla_tile.check_registers(rows, vectors)


@pytest.mark.parametrize(
    ("rows", "vectors", "width", "expected"),
    [
        (6, 4, 5, 64 * 24 / 2),  # the FMLA pipes
        (1, 4, 5, 64 * 4),  # the chain of one accumulator
        (6, 4, 2, (64 / 4 * 114 + 24 * 3) / 2),  # dispatch of a two-wide core
    ],
)
def test_cycles_are_those_of_the_slowest(rows: int, vectors: int, width: int, expected: float):
    (core,) = [core for core in CORES.values() if core.name == {5: "neoverse-n2", 2: "cortex-a53"}[width]]
    assert core.issue_width == width
    assert fmla_tile.cycles(rows, vectors, 64, 1, core) == expected
