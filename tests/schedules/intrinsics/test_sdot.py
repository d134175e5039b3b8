# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import te, tirx
from tvm.s_tir import Schedule, ScheduleError

from arm_ext.board import Board
from schedules.intrinsics import sdot
from tests.schedules.programs import DOTPROD, assembly, model_so

M, N, K = 7, 12, 20
LAYOUTS = {
    "panels": ((N // 4, K // 4, 4, 4), lambda b, k, j: b[j // 4, k // 4, j % 4, k % 4]),
    "columns": ((N, K), lambda b, k, j: b[j, k]),
    "spaced": ((N // 4, K // 4, 4, 16), lambda b, k, j: b[j // 4, k // 4, j % 4, k % 4]),
    "rows": ((K, N), lambda b, k, j: b[k, j]),
}


def matmul(layout: str) -> tirx.PrimFunc:
    """int8 [M, K] by B in one of the layouts, int32 [M, N], with SDOT as the innermost block."""
    shape, at = LAYOUTS[layout]
    a, b = te.placeholder((M, K), "int8", "A"), te.placeholder(shape, "int8", "B")
    k = te.reduce_axis((0, K), "k")
    c = te.compute(
        (M, N), lambda i, j: te.sum(a[i, k].astype("int32") * at(b, k, j).astype("int32"), axis=k), "C"
    )
    schedule = Schedule(te.create_prim_func([a, b, c]).with_attr("global_symbol", "matmul"))
    block = schedule.get_sblock("C")
    i, j, k = schedule.get_loops(block)
    j_outer, j_inner = schedule.split(j, [None, 4])
    k_outer, k_inner = schedule.split(k, [None, 4])
    schedule.reorder(i, j_outer, k_outer, j_inner, k_inner)
    schedule.decompose_reduction(block, k_outer)
    schedule.tensorize(j_inner, sdot.register())
    return schedule.mod["main"]


@pytest.mark.isa("dotprod")
def test_values_on_a_board(tmp_path: Path, board: Board):
    rng = np.random.default_rng(5)
    a = rng.integers(-128, 128, (M, K)).astype(np.int8)
    b = rng.integers(-128, 128, (K, N)).astype(np.int8)
    a[0], b[:, 0] = -128, -128  # the largest products
    panels = np.ascontiguousarray(b.reshape(K // 4, 4, N // 4, 4).transpose(2, 0, 3, 1))
    so = model_so(tmp_path / "model.so", [(matmul("panels"), [a, panels], (M, N), "int32")], DOTPROD)
    (actual,) = board.load(so).run([a, panels])
    np.testing.assert_array_equal(actual, a.astype(np.int32) @ b.astype(np.int32))


def test_the_instruction_is_emitted():
    asm = assembly(matmul("panels"), DOTPROD)
    assert "sdot\t" in asm
    assert "smlal" not in asm


# Both have the block's shape, [4, 4], so that tensorize takes them: columns of [N, K] start at multiples of 4 bytes,
# and the rows of the other lie 16 bytes apart.
@pytest.mark.parametrize(("layout", "refusal"), [("columns", "offset_factor 16"), ("spaced", "strides")])
def test_wrong_layouts_are_refused_at_build(layout: str, refusal: str):
    module = tvm.IRModule({"matmul": matmul(layout)})
    with pytest.raises(Exception, match=refusal):
        tvm.tirx.build(module, target=tvm.target.Target(DOTPROD))


def test_rows_are_refused_at_tensorize():
    with pytest.raises(ScheduleError, match="buffer region"):
        matmul("rows")
