# SPDX-License-Identifier: Apache-2.0
"""What one inference allocates, read off the planned module; and the layers that make it so."""

import math
from collections.abc import Iterator

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.ir import GenericConst

from arm_ext.codegen import allocations
from arm_ext.manifest import Memory, WideLayer
from relay_passes.sources import bindings_of, relax_functions, sources_of

_WIDEST = 5


def memory_of(lowered: tvm.IRModule, planned: tvm.IRModule) -> Memory:
    """Measure a module before and after memory planning.

    Args:
        lowered: Its functions call kernels by call_tir, one dataflow block each.
        planned: The same module after StaticPlanBlockMemory.
    """
    main = _in_one(lowered)
    workspace = max(
        (_workspace(func) for _, func in planned.functions_items() if isinstance(func, tirx.PrimFunc)),
        default=0,
    )
    return Memory(
        peak_activation_bytes=sum(_storages(planned["main"])) + workspace,
        workspace_bytes=workspace,
        weight_bytes=sum(_constants(main)),
        widest=_widest(main),
    )


def _in_one(mod: tvm.IRModule) -> relax.Function:
    """Return `main` with the functions that it calls inside."""
    called = {gvar.name_hint: func for gvar, func in relax_functions(mod) if gvar.name_hint != "main"}
    return mod["main"].inline_functions(called) if called else mod["main"]


def _bytes(ty: relax.Type) -> int:
    if isinstance(ty, relax.TupleType):
        return sum(_bytes(field) for field in ty.fields)
    if not isinstance(ty, relax.TensorType) or ty.shape is None:
        return 0
    return math.prod(int(dim) for dim in ty.shape.values) * np.dtype(str(ty.dtype)).itemsize


def _storages(main: relax.Function) -> Iterator[int]:
    for binding in bindings_of(main):
        name = getattr(getattr(binding.value, "op", None), "name", "")
        if name == "relax.memory.alloc_storage":
            yield int(binding.value.args[0].values[0])
        elif name == "relax.builtin.alloc_tensor":  # outputs: the planner leaves them on their own
            yield _bytes(binding.var.ty)


def _constants(main: relax.Function) -> Iterator[int]:
    seen: list[GenericConst] = []

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, GenericConst) and not any(expr.same_as(other) for other in seen):
            seen.append(expr)

    relax.analysis.post_order_visit(main, visit)
    return (_bytes(constant.ty) for constant in seen)


def _workspace(func: tirx.PrimFunc) -> int:
    """Return the bytes of a kernel's own buffers, all scopes together: an upper bound, since LLVM may drop some."""
    lowered = allocations(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}))
    by_scope = tvm.s_tir.analysis.calculate_allocated_bytes(lowered)
    return sum(int(size) for sizes in by_scope.values() for size in sizes.values())


def _widest(main: relax.Function) -> list[WideLayer]:
    """Return the calls with most bytes alive while they run: inputs, outputs, and values a later call reads."""
    bindings = list(bindings_of(main))
    last_use: dict[relax.Var, int] = {}
    for index, binding in enumerate(bindings):
        for var in relax.analysis.free_vars(binding.value):
            last_use[var] = index
    alive: dict[relax.Var, int] = {}
    layers = []
    for index, binding in enumerate(bindings):
        alive[binding.var] = _bytes(binding.var.ty)
        call = binding.value
        if isinstance(call, relax.Call) and getattr(call.op, "name", "") == "relax.call_tir":
            symbol = call.args[0].name_hint
            layers.append(
                WideLayer(kernel=symbol, sources=list(sources_of(call)), live_bytes=sum(alive.values()))
            )
        alive = {var: size for var, size in alive.items() if last_use.get(var, -1) > index}
    layers.sort(key=lambda layer: (-layer.live_bytes, layer.kernel))
    return layers[:_WIDEST]
