# SPDX-License-Identifier: Apache-2.0
"""Run-time dispatch of a private function to another device, with the CPU's code as the fallback.

    y = fallback_0(x)    →    if offer(x, y): pass    else: the kernels of fallback_0, which compute y

There are two steps, between which memory is planned as if there were no other device: the function's kernels are
inlined into `main` between two markers, and then become the branch for an offer that returns false. Both branches write
the same tensors. The function's temporaries are in the arena, and are not allocated if the device computes the outputs.
An offer may overwrite its outputs only after it has read its inputs, and only if it returns true.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tvm import IRModule, relax
from tvm.ir import Call, Expr, GlobalVar, PrimType, TupleGetItem, Var
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)
from tvm.relax.analysis import free_vars
from tvm_ffi import structural_map

from relay_passes.ir.sources import bindings_of, sources_of, with_source

_BEGIN, _END = "begin of ", "end of "


@dataclass(frozen=True)
class Offer:
    """The external function that may compute a private function on another device.

    Attributes:
        symbol: Symbol of a function of TVM's C ABI; it is called with `arguments`, inputs and outputs, and returns
            whether it has computed the outputs.
        arguments: Arguments that are passed before the inputs.
    """

    symbol: str
    arguments: tuple[Expr, ...]


def inline_marked(mod: IRModule, names: Sequence[str]) -> IRModule:
    """Inline functions into `main`, between marker calls with their inputs and outputs.

    Args:
        mod: Module as CallTIRRewrite returns it; each function has one binding block.
        names: Names of the functions; each is called once, with variables as arguments.
    """
    if not names:
        return mod
    functions = {name: mod[name] for name in names}
    main, done = mod["main"], []
    results: dict[Var, Sequence[Var]] = {}
    for binding in bindings_of(main):
        name = _callee(binding.value)
        if name in functions:
            inlined, outputs = _inlined(name, functions[name], binding.value)
            results[binding.var] = outputs
            done += inlined
            if len(outputs) == 1:
                done.append(relax.VarBinding(binding.var, outputs[0]))
        elif isinstance(binding.value, TupleGetItem) and binding.value.tuple_value in results:
            output = results[binding.value.tuple_value][binding.value.index]
            done.append(relax.VarBinding(binding.var, output))
        else:
            done.append(binding)
    out = mod.clone()
    out.update_func(mod.get_global_var("main"), _with(main, done))
    for name in names:
        del out[name]
    return relax.transform.Normalize()(out)


def dispatch(mod: IRModule, offers: Mapping[str, Offer]) -> IRModule:
    """Turn the code between the markers of each function into the fallback branch of its offer.

    Args:
        mod: A planned module whose `main` has one binding block.
        offers: The offer of each function, by name.
    """
    if not offers:
        return mod
    main = mod["main"]
    bindings = list(bindings_of(main))
    for name, offer in offers.items():
        bindings = _dispatched(bindings, main.body.body, name, offer)
    out = mod.clone()
    out.update_func(mod.get_global_var("main"), _with(main, bindings))
    return relax.transform.Normalize()(out)


def _inlined(name: str, func: relax.Function, call: Call) -> tuple[list[relax.Binding], list[Var]]:
    """Return (bindings of a function for one call, with markers, results of the function)."""
    new: dict[Var, Expr] = dict(zip(func.params, call.args, strict=True))
    inside = bindings_of(func)
    new |= {b.var: Var(str(b.var.name), b.var.ty) for b in inside}
    block = structural_map(relax.BindingBlock(inside), [(Var, lambda var: new.get(var, var))])
    bindings = list(block.bindings)
    values = {b.var: b.value for b in bindings}
    outputs = _fields(new[func.body.body], values)
    written = [output if _is_own(output, values) else None for output in outputs]
    # A result that is a view of an input is not computed; the device writes to a spare tensor that is never read.
    spare = [_allocation(output) for output, own in zip(outputs, written, strict=True) if own is None]
    places = iter([binding.var for binding in spare])
    targets = [next(places) if own is None else own for own in written]
    marks = _mark(_BEGIN + name, call.args, call), _mark(_END + name, targets, call)
    return [marks[0], *bindings, *spare, marks[1]], outputs


def _fields(value: Expr, values: Mapping[Var, Expr]) -> list[Var]:
    """Return the tensors that a function returns: a single tensor, or the fields of a tuple."""
    while isinstance(values.get(value), relax.Tuple | Var) and not isinstance(value.ty, relax.TensorType):
        value = values[value]
        if isinstance(value, relax.Tuple):
            return list(value.fields)
    return [value]


def _is_own(output: Expr, values: Mapping[Var, Expr]) -> bool:
    """Whether a tensor is allocated by the function itself, or is a view of such a tensor."""
    value = values.get(output)
    if isinstance(value, Call) and getattr(value.op, "name", "") != "relax.builtin.alloc_tensor":
        value = value.args[0]
    return _is_own(value, values) if isinstance(value, Var) else value is not None


def _allocation(like: Var) -> relax.VarBinding:
    call = relax.BlockBuilder().normalize(R.builtin.alloc_tensor(like.ty.shape, str(like.ty.dtype), 0))
    return relax.VarBinding(Var("unread", call.ty), call)


def _mark(text: str, tensors: Sequence[Expr], call: Call) -> relax.VarBinding:
    """Return a binding of a marker call, which is opaque to the planner, so that its tensors are in memory there."""
    nothing = relax.TupleType([])
    mark = Call(relax.ExternFunc(text), list(tensors), ret_ty=nothing)
    return relax.VarBinding(Var("mark", nothing), with_source(mark, sources_of(call)))


def _dispatched(
    bindings: Sequence[relax.Binding], result: Expr, name: str, offer: Offer
) -> list[relax.Binding]:
    symbols = [_extern(binding.value) for binding in bindings]
    begin, end = symbols.index(_BEGIN + name), symbols.index(_END + name)
    inputs, outputs = bindings[begin].value.args, bindings[end].value.args
    before, inside, after = bindings[:begin], bindings[begin + 1 : end], bindings[end + 1 :]
    shared = _shared(inside, [*outputs, *free_vars(result), *(v for b in after for v in free_vars(b.value))])
    taken = Var(f"{name}_taken", PrimType("bool"))
    call = Call(relax.ExternFunc(offer.symbol), [*offer.arguments, *inputs, *outputs], ret_ty=taken.ty)
    asked = relax.VarBinding(taken, with_source(call, sources_of(bindings[begin].value)))
    refused = [binding for binding in inside if binding.var not in shared]
    choice = relax.If(taken, _branch([]), _branch(refused))
    chosen = relax.VarBinding(Var(f"{name}_done", relax.TupleType([])), choice)
    return [*before, *(b for b in inside if b.var in shared), asked, chosen, *after]


def _shared(inside: Sequence[relax.Binding], wanted: Sequence[Var]) -> set[Var]:
    """Return the variables that both branches need: variables that are read later, and the tensors that they view."""
    values = {binding.var: binding.value for binding in inside}
    found: set[Var] = set()
    left = list(wanted)
    while left:
        var = left.pop()
        if var in values and var not in found:
            found.add(var)
            left.extend(free_vars(values[var]))
    return found


def _branch(bindings: Sequence[relax.Binding]) -> relax.SeqExpr:
    nothing = Var("nothing", relax.TupleType([]))
    return relax.SeqExpr(
        [relax.BindingBlock([*bindings, relax.VarBinding(nothing, relax.Tuple([]))])], nothing
    )


def _with(main: relax.Function, bindings: Sequence[relax.Binding]) -> relax.Function:
    body = relax.SeqExpr([relax.BindingBlock(bindings)], main.body.body)
    return relax.Function(main.params, body, main.ret_ty, main.is_pure, main.attrs)


def _callee(value: Expr) -> str:
    return str(value.op.name_hint) if isinstance(value, Call) and isinstance(value.op, GlobalVar) else ""


def _extern(value: Expr) -> str:
    is_extern = isinstance(value, Call) and isinstance(value.op, relax.ExternFunc)
    return str(value.op.global_symbol) if is_extern else ""
