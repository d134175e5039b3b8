# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax, te

from arm_ext.board import open_board
from arm_ext.measure.trace import Trace
from arm_ext.target.toolchain import Linker

TRIPLE = "aarch64-linux-gnu"
ROWS, COLUMNS = 31, 257


def parallel_kernel(name: str, passes: int) -> tvm.tirx.PrimFunc:
    """`passes` parallel loops over the rows, one after the other."""
    stages = [te.placeholder((ROWS, COLUMNS), name="x")]
    for index in range(passes):
        before = stages[-1]
        stages.append(
            te.compute((ROWS, COLUMNS), lambda i, j, x=before: x[i, j] * 2 + 1, name=f"stage{index}")
        )
    schedule = tvm.s_tir.Schedule(te.create_prim_func([stages[0], stages[-1]]))
    for index in range(passes):
        schedule.parallel(schedule.get_loops(schedule.get_sblock(f"stage{index}"))[0])
    return schedule.mod["main"].with_attr("global_symbol", name)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Trace:
    """Counts of a model of two kernels: three parallel loops, and one."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorStructInfo((ROWS, COLUMNS), "float32"))
    with builder.function("main", [x]):
        value = x
        for name, passes in (("triple", 3), ("single", 1)):
            kernel = builder.add_func(parallel_kernel(name, passes), name)
            value = builder.emit(relax.call_tir(kernel, [value], x.struct_info))
        builder.emit_func_output(value)
    executable = relax.build(builder.get(), tvm.target.Target({"kind": "llvm", "mtriple": TRIPLE}))
    so = tmp_path_factory.mktemp("board") / "model.so"
    executable.export_library(str(so), fcompile=Linker(TRIPLE))
    with open_board("virtual", counting=True) as board:
        return board.load(so).count([np.ones((ROWS, COLUMNS), "float32")])


def test_a_parallel_loop_belongs_to_its_kernel(trace: Trace) -> None:
    counts = {"triple": 0, "single": 0}
    for block in trace.blocks:
        if block.image == "model.so":
            counts[block.symbol] = counts.get(block.symbol, 0) + block.instructions
    assert counts["single"] > ROWS * COLUMNS / 4  # four lanes at the most
    # What is not in the loops (argument checks, the launch) is the same once.
    assert counts["triple"] == pytest.approx(3 * counts["single"], rel=0.15)
    assert sum(counts.values()) == pytest.approx(counts["triple"] + counts["single"], rel=0.01)
