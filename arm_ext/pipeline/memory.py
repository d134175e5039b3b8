# SPDX-License-Identifier: Apache-2.0
"""Memory of one inference, measured in the planned module, and the layers that determine its peak."""

import math
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.ir import GenericConst
from tvm.s_tir.stmt import SBlock
from tvm_ffi import structural_walk

from arm_ext.package.manifest import Memory, WideLayer
from arm_ext.pipeline.codegen import allocations
from arm_ext.pipeline.kernel_cache import KernelCache
from relay_passes.ir.calls import CALL_TIR, name_of
from relay_passes.ir.sources import bindings_of, relax_functions, sources_of

_WIDEST = 5


def memory_of(
    lowered: tvm.IRModule, planned: tvm.IRModule, kernel_cache: KernelCache | None = None
) -> Memory:
    """Measure a module before and after memory planning.

    Args:
        lowered: Module whose functions call kernels by call_tir, and are one dataflow block each, but for those with
            control flow.
        planned: The same module after StaticPlanBlockMemory.
        kernel_cache: Completes the kernels that the phases left without a body.
    """
    straight = _in_one(lowered)
    workspace = _most_workspace(
        (func for _, func in planned.functions_items() if isinstance(func, tirx.PrimFunc)), kernel_cache
    )
    functions = {gvar.name_hint: func for gvar, func in relax_functions(planned)}
    return Memory(
        peak_activation_bytes=_allocated(functions["main"].body, functions) + workspace,
        workspace_bytes=workspace,
        weight_bytes=sum(_constants(straight)),
        widest=_widest(straight),
    )


def _in_one(mod: tvm.IRModule) -> list[relax.Function]:
    """Return `main` with the functions that it calls inlined; with control flow, all functions."""
    functions = {gvar.name_hint: func for gvar, func in relax_functions(mod)}
    if any(
        isinstance(binding.value, relax.If) for func in functions.values() for binding in bindings_of(func)
    ):
        return list(functions.values())
    main = functions.pop("main")
    return [main.inline_functions(functions) if functions else main]


def _allocated(
    body: relax.SeqExpr, functions: Mapping[str, relax.Function], within: frozenset[str] = frozenset()
) -> int:
    """Return the bytes that a body allocates: of a branch the larger side, of a loop one iteration and its next states.

    Buffers that were freed count, too: the runtime keeps them for later allocations of the same size.

    What a function gives back the runtime keeps, for those that want as much: all count.
    """
    bindings = (binding for block in body.blocks for binding in block.bindings)
    return sum(_of_binding(binding, functions, within) for binding in bindings)


def _of_binding(
    binding: relax.Binding, functions: Mapping[str, relax.Function], within: frozenset[str]
) -> int:
    value = binding.value
    if isinstance(value, relax.If):
        branches = (value.true_branch, value.false_branch)
        return max(_allocated(branch, functions, within) for branch in branches)
    if not isinstance(value, relax.Call):
        return 0
    name = getattr(value.op, "name", "")
    if name == "relax.memory.alloc_storage":
        return int(value.args[0].values[0])
    if name == "relax.builtin.alloc_tensor":  # the planner allocates each output separately
        return _bytes(binding.var.ty)
    callee = getattr(value.op, "name_hint", "")
    if callee in within:
        return _bytes(value.ty)
    return _allocated(functions[callee].body, functions, within | {callee}) if callee in functions else 0


def _bytes(ty: relax.Type) -> int:
    if isinstance(ty, relax.TupleType):
        return sum(_bytes(field) for field in ty.fields)
    if not isinstance(ty, relax.TensorType) or ty.shape is None:
        return 0
    return math.prod(int(dim) for dim in ty.shape.values) * np.dtype(str(ty.dtype)).itemsize


def weight_bytes(mod: tvm.IRModule) -> int:
    """Return the size of all constants in bytes; a constant that several functions read counts once."""
    return sum(_constants(func for _, func in relax_functions(mod)))


def _constants(functions: Iterable[relax.Function]) -> Iterator[int]:
    seen: list[GenericConst] = []

    def visit(expr: relax.Expr) -> None:
        if isinstance(expr, GenericConst) and not any(expr.same_as(other) for other in seen):
            seen.append(expr)

    for func in functions:
        relax.analysis.post_order_visit(func, visit)
    return (_bytes(constant.ty) for constant in seen)


def _most_workspace(kernels: Iterable[tirx.PrimFunc], kernel_cache: KernelCache | None) -> int:
    """Return the maximum workspace of the kernels; passes run only on kernels that may exceed the maximum so far."""
    most = 0
    for asked, func in sorted(((_asked(func), func) for func in kernels), key=itemgetter(0), reverse=True):
        if asked <= most:
            break
        most = max(
            most, _workspace(func) if kernel_cache is None else kernel_cache.measured(func, _workspace)
        )
    return most


def _asked(func: tirx.PrimFunc) -> float:
    """Return the total bytes of the buffers that a kernel allocates before passes shrink and merge them.

    May be infinite.
    """
    found: list[tirx.Buffer] = []
    structural_walk(
        func.body,
        [
            (SBlock, lambda block: found.extend(block.alloc_buffers)),
            (tirx.AllocBuffer, lambda stmt: found.append(stmt.buffer)),
        ],
    )
    if not all(isinstance(size, tirx.IntImm) for buffer in found for size in buffer.ty.shape):
        return math.inf
    return sum(map(_buffer_bytes, found))


def _buffer_bytes(buffer: tirx.Buffer) -> int:
    dtype = tvm.DataType(str(buffer.dtype))
    return math.prod(map(int, buffer.ty.shape)) * -(-int(dtype.bits * dtype.lanes) // 8)


def _workspace(func: tirx.PrimFunc) -> int:
    """Return the total bytes of a kernel's own buffers in all scopes: an upper bound, since LLVM may drop some."""
    lowered = allocations(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}))
    by_scope = tvm.s_tir.analysis.calculate_allocated_bytes(lowered)
    return sum(int(size) for sizes in by_scope.values() for size in sizes.values())


def _widest(functions: Iterable[relax.Function]) -> list[WideLayer]:
    """Return the calls during which the most bytes are alive in their function."""
    layers = [layer for func in functions for layer in _layers(func)]
    layers.sort(key=lambda layer: (-layer.live_bytes, layer.kernel))
    return layers[:_WIDEST]


def _layers(func: relax.Function) -> list[WideLayer]:
    """Return a function's calls with the bytes alive while each runs: inputs, outputs, and values for later calls."""
    bindings = list(bindings_of(func))
    last_use: dict[relax.Var, int] = {}
    for index, binding in enumerate(bindings):
        for var in relax.analysis.free_vars(binding.value):
            last_use[var] = index
    alive: dict[relax.Var, int] = {}
    layers = []
    for index, binding in enumerate(bindings):
        alive[binding.var] = _bytes(binding.var.ty)
        call = binding.value
        if name_of(call) == CALL_TIR:
            symbol = call.args[0].name_hint
            layers.append(
                WideLayer(kernel=symbol, sources=list(sources_of(call)), live_bytes=sum(alive.values()))
            )
        alive = {var: size for var, size in alive.items() if last_use.get(var, -1) > index}
    return layers
