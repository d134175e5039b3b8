# SPDX-License-Identifier: Apache-2.0
import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from arm_ext.board import Board
from schedules.composites.workload import Operand, Workload
from schedules.cores import CORES, X86_64
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import KernelMatch, missing_feature
from schedules.kernels.epilogues.accumulator_bounds import magnitude_of_run_time
from schedules.kernels.gemm import matmul_s8 as kernel
from schedules.kernels.gemm.matmul_s8 import TILES, Params
from schedules.numerics.qdq.matmul import accumulators
from tests.schedules.products import I8MM, Case, Quant, check, requantized
from tests.schedules.programs import BASELINE, DOTPROD, NEON, assembly, each_fifth, loops

CORE, OLD_CORE, OLDEST_CORE = (CORES[name] for name in ("neoverse-n2", "cortex-a76", "cortex-a53"))

# How heads of attention lie: queries, and keys whose depth is contiguous.
QUERIES, KEYS = (0, 2, 1, 3), (0, 2, 3, 1)


def case(
    lead: Sequence[int],
    sizes: tuple[int, int, int],
    *,
    zeros: tuple[int, int] = (-4, 3),
    dtypes: tuple[str, str] = ("int8", "int8"),
    axes: tuple[tuple[int, ...], tuple[int, ...]] = ((), ()),
    b_lead: Sequence[int] | None = None,
    spread: float = 160,
    numerics: str = "qdq",
    only: int | None = None,
) -> Case:
    """[*lead, M, K] by [*b_lead, K, N]; a `spread` above 128 saturates some outputs; all of the data is `only`."""
    m, k, n = sizes
    rng = np.random.default_rng(5)
    shapes = (*lead, m, k), (*(lead if b_lead is None else b_lead), k, n)
    operands, inputs, seen = [], [], []
    for index, (shape, order, dtype) in enumerate(zip(shapes, axes, dtypes, strict=True)):
        stored = tuple(shape[order.index(axis)] for axis in range(len(order))) or shape
        info = np.iinfo(dtype)
        values = rng.integers(info.min, info.max + 1, stored).astype(dtype)
        if only is not None:
            values[...] = only
        operands.append(Operand(stored, dtype, "input", index, order))
        inputs.append(values)
        seen.append(values.transpose(order) if order else values)
    acc = accumulators(*seen, *zeros)
    scale = np.full((1,) * acc.ndim, spread / max(1, np.abs(acc).max()), np.float32)
    step, m, expected = requantized(acc, scale, 0, Quant(zero_point=5, bounds=(-127, 127), numerics=numerics))
    steps = (step,)
    workload = Workload(
        "arm.matmul_s8",
        (operands[0], operands[1]),
        (("a_zero", str(zeros[0])), ("b_zero", str(zeros[1]))),
        steps,
        acc.shape,
        "int8",
        None,
        magnitude_of_run_time(operands, zeros, steps, [m]),
    )
    return Case(workload, tuple(inputs), (m,), expected)


def sums(like: Case, *, known: bool = False) -> Case:
    """The int32 sums of a case's operands, with zero points of run time; that of B is a constant if `known`."""
    zeros = [int(value) for _, value in like.workload.attributes]
    points = np.array(zeros[0], np.int32), np.array([zeros[1]], np.int32)
    seen = [
        values.transpose(operand.axes) if operand.axes else values
        for values, operand in zip(like.inputs, like.workload.operands, strict=True)
    ]
    operands = (
        *like.workload.operands,
        Operand((), "int32", "input", 2),
        Operand((1,), "int32", "constant", 0) if known else Operand((1,), "int32", "input", 3),
    )
    expected = accumulators(*seen, *zeros).astype(np.int32)
    workload = Workload("arm.matmul_dynamic", operands, (), (), expected.shape, "int32")
    inputs, constants = (*like.inputs, *points[: 2 - known]), points[2 - known :]
    return Case(workload, inputs, constants, expected)


CASES = [
    case((), (1, 1, 1)),
    case((3,), (7, 8, 9), zeros=(0, 0)),
    case((2, 2), (31, 65, 17), zeros=(-128, 127)),
    case((1, 2), (13, 17, 33), zeros=(131, 255), dtypes=("uint8", "uint8")),
    case((2,), (9, 31, 7), zeros=(0, 77), dtypes=("int8", "uint8"), spread=60_000),
    case((1, 3), (8, 9, 40), axes=(QUERIES, KEYS)),
    case((2, 3), (25, 40, 31), axes=((), KEYS), dtypes=("uint8", "uint8"), zeros=(9, 3)),
    case((1, 2), (31, 7, 5), axes=((0, 1, 3, 2), QUERIES)),
    case((2, 3), (5, 16, 8), b_lead=(3,)),
    case((2, 1), (5, 33, 8), b_lead=(2,)),
    case((), (2, 300, 16), zeros=(-128, -128)),
    case((2, 2), (31, 65, 17), zeros=(-128, 127), numerics="tosa"),
    case((1, 2), (13, 17, 33), zeros=(131, 255), dtypes=("uint8", "uint8"), spread=1e6, numerics="tosa"),
]

CASES += [sums(each, known=index % 2 > 0) for index, each in enumerate(CASES[:11])]


def extreme() -> Case:
    """Whose products are the greatest there are: two of them are no int16."""
    return case((2,), (9, 31, 8), zeros=(0, 127), only=-128)


