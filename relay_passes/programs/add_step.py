# SPDX-License-Identifier: Apache-2.0
"""The functions `step` and `reset` of a model with state that the virtual machine keeps between calls.

    main(x, *state) → (y, *state)    +    step(x) → y, reset() → ()

A state is stored in an entry of the constant pool, which each virtual machine has separately. An entry is initialised
by a unique string, because equal constants share an entry; another entry stores whether the states are set. If `main`
allocates its next states, each state has a second entry. `step` is then a copy of `main` that reads the state from the
tensor in the first entry, writes the next state to the tensor in the second, and swaps both at its end:

    main(x, s) { n = alloc(…); k(x, s, n); …; return y, n }    →    step(x) { k(x, first, second); …; swap; return y }

A state that a kernel of `main` changes in place has one entry: `step` passes the tensor in it, and `main`
copies the caller's tensor first. If `main` dispatches by shape or CPU, each function that it calls becomes a function
like `step`, with the same entries, and `step` dispatches to them.

Otherwise (for example, if a branch returns a state) `step` calls `main` with the tensors in the entries, and then
stores the tensors that `main` returned.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import IRModule, relax, te, tirx
from tvm.ir import Call, Expr, GenericConst, GlobalVar, PrimType, TupleGetItem, Var
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)
from tvm.runtime import tensor
from tvm_ffi import structural_equal, structural_map

from relay_passes.ir.sources import bindings_of
from relay_passes.memory.alias_analysis import copy_of, origins_of
from relay_passes.memory.write_in_place import CHANGED, copying
from relay_passes.programs.cpu_dispatch import NEEDS, dispatch_by_cpu
from relay_passes.programs.shape_dispatch import REFUSAL, VARIANTS, dispatch_by_shape

STEP, RESET = "step", "reset"

KEEP = "keep_state"
"""Name of a call (entry, value) that the code generator replaces by a store of the value to the entry."""

SWAP = "swap_states"
"""Name of a call (entry, entry) that the code generator replaces by a swap of the tensors in the two entries."""

_IS_SET = (
    "vm.builtin.read_if_cond"  # name of the function that returns whether the first byte of a tensor is not 0
)
_ALLOC_TENSOR = "relax.builtin.alloc_tensor"
_TEXT = "entry of the state "


def add_step(mod: IRModule, initial: Sequence[npt.NDArray[Any]]) -> IRModule:
    """Add the functions `step` and `reset`.

    Args:
        mod: Module after memory planning. The last parameters of its `main` are the states, and its last results the
            next states. `step` returns the results before the next states, or the next states if there are no others.
        initial: The initial states, for the first step and for the first step after a reset.
    """
    names = list(map(str, mod["main"].attrs.get(VARIANTS, ["main"])))
    if not initial:
        return _keeping(mod, names)
    is_set = [_entry(f"{flag}{_TEXT}") for flag in ("\0", "\1")]
    entries = [_entry(f"{_TEXT}{k}") for k in range(len(initial))]
    found = [_swaps(mod[name], len(initial)) for name in names]
    known = [each for each in found if each is not None]
    # Functions that share states must agree on those that have two entries.
    agreed = len(known) == len(found) and len({tuple(swap.index for swap in each) for each in known}) == 1
    swaps = known[0] if agreed else None
    builder = relax.BlockBuilder(mod)
    zeros = [None if array.tobytes().strip(b"\0") else _zeros(builder, array) for array in initial]
    with builder.function(RESET, [], pure=False):
        for entry, array, fill in zip(entries, initial, zeros, strict=True):
            if fill is not None:
                _keep(builder, entry, _filled(builder, fill, array))
            else:
                constant = relax.const(tensor(array))
                _keep(builder, entry, constant if swaps is None else _copied(builder, constant))
        for swap in swaps or ():
            _keep(builder, swap.entry, builder.emit(swap.allocation))
        _keep(builder, *is_set)
        builder.emit_func_output(relax.Tuple([]))
    mod = builder.get()
    if swaps is None:
        return _keeping(_with_step(mod, entries, is_set[0]), names)
    steps = [STEP if name == "main" else f"{STEP}_{name}" for name in names]
    for name, step, own in zip(names, steps, known, strict=True):
        mod = _with_own_step(mod, (name, step), entries, is_set[0], own)
    mod = _keeping(mod, names)
    if len(names) == 1:
        return mod
    attributes = mod["main"].attrs
    if NEEDS in attributes:
        needs = [(int(hwcap), int(hwcap2)) for hwcap, hwcap2 in attributes[NEEDS]]
        return dispatch_by_cpu(mod, steps, needs, STEP)
    return dispatch_by_shape(mod, steps, str(attributes[REFUSAL]), STEP)


def _keeping(mod: IRModule, names: Sequence[str]) -> IRModule:
    """Let functions that are called with a caller's states copy those that they would change."""
    changed = [name for name in names if CHANGED in mod[name].attrs]
    out = mod.clone() if changed else mod
    for name in changed:
        out.update_func(mod.get_global_var(name), copying(mod[name]))
    return out


