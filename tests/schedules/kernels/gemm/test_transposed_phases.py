# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions by the kernels of products: every value, and what is not taken."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from arm_ext.board import Board
from schedules.composites.transposed_convolution import Geometry
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import KernelMatch
from schedules.kernels.gemm import (
    gemm_f16,
    gemm_f32,
    gemm_s8_mlal,
    gemm_s8_mmla,
    gemm_s8_sdot,
    transposed_phases,
)
from tests.schedules.half_cases import halved
from tests.schedules.products import I8MM, MIXED, RESCALED, SIGNED, UNSIGNED, check
from tests.schedules.programs import (
    BASELINE,
    DOTPROD,
    NEON,
    NEON_CORE,
    assembly,
    first_of,
    loops,
    model_so,
    run_on_host,
)
from tests.schedules.transposed_cases import GEOMETRIES, GROUPED, SPARSE, float_case, integer_case


def _check_integers(kernel: ModuleType, target: dict, board: Board, folder: Path) -> None:
    quants = (SIGNED, RESCALED[0], MIXED, RESCALED[3], UNSIGNED)
    # The units differ in how they multiply, not in the parts that a geometry is cut into.
    own = slice(kernel is gemm_s8_sdot, None, 2)
    pairs = list(zip(GEOMETRIES.values(), quants, strict=True))[own]
    cases = [integer_case(geometry, quant) for geometry, quant in pairs]
    check(kernel, [(case, kernel.default(case.workload, NEON_CORE)) for case in cases], target, board, folder)


@pytest.mark.isa("i8mm")
def test_smmla(tmp_path: Path, board: Board):
    _check_integers(gemm_s8_mmla, I8MM, board, tmp_path)


@pytest.mark.isa("dotprod")
def test_sdot(tmp_path: Path, board: Board):
    _check_integers(gemm_s8_sdot, DOTPROD, board, tmp_path)


def test_smlal(tmp_path: Path, board: Board):
    _check_integers(gemm_s8_mlal, BASELINE, board, tmp_path)


# "4 by 4" runs on a board below, and "stride 1" is no more than a convolution.
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.long] * (n in ("4 by 4", "stride 1"))) for n in GEOMETRIES]
)
def test_float_with_its_epilogue(name: str):
    workload, inputs, constants, expected = float_case(GEOMETRIES[name])
    params = gemm_f32.default(workload, NEON_CORE)
    arguments = [*inputs, *gemm_f32.pack(workload, params, constants)]
    out = run_on_host(gemm_f32.build(workload, params), arguments, expected.shape, "float32")
    np.testing.assert_array_equal(out, expected)


@pytest.mark.isa("fullfp16", "fp16fml")
@pytest.mark.parametrize("name", first_of(sorted(GEOMETRIES, key=lambda name: name != "uneven")))
def test_float16_with_its_epilogue(name: str, tmp_path: Path, board: Board):
    full, inputs, constants, expected = float_case(GEOMETRIES[name])
    workload = halved(full, "float16")
    params = gemm_f16.default(workload, NEON_CORE)
    inputs, constants = ([array.astype(np.float16) for array in arrays] for arrays in (inputs, constants))
    arguments = [*inputs, *gemm_f16.pack(workload, params, constants)]
    call = (gemm_f16.build(workload, params), arguments, expected.shape, "float16")
    (out,) = board.load(model_so(tmp_path / "model.so", [call], NEON)).run(arguments)
    np.testing.assert_array_equal(
        out, expected.astype(np.float16)
    )  # all sums are small integers; one rounding


def test_float_on_a_board_by_threads(tmp_path: Path, board: Board):
    workload, inputs, constants, expected = float_case(GEOMETRIES["4 by 4"])
    params = gemm_f32.Params(3, 4, 3, parallel=True)
    arguments = [*inputs, *gemm_f32.pack(workload, params, constants)]
    call = (gemm_f32.build(workload, params), arguments, expected.shape, "float32")
    (out,) = board.load(model_so(tmp_path / "model.so", [call], BASELINE)).run(arguments)
    np.testing.assert_array_equal(out, expected)


def test_columns_that_meet_the_same_inputs_are_one_product():
    assert [len(part.kernels) for part in transposed_phases.parts(GEOMETRIES["2 by 2"])] == [2, 2]
    assert [len(part.kernels) for part in transposed_phases.parts(GEOMETRIES["4 by 4"])] == [1, 1, 1, 1]
    workload = float_case(GEOMETRIES["2 by 2"])[0]
    assert gemm_f32.matches(workload, NEON_CORE) == KernelMatch("float32 product 35 x 24 x 24, 35 x 24 x 24")


def test_nothing_is_multiplied_that_is_not_needed():
    geometry = Geometry((1, 8, 8, 16), (16, 4, 4, 16), (2, 2), (1, 1, 1, 1), (0, 0), (1, 1), 1)
    products = [part.rows.count * part.rows.depth for part in transposed_phases.parts(geometry)]
    assert sum(products) == 8 * 8 * 16 * 4 * 4


def test_inner_loops_are_smmla_without_stack_access():
    geometry = Geometry((1, 14, 14, 128), (64, 4, 4, 128), (2, 2), (1, 1, 1, 1), (0, 0), (1, 1), 1)
    workload = integer_case(geometry).workload
    params = gemm_s8_mmla.default(workload, NEON_CORE)
    inner = loops(assembly(gemm_s8_mmla.build(workload, params), NEON))
    counts = [sum("smmla" in line for line in loop) for loop in inner]
    assert not [
        line for loop, count in zip(inner, counts, strict=True) if count for line in loop if "[sp" in line
    ]
    # Eight k steps of a full tile, one loop a phase; the rows that are left are loops of fewer.
    full = 8 * params.row_pairs * params.column_pairs
    shares = [full / len(loop) for loop, count in zip(inner, counts, strict=True) if count == full]
    assert len(shares) == 4
    # 192 of 236: 24 SMMLA on five loads in pairs.
    assert min(shares) >= 0.8


@pytest.mark.parametrize(
    ("geometry", "limit", "actual"),
    [
        (GROUPED, "1 group", "3"),
        (SPARSE, "a kernel that covers the strides", "(1, 1)"),
        (Geometry((1, 3, 3, 2), (5, 20, 1, 2), (20, 1), (0, 0, 0, 0), (0, 0), (1, 1), 1), "16", "20"),
    ],
)
def test_near_misses_name_limit_and_actual(geometry: Geometry, limit: str, actual: str):
    workload = float_case(geometry)[0] if geometry.groups == 1 else None
    if workload is None:
        good = float_case(GEOMETRIES["uneven"])[0]
        attributes = tuple(sorted({**dict(good.attributes), "groups": "3"}.items()))
        workload = replace(good, attributes=attributes)
    answer = gemm_f32.matches(workload, NEON_CORE)
    assert isinstance(answer, Diagnostic)
    assert (answer.limit, answer.actual) == (limit, actual)
