# SPDX-License-Identifier: Apache-2.0
"""torch.cond and while_loop: a module with branches is brought into the form that `control_flow` splits.

    y = f(x); z = then(y, W, V) if c else other(y, W, V)    →    y, c = main_0(x); z = then(y) if c else other(y)

Weights that are arguments no kernel could pack before it runs.
"""

from collections.abc import Callable, Iterator, Sequence

import tvm
from tvm import relax
from tvm.ir import Call, Expr, GenericConst, GlobalVar, TupleGetItem, Var
from tvm.relax.analysis import free_vars
from tvm_ffi import structural_map

from arm_ext.frontends.common.refuse import refuse_operators
from relay_passes.ir.sources import map_calls, relax_functions, sources_of, union, with_source
from relay_passes.ir.upstream import run_upstream
from relay_passes.programs.merge_modules import MAIN, add_functions
from relay_passes.programs.outline import Part, function_of, results_of

_Functions = dict[str, relax.Function]


def with_branches(mod: tvm.IRModule, deciding: Sequence[str]) -> tvm.IRModule:
    """Rewrite a module so that control flow calls straight-line functions.

    Args:
        mod: Module whose `main` is in A-normal form. A branch is one call, and every function is called in one place,
            except that a loop also ends with a call of itself.
        deciding: The nodes that choose or repeat in `main`, in order.

    Raises:
        ModelError: The condition is known at compile time.
    """
    if not deciding:
        return mod
    functions = {gvar.name_hint: func for gvar, func in relax_functions(mod)}
    if len(list(_decisions(functions[MAIN]))) != len(deciding):
        refuse_operators({"cond with a constant condition": list(deciding)})
    functions = _named(_without_weights(functions), deciding)
    out = tvm.IRModule({g: f for g, f in mod.functions_items() if not isinstance(f, relax.Function)})
    add_functions(out, functions)
    out = run_upstream(out, relax.transform.ConvertToDataflow(1))
    functions = {gvar.name_hint: func for gvar, func in relax_functions(out)}
    for name, func in list(functions.items()):
        if any(True for _ in _decisions(func)):
            functions |= _outlined(name, func)
    for gvar, _ in relax_functions(out):
        del out[gvar]
    add_functions(out, functions)
    return out


def _decisions(func: relax.Function) -> Iterator[list[Call]]:
    """Yield the calls of functions by name, those of a branch and of its alternative together."""
    for binding in (binding for block in func.body.blocks for binding in block.bindings):
        values: list[Expr] = [binding.value]
        if isinstance(binding.value, relax.If):
            branches = (binding.value.true_branch, binding.value.false_branch)
            values = [b.value for s in branches for block in s.blocks for b in block.bindings]
        calls = [value for value in values if isinstance(value, Call) and isinstance(value.op, GlobalVar)]
        if calls:
            yield calls


def _callees(name: str, func: relax.Function) -> Iterator[Call]:
    """Yield the calls of other functions."""
    return (call for calls in _decisions(func) for call in calls if call.op.name_hint != name)


def _without_weights(functions: _Functions) -> _Functions:
    """Move constants that are passed to functions into these functions."""
    reached: _Functions = {}
    held: dict[str, set[int]] = {MAIN: set()}
    left = [(MAIN, functions[MAIN])]
    while left:
        name, func = left.pop()
        reached[name] = func
        for call in _callees(name, func):
            callee = call.op.name_hint
            kept = _kept(callee, functions[callee])
            held[callee] = {k for k in kept if isinstance(call.args[k], GenericConst)}
            left.append((callee, _given(functions[callee], call, held[callee])))

    def shortened(call: Call) -> Call:
        if not isinstance(call.op, GlobalVar):
            return call
        name = call.op.name_hint
        args = [arg for k, arg in enumerate(call.args) if k not in held[name]]
        return Call(GlobalVar(name), args, ret_ty=call.ty)

    return {name: map_calls(func, lambda _, call: shortened(call)) for name, func in reached.items()}


def _kept(name: str, func: relax.Function) -> set[int]:
    """Return the indices of parameters that never change: in a loop, those that it passes to itself."""
    again = [call for calls in _decisions(func) for call in calls if call.op.name_hint == name]
    return {k for k, param in enumerate(func.params) if all(call.args[k].same_as(param) for call in again)}


def _given(func: relax.Function, call: Call, held: set[int]) -> relax.Function:
    values = {func.params[k]: call.args[k] for k in held}
    body = structural_map(func.body, [(Var, lambda var: values.get(var, var))])
    params = [param for param in func.params if param not in values]
    return relax.Function(params, body, func.ret_ty, func.is_pure)


def _named(functions: _Functions, deciding: Sequence[str]) -> _Functions:
    """Return the functions with their calls named after the node of `main` that leads to them."""
    names: dict[str, str] = {}
    left = [
        (call.op.name_hint, node)
        for calls, node in zip(_decisions(functions[MAIN]), deciding, strict=True)
        for call in calls
    ]
    while left:
        function, node = left.pop()
        names[function] = node
        left += ((call.op.name_hint, node) for call in _callees(function, functions[function]))

    def naming(function: str) -> Callable[[Var, Call], Call]:
        def named(_: Var, call: Call) -> Call:
            own = sources_of(call) if function == MAIN else ()
            return with_source(call, own or [names[getattr(call.op, "name_hint", function)]])

        return named

    return {name: map_calls(func, naming(name)) for name, func in functions.items()}


def _outlined(name: str, func: relax.Function) -> _Functions:
    """Return a function whose dataflow blocks are moved into functions of their own, and these functions."""
    made: dict[str, relax.Function] = {}
    new: dict[Var, Var] = {}

    def whole(var: Var) -> Var:
        is_inner = isinstance(var, relax.DataflowVar)
        return new.setdefault(var, Var(str(var.name), var.ty)) if is_inner else var

    def called(block: relax.DataflowBlock) -> relax.BindingBlock:
        # Selections from a branch's returned tuple stay outside, since functions take tensors, not tuples.
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