@dataclass(frozen=True)
class _Swap:
    """A state with two entries, which `step` swaps.

    Attributes:
        index: Index of the state.
        entry: The second entry of the constant pool.
        made: The variable of `main` to which the next state is bound.
        allocation: The allocation of the tensor of the next state.
    """

    index: int
    entry: Expr
    made: Var
    allocation: Call


def _swaps(main: relax.Function, count: int) -> list[_Swap] | None:
    """Return the states to swap; None unless `main` allocates a separate tensor for each next state."""
    origins = origins_of(main)
    outputs, following = origins[:-count], origins[-count:]
    taken, states = main.params[:-count], main.params[-count:]
    safe = all(_is_new(output) or _is_among(output, taken) for output in outputs)
    if not (outputs and safe and isinstance(_result(main), relax.Tuple)):
        return None
    found = []
    for index, (state, origin) in enumerate(zip(states, following, strict=True)):
        if origin.same_as(state):
            continue
        alone = sum(origin.same_as(other) for other in origins) == 1
        if not (_is_new(origin) and alone and structural_equal(origin.ty, state.ty) and _is_static(state)):
            return None
        made = next(binding.var for binding in bindings_of(main) if binding.value.same_as(origin))
        found.append(_Swap(index, _entry(f"{_TEXT}{index}, the next"), made, origin))
    return found


def _is_static(state: Var) -> bool:
    return all(isinstance(size, tirx.IntImm) for size in state.ty.shape.values)


def _result(main: relax.Function) -> Expr:
    result = main.body.body
    return next((b.value for b in bindings_of(main) if b.var.same_as(result)), result)


def _with_own_step(
    mod: IRModule, names: tuple[str, str], entries: Sequence[Expr], is_set: Expr, swaps: Sequence[_Swap]
) -> IRModule:
    """Add a function, `names[1]`, that computes a step of the function `names[0]`."""
    main, builder = mod[names[0]], relax.BlockBuilder(mod)
    count, result = len(entries), main.body.body
    params = main.params[:-count]
    left_out = {result, *(swap.made for swap in swaps)}
    new: dict[Expr, Expr] = {
        var: Var(str(var.name), var.ty)
        for var in (*params, *(binding.var for binding in bindings_of(main)))
        if var not in left_out
    }
    new |= dict(zip(main.params[-count:], entries, strict=True)) | {swap.made: swap.entry for swap in swaps}

    def kept(block: relax.BindingBlock) -> relax.BindingBlock:
        return relax.BindingBlock([binding for binding in block.bindings if binding.var not in left_out])

    outputs = list(_result(main).fields)[:-count]
    types = [output.ty for output in outputs]
    output = outputs[0] if len(outputs) == 1 else relax.Tuple(outputs)
    returned = Var("returned", types[0] if len(outputs) == 1 else relax.TupleType(types))
    results = relax.BindingBlock([relax.VarBinding(returned, output)])
    body = relax.SeqExpr([*main.body.blocks, results], returned)
    body = structural_map(body, [(relax.BindingBlock, kept)])
    body = structural_map(body, [(Var, lambda var: new.get(var, var))])
    known = Var("known", PrimType("bool"))
    reset = Call(mod.get_global_var(RESET), [], ret_ty=relax.TupleType([]))
    choice = builder.normalize(relax.If(known, _branch([], known), _branch([reset], known)))
    first = [
        relax.VarBinding(known, _extern(_IS_SET, [is_set], known.ty)),
        relax.VarBinding(Var("begun", choice.ty), choice),
    ]
    last = [_extern(SWAP, [entries[swap.index], swap.entry], relax.TupleType([])) for swap in swaps]
    swapped = [relax.VarBinding(Var("swapped", call.ty), call) for call in last]
    blocks = [relax.BindingBlock(first), *body.blocks, relax.BindingBlock(swapped)]
    step = relax.Function(
        [new[p] for p in params], relax.SeqExpr(blocks, returned), returned.ty, is_pure=False
    )
    builder.add_func(step, names[1])
    return builder.get()


