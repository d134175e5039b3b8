# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax, te
from tvm.script import tirx as T  # noqa: N812 (the name that TVMScript has everywhere)

from arm_ext.board import open_board
from arm_ext.common.trace import Trace
from arm_ext.target.toolchain import LibraryLinker

TRIPLE = "aarch64-linux-gnu"
COLUMNS = 257
# Kernels, in their order in the model, and the rows that each computes, in a parallel loop.
ROWS = {"tall": 31, "flat": 7}


def parallel_kernel(name: str, rows_in: int) -> tvm.tirx.PrimFunc:
    x = te.placeholder((rows_in, COLUMNS), name="x")
    y = te.compute((ROWS[name], COLUMNS), lambda i, j: x[i, j] * 2 + 1, name="y")
    schedule = tvm.s_tir.Schedule(te.create_prim_func([x, y]))
    schedule.parallel(schedule.get_loops(schedule.get_sblock("y"))[0])
    return schedule.mod["main"].with_attr("global_symbol", name)


def built(kernels: dict[tvm.tirx.PrimFunc, tuple[int, ...]], x: tuple[int, ...], folder: Path) -> Path:
    """Build a model of kernels, given with their results' shapes: each takes the result of the one before."""
    builder = relax.BlockBuilder()
    value = relax.Var("x", relax.TensorType(x, "float32"))
    with builder.function("main", [value]):
        for func, shape in kernels.items():
            kernel = builder.add_func(func, func.attrs["global_symbol"])
            value = builder.emit(relax.call_tir(kernel, [value], relax.TensorType(shape, "float32")))
        builder.emit_func_output(value)
    executable = relax.build(builder.get(), tvm.target.Target({"kind": "llvm", "mtriple": TRIPLE}))
    so = folder / "model.so"
    executable.export_library(str(so), fcompile=LibraryLinker(TRIPLE))
    return so


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    rows = max(ROWS.values())
    kernels = {parallel_kernel(name, rows): (ROWS[name], COLUMNS) for name in ROWS}
    so = built(kernels, (rows, COLUMNS), tmp_path_factory.mktemp("board"))
    with open_board("virtual", counting=True) as board:
        return board.load(so).count([np.ones((rows, COLUMNS), "float32")])


def test_a_parallel_loop_belongs_to_its_kernel(trace: Trace) -> None:
    counts = dict.fromkeys(ROWS, 0)
    for block in trace.blocks:
        if block.image == "model.so":
            counts[block.symbol] = counts.get(block.symbol, 0) + block.instructions
    assert counts["flat"] > ROWS["flat"] * COLUMNS / 4  # four lanes at the most
    # What is not in the loops (argument checks, the launch) is the same in both.
    assert counts["tall"] / counts["flat"] == pytest.approx(ROWS["tall"] / ROWS["flat"], rel=0.25)
    assert counts["tall"] + counts["flat"] == pytest.approx(sum(counts.values()), rel=0.01)


TASKS, STEPS = 8, 4000


@T.prim_func(s_tir=True)
def uneven(x: T.Buffer((TASKS,), "float32"), y: T.Buffer((TASKS,), "float32")):
    """Task i takes i + 1 times the steps of the first, which the calling thread has."""
    T.func_attr({"global_symbol": "uneven"})
    for i in T.parallel(TASKS):
        y[i] = x[i]
        for _ in range((i + 1) * STEPS):
            y[i] = y[i] * x[i] + T.float32(1)


def test_threads_keep_step_on_a_machine_of_fewer_processors(tmp_path: Path) -> None:
    so = built({uneven: (TASKS,)}, (TASKS,), tmp_path)
    with open_board("virtual", counting=True, threads=TASKS) as board:
        found = board.load(so).count([np.ones(TASKS, "float32")])
    first, *_, last = max(found.by_thread.values(), key=sum)  # the loop; what launches it is another function
    assert last == pytest.approx(TASKS * first, rel=0.05)
    assert found.elapsed == pytest.approx(last, rel=0.1)
