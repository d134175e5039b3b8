# SPDX-License-Identifier: Apache-2.0
"""Loops of `relax.max` and `relax.min` for booleans, which TVM lacks, and for floats, where TVM's start value is wrong.

of truths      whether any is true, or all are
of floats      begin with an infinity: TVM's begin with the greatest finite number, and say of a row of
               infinities (a fully masked row of attention) that it holds that
"""

import math
from collections.abc import Callable

from tvm import ir, relax, te, tirx, topi

_JOINS = {"relax.max": topi.any, "relax.min": topi.all}


def _reducer(combine: Callable[[ir.Expr, ir.Expr], ir.Expr], start: float, name: str) -> te.Reduce:
    # TVM counts the parameters of Python functions; its own operators have none that it sees.
    return te.comm_reducer(lambda a, b: combine(a, b), lambda dtype: tirx.const(start, dtype), name)


_OF_FLOATS = {
    "relax.max": _reducer(tirx.max, -math.inf, "max"),
    "relax.min": _reducer(tirx.min, math.inf, "min"),
}


def extremum(builder: relax.BlockBuilder, call: ir.Call) -> ir.Expr:
    """Legalise a `relax.max` or `relax.min` of booleans or floats; integers go to TVM's legalisation."""
    (data,), attrs, name = call.args, call.attrs, call.op.name
    axes = None if attrs.axis is None else [int(axis) for axis in attrs.axis]
    dtype = str(data.ty.dtype)
    if dtype == "bool":
        return builder.call_te(_JOINS[name], data, axes, bool(attrs.keepdims))
    if not dtype.startswith("float"):
        return call.op.get_attr("FLegalize")(builder, call)
    reduced = set(range(len(data.ty.shape)) if axes is None else (axis % len(data.ty.shape) for axis in axes))

    def value(x: te.Tensor) -> te.Tensor:
        over = {axis: te.reduce_axis((0, x.shape[axis]), f"k{axis}") for axis in sorted(reduced)}

        def most(*output: ir.Expr) -> ir.Expr:
            places = iter(output)
            index = []
            for axis in range(len(x.shape)):
                place = next(places) if attrs.keepdims or axis not in reduced else None
                index.append(over.get(axis, place))
            return _OF_FLOATS[name](x(*index), axis=[*over.values()])

        return te.compute(call.ty.shape, most, name.removeprefix("relax."))

    return builder.call_te(value, data, primfunc_name_hint=name.removeprefix("relax."))
