# SPDX-License-Identifier: Apache-2.0
"""Legalisations of maxima, minima, argmax and argmin for floats, and for Booleans, which TVM does not support.

Booleans           the maximum is "any", the minimum "all"
floats             the initial value is an infinity; TVM's is the minimum (or maximum) finite number, which it returns
                   for a row of infinities (a fully masked row of attention)
argmax, argmin     of floats, the index of the first NaN if there is one, as in numpy, PyTorch and JAX; else that of
                   the first maximum or minimum. TVM's loops do not return a NaN's index, and lose elements before it
"""

import math
from collections.abc import Callable

from tvm import ir, relax, te, tirx, topi
from tvm.ir.prim import expr as prim

_JOINS = {"relax.max": topi.any, "relax.min": topi.all}


def _reducer(combine: Callable[[ir.Expr, ir.Expr], ir.Expr], start: float, name: str) -> te.Reduce:
    # Wrapped in a lambda, because TVM inspects the Python signature of a function, which its built-in operators lack.
    return te.comm_reducer(lambda a, b: combine(a, b), lambda dtype: tirx.const(start, dtype), name)


_OF_FLOATS = {
    "relax.max": _reducer(tirx.max, -math.inf, "max"),
    "relax.min": _reducer(tirx.min, math.inf, "min"),
}


_BETTER = {"relax.argmax": prim.GT, "relax.argmin": prim.LT}
_WORST = {"relax.argmax": -math.inf, "relax.argmin": math.inf}


def extremum(builder: relax.BlockBuilder, call: ir.Call) -> ir.Expr:
    """Legalise a `relax.max` or `relax.min` of booleans or floats; TVM legalises those of integers."""
    (data,), attrs, name = call.args, call.attrs, call.op.name
    axes = None if attrs.axis is None else [int(axis) for axis in attrs.axis]
    dtype = str(data.ty.dtype)
    if dtype == "bool":
        return builder.call_te(_JOINS[name], data, axes, bool(attrs.keepdims))
    if "float" not in dtype:
        return call.op.get_attr("FLegalize")(builder, call)
    reduced = set(range(len(data.ty.shape)) if axes is None else (axis % len(data.ty.shape) for axis in axes))

    def value(x: te.Tensor) -> te.Tensor:
        over = {axis: te.reduce_axis((0, x.shape[axis]), f"k{axis}") for axis in sorted(reduced)}

        def most(*output: ir.Expr) -> ir.Expr:
            return _OF_FLOATS[name](x(*_index(output, over, bool(attrs.keepdims))), axis=[*over.values()])

        return te.compute(call.ty.shape, most, name.removeprefix("relax."))

    return builder.call_te(value, data, primfunc_name_hint=name.removeprefix("relax."))


def _index(output: tuple[ir.Expr, ...], over: dict[int, ir.Expr], keepdims: bool) -> list[ir.Expr]:
    """Return the index of the operand for given indices of the output and of the reduced axes."""
    places, rank = iter(output), len(output) + (0 if keepdims else len(over))
    index = []
    for axis in range(rank):
        place = next(places) if keepdims or axis not in over else None
        index.append(over.get(axis, place))
    return index


def place_of_extremum(builder: relax.BlockBuilder, call: ir.Call) -> ir.Expr:
    """Legalise a `relax.argmax` or `relax.argmin` of floats; TVM legalises those of other dtypes."""
    (data,), attrs, name = call.args, call.attrs, call.op.name
    out = str(call.ty.dtype)
    if "float" not in str(data.ty.dtype):
        return call.op.get_attr("FLegalize")(builder, call)
    rank = len(data.ty.shape)
    at = 0 if attrs.axis is None else int(attrs.axis) % rank
    keeps = bool(attrs.keepdims) and attrs.axis is not None

    def joined(earlier: tuple[ir.Expr, ir.Expr], later: tuple[ir.Expr, ir.Expr]) -> tuple[ir.Expr, ir.Expr]:
        (place, value), (other, term) = earlier, later
        better = tirx.Or(_BETTER[name](value, term), tirx.isnan(value))
        same = tirx.And(tirx.EQ(value, term), tirx.LT(place, other))
        return tirx.Select(tirx.Or(better, same), place, other), tirx.Select(better, value, term)

    def start(_: str, of: str) -> tuple[ir.Expr, ir.Expr]:
        # Start with the maximum index, so that the index of an element equal to the initial infinity replaces it.
        return tirx.max_value(out), tirx.const(_WORST[name], of)

    def places(x: te.Tensor) -> te.Tensor:
        if attrs.axis is None:
            x = topi.reshape(x, [math.prod(x.shape)])
        over = te.reduce_axis((0, x.shape[at]), "k")
        reducer = te.comm_reducer(joined, start, name.removeprefix("relax."))

        def most(*output: ir.Expr) -> ir.Expr:
            return reducer((over.var.astype(out), x(*_index(output, {at: over}, keeps))), axis=[over])

        shape = call.ty.shape if attrs.axis is not None else []
        found = te.compute(shape, most, name.removeprefix("relax."))[0]
        return topi.reshape(found, [1] * rank) if attrs.axis is None and attrs.keepdims else found

    return builder.call_te(places, data, primfunc_name_hint=name.removeprefix("relax."))
