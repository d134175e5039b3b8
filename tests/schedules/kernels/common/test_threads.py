# SPDX-License-Identifier: Apache-2.0
"""How calls are cut for threads; what each thread then runs of a large call of each kernel, counted."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from arm_ext.board import open_board
from arm_ext.measure.threads import thread_report
from schedules.kernels.common import threads
from schedules.tir.emit import kernel_function, store
from tests.schedules.float_cases import conv2d
from tests.schedules.kernels.hot import AROUND, HOT, RELU6, TARGETS, Hot
from tests.schedules.products import conv
from tests.schedules.programs import Array, model_so, run_on_host

CORE = "neoverse-n2"

SPREAD = 0.15
"""How much less than the busiest thread the least busy one may run of a kernel."""

# Fewer rows than threads can share evenly.
FEW_ROWS = (
    Hot(
        "depthwise_s8",
        lambda: conv((1, 7, 7, 960), 960, (3, 3), groups=960, pads=AROUND, quant=RELU6).workload,
        0,
        variant="few rows",
    ),
    Hot(
        "depthwise_f32",
        lambda: conv2d((1, 7, 7, 960), 960, (3, 3), ("bias", "clip"), padding=AROUND, groups=960),
        0,
        variant="few rows",
    ),
)

# On this core the product on SMLSL is the other one again.
# The steps of a recurrent layer are sequential: only tiles of the batch can be parallel, and here there are few.
# Tree walks are parallel over rows, of which there is only one.
SERIAL = ("recurrent_f32", "recurrent_s8", "lstm_s8", "tree_ensemble")
# Of each way to share work the one kernel: panels, heads, rows of images, rows, and runs of elements.
FEW = ("gemm_f32", "gemm_s8_mmla", "matmul_s8", "depthwise_f32", "norm_s8", "elementwise_s8")
CALLS = (*(hot for hot in HOT if hot.variant != "smlsl" and hot.kernel not in SERIAL), *FEW_ROWS)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 31, 32, 33, 1000])
def test_every_task_is_of_one_run(count: int):
    with kernel_function("runs", [((1,), "int32"), ((count,), "int64")]) as function:
        threads.each(count, True, lambda task: store(function.buffers[1], task, task, 1))
    runs = threads.PARALLEL_TASKS if count >= threads.PARALLEL_TASKS else threads.FEW_TASKS
    assert re.findall(r"T.parallel\((?:T.int64\()?(\d+)", function.prim_func.script()) == [str(runs)]
    output = run_on_host(function.prim_func, [np.zeros(1, np.int32)], (count,), "int64")
    np.testing.assert_array_equal(output, np.arange(count))


@pytest.mark.parametrize(("count", "parts", "parallel"), [(3, 5, True), (1, 9, True), (31, 1, False)])
def test_what_is_packed_once_is_worked_on_in_parts(count: int, parts: int, parallel: bool):
    with kernel_function("packed", [((count,), "int64"), ((count, parts), "int64")]) as function:
        source, output = function.buffers
        packed = T.alloc_buffer((count if parallel else 1,), "int64", layout=None)

        def pack(index: ir.Expr, place: ir.Expr) -> None:
            store(packed, source.vload([index], "int64") * 10, place, 1)

        def work(index: ir.Expr, place: ir.Expr, part: ir.Expr) -> None:
            store(output, packed.vload([place], "int64") + part, index * parts + part, 1)

        threads.each_packed(count, parts, parallel, pack, work)
    x = np.arange(7, 7 + count)
    actual = run_on_host(function.prim_func, [x], (count, parts), "int64")
    np.testing.assert_array_equal(actual, 10 * x[:, None] + np.arange(parts))


def test_sizes_of_parts():
    assert threads.part_sizes(31, 4, 3) == [8, 8, 15]  # 2, 2 and 3 steps of four, and three more
    assert threads.part_sizes(3, 4, 1) == [3]


def test_spread_of_runs():
    assert threads.spread([1.0] * 8, 4) == 0
    assert threads.spread([1.0] * 9, 4) == pytest.approx(1 / 3)
    assert threads.spread([1.0] * 7 + [3.0], 2) == pytest.approx(1 / 3)
    assert threads.spread([1.0], 2) == 1


def test_no_more_tasks_than_even_shares_take():
    # Four halves of two; of five things no number of parts up to three does it, and three are the evenest.
    assert threads.fewest([1, 2, 4], lambda parts: [1.0] * (2 * parts)) == 4
    assert threads.fewest([1, 2, 3], lambda parts: [1.0] * (5 * parts)) == 3


@pytest.mark.parametrize("rows", [9, 31, 196, 3136])
@pytest.mark.parametrize("panels", [[12.0], [12.0] * 7 + [4.0], [12.0] * 100])
def test_blocks_of_rows_are_even_or_single_tiles(rows: int, panels: list[float]):
    most, tile = 64, 7
    block = threads.block_tiles(rows, tile, panels, most)
    assert 1 <= block <= most
    tiles = max(1, rows // tile)
    count = -(-tiles // block)
    sizes = np.outer([block] * (count - 1) + [tiles - block * (count - 1)], panels).ravel()
    assert threads.spread(sizes.tolist(), 4) <= SPREAD or tiles * len(panels) < 4 * threads.FEW_TASKS


def _call(hot: Hot) -> tuple[tirx.PrimFunc, list[Array], tuple[int, ...], str]:
    workload, func = hot.workload, hot.function(CORE)
    # How much is computed does not depend on the values.
    tensors = [param.ty for param in func.params[:-1]]
    zeros = [np.zeros([int(size) for size in each.shape], str(each.dtype)) for each in tensors]
    return func, zeros, workload.output_shape, workload.output_dtype


@pytest.mark.parametrize(
    ("count", "hots"),
    [
        pytest.param(4, [hot for hot in CALLS if hot.name in FEW or hot in FEW_ROWS], id="few"),
        *(pytest.param(count, CALLS, marks=pytest.mark.long, id=str(count)) for count in (2, 4)),
    ],
)
def test_threads_run_even_shares(count: int, hots: Sequence[Hot], tmp_path: Path):
    calls = [_call(hot) for hot in hots]
    so = model_so(tmp_path / "model.so", calls, TARGETS[CORE])
    with open_board("virtual", counting=True, threads=count) as board:
        trace = board.load(so).count([array for _, arrays, _, _ in calls for array in arrays])
    spreads = {row.symbol: row.spread for row in thread_report(trace, count).kernels}
    by_name = {hot.name: spreads[f"kernel_{index}"] for index, hot in enumerate(hots)}
    uneven = {name: spread for name, spread in by_name.items() if spread is None or spread > SPREAD}
    assert not uneven
