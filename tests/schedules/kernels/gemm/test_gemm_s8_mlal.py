# SPDX-License-Identifier: Apache-2.0
import dataclasses
from pathlib import Path

import numpy as np
import pytest

from arm_ext.board import Board
from schedules.cores import CORES, X86_64
from schedules.kernels.common.contract import KernelMatch, missing_feature
from schedules.kernels.gemm import gemm_s8_mlal as kernel
from schedules.kernels.gemm import product_s8
from schedules.kernels.gemm.gemm_s8_mlal import TILES, Params
from schedules.kernels.gemm.k_chunks_s8 import Reading
from schedules.kernels.gemm.product import reordered
from schedules.kernels.tiles import mlal_tile
from schedules.kernels.tiles.tile_stores import HALF
from tests.schedules.products import MIXED, SIGNED, UNSIGNED, Case, Quant, check, conv, linear
from tests.schedules.programs import BASELINE, assembly, each_fifth, loops

CORE = CORES["cortex-a53"]
TARGETS = {name: {**BASELINE, "mcpu": name} for name in ("cortex-a53", "cortex-a72")}

# Every form of requantisation: see `requantize`.
WIDE = Quant(scale=500.0)
LINEAR = [
    linear((rows,), depth, columns, quant=quant)
    for (rows, depth, columns), quant in zip(
        [
            *(
                (1, 1, 1),
                (7, 8, 9),
                (8, 31, 7),
                (9, 7, 31),
                (31, 9, 8),
                (13, 65, 17),
                (1, 48, 33),
                (2, 200, 40),
            ),
            # The last vector of 16 reaches back, behind enough of them for a loop.
            *((3, 73, 9), (2, 140, 8)),
        ],
        [SIGNED, UNSIGNED, WIDE, MIXED] * 2 + [SIGNED, MIXED],
        strict=True,
    )
]
CONVOLUTIONS = [
    conv((1, 9, 7, 1), 3, (3, 3), pads=(1, 1, 1, 1)),
    conv((2, 9, 8, 3), 17, (3, 3), strides=(2, 2), pads=(0, 1, 1, 0), quant=UNSIGNED),
    conv((1, 8, 9, 5), 5, (1, 1), strides=(2, 1), quant=MIXED),
    conv((1, 11, 9, 17), 9, (3, 2), dilation=(2, 3), pads=(2, 1, 0, 1), quant=WIDE),
    conv((2, 7, 7, 16), 24, (3, 3), groups=2, pads=(1, 1, 1, 1), quant=MIXED),
    conv((1, 5, 8, 6), 15, (2, 2), groups=3, strides=(1, 2)),
    conv((1, 7, 31, 8), 8, (7, 5), pads=(3, 2, 3, 2), quant=UNSIGNED),
    conv((1, 4, 3, 5), 31, (4, 3)),
]
# Sums of 16 bits at their limits: every product the greatest, or the least.
FULL = linear((3,), 40, 8)


def extreme(weight: int) -> Case:
    """Data and weights that are all alike, without an offset."""
    x, w = np.full((3, 40), -128, np.int8), np.full((40, 8), weight, np.int8)
    _, offset, m = FULL.constants
    m = np.full_like(m, 2.0**-13)
    scaled = np.clip(np.rint(40 * -128 * weight * 2.0**-13) - 3, -128, 127)
    workload = dataclasses.replace(FULL.workload, magnitude=None)
    return Case(workload, (x,), (w, offset * 0, m), np.full((3, 8), scaled, np.int8))


def widest(case: Case) -> Params:
    """The default, with as long a chain as the weights allow."""
    product = product_s8.product_of(case.workload, "test")
    weights = product_s8.weights_by_column(case.workload, case.constants, product)
    reading = Reading.in_vectors(product.rows, HALF)
    fits = mlal_tile.pairs_fit(reordered(weights, reading.order()), reading.chunks())
    return dataclasses.replace(kernel.default(case.workload, CORE), chain=2 if fits else 1)


@pytest.mark.parametrize("cases", [LINEAR, CONVOLUTIONS], ids=["linear", "convolutions"])
def test_every_value_is_the_definitions(cases: list[Case], tmp_path: Path, board: Board):
    assert all(widest(case).chain == 2 for case in cases)
    check(kernel, [(case, widest(case)) for case in cases], TARGETS["cortex-a53"], board, tmp_path)


@each_fifth
def test_every_tile_gives_the_same(step: int, tmp_path: Path, board: Board):
    # An odd last row, a tail of columns, and more than one loop iteration of k.
    case = conv((1, 7, 9, 27), 43, (3, 3), pads=(1, 1, 1, 1))
    params = [
        Params(*tile, chain=chain, column_blocks=1 + i % 3, parallel=bool(i % 2))
        for i, tile in enumerate(TILES[::step])
        for chain in (1, 2)
    ]
    check(kernel, [(case, p) for p in params], TARGETS["cortex-a72"], board, tmp_path)


def test_two_weights_of_minus_128_in_a_lane(tmp_path: Path, board: Board):
    cases = [(extreme(-128), Params(2, 8, chain=1)), (extreme(-127), Params(2, 8, chain=2))]
    check(kernel, [*cases, (extreme(127), Params(2, 8, chain=2))], TARGETS["cortex-a53"], board, tmp_path)
    with pytest.raises(ValueError, match="two weights of -128 are in one 16-bit sum"):
        extreme(-128).arguments(kernel, Params(2, 8, chain=2))


def test_chain_without_a_bound_on_the_weights_is_one():
    assert kernel.default(extreme(-128).workload, CORE).chain == 1


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize(("tile", "share"), [((2, 8), 0.85), ((1, 8), 0.75)])
def test_inner_loop(name: str, tile: tuple[int, int], share: float):
    case = conv((1, 8, 8, 256), 8, (3, 3))
    func = kernel.build(case.workload, Params(*tile, chain=2))
    found = [loop for loop in loops(assembly(func, TARGETS[name])) if any("sadalp" in line for line in loop)]
    # One a kernel row.
    assert len(found) == 3
    for loop in found:
        assert not any("[sp" in line for line in loop)
        products = [line for line in loop if line.startswith(("smull", "smlal", "sadalp"))]
        assert len(products) == 2 * 3 * tile[0] * tile[1]
        assert len(products) / len(loop) >= share


def test_what_it_does_not_take():
    workload = CONVOLUTIONS[0].workload
    assert isinstance(kernel.matches(workload, CORE), KernelMatch)
    host = dataclasses.replace(CORE, name="x86-64", isa=X86_64)
    assert kernel.matches(workload, host) == missing_feature("gemm_s8_mlal", "neon", host)
    for wrong, reason in [((3, 8), "registers"), ((2, 4), "multiple of 8"), ((2, 8, 3), "three products")]:
        with pytest.raises(ValueError, match=reason):
            Params(*wrong)
