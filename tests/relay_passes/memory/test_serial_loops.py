# SPDX-License-Identifier: Apache-2.0
import tvm
from tvm import tirx
from tvm.script import tirx as T  # noqa: N812 (the name that TVMScript has)
from tvm_ffi import structural_walk

import relay_passes
from relay_passes.memory.hoist_workspaces import Workspace


@T.prim_func(s_tir=True)
def double(x: T.Buffer((8, 512), "float32"), y: T.Buffer((8, 512), "float32")):
    for i in T.parallel(8):
        row = T.alloc_buffer((512,), "float32")
        for j in range(512):
            row[j] = x[i, j] + x[i, j]
        for j in range(512):
            y[i, j] = row[j]


PARALLEL = tvm.IRModule({"double": double})


def kinds(func: tirx.PrimFunc) -> set[int]:
    found: list[tirx.For] = []
    structural_walk(func.body, [(tirx.For, found.append)])
    return {int(loop.kind) for loop in found}


def test_parallel_loops_become_serial() -> None:
    serial = relay_passes.serial_loops(PARALLEL)["double"]
    assert kinds(PARALLEL["double"]) == {int(tirx.ForKind.SERIAL), int(tirx.ForKind.PARALLEL)}
    assert kinds(serial) == {int(tirx.ForKind.SERIAL)}


def test_what_an_iteration_allocates_is_then_an_argument() -> None:
    func, sizes = relay_passes.hoist_all(relay_passes.serial_loops(PARALLEL)["double"])
    assert sizes == [Workspace(512 * 4, is_local=False)]
    assert len(func.params) == 3
