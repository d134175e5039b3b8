# SPDX-License-Identifier: Apache-2.0
"""Arena planning: every activation gets a fixed offset in one allocation.

TVM's planner reuses whole storages: a tensor is placed in the storage of a dead tensor of at least its size, and gaps
are never merged. Here tensors are placed one by one, the largest first, each at the lowest offset at which it overlaps
no tensor that is alive at the same time (greedy by size: Pisarchyk and Lee, Efficient Memory Management for Deep Neural
Net Inference, 2020), and then in other orders if the arena is larger than necessary.

Functions that never run at the same time (for the shapes of one package) allocate arenas of equal size, because the
runtime reuses freed memory only for allocations of the same size:

    f: alloc_storage(64), g: alloc_storage(256)    →    f: alloc_storage(256), g: alloc_storage(256)
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import IRModule, relax, sym, tirx
from tvm.ir import Call, Expr, TupleGetItem, Var
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)
from tvm.relax.analysis import free_vars
from tvm_ffi import structural_map

from relay_passes.ir.sources import bindings_of, relax_functions

ALIGNMENT = 64
"""Alignment in bytes: that of TVM's allocator (kAllocAlignment), and a cache line."""

UPPER_BOUND = "tir_var_upper_bound"
"""The attribute by which StaticPlanBlockMemory knows the greatest value of a variable, by its name."""

_ALLOC_TENSOR = "relax.memory.alloc_tensor"
_ALLOC_STORAGE = "relax.memory.alloc_storage"
_NOWHERE = -1
# Number of orders that are tried; with fewer than 32, some networks have arenas more than 2 % larger.
_ATTEMPTS = 32
# Operators whose result is a view of their operand's memory.
VIEWS = ("relax.reshape", "relax.memory.view", "relax.memory.ensure_zero_offset")


@dataclass(frozen=True)
class Lifetime:
    """The lifetime of a tensor's memory, from its allocation to its last use.

    Attributes:
        size: Size in bytes.
        first: Index of the binding that allocates it.
        last: Index of the last binding that needs it.
    """

    size: int
    first: int
    last: int

    def meets(self, other: "Lifetime") -> bool:
        """Whether both tensors are alive at the same time."""
        return self.first <= other.last and other.first <= self.last


def place(tensors: Sequence[Lifetime], alignment: int = ALIGNMENT) -> tuple[list[int], int]:
    """Return (offset of each tensor, size of the arena); tensors that are alive at the same time do not overlap.

    If the order by size gives an arena that is larger than the maximum of bytes alive at one time, the tensor at the
    arena's end is placed first in another attempt, several times, and the smallest arena is used.
    """
    meets = [[other for other, it in enumerate(tensors) if each.meets(it)] for each in tensors]
    least = max(
        (sum(aligned(tensors[i].size, alignment) for i in _alive(tensors, each.first)) for each in tensors),
        default=0,
    )
    order = sorted(range(len(tensors)), key=lambda i: (-tensors[i].size, tensors[i].first))
    best, smallest = _placed(tensors, meets, order, alignment)
    offsets, size = best, smallest
    for _ in range(_ATTEMPTS):
        if smallest <= least:
            break
        last = max(order, key=lambda i: (offsets[i] + tensors[i].size, -i))
        order.remove(last)
        order.insert(0, last)
        offsets, size = _placed(tensors, meets, order, alignment)
        if size < smallest:
            best, smallest = offsets, size
    return best, smallest


def _alive(tensors: Sequence[Lifetime], time: int) -> list[int]:
    return [i for i, tensor in enumerate(tensors) if tensor.first <= time <= tensor.last]


def _placed(
    tensors: Sequence[Lifetime], meets: Sequence[Sequence[int]], order: Sequence[int], alignment: int
) -> tuple[list[int], int]:
    """Place each tensor, in the given order, at the lowest free offset."""
    offsets = [_NOWHERE] * len(tensors)
    end = 0
    for index in order:
        taken = [
            (offsets[other], tensors[other].size) for other in meets[index] if offsets[other] != _NOWHERE
        ]
        offsets[index] = lowest_gap(tensors[index].size, taken, alignment)
        end = max(end, offsets[index] + tensors[index].size)
    return offsets, end


def lowest_gap(size: int, taken: Iterable[tuple[int, int]], alignment: int = ALIGNMENT) -> int:
    """Return the lowest offset at which `size` bytes overlap none of the areas `taken`, (offset, size) each."""
    at = 0
    for start, other in sorted(taken):
        if at + size <= start:
            break
        at = max(at, start + aligned(other, alignment))
    return at


