# SPDX-License-Identifier: Apache-2.0
"""Run-time control flow of StableHLO: regions become functions."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import Expr, TupleGetItem, Type, Var

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.block import Block, Callee, call
from arm_ext.frontends.common.rounds import SCALAR, Rounds
from arm_ext.frontends.graph import Value
from arm_ext.frontends.stablehlo.translator import Complex, Translator

R = relax.op
_NUMBER = "number"


class _Inputs:
    """Graph that a region reads from outside: variables, which become parameters of its function."""

    def __init__(self, t: Translator, values: Iterable[Any]) -> None:
        found = dict.fromkeys(values)
        if any(isinstance(t.values[value], Complex) for value in found):
            raise ModelError("it reads complex values, and is decided at run time; split it into real ones")
        self.held = {value: t.values[value] for value in found if t.values[value].constant() is None}
        self.names = {value: f"fixed_{k}" for k, value in enumerate(self.held)}

    @property
    def types(self) -> dict[str, Type]:
        return {self.names[value]: held.expr.ty for value, held in self.held.items()}

    @property
    def exprs(self) -> dict[str, Expr]:
        return {self.names[value]: held.expr for value, held in self.held.items()}


def captures(block: Any) -> Iterator[Any]:
    """Yield the outside values that a block reads, nested blocks included."""
    inside = set(block.arguments)
    for op in block.operations:
        yield from (value for value in op.operands if value not in inside)
        for region in op.regions:
            for inner in region.blocks:
                yield from (value for value in captures(inner) if value not in inside)
        inside.update(op.results)


def _function(
    t: Translator, role: str, inputs: _Inputs, own: Sequence[Var], convert: Callable[[], list[Value]]
) -> Callee:
    """Convert the block's body as a function of `own` parameters, and of the values that a region reads."""
    outer = dict(t.values)
    params = [Var(name, ty) for name, ty in inputs.types.items()]
    for param, (value, held) in zip(params, inputs.held.items(), strict=True):
        t.values[value] = Value(t, param, held.shape, held.kept)
    callee = t.function(t.program.symbol(t.node, role), [*own, *params], convert)
    t.values = outer
    return callee


def run_time_loop(t: Translator, op: Any, operands: list[Value], more: Value) -> list[Value]:
    """Convert a loop whose condition is computed at run time.

    Args:
        t: The translator.
        op: A `while` operation.
        operands: Initial states of the loop. Those that no round changes are read from outside of it.
        more: Whether the loop runs a first round.
    """
    condition, body = (region.blocks[0] for region in op.regions)
    (*_, last), arguments = body.operations, body.arguments
    states = [k for k, value in enumerate(last.operands) if value != arguments[k]]
    left = [k for k in range(len(operands)) if k not in states]
    t.values.update((arguments[k], operands[k]) for k in left)
    inputs = _Inputs(t, [*captures(condition), *captures(body), *(arguments[k] for k in left)])
    initial = {f"state_{k}": operands[k].full for k in states}
    number, own = Var(_NUMBER, SCALAR["int64"]), [Var(name, value.ty) for name, value in initial.items()]

    def convert() -> list[Value]:
        given = {k: Value(t, param, operands[k].shape) for k, param in zip(states, own, strict=True)}
        given |= {k: t.values[arguments[k]] for k in left}
        results = t.block(body, [given[k] for k in range(len(operands))])
        (again,) = t.block(condition, results)
        following = t.hold(R.add(number, relax.const(np.array(1, np.int64), "int64")))
        return [again, following, *(results[k] for k in states)]

    callee = _function(t, "round", inputs, [number, *own], convert)
    types = {name: value.ty for name, value in initial.items()}
    symbol = t.program.symbol(t.node, "loop")
    func = Rounds(symbol, t.node, callee, _NUMBER, types, inputs.types, (), ()).function()
    t.program.put(symbol, func)
    zero = relax.const(np.array(0, np.int64), "int64")
    given = [more.full, zero, *initial.values(), *inputs.exprs.values()]
    ends = t.emit(call(symbol, given, func.ret_ty, [t.node]))
    results = list(operands)
    for place, k in enumerate(states):
        results[k] = t.hold(TupleGetItem(ends, place))
    return results


def run_time_choice(
    t: Translator, conditions: Sequence[Value], blocks: Sequence[Any], count: int
) -> list[Value]:
    """Convert a case: the first block whose condition holds is run, or else the last.

    Args:
        t: The translator.
        conditions: Conditions of all blocks but the last, Boolean scalars.
        blocks: Blocks without arguments.
        count: Number of values that each block returns.
    """
    inputs = _Inputs(t, [value for block in blocks for value in captures(block)])
    callees = [_function(t, "branch", inputs, [], partial(t.block, block, [])) for block in blocks]
    given = {f"choice_{k}": condition.full for k, condition in enumerate(conditions)}
    types = {name: value.ty for name, value in given.items()} | inputs.types
    chosen = callees.pop()
    for name, callee in reversed(list(zip(given, callees, strict=True))):
        symbol = t.program.symbol(t.node, "choice")
        names = (name, *dict.fromkeys((*callee.inputs, *chosen.inputs)))
        t.program.put(symbol, _choice(t.node, {n: types[n] for n in names}, callee, chosen))
        chosen = Callee(symbol, names, callee.ret_ty)
    result = t.emit(chosen.call({**given, **inputs.exprs}, [t.node]))
    if count == 1:
        return [t.hold(result)]
    return [t.hold(TupleGetItem(result, k)) for k in range(count)]


def _choice(source: str, types: dict[str, Type], yes: Callee, no: Callee) -> relax.Function:
    """Return a function that calls one of two functions, as its first parameter says."""
    params = {name: Var(name, ty) for name, ty in types.items()}
    branches = []
    for callee in (yes, no):
        block = Block()
        branches.append(block.end(block.bind(callee.symbol, callee.call(params, [source]))))
    choice = relax.If(next(iter(params.values())), *branches)
    relax.expr._update_type(choice, yes.ret_ty)
    outer = Block()
    result = outer.bind("results", choice)
    return relax.Function(list(params.values()), outer.end(result), result.ty, is_pure=False)
