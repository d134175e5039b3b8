# SPDX-License-Identifier: Apache-2.0
"""StableHLO's sort, whose comparison is a region that is recognised by evaluating it for a few numbers."""

from collections.abc import Sequence
from typing import Any

from tvm import relax
from tvm.ir import Expr, TupleGetItem

from arm_ext.common.errors import ModelError
from arm_ext.frontends.stablehlo.attributes import attribute, flag, ints, tensor_of
from arm_ext.frontends.stablehlo.reductions import counts
from arm_ext.frontends.stablehlo.scalars import behaves
from arm_ext.frontends.stablehlo.translator import Convert, Translator
from arm_ext.frontends.stablehlo.values import Held
from relay_passes.canonicalize.define_sorts import gathered, keys

R = relax.op

# Most operands of a sort: its comparator is tried with all combinations of a few numbers.
_MAX_SORTED = 3


def _sort(t: Translator, op: Any, operands: list[Held]) -> list[Held]:
    (axis,) = ints(op, "dimension", (len(operands[0].shape) - 1,))
    axis %= len(operands[0].shape)
    keys, descending = _order(op, operands)
    if len(operands) == 1:
        return [t.hold(R.sort(t.full(operands[0]), axis, descending))]
    places = _places(t, [t.full(operands[key]) for key in keys], axis, descending)
    return [
        t.hold(R.astype(places, held.dtype))
        if counts(held, axis)
        else t.hold(R.gather_elements(t.full(held), places, axis))
        for held in operands
    ]


def _places(t: Translator, keys: Sequence[Expr], axis: int, descending: bool) -> Expr:
    """Return the indices that sort by the first key, and among equals by the next.

    A stable sort by each key, the last key first, gives that order.
    """
    places: Expr | None = None
    for key in reversed(keys):
        data = key if places is None else t.emit(R.gather_elements(key, places, axis))
        new = t.emit(R.argsort(data, axis, descending, "int32"))
        places = new if places is None else t.emit(R.gather_elements(places, new, axis))
    assert places is not None  # there is a key
    return places


def _order(op: Any, operands: list[Held]) -> tuple[list[int], bool]:
    """Return the operands that are sort keys, the first one first, and whether the order is descending."""
    block = op.regions[0].blocks[0]
    dtypes = [held.dtype for held in operands for _ in range(2)]
    count = len(operands)
    choices = [[key] for key in range(count)] + [list(range(n)) for n in range(2, count + 1)]
    if count <= _MAX_SORTED:
        for keys in choices:
            for descending in (False, True):

                def before(*v: Any, keys: list[int] = keys, last: bool = descending) -> list[bool]:
                    left, right = ([v[2 * k + side] for k in keys] for side in (0, 1))
                    return [left > right if last else left < right]

                if behaves(block, dtypes, before):
                    return keys, descending
    raise ModelError(
        f"it orders {count} tensors by a comparison that is not supported; < and > of some of them are"
    )


def _top_k(t: Translator, op: Any, operands: list[Held]) -> list[Held]:
    (x,) = operands
    tensor = tensor_of(op.results[1].type)
    assert tensor is not None  # operators with other types are refused before
    (k,) = ints(op, "k")
    largest = attribute(op, "largest") is None or flag(op, "largest")
    data = t.full(x)
    if "float" not in x.dtype:
        both = t.emit(R.topk(data, k, -1, "both", largest, tensor.dtype))
        return [t.hold(TupleGetItem(both, index)) for index in range(2)]
    # It compares floats by their total order.
    order = t.emit(t.builder.call_te(keys, data, True, primfunc_name_hint="keys"))
    places = t.emit(R.topk(order, k, -1, "indices", largest, tensor.dtype))
    values = t.builder.call_te(gathered, data, places, len(x.shape) - 1, primfunc_name_hint="gathered")
    return [t.hold(values), t.hold(places)]


# Operator → what converts it.
CONVERTERS: dict[str, Convert] = {"chlo.top_k": _top_k, "stablehlo.sort": _sort}
