# SPDX-License-Identifier: Apache-2.0
"""Serialisation of parallel loops, for programs without a thread pool.

    for i in parallel(n): f(i)    →    for i in range(n): f(i)

Buffers that an iteration allocates can then be hoisted into the arena.
"""

from tvm import IRModule, tirx
from tvm_ffi import structural_map


def serial_loops(mod: IRModule) -> IRModule:
    """Make the parallel loops of all PrimFuncs serial."""
    out = mod.clone()
    for gv, func in mod.functions_items():
        if isinstance(func, tirx.PrimFunc):
            out.update_func(gv, func.with_body(structural_map(func.body, [(tirx.For, _serial)])))
    return out


def _serial(loop: tirx.For) -> tirx.For:
    if loop.kind != tirx.ForKind.PARALLEL:
        return loop
    return tirx.For(
        loop.loop_var,
        loop.min,
        loop.extent,
        tirx.ForKind.SERIAL,
        loop.body,
        None,
        loop.annotations,
        loop.step,
        loop.span,
    )
