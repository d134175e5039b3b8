# SPDX-License-Identifier: Apache-2.0
"""argmax and argmin, which TVM reduces as (index, value) pairs, as two reductions of one value each.

    (place, value) of the first greatest x[k]  →  value = max of x[k], place = min of k where x[k] = value

The place is always one of the axis: where a NaN hides the greatest value, the last.
"""

import math
from collections.abc import Sequence

from tvm import ir, tirx
from tvm.ir.prim import expr as prim
from tvm.s_tir.stmt import SBlock
from tvm_ffi import structural_equal

from schedules.generic.expressions import UnsupportedError
from schedules.generic.stages import Axis, Kind, Reduction, Stage

_KINDS: tuple[tuple[type[ir.Expr], Kind], ...] = ((prim.GT, "max"), (prim.LT, "min"))

_PLACE = "int32"
"""Dtype in which indices are compared, half as wide as the int64 that they are stored as."""


def stages(block: SBlock, spatial: Sequence[Axis], reduced: Sequence[Axis]) -> tuple[Stage, Stage]:
    """Return the reduction to the extreme value, and the reduction to the first index that has it.

    Raises:
        UnsupportedError: The block is not that of an argmax or argmin along one axis, first place wins.
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
        better = compare(old_value, term)
        earlier = tirx.And(tirx.EQ(old_value, term), tirx.LT(old_place, axis.var))
        expected = [
            tirx.Select(tirx.Or(better, earlier), old_place, axis.var),
            tirx.Select(better, old_value, term),
        ]
        if all(
            structural_equal(b.value, e, map_free_vars=False) for b, e in zip(body, expected, strict=False)
        ):
            return _both(kind, (places, values), _start(kind, inits[1].value), (spatial, axis), term)
    raise unlike


def _start(kind: Kind, start: ir.Expr) -> ir.Expr:
    """Return the start value of the reduction, which is an infinity for floats.

    TVM starts with the greatest finite number, which no element of -inf equals.
    """
    dtype = str(start.ty.dtype)
    return tirx.const(-math.inf if kind == "max" else math.inf, dtype) if dtype.startswith("float") else start


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
    is_best = tirx.EQ(term, tirx.BufferLoad(values.buffer, values.indices))
    place = tirx.Select(is_best, tirx.Cast(_PLACE, axis.var), last)
    return (
        Stage(
            values.buffer,
            tuple(spatial),
            tuple(values.indices),
            best,
            Reduction(kind, (axis,), init, term, best),
        ),
        Stage(
            places.buffer,
            tuple(spatial),
            tuple(places.indices),
            tirx.Cast(str(places.buffer.ty.dtype), first),
            Reduction("min", (axis,), last, place, first),
        ),
    )
