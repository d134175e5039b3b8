# SPDX-License-Identifier: Apache-2.0
"""StableHLO's sort: its comparison is a region, recognised by evaluating it for a few numbers."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import Expr, TupleGetItem

from arm_ext.common.errors import ModelError
from arm_ext.frontends.graph import Value
from arm_ext.frontends.stablehlo import scalars
from arm_ext.frontends.stablehlo.attributes import attribute, flag, ints, tensor_of
from arm_ext.frontends.stablehlo.reductions import counts
from arm_ext.frontends.stablehlo.scalars import Array, evaluate
from arm_ext.frontends.stablehlo.translator import Convert, Translator
from relay_passes.canonicalize.define_sorts import gathered, keys

R = relax.op

# Maximum number of operands of a sort: its comparator is tested with all combinations of a few numbers.
_MAX_SORTED = 3

# Numbers with which a comparator is tested, by prefix of the dtype.
_FLOATS = (-np.nan, -np.inf, -1.0, -0.0, 0.0, 1.0, np.nan)
_NUMBERS: dict[str, Sequence[float]] = {
    "bool": (0, 1),
    "uint": (0, 1, 3, 100),
    "int": (-100, -1, 0, 1, 3),
    "float": _FLOATS,
    "bfloat": _FLOATS,
}


@dataclass(frozen=True)
class _Order:
    """The order of a sort: its keys, direction and treatment of NaN.

    Attributes:
        keys: Indices of the operands that are compared, the first one first.
        descending: Whether the greatest element is first.
        total: Whether floats are compared by their total order; else -0 equals 0, and a NaN is above all numbers.
    """

    keys: list[int]
    descending: bool
    total: bool


def _sort(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    (axis,) = ints(op, "dimension", (len(operands[0].shape) - 1,))
    axis %= len(operands[0].shape)
    order = _order(op, operands)
    if len(operands) == 1 and not order.total:
        return [t.hold(R.sort(operands[0].full, axis, order.descending))]
    compared = [operands[key].full for key in order.keys]
    if order.total:
        compared = [total_order(t, key) for key in compared]
    places = _places(t, compared, axis, order.descending)
    return [
        t.hold(R.astype(places, held.dtype))
        if counts(held, axis)
        else t.hold(R.gather_elements(held.full, places, axis))
        for held in operands
    ]


def total_order(t: Translator, x: Expr) -> Expr:
    """Return integers that compare as floats do in their total order; return integers unchanged."""
    if "float" not in str(x.ty.dtype):
        return x
    return t.emit(t.builder.call_te(keys, x, True, primfunc_name_hint="keys"))


def _places(t: Translator, keys: Sequence[Expr], axis: int, descending: bool) -> Expr:
    """Return the indices that sort by the first key, and equal elements by the next key.

    A stable sort by each key, the last key first, gives that order.
    """
    places: Expr | None = None
    for key in reversed(keys):
        data = key if places is None else t.emit(R.gather_elements(key, places, axis))
        new = t.emit(R.argsort(data, axis, descending, "int32"))
        places = new if places is None else t.emit(R.gather_elements(places, new, axis))
    assert places is not None  # there is a key
    return places


def _order(op: Any, operands: list[Value]) -> _Order:
    """Return the order that a sort's comparator implements, found by evaluating it for a few numbers."""
    count = len(operands)
    choices = [[key] for key in range(count)] + [list(range(n)) for n in range(2, count + 1)]
    if count <= _MAX_SORTED:
        given = _tried([held.dtype for held in operands])
        results = evaluate(op.regions[0].blocks[0], given)
        for keys, descending in itertools.product(choices, (False, True)):
            for kind, order in _ORDERS.items():
                pairs = [[order(given[2 * key + side]) for side in (0, 1)] for key in keys]
                if results is not None and np.all(results[0] == _before(pairs, descending)):
                    return _Order(keys, descending, kind == "total")
    raise ModelError(
        f"it sorts {count} tensors by an unsupported comparison; supported are < and > of one or more of them"
    )


def _tried(dtypes: Sequence[str]) -> list[Array]:
    """Return two test arguments for each dtype; together they contain all combinations of a few numbers."""
    numbers = [_NUMBERS[kind] for dtype in dtypes for kind in _NUMBERS if dtype.startswith(kind)]
    combined = np.meshgrid(*(each for each in numbers for _ in range(2)), indexing="ij")
    wanted = [np.dtype(dtype) for dtype in dtypes for _ in range(2)]
    return [each.reshape(-1).astype(dtype) for each, dtype in zip(combined, wanted, strict=True)]


def _canonical(x: Array) -> Array:
    """Return integers that compare as floats do if -0 equals 0 and NaN is above all numbers, as in JAX's sort."""
    if x.dtype.kind not in "fV":
        return x
    with np.errstate(invalid="ignore"):
        x = np.where(x == 0, np.zeros_like(x), x)
        return scalars.total_order(np.where(np.isnan(x), np.full_like(x, np.nan), x))


# Orders of floats. "partial" leaves NaN unordered, so a comparator of this kind is implemented as "canonical".
_ORDERS: dict[str, Callable[[Array], Array]] = {
    "total": scalars.total_order,
    "canonical": _canonical,
    "partial": lambda x: x,
}


def _before(pairs: Sequence[Sequence[Array]], descending: bool) -> Array:
    """Return whether the first argument precedes the second: compared by the first key, and if equal by the next."""
    before, same = np.array(False), np.array(True)
    with np.errstate(invalid="ignore"):
        for left, right in pairs:
            before = before | (same & (left > right if descending else left < right))
            same = same & (left == right)
    return before


def _top_k(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    (x,) = operands
    tensor = tensor_of(op.results[1].type)
    assert tensor is not None  # operators with other types have been refused earlier
    (k,) = ints(op, "k")
    largest = attribute(op, "largest") is None or flag(op, "largest")
    data = x.full
    if "float" not in x.dtype:
        both = t.emit(R.topk(data, k, -1, "both", largest, tensor.dtype))
        return [t.hold(TupleGetItem(both, index)) for index in range(2)]
    # top_k compares floats by their total order.
    places = t.emit(R.topk(total_order(t, data), k, -1, "indices", largest, tensor.dtype))
    values = t.builder.call_te(gathered, data, places, len(x.shape) - 1, primfunc_name_hint="gathered")
    return [t.hold(values), t.hold(places)]


# Operator → its converter.
CONVERTERS: dict[str, Convert] = {"chlo.top_k": _top_k, "stablehlo.sort": _sort}
