# SPDX-License-Identifier: Apache-2.0
"""torch.cond: a module whose main computes and whose branches are given weights, as `control` takes modules apart.

    y = f(x); z = then(y, W, V) if c else other(y, W, V)    →    y, c = main_0(x); z = then(y) if c else other(y)

Weights that are arguments no kernel could pack before it runs.
"""

from collections.abc import Callable, Iterator, Sequence

import tvm
from tvm import relax
from tvm.ir import Call, GenericConst, GlobalVar, TupleGetItem, Var
from tvm.relax.analysis import free_vars
from tvm_ffi import structural_map

from arm_ext.frontends.refuse import refuse_operators
from relay_passes.merge_modules import MAIN, add_functions
from relay_passes.outline import Part, function_of, results_of
from relay_passes.sources import bindings_of, map_calls, relax_functions, sources_of, union, with_source
from relay_passes.upstream import run_upstream


def with_branches(mod: tvm.IRModule, conditions: Sequence[str]) -> tvm.IRModule:
    """Bring a module into that form.

    Args:
        mod: Its `main` is in A-normal form. A branch is one call.
        conditions: The nodes that choose in `main`, in order.

    Raises:
        ModelError: A branch is of two conditions, or a condition is constant.
    """
    if not conditions:
        return mod
    functions = {gvar.name_hint: func for gvar, func in relax_functions(mod)}
    calls = [
        call.op.name_hint for func in functions.values() for _, calls in _choices(func) for call in calls
    ]
    if len(set(calls)) < len(calls) or len(list(_choices(functions[MAIN]))) != len(conditions):
        refuse_operators({"cond, constant or with a branch that another one has": list(conditions)})
    functions = _without_weights(functions)
    functions = _named(functions, conditions)
    out = tvm.IRModule({g: f for g, f in mod.functions_items() if not isinstance(f, relax.Function)})
    add_functions(out, functions)
    out = run_upstream(out, relax.transform.ConvertToDataflow(1))
    functions = {gvar.name_hint: func for gvar, func in relax_functions(out)}
    for name, func in list(functions.items()):
        if any(isinstance(binding.value, relax.If) for binding in bindings_of(func)):
            functions |= _outlined(name, func)
    for gvar, _ in relax_functions(out):
        del out[gvar]
    add_functions(out, functions)
    return out


def _choices(func: relax.Function) -> Iterator[tuple[Var, list[Call]]]:
    """The variables that are chosen for, with the calls of the branches."""
    for binding in bindings_of(func):
        if isinstance(binding.value, relax.If):
            branches = (binding.value.true_branch, binding.value.false_branch)
            calls = [b.value for s in branches for block in s.blocks for b in block.bindings]
            yield binding.var, [call for call in calls if isinstance(call, Call)]


def _without_weights(functions: dict[str, relax.Function]) -> dict[str, relax.Function]:
    """Functions that have the constants which they were given."""
    out: dict[str, relax.Function] = {}
    left = [(MAIN, functions[MAIN])]
    while left:
        name, func = left.pop()
        out[name] = map_calls(func, lambda _, call: _without_constants(call))
        for _, calls in _choices(func):
            left += ((call.op.name_hint, _given(functions[call.op.name_hint], call)) for call in calls)
    return out


def _without_constants(call: Call) -> Call:
    if not isinstance(call.op, GlobalVar):
        return call
    args = [arg for arg in call.args if not isinstance(arg, GenericConst)]
    return Call(GlobalVar(call.op.name_hint), args, ret_ty=call.ty)


def _given(func: relax.Function, call: Call) -> relax.Function:
    held = {p: a for p, a in zip(func.params, call.args, strict=True) if isinstance(a, GenericConst)}
    body = structural_map(func.body, [(Var, lambda var: held.get(var, var))])
    params = [param for param in func.params if param not in held]
    return relax.Function(params, body, func.ret_ty, func.is_pure)


def _named(functions: dict[str, relax.Function], conditions: Sequence[str]) -> dict[str, relax.Function]:
    """Functions whose calls in branches are named after the node that chooses."""
    names: dict[str, str] = {}
    left = [
        (call, name)
        for (_, calls), name in zip(_choices(functions[MAIN]), conditions, strict=True)
        for call in calls
    ]
    while left:
        call, name = left.pop()
        names[call.op.name_hint] = name
        left += ((inner, name) for _, calls in _choices(functions[call.op.name_hint]) for inner in calls)

    def naming(function: str) -> Callable[[Var, Call], Call]:
        def named(_: Var, call: Call) -> Call:
            own = sources_of(call) if function == MAIN else ()
            return with_source(call, own or [names[getattr(call.op, "name_hint", function)]])

        return named

    return {name: map_calls(func, naming(name)) for name, func in functions.items()}


def _outlined(name: str, func: relax.Function) -> dict[str, relax.Function]:
    """A function whose dataflow blocks are calls of functions, and these."""
    made: dict[str, relax.Function] = {}
    new: dict[Var, Var] = {}

    def whole(var: Var) -> Var:
        is_inner = isinstance(var, relax.DataflowVar)
        return new.setdefault(var, Var(str(var.name), var.ty)) if is_inner else var

    def called(block: relax.DataflowBlock) -> relax.BindingBlock:
        # Items of what a branch returned stay outside: functions are given tensors.
        own = {binding.var for binding in block.bindings}
        items = [
            b for b in block.bindings if isinstance(b.value, TupleGetItem) and b.value.tuple_value not in own
        ]
        inside = [binding for binding in block.bindings if binding not in items]
        if all(isinstance(b.value.op, GlobalVar) for b in inside if isinstance(b.value, Call)):
            return relax.BindingBlock(block.bindings)
        read = dict.fromkeys(var for binding in inside for var in free_vars(binding.value))
        inner = [binding.var for binding in inside]
        inputs = tuple(var for var in read if var not in inner)
        outputs = tuple(var for var in inner if not isinstance(var, relax.DataflowVar))
        part = Part(f"{name}_{len(made)}", frozenset(inner), inputs, outputs)
        made[part.name] = function_of(func, part)
        names = union(sources_of(binding.value) for binding in inside)
        call = Call(GlobalVar(part.name), list(inputs), ret_ty=made[part.name].ret_ty)
        return relax.BindingBlock([*items, *results_of(part, with_source(call, names))])

    body = structural_map(func.body, [(relax.DataflowBlock, called)])
    body = structural_map(body, [(Var, whole)])
    return {name: relax.Function(func.params, body, func.ret_ty, func.is_pure, func.attrs), **made}
