# SPDX-License-Identifier: Apache-2.0
"""argmax and argmin, which TVM reduces as (index, value) pairs, as two reductions of one value each.

    (index, value) of the first maximum of x[k]  →  value = max of x[k], index = min of k where x[k] = value

For floats, the value is NaN if any x[k] is NaN, and the index is then that of the first NaN.
"""

import math
from collections.abc import Sequence

from tvm import ir, tirx
from tvm.ir.prim import expr as prim
from tvm.s_tir.stmt import SBlock
from tvm_ffi import structural_equal

from schedules.generic.expressions import UnsupportedError
from schedules.generic.stages import Axis, Kind, Stage, StageReduction

_KINDS: tuple[tuple[type[ir.Expr], Kind], ...] = ((prim.GT, "max"), (prim.LT, "min"))

_LEAST_EXPONENT = {"float16": -24, "float32": -149, "float64": -1074}
"""Exponent of the least number above 0, a power of two."""

_PLACE = "int32"
"""Dtype in which indices are compared, half as wide as the int64 that they are stored as."""


def stages(block: SBlock, spatial: Sequence[Axis], reduced: Sequence[Axis]) -> tuple[Stage, Stage]:
    """Return two stages: the reduction to the maximum or minimum, and the reduction to its first index.

    Raises:
        UnsupportedError: The block is no argmax or argmin along one axis that selects the first index.
    """
    unlike = UnsupportedError(f"block {block.name_hint} of more than one store")
    body = list(block.body.seq) if isinstance(block.body, tirx.SeqStmt) else []
    inits = list(block.init.seq) if isinstance(block.init, tirx.SeqStmt) else []
    if [type(s) for s in body] != [tirx.Bind, tirx.Bind, tirx.BufferStore, tirx.BufferStore]:
        raise unlike
    if len(inits) != 2 or len(reduced) != 1:
        raise unlike
    places, values = body[2], body[3]
    if not isinstance(body[1].value, prim.Select):
        raise unlike
    term, axis = body[1].value.false_value, reduced[0]
    old_place = tirx.BufferLoad(places.buffer, places.indices)
    old_value = tirx.BufferLoad(values.buffer, values.indices)
    for compare, kind in _KINDS:
        for better in _betters(compare(old_value, term), old_value):
            earlier = tirx.And(tirx.EQ(old_value, term), tirx.LT(old_place, axis.var))
            expected = [
                tirx.Select(tirx.Or(better, earlier), old_place, axis.var),
                tirx.Select(better, old_value, term),
            ]
            if all(
                structural_equal(b.value, e, map_free_vars=False)
                for b, e in zip(body, expected, strict=False)
            ):
                start = _start(kind, inits[1].value)
                return _both(kind, (places, values), start, (spatial, axis), term)
    raise unlike


def _betters(better: ir.Expr, old_value: ir.Expr) -> list[ir.Expr]:
    """Return the comparisons by which a loop may select: TVM's (ignores NaN) and, for floats, one that keeps NaN."""
    return [better, tirx.Or(better, tirx.isnan(old_value))] if _is_float(old_value) else [better]


def _start(kind: Kind, start: ir.Expr) -> ir.Expr:
    """Return the initial value of the reduction: an infinity for floats, also if the loops start from another value."""
    infinity = -math.inf if kind == "max" else math.inf
    return tirx.const(infinity, str(start.ty.dtype)) if _is_float(start) else start


def _is_float(value: ir.Expr) -> bool:
    return str(value.ty.dtype) in _LEAST_EXPONENT


def _both(
    kind: Kind,
    stores: tuple[tirx.BufferStore, tirx.BufferStore],
    init: ir.Expr,
    axes: tuple[Sequence[Axis], Axis],
    term: ir.Expr,
) -> tuple[Stage, Stage]:
    (places, values), (spatial, axis) = stores, axes
    best = tirx.Var("best", str(term.ty.dtype))
    first = tirx.Var("first", _PLACE)
    last = tirx.IntImm(_PLACE, axis.extent - 1)
    value, held = best, tirx.BufferLoad(values.buffer, values.indices)
    place = tirx.Select(tirx.EQ(term, held), tirx.Cast(_PLACE, axis.var), last)
    if _is_float(term):
        value = _next_worse(kind, best)
        is_worse = tirx.LE(term, held) if kind == "max" else tirx.GE(term, held)
        place = tirx.Select(is_worse, last, tirx.Cast(_PLACE, axis.var))
    return (
        Stage(
            values.buffer,
            tuple(spatial),
            tuple(values.indices),
            value,
            StageReduction(kind, (axis,), init, term, best),
        ),
        Stage(
            places.buffer,
            tuple(spatial),
            tuple(places.indices),
            tirx.Cast(str(places.buffer.ty.dtype), first),
            StageReduction("min", (axis,), last, place, first),
        ),
    )


def _next_worse(kind: Kind, best: ir.Expr) -> ir.Expr:
    """Return a bound t such that x <= t (for a minimum, x >= t) for all elements that do not equal `best`.

    For a maximum, t is the next float below `best`; infinity if `best` is NaN, as NaN <= infinity is false; and NaN if
    `best` is -infinity.
    """
    dtype = str(best.ty.dtype)
    integer = dtype.replace("float", "int")
    sign = 1 if kind == "max" else -1

    def number(value: float) -> ir.Expr:
        return tirx.const(sign * value, dtype)

    # Decrementing the bits of a float gives the next float towards 0.
    bits = tirx.reinterpret(integer, best)
    nearer = best > number(0) if kind == "max" else best < number(0)
    one = tirx.const(1, integer)
    worse = tirx.reinterpret(dtype, tirx.Select(nearer, bits - one, bits + one))
    below_zero = number(-(2.0 ** _LEAST_EXPONENT[dtype]))
    worse = tirx.Select(tirx.EQ(best, number(0)), below_zero, worse)
    worse = tirx.Select(tirx.EQ(best, number(-math.inf)), tirx.const(math.nan, dtype), worse)
    return tirx.Select(tirx.isnan(best), number(math.inf), worse)
