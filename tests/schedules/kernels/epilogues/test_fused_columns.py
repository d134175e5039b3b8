# SPDX-License-Identifier: Apache-2.0
"""Kernels that have code for columns with a fused requantisation, and for the others."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arm_ext.board import Board
from schedules.kernels.common.contract import Kernel
from schedules.kernels.depthwise import depthwise_s8, depthwise_s8_mlal, depthwise_s8_patch
from schedules.kernels.gemm import gemm_s8_mlal, gemm_s8_mmla, gemm_s8_sdot
from schedules.kernels.gemm.packed_columns_s8 import NOT_FUSED
from tests.schedules.products import I8MM, MIXED, SIGNED, Case, Quant, check, conv
from tests.schedules.programs import BASELINE, DOTPROD

ODD = Quant(zero_point=-127, border=-9)
A53 = {**BASELINE, "mcpu": "cortex-a53"}


def depthwise(height: int, width: int, stride: int, quant: Quant, channels: int = 171) -> Case:
    data, strides = (1, height, width, channels), (stride, stride)
    return conv(
        data, channels, (3, 3), strides=strides, groups=channels, pads=(1, 1, 1, 1), quant=quant
    ).fused()


def pointwise(rows: int, quant: Quant, columns: int = 459) -> Case:
    return conv((1, 1, rows, 24), columns, (1, 1), quant=quant).fused()


CASES: dict[str, tuple[Kernel, dict[str, Any], list[tuple[Case, Any]]]] = {
    "depthwise_s8": (
        depthwise_s8,
        DOTPROD,
        [
            (depthwise(5, 9, 1, SIGNED), depthwise_s8.Params(2)),
            (depthwise(7, 8, 2, ODD), depthwise_s8.Params(1)),
            (depthwise(5, 31, 1, MIXED), depthwise_s8.Params(3)),
        ],
    ),
    "depthwise_s8_mlal": (
        depthwise_s8_mlal,
        A53,
        [
            (depthwise(5, 9, 1, SIGNED), depthwise_s8_mlal.Params(2)),
            (depthwise(7, 8, 2, ODD), depthwise_s8_mlal.Params(1)),
        ],
    ),
    "depthwise_s8_patch": (
        depthwise_s8_patch,
        DOTPROD,
        [
            (depthwise(5, 9, 1, SIGNED), depthwise_s8_patch.Params(2, 2, "sdot")),
            (depthwise(7, 8, 2, ODD), depthwise_s8_patch.Params(1, 3, "sdot", ordered=False)),
            (depthwise(3, 7, 1, MIXED), depthwise_s8_patch.Params(1, 1, "mlal1")),
        ],
    ),
    "gemm_s8_sdot": (
        gemm_s8_sdot,
        DOTPROD,
        [
            (pointwise(31, SIGNED), gemm_s8_sdot.Params(4, 4)),
            (pointwise(9, ODD), gemm_s8_sdot.Params(8, 2)),
            (pointwise(7, ODD), gemm_s8_sdot.Params(4, 6)),
            (pointwise(7, MIXED), gemm_s8_sdot.Params(6, 4, reload=False)),
        ],
    ),
    "gemm_s8_mmla": (
        gemm_s8_mmla,
        I8MM,
        [
            (pointwise(31, SIGNED), gemm_s8_mmla.Params(2, 8)),
            (pointwise(9, ODD), gemm_s8_mmla.Params(6, 4)),
            (pointwise(7, MIXED), gemm_s8_mmla.Params(3, 8, reload=False)),
        ],
    ),
    "gemm_s8_mlal": (
        gemm_s8_mlal,
        A53,
        [
            (pointwise(9, SIGNED), gemm_s8_mlal.Params(2, 8)),
            (pointwise(7, ODD), gemm_s8_mlal.Params(2, 8, reload=False)),
        ],
    ),
}


def kinds(kernel: Kernel, case: Case, params: Any) -> set[bool]:
    """Whether panels have a fused form, of those that there are."""
    width = params.tile.vectors * 4 if hasattr(params, "tile") else 8
    # Of depthwise kernels on SDOT what two rows begin with is there twice.
    addends = 2 * width if kernel is depthwise_s8 and params.reload else width
    header = case.arguments(kernel, params)[-1].view(np.int32).reshape(-1, 2 * addends + width)
    return {bool((panel[-addends:] != NOT_FUSED).all()) for panel in header}


@pytest.mark.isa("i8mm")
@pytest.mark.parametrize("name", CASES)
def test_columns_of_both_kinds_give_what_is_defined(name: str, tmp_path: Path, board: Board):
    kernel, target, calls = CASES[name]
    for case, params in calls:
        assert kinds(kernel, case, params) == {True, False}
    check(kernel, calls, target, board, tmp_path)
