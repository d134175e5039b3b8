# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
import tvm
from tvm import relax, te

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


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    builder = relax.BlockBuilder()
    rows = max(ROWS.values())
    x = relax.Var("x", relax.TensorType((rows, COLUMNS), "float32"))
    with builder.function("main", [x]):
        value = x
        for name in ROWS:
            kernel = builder.add_func(parallel_kernel(name, rows), name)
            rows = ROWS[name]
            value = builder.emit(
                relax.call_tir(kernel, [value], relax.TensorType((rows, COLUMNS), "float32"))
            )
        builder.emit_func_output(value)
    executable = relax.build(builder.get(), tvm.target.Target({"kind": "llvm", "mtriple": TRIPLE}))
    so = tmp_path_factory.mktemp("board") / "model.so"
    executable.export_library(str(so), fcompile=LibraryLinker(TRIPLE))
    with open_board("virtual", counting=True) as board:
        return board.load(so).count([np.ones((max(ROWS.values()), COLUMNS), "float32")])


def test_a_parallel_loop_belongs_to_its_kernel(trace: Trace) -> None:
    counts = dict.fromkeys(ROWS, 0)
    for block in trace.blocks:
        if block.image == "model.so":
            counts[block.symbol] = counts.get(block.symbol, 0) + block.instructions
    assert counts["flat"] > ROWS["flat"] * COLUMNS / 4  # four lanes at the most
    # What is not in the loops (argument checks, the launch) is the same in both.
    assert counts["tall"] / counts["flat"] == pytest.approx(ROWS["tall"] / ROWS["flat"], rel=0.25)
    assert counts["tall"] + counts["flat"] == pytest.approx(sum(counts.values()), rel=0.01)