def test_the_cases_reach_every_form():
    assert {kernel._product(each.workload).form for each in CASES} == {
        "biased",
        "magic",
        "convert",
        "rescale",
        "none",
    }


@pytest.mark.isa("i8mm")
def test_every_value_is_the_definitions_on_smmla(tmp_path: Path, board: Board):
    # Each unit has a third of the cases: they differ in how they multiply, not in what they add and store.
    check(
        kernel, [(each, kernel.default(each.workload, CORE)) for each in CASES[1::3]], I8MM, board, tmp_path
    )


@pytest.mark.isa("dotprod")
def test_every_value_is_the_definitions_on_sdot(tmp_path: Path, board: Board):
    pairs = [(each, kernel.default(each.workload, OLD_CORE)) for each in CASES[::3]]
    assert {params.unit for _, params in pairs} == {"sdot"}
    check(kernel, pairs, DOTPROD, board, tmp_path)


def test_every_value_is_the_definitions_on_plain_neon(tmp_path: Path, board: Board):
    pairs = [
        (each, kernel.default(each.workload, OLDEST_CORE)) for each in (*CASES[2::3], CASES[3], extreme())
    ]
    assert {params.unit for _, params in pairs} == {"smlsl"}
    check(kernel, pairs, BASELINE, board, tmp_path)


@each_fifth
@pytest.mark.isa("i8mm")
def test_every_tile_gives_the_same(step: int, tmp_path: Path, board: Board):
    tiles = [(unit, *tile) for unit in TILES for tile in TILES[unit]][::step]
    pair = case((3,), (31, 75, 43), axes=((), (0, 2, 1))), case((1,), (29, 45, 27), axes=((0, 2, 1), ()))
    params = [(pair[i % 2], Params(*tile, parallel=bool(i % 2))) for i, tile in enumerate(tiles)]
    check(kernel, params, I8MM, board, tmp_path)


@pytest.mark.parametrize(
    ("tile", "target", "share"),
    [
        # 96 products, 10 vectors to load in pairs, and what closes the loop.
        (("smmla", 6, 4), NEON, 0.79),
        (("smmla", 3, 8), NEON, 0.78),
        (("sdot", 3, 2), DOTPROD, 0.8),
    ],
)
def test_inner_loop_multiplies_without_stack_access(
    tile: tuple[str, int, int], target: dict[str, object], share: float
):
    params = Params(*tile)
    work = case((2,), (params.rows, 256, 64), axes=((), (0, 2, 1))).workload
    inner = loops(assembly(kernel.build(work, params), target))
    counts = [sum(line.startswith(tile[0]) for line in loop) for loop in inner]
    (loop,) = (each for each, count in zip(inner, counts, strict=True) if count == 96)
    assert not [line for line in loop if "[sp" in line]
    assert 96 / len(loop) >= share


def test_a_product_is_estimated_above_its_multiplications():
    work = case((2,), (64, 64, 64)).workload
    for core, lanes in ((CORE, 32), (OLD_CORE, 16)):
        best = kernel.default(work, core)
        assert kernel.estimate(work, best, core) == min(
            kernel.estimate(work, params, core) for params in kernel.candidates(work, core)
        )
        assert kernel.estimate(work, best, core) >= 2 * 64**3 / lanes / 2


def test_matches_says_what_it_saw():
    assert kernel.matches(case((2, 3), (5, 7, 9)).workload, CORE) == KernelMatch(
        "6 products 5 x 7 x 9 of run time"
    )


def test_near_misses_name_limit_and_actual():
    good = case((), (2, 3, 4)).workload
    a, b = good.operands

    def refused(workload: Workload) -> tuple[str, str]:
        answer = kernel.matches(workload, CORE)
        assert isinstance(answer, Diagnostic)
        return answer.limit, answer.actual

    scalar = dataclasses.replace(CORE, features=frozenset(), isa=X86_64)
    assert kernel.matches(good, scalar) == missing_feature(kernel.NAME, "i8mm or dotprod or neon", scalar)
    assert refused(dataclasses.replace(good, composite="arm.linear")) == ("arm.matmul_s8", "arm.linear")
    wide = dataclasses.replace(good, operands=(a, dataclasses.replace(b, dtype="int16")))
    assert refused(wide) == ("int8 or uint8", "int8, int16")
    known = dataclasses.replace(good, operands=(a, dataclasses.replace(b, kind="constant")))
    assert refused(known) == ("inputs", "constant")
    empty = dataclasses.replace(good, operands=(dataclasses.replace(a, shape=(0, 3)), b))
    assert refused(empty)[0] == "1 or more"
    scattered = case((2, 3), (4, 5, 6), axes=((3, 1, 0, 2), ())).workload
    assert refused(scattered) == ("1 of 2", "(3, 1, 0, 2)")
    assert refused(dataclasses.replace(good, epilogue=()))[0] == "requantize"


def test_params_that_cannot_be():
    with pytest.raises(ValueError, match="a smmla tile of 6 x 8 vectors takes 56 registers of 32"):
        Params("smmla", 6, 8)
    with pytest.raises(ValueError, match="24 columns"):
        Params("smmla", 1, 12)


def test_only_large_products_are_spread_over_threads():
    assert not kernel.default(case((2,), (31, 31, 31)).workload, CORE).parallel
    assert kernel.default(case((2,), (197, 64, 197)).workload, CORE).parallel
    # Rows of one matrix are shared too.
    assert kernel.default(case((), (512, 128, 128)).workload, CORE).parallel
