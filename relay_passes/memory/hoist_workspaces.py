# SPDX-License-Identifier: Apache-2.0
"""Hoisting of kernel workspaces to Relax, so that the memory planner places them in the arena.

    k(x, out) { w = alloc(n); ... }    →    w = alloc_tensor(n); k(x, out, w)

TVM's runtime would allocate such a buffer from a separate pool. A workspace (a padded copy, transformed data) is alive
during one call only, and often fits the arena where few activations are alive. Allocations inside parallel loops are
not hoisted, since each thread needs a separate buffer.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tvm import DataType, IRModule, relax, tirx
from tvm.ir import Call, Expr, GlobalVar, Var
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)
from tvm.s_tir.stmt import SBlockRealize
from tvm_ffi import structural_map, structural_walk

from relay_passes.ir.sizes import greatest, is_of_arguments
from relay_passes.ir.sources import global_callees, relax_functions

STACK_BYTES = 1024
"""TVM puts buffers of at most as many bytes on the stack (kMaxStackAlloca)."""


@dataclass(frozen=True)
class _Borrower:
    """A kernel whose workspaces became parameters: its GlobalVar, and the buffers."""

    gvar: GlobalVar
    buffers: tuple[tirx.Buffer, ...]


def hoist_workspaces(mod: IRModule) -> IRModule:
    """Turn allocations of kernels outside of parallel loops into arguments, allocated by their callers.

    Args:
        mod: Module as CallTIRRewrite returns it; only Relax functions call PrimFuncs, by name.
    """
    kernels = [(gv, func) for gv, func in mod.functions_items() if isinstance(func, tirx.PrimFunc)]
    held = [(gv, func, tuple(workspaces(func.body))) for gv, func in kernels]
    found = [each for each in held if each[2]]
    out = mod.clone()
    for gv, _, _ in found:
        del out[gv]
    # Each function gets a new GlobalVar, because its type includes the added arguments.
    builder = relax.BlockBuilder()  # without the module: with it, the builder would hash all kernels
    borrowers = {
        gv.name_hint: _Borrower(builder.add_func(_with_arguments(func, buffers), gv.name_hint), buffers)
        for gv, func, buffers in found
    }
    out.update(builder.get())
    for gv, func in relax_functions(out):
        out.update_func(gv, _lending(func, borrowers))
    return out


@dataclass(frozen=True)
class Workspace:
    """A workspace of a kernel: its size in bytes, and whether each thread needs a separate one."""

    bytes: int
    is_local: bool


def hoist_all(func: tirx.PrimFunc, largest: int = 0) -> tuple[tirx.PrimFunc, list[Workspace]]:
    """Turn a kernel's allocations that are too large for the stack into parameters; return (kernel, workspaces).

    Buffers that parallel loops share become parameters, even small ones, so that each loop can be a separate function.
    Buffers without elements, such as an empty part of a split, do so as well, since TVM would allocate them by its
    runtime.

    Args:
        func: A PrimFunc without blocks.
        largest: The maximum length, if there are sizes that are only known at run time.

    Raises:
        ValueError: The size of a buffer does not follow from the sizes of the parameters alone.
    """
    loops = parallel_loops(func.body)
    within = {buffer for loop in loops for buffer in allocated(loop)}
    buffers = tuple(
        buffer
        for buffer in allocated(func.body)
        if not _is_static(buffer) or not 0 < _bytes(buffer) < STACK_BYTES or (loops and buffer not in within)
    )
    for buffer in buffers:
        if not all(is_of_arguments(dim, func) for dim in buffer.shape):
            raise ValueError(f"a buffer of {buffer.shape}, whose size does not follow from its arguments")
    spaces = [Workspace(_bytes(buffer, largest), buffer in within) for buffer in buffers]
    return _with_arguments(func, buffers), spaces


def parallel_loops(stmt: tirx.Stmt) -> list[tirx.For]:
    """Return the parallel loops of a statement."""
    found: list[tirx.For] = []
    structural_walk(stmt, [(tirx.For, found.append)])
    return [loop for loop in found if loop.kind == tirx.ForKind.PARALLEL]


def allocated(stmt: tirx.Stmt) -> list[tirx.Buffer]:
    """Return the buffers that a statement allocates."""
    found: list[tirx.AllocBuffer] = []
    structural_walk(stmt, [(tirx.AllocBuffer, found.append)])
    return [each.buffer for each in found]


def workspaces(stmt: tirx.Stmt) -> Iterator[tirx.Buffer]:
    """Yield the buffers that `hoist_workspaces` hoists: outside of parallel loops, and too large for the stack."""
    if isinstance(stmt, tirx.SeqStmt):
        for each in stmt.seq:
            yield from workspaces(each)
    elif isinstance(stmt, SBlockRealize):
        yield from workspaces(stmt.block.body)
    elif isinstance(stmt, tirx.AttrStmt) or (isinstance(stmt, tirx.For) and stmt.kind == tirx.ForKind.SERIAL):
        yield from workspaces(stmt.body)
    elif isinstance(stmt, tirx.AllocBuffer) and _is_static(stmt.buffer) and _bytes(stmt.buffer) > STACK_BYTES:
        yield stmt.buffer


def _is_static(buffer: tirx.Buffer) -> bool:
    """Whether a buffer's size is a constant; other buffers are allocated by the runtime."""
    return all(isinstance(dim, tirx.IntImm) for dim in buffer.shape)


def _bytes(buffer: tirx.Buffer, largest: int = 0) -> int:
    return greatest(buffer.shape, largest) * int(DataType(str(buffer.dtype)).itemsize)


def _with_arguments(func: tirx.PrimFunc, buffers: tuple[tirx.Buffer, ...]) -> tirx.PrimFunc:
    def kept(stmt: tirx.AllocBuffer) -> tirx.Stmt:
        is_borrowed = any(stmt.buffer.same_as(buffer) for buffer in buffers)
        return tirx.Evaluate(0) if is_borrowed else stmt

    body = structural_map(func.body, [(tirx.AllocBuffer, kept)])
    return tirx.PrimFunc([*func.params, *buffers], body, func.ret_type, attrs=func.attrs)


def _lending(func: relax.Function, borrowers: Mapping[str, _Borrower]) -> relax.Function:
    """Return a copy of a function that allocates the workspaces of the kernels which it calls."""
    blocks = []
    for block in func.body.blocks:
        bindings: list[relax.Binding] = []
        for binding in block.bindings:
            borrower = _borrower(binding.value, borrowers)
            if borrower is None:
                bindings.append(binding)
                continue
            lent = [relax.VarBinding(*_allocation(buffer)) for buffer in borrower.buffers]
            call = binding.value
            args = [*call.args, *(each.var for each in lent)]
            new = Call(borrower.gvar, args, call.attrs, call.ty_args, call.span, ret_ty=call.ty)
            bindings += [*lent, relax.VarBinding(binding.var, new, binding.span)]
        blocks.append(relax.BindingBlock(bindings))
    body = relax.SeqExpr(blocks, func.body.body)
    return relax.Function(func.params, body, func.ret_ty, func.is_pure, func.attrs)


def _allocation(buffer: tirx.Buffer) -> tuple[Var, Call]:
    shape = relax.ShapeExpr([int(dim) for dim in buffer.shape])
    call = relax.BlockBuilder().normalize(R.builtin.alloc_tensor(shape, str(buffer.dtype), 0))
    return Var("workspace", call.ty), call


def _borrower(value: Expr, borrowers: Mapping[str, _Borrower]) -> _Borrower | None:
    callees = global_callees(value) if isinstance(value, Call) else []
    return borrowers.get(callees[0]) if callees else None