def plan_arena(mod: IRModule) -> IRModule:
    """Replace the storages of StaticPlanBlockMemory by one storage per function.

    Args:
        mod: Module as StaticPlanBlockMemory returns it, with one binding block per function. Allocations that it left
            to the run time, such as outputs, are not changed. For sizes that are only known at run time, the upper
            bounds in the function's attribute UPPER_BOUND are used.
    """
    out = mod.clone()
    for gv, func in relax_functions(mod):
        bindings = bindings_of(func)
        allocations = [b for b in bindings if _calls(b.value, _ALLOC_TENSOR)]
        if allocations and len(func.body.blocks) == 1:
            lifetimes = _lifetimes(bindings, func.body.body, _bounds(func))
            out.update_func(gv, _moved(func, [b.var for b in allocations], lifetimes))
    return out


def _lifetimes(
    bindings: Sequence[relax.Binding], result: Expr, bounds: Mapping[str, int]
) -> dict[Var, Lifetime]:
    roots: dict[Var, frozenset[Var]] = {}
    first: dict[Var, int] = {}
    last: dict[Var, int] = {}
    for index, binding in enumerate(bindings):
        read = [root for var in free_vars(binding.value) for root in roots.get(var, ())]
        last |= dict.fromkeys(read, index)
        if _calls(binding.value, _ALLOC_TENSOR):
            roots[binding.var] = frozenset({binding.var})
            first[binding.var] = last[binding.var] = index
        elif _is_view(binding.value):
            roots[binding.var] = frozenset(read)
    last |= {root: len(bindings) for var in free_vars(result) for root in roots.get(var, ())}
    return {var: Lifetime(_bytes(var, bounds), first[var], last[var]) for var in first}


def _moved(func: relax.Function, order: Sequence[Var], lifetimes: dict[Var, Lifetime]) -> relax.Function:
    offsets, size = place([lifetimes[var] for var in order])
    at = dict(zip(order, offsets, strict=True))
    builder = relax.BlockBuilder()
    storage = builder.normalize(R.memory.alloc_storage(relax.ShapeExpr([size]), 0, "global", "uint8"))
    arena = Var("arena", storage.ty)
    bindings: list[relax.Binding] = [relax.VarBinding(arena, storage)]
    for binding in func.body.blocks[0].bindings:
        if _calls(binding.value, _ALLOC_STORAGE):
            continue
        if binding.var in at:
            call = binding.value
            args = [arena, relax.prim_value(at[binding.var]), *list(call.args)[2:]]
            new = Call(call.op, args, call.attrs, call.ty_args, call.span, ret_ty=call.ty)
            bindings.append(relax.VarBinding(binding.var, new, binding.span))
        else:
            bindings.append(binding)
    body = relax.SeqExpr([relax.BindingBlock(bindings)], func.body.body)
    return relax.Function(func.params, body, func.ret_ty, func.is_pure, func.attrs)


def _calls(expr: Expr, operator: str) -> bool:
    return isinstance(expr, Call) and getattr(expr.op, "name", "") == operator


def _is_view(expr: Expr) -> bool:
    return isinstance(expr, Var | TupleGetItem | relax.Tuple) or any(_calls(expr, view) for view in VIEWS)


def _bounds(func: relax.Function) -> dict[str, int]:
    """Return the upper bounds of the variables in a function's shapes, by name."""
    return {str(name): int(value) for name, value in (func.attrs or {}).get(UPPER_BOUND, {}).items()}


def _bytes(var: Var, bounds: Mapping[str, int]) -> int:
    def greatest(size: Var) -> Expr:
        return tirx.IntImm("int64", bounds[size.name])

    sizes = (structural_map(dim, [(Var, greatest)]) for dim in var.ty.shape.values)
    elements = math.prod(int(sym.Analyzer().simplify(size)) for size in sizes)
    return elements * np.dtype(str(var.ty.dtype)).itemsize


def aligned(size: int, alignment: int = ALIGNMENT) -> int:
    """Return a size rounded up to a multiple of an alignment."""
    return -(-size // alignment) * alignment


def share_arena(mod: IRModule, names: Sequence[str]) -> IRModule:
    """Set the arena sizes of several functions to the maximum, so that the runtime reuses one arena for all.

    Args:
        mod: Module as `plan_arena` returns it; each function has at most one storage.
        names: Functions of `mod`.
    """
    calls = [b.value for name in names for b in bindings_of(mod[name]) if _is_storage(b.value)]
    largest = max((int(call.args[0].values[0]) for call in calls), default=0)

    def grown(call: Call) -> Call:
        if not _is_storage(call):
            return call
        args = [relax.ShapeExpr([largest]), *list(call.args)[1:]]
        return Call(call.op, args, call.attrs, call.ty_args, call.span, ret_ty=call.ty)

    out = mod.clone()
    for name in names:
        out.update_func(mod.get_global_var(name), structural_map(mod[name], [(Call, grown)]))
    return out


def _is_storage(value: object) -> bool:
    return isinstance(value, Call) and getattr(value.op, "name", "") == _ALLOC_STORAGE
