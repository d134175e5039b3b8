# SPDX-License-Identifier: Apache-2.0
"""Loop reordering for products of run-time sizes: the axis of contiguous stores becomes the innermost loop.

    for i, j: { y[i, j] = 0; for k: y[i, j] += a[i, k] * b[k, j] }
        →    for i: { for j: y[i, j] = 0; for k, j: y[i, j] += a[i, k] * b[k, j] }

LLVM then vectorises the loop over j for any extent, while it may not reorder a sum along k. The rewrite is exact: the
order of the terms of each result does not change.
"""

from tvm import ir, s_tir, tirx
from tvm_ffi import structural_walk

_ROOT = "root"


def stored_axis_innermost(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """Return a copy of the function whose sums of products have the loops reordered.

    Args:
        func: Fused loops, as FuseTIR returns them.
    """
    schedule = s_tir.Schedule(ir.IRModule({"main": func}))
    for block in schedule.get_child_blocks(schedule.get_sblock(_ROOT)):
        kinds = [it.iter_type for it in schedule.get(block).iter_vars]
        loops = schedule.get_loops(block)
        store = _update(schedule.get(block).body)
        if len(loops) != len(kinds) or tirx.IterVar.CommReduce not in kinds or store is None:
            continue
        stored = [it.var.same_as(store.indices[-1]) for it in schedule.get(block).iter_vars]
        if not any(stored):
            continue
        last = loops[stored.index(True)]
        summed = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == tirx.IterVar.CommReduce]
        others = [loop for loop in loops if loop not in summed and loop is not last]
        schedule.reorder(*others, *summed, last)
        schedule.decompose_reduction(block, summed[0])
    return schedule.mod["main"]


def _update(body: tirx.Stmt) -> tirx.BufferStore | None:
    """Return the store that adds a product to a sum; None for any other statement."""
    if not isinstance(body, tirx.BufferStore):
        return None
    products: list[tirx.Mul] = []
    structural_walk(body.value, [(tirx.Mul, products.append)])
    return body if products else None
