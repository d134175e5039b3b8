# SPDX-License-Identifier: Apache-2.0
"""Sorting in StableHLO. What comes first is a region, which is tried out with a few numbers."""

from typing import Any

from tvm import relax
from tvm.ir import TupleGetItem

from arm_ext.errors import ModelError
from arm_ext.frontends.stablehlo.attributes import attribute, flag, ints, tensor_of
from arm_ext.frontends.stablehlo.reductions import counts
from arm_ext.frontends.stablehlo.scalars import behaves
from arm_ext.frontends.stablehlo.translator import Convert, Translator
from arm_ext.frontends.stablehlo.values import Held

R = relax.op

# Of so many operands of a sort the comparator is tried out with all combinations of a few numbers.
_MAX_SORTED = 3


def _sort(t: Translator, op: Any, operands: list[Held]) -> list[Held]:
    (axis,) = ints(op, "dimension", (len(operands[0].shape) - 1,))
    axis %= len(operands[0].shape)
    key, descending = _order(op, operands)
    x = t.full(operands[key])
    if len(operands) == 1:
        return [t.hold(R.sort(x, axis, descending))]
    places = t.emit(R.argsort(x, axis, descending, "int32"))
    return [
        t.hold(R.astype(places, held.dtype))
        if counts(held, axis)
        else t.hold(R.gather_elements(t.full(held), places, axis))
        for held in operands
    ]


def _order(op: Any, operands: list[Held]) -> tuple[int, bool]:
    """Which operand decides, and whether the greatest comes first."""
    block = op.regions[0].blocks[0]
    dtypes = [held.dtype for held in operands for _ in range(2)]
    if len(operands) <= _MAX_SORTED:
        for key in range(len(operands)):
            for descending in (False, True):
                sign = -1 if descending else 1

                def before(*v: Any, k: int = key, s: int = sign) -> list[bool]:
                    return [s * v[2 * k] < s * v[2 * k + 1]]

                if behaves(block, dtypes, before):
                    return key, descending
    raise ModelError(f"it orders {len(operands)} tensors by a comparison other than < or > of one of them")


def _top_k(t: Translator, op: Any, operands: list[Held]) -> list[Held]:
    (x,) = operands
    tensor = tensor_of(op.results[1].type)
    assert tensor is not None  # operators with other types are refused before
    (k,) = ints(op, "k")
    largest = attribute(op, "largest") is None or flag(op, "largest")
    both = t.emit(R.topk(t.full(x), k, -1, "both", largest, tensor.dtype))
    return [t.hold(TupleGetItem(both, index)) for index in range(2)]


# Operator → what converts it.
CONVERTERS: dict[str, Convert] = {"chlo.top_k": _top_k, "stablehlo.sort": _sort}
