# SPDX-License-Identifier: Apache-2.0
"""Calls, branches and loops of StableHLO.

A short loop with a known number of rounds is unrolled. If all branches of a choice at run time are cheap, all are
computed, since they have no side effects. Other control flow stays.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from tvm import relax

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.limits import MOST_ROUNDS
from arm_ext.frontends.graph import Value
from arm_ext.frontends.ops.arithmetic import where
from arm_ext.frontends.stablehlo.attributes import word
from arm_ext.frontends.stablehlo.regions import run_time_choice, run_time_loop
from arm_ext.frontends.stablehlo.scalars import Array, known_turns, outlasts
from arm_ext.frontends.stablehlo.translator import Convert, Translator

R = relax.op
MAX_UNROLLED = 2048
"""Most operators of an unrolled loop, each of which becomes a call."""

# Operators too expensive, or possibly endless, to be computed for a branch that is not taken.
_HEAVY = (
    "stablehlo.convolution",
    "stablehlo.dot",
    "stablehlo.dot_general",
    "stablehlo.reduce_window",
    "stablehlo.sort",
    "stablehlo.while",
)

# Functions that compilers call for annotation and that return their operand.
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
        return run_time_choice(t, conditions, blocks, len(op.results))
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
    turns = known_turns(condition, body, states, MAX_UNROLLED // size)
    if turns is not None:
        state = operands
        for _ in range(turns):
            state = t.block(body, state)
        return state
    if outlasts(condition, body, states, MOST_ROUNDS):
        raise ModelError(f"it has more than {MOST_ROUNDS} rounds, the most that can be compiled")
    (begins,) = t.block(condition, operands)
    if begins.scalar() is not None and not begins.scalar():
        return operands
    return run_time_loop(t, op, operands, begins)


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
