# SPDX-License-Identifier: Apache-2.0
"""Calls, branches and loops of StableHLO, without control flow at run time.

A loop whose end is known is unrolled. Of branches that the data chooses among all are computed: they have no effects.
"""

from typing import Any

from tvm import relax

from arm_ext.errors import ModelError
from arm_ext.frontends.stablehlo.attributes import word
from arm_ext.frontends.stablehlo.translator import Convert, Translator
from arm_ext.frontends.stablehlo.values import Held

R = relax.op
MAX_TURNS = 4096
"""A loop that is unrolled has at most."""

# Functions of compilers' that change no value.
NEUTRAL_CALLS = (
    "LayoutConstraint",
    "SPMDFullToShardShape",
    "SPMDShardToFullShape",
    "Sharding",
    "annotate_device_placement",
)


def _call(t: Translator, op: Any, operands: list[Held]) -> list[Held]:
    return t.call(word(op, "callee"), operands)


def composite(t: Translator, op: Any, operands: list[Held]) -> list[Held]:
    """An operator by the function that it is made of."""
    return t.call(word(op, "decomposition"), operands)


def _if(t: Translator, op: Any, operands: list[Held]) -> list[Held]:
    (predicate,) = operands
    yes, no = (region.blocks[0] for region in op.regions)
    if (chosen := predicate.scalar()) is not None:
        return t.block(yes if chosen else no, [])
    pairs = zip(t.block(yes, []), t.block(no, []), strict=True)
    return [_either(t, predicate, a, b) for a, b in pairs]


def _either(t: Translator, predicate: Held, yes: Held, no: Held) -> Held:
    condition = Held(predicate.expr, yes.shape)
    exprs, kept = t.together([condition, yes, no])
    return Held(t.emit(R.where(*exprs)), yes.shape, kept)


def _case(t: Translator, op: Any, operands: list[Held]) -> list[Held]:
    (index,) = operands
    blocks = [region.blocks[0] for region in op.regions]
    number = index.scalar()
    if number is not None:
        # An index out of range stands for the last branch.
        return t.block(blocks[int(number) if 0 <= number < len(blocks) else -1], [])
    *branches, results = (t.block(block, []) for block in blocks)
    for k, branch in reversed(list(enumerate(branches))):
        chosen = t.hold(R.equal(index.expr, t.number(k, index)))
        results = [_either(t, chosen, a, b) for a, b in zip(branch, results, strict=True)]
    return results


def _while(t: Translator, op: Any, operands: list[Held]) -> list[Held]:
    condition, body = (region.blocks[0] for region in op.regions)
    state = operands
    for _ in range(MAX_TURNS + 1):
        (goes_on,) = t.block(condition, state)
        if goes_on.scalar() is None:
            raise ModelError(
                "it ends when values that are computed at run time say so; loops with a known number of turns are taken"
            )
        if not goes_on.scalar():
            return state
        state = t.block(body, state)
    raise ModelError(f"it has more than {MAX_TURNS} turns, and would be unrolled")


# Operator → what converts it.
CONVERTERS: dict[str, Convert] = {
    "func.call": _call,
    "stablehlo.case": _case,
    "stablehlo.if": _if,
    "stablehlo.while": _while,
}