def _with_step(mod: IRModule, entries: Sequence[Expr], is_set: Expr) -> IRModule:
    main, (gvar, reset) = mod["main"], (mod.get_global_var(name) for name in ("main", RESET))
    builder = relax.BlockBuilder(mod)
    # The parameters have type Any, because `main` checks them.
    params = [Var(str(param.name), relax.AnyType()) for param in main.params[: -len(entries)]]
    with builder.function(STEP, params, pure=False):
        known = builder.emit(_extern(_IS_SET, [is_set], PrimType("bool")))
        begin = Call(reset, [], ret_ty=relax.TupleType([]))
        builder.emit(relax.If(known, _branch([], known), _branch([begin], known)))
        result = builder.emit(Call(gvar, [*params, *entries], ret_ty=main.ret_ty))
        values = _own(builder, main, len(entries), result)
        for entry, value in zip(entries, values[-len(entries) :], strict=True):
            _keep(builder, entry, value)
        returned = values[: -len(entries)] or [_copied(builder, value) for value in values]
        builder.emit_func_output(returned[0] if len(returned) == 1 else relax.Tuple(returned))
    return builder.get()


def _own(builder: relax.BlockBuilder, main: relax.Function, states: int, result: Expr) -> list[Expr]:
    """Return the tensors of a result of `main`, copied if a state might share memory with the caller's tensors."""
    is_tuple = isinstance(main.ret_ty, relax.TupleType)
    count = len(main.ret_ty.fields) if is_tuple else 1
    origins = origins_of(main)
    if len(origins) < count:  # the result of a branch or another function
        origins = origins * count
    values = [builder.emit(TupleGetItem(result, k)) for k in range(count)] if is_tuple else [result]
    taken, kept = main.params[:-states], main.params[-states:]
    own: list[Expr] = []
    for k, (value, origin) in enumerate(zip(values, origins, strict=True)):
        if k < len(values) - states:
            # The result of a branch or another function may be an alias of a state or a constant of `main`.
            is_alone = _is_new(origin) and not _is_among(origin, origins[-states:])
            safe = is_alone or _is_among(origin, taken)
        else:
            safe = _is_new(origin) or _is_among(origin, kept)
        own.append(value if safe else _copied(builder, value))
    return own


def _is_among(value: Expr, others: Sequence[Expr]) -> bool:
    return any(value.same_as(other) for other in others)


def _is_new(origin: Expr) -> bool:
    return isinstance(origin, Call) and getattr(origin.op, "name", "") == _ALLOC_TENSOR


def _copied(builder: relax.BlockBuilder, value: Expr) -> Expr:
    return builder.emit(copy_of(value))


def _entry(text: str) -> GenericConst:
    return relax.const(np.frombuffer(text.encode(), np.uint8).copy())


def _keep(builder: relax.BlockBuilder, entry: Expr, value: Expr) -> None:
    builder.emit(_extern(KEEP, [entry, value], relax.TupleType([])))


def _extern(name: str, args: Sequence[Expr], ty: relax.Type) -> Call:
    return Call(relax.ExternFunc(name), list(args), ret_ty=ty)


def _branch(calls: Sequence[Call], result: Expr) -> relax.SeqExpr:
    bindings = [relax.VarBinding(Var("done", call.ty), call) for call in calls]
    return relax.SeqExpr([relax.BindingBlock(bindings)] if bindings else [], result)


def _zeros(builder: relax.BlockBuilder, array: npt.NDArray[Any]) -> GlobalVar:
    """Add a function that fills a tensor like `array` with zeros, so that the file need not contain them."""
    zeros = te.compute(array.shape, lambda *_: tirx.const(0, str(array.dtype)), name="zeros")
    return builder.add_func(te.create_prim_func([zeros]), "zeros")


def _filled(builder: relax.BlockBuilder, fill: GlobalVar, array: npt.NDArray[Any]) -> Expr:
    place = builder.emit(R.builtin.alloc_tensor(relax.ShapeExpr(array.shape), str(array.dtype), 0))
    builder.emit(Call(fill, [place], ret_ty=relax.TupleType([])))
    return place
