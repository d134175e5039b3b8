# SPDX-License-Identifier: Apache-2.0
"""Calls, branches and loops of StableHLO.

A short loop with a known number of rounds is unrolled. If all branches of a choice at run time are cheap, all are
computed, since they have no side effects. Other control flow stays.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import Expr, TupleGetItem

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.control_flow import Region
from arm_ext.frontends.common.limits import MOST_ROUNDS, MOST_UNROLLED
from arm_ext.frontends.graph import Value
from arm_ext.frontends.ops.arithmetic import where
from arm_ext.frontends.stablehlo.attributes import word
from arm_ext.frontends.stablehlo.scalars import Array, known_turns, outlasts
from arm_ext.frontends.stablehlo.translator import Complex, Convert, Translator

R = relax.op

# Operators that are too expensive, or may not terminate, to be computed for a branch that is not taken.
_HEAVY = (
    "stablehlo.convolution",
    "stablehlo.dot",
    "stablehlo.dot_general",
    "stablehlo.reduce_window",
    "stablehlo.sort",
    "stablehlo.while",
)

# Functions that compilers insert as annotations; they return their operand.
NEUTRAL_CALLS = (
    "LayoutConstraint",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "Sharding",
    "annotate_device_placement",
)


def _call(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    return t.call(word(op, "callee"), operands)


def composite(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    """Convert a composite by its decomposition."""
    return t.call(word(op, "decomposition"), operands)


def _if(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    (predicate,) = operands
    blocks = [region.blocks[0] for region in op.regions]
    if (chosen := predicate.scalar()) is not None:
        return t.block(blocks[0 if chosen else 1], [])
    return _chosen(t, op, [predicate], blocks)


def _case(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    (index,) = operands
    blocks = [region.blocks[0] for region in op.regions]
    number = index.scalar()
    # An index out of range selects the last branch.
    if number is not None:
        return t.block(blocks[int(number) if 0 <= number < len(blocks) else -1], [])
    conditions = [t.hold(R.equal(index.expr, t.number(k, index))) for k in range(len(blocks) - 1)]
    return _chosen(t, op, conditions, blocks)


def _chosen(t: Translator, op: Any, conditions: list[Value], blocks: list[Any]) -> list[Value]:
    if any(_is_heavy(t, block) for block in blocks):
        return _run_time_choice(t, conditions, blocks, len(op.results))
    *branches, results = (t.block(block, []) for block in blocks)
    for condition, branch in reversed(list(zip(conditions, branches, strict=True))):
        results = [_either(t, condition, a, b) for a, b in zip(branch, results, strict=True)]
    return results


def _either(t: Translator, predicate: Value, yes: Value, no: Value) -> Value:
    return where(Value(t, predicate.expr, yes.shape), yes, no)


def _is_heavy(t: Translator, block: Any) -> bool:
    return any(op.operation.name in _HEAVY for op in _operators(t, block))


def _operators(t: Translator, block: Any) -> Iterator[Any]:
    """Yield the operators of a block, those of nested blocks and of called functions included."""
    for op in block.operations:
        yield op
        blocks = [region.blocks[0] for region in op.regions]
        if op.operation.name == "func.call":
            blocks.append(t.functions[word(op, "callee")].regions[0].blocks[0])
        for inner in blocks:
            yield from _operators(t, inner)


def _while(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    condition, body = (region.blocks[0] for region in op.regions)
    size = sum(1 for _ in _operators(t, body))
    states = [_whole(held) for held in operands]
    turns = known_turns(condition, body, states, MOST_UNROLLED // size)
    if turns is not None:
        state = operands
        for _ in range(turns):
            state = t.block(body, state)
        return state
    if outlasts(condition, body, states, MOST_ROUNDS):
        raise ModelError(f"it has more than {MOST_ROUNDS} iterations, the maximum that can be compiled")
    (begins,) = t.block(condition, operands)
    if begins.scalar() is not None and not begins.scalar():
        return operands
    return _run_time_loop(t, op, operands, begins)


def _run_time_loop(t: Translator, op: Any, operands: list[Value], more: Value) -> list[Value]:
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
    outside = _read(t, [*_captures(condition), *_captures(body), *(arguments[k] for k in left)])

    def convert(own: list[Expr]) -> list[Value]:
        given = {k: Value(t, param, operands[k].shape) for k, param in zip(states, own, strict=True)}
        given |= {k: t.values[arguments[k]] for k in left}
        results = t.block(body, [given[k] for k in range(len(operands))])
        (again,) = t.block(condition, results)
        return [again, *(results[k] for k in states)]

    initial = [operands[k].full for k in states]
    region, read = _region(t, outside, convert, len(states))
    ends = t.emit(t.program.loop(t.node, more.full, initial, region, read))
    results = list(operands)
    for place, k in enumerate(states):
        results[k] = t.hold(TupleGetItem(ends, place))
    return results


def _run_time_choice(
    t: Translator, conditions: Sequence[Value], blocks: Sequence[Any], count: int
) -> list[Value]:
    """Convert a case: run the first block whose condition holds, or else the last block.

    Args:
        t: The translator.
        conditions: Conditions of all blocks but the last, Boolean scalars.
        blocks: Blocks without arguments.
        count: Number of values that each block returns.
    """
    outside = _read(t, [value for block in blocks for value in _captures(block)])
    regions = [_region(t, outside, partial(t.block, block)) for block in blocks]
    read = regions[0][1]
    result = t.emit(
        t.program.choice(t.node, [c.full for c in conditions], [region for region, _ in regions], read)
    )
    return [t.hold(result)] if count == 1 else [t.hold(TupleGetItem(result, k)) for k in range(count)]


def _captures(block: Any) -> Iterator[Any]:
    """Yield the values from outside that a block or its nested blocks read."""
    inside = set(block.arguments)
    for op in block.operations:
        yield from (value for value in op.operands if value not in inside)
        for region in op.regions:
            for inner in region.blocks:
                yield from (value for value in _captures(inner) if value not in inside)
        inside.update(op.results)


def _read(t: Translator, values: Sequence[Any]) -> list[Any]:
    """Return the values without duplicates; refuse complex ones, which a region cannot read from outside.

    Raises:
        ModelError: One of them is complex.
    """
    found = list(dict.fromkeys(values))
    if any(isinstance(t.values[value], Complex) for value in found):
        raise ModelError("it reads complex values, and is decided at run time; split it into real ones")
    return found


def _region(
    t: Translator, outside: Sequence[Any], convert: Callable[[list[Expr]], list[Value]], own: int = 0
) -> tuple[Region, list[Expr]]:
    """Return a function that converts a region in a given builder, and the values that the region reads from outside.

    Args:
        t: The translator.
        outside: MLIR's values that it reads from outside.
        convert: Converts its operators, given values of its own.
        own: Number of these.
    """

    def region(builder: relax.BlockBuilder, given: list[Expr]) -> list[Expr]:
        def body() -> list[Value]:
            for value, expr in zip(outside, given[own:], strict=True):
                held = t.values[value]
                t.values[value] = Value(t, expr, held.shape, held.kept)
            return convert(given[:own])

        return t.inside(builder, body)

    return region, [t.values[value].expr for value in outside]


def _whole(held: Value) -> Array | None:
    number = held.scalar()
    return None if number is None else np.full(held.shape, number, held.dtype)


# Operator → its converter.
CONVERTERS: dict[str, Convert] = {
    "func.call": _call,
    "stablehlo.case": _case,
    "stablehlo.if": _if,
    "stablehlo.while": _while,
}
