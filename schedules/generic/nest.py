# SPDX-License-Identifier: Apache-2.0
"""Division of a stage into loop nests that vectorise: flat offsets, no conditions on axes, few and long axes.

if c <= i then a else b    →  two nests, for i <= c and i > c (concat, pad)
t[i / 4, i % 4]            →  i becomes two axes (a transposed tensor's reshape)
x[i * 8 + j]               →  one axis, if every offset has this form
"""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from tvm import ir, sym, tirx
from tvm.ir.expr import TensorLoad
from tvm.ir.prim import expr as prim

from schedules.generic.expressions import (
    CONDITIONAL,
    call_name,
    children,
    loads,
    rebuild,
    step_of,
    substitute,
    uses,
    walk,
)
from schedules.generic.split_at_conditions import conditions, parts
from schedules.generic.stages import (
    Axis,
    Stage,
    all_axes,
    each,
    expressions,
    shape_of,
    with_axes,
    without_units,
)

_TRUNCATED = {prim.FloorDiv: prim.Div, prim.FloorMod: prim.Mod}


def nests(stage: Stage, flat: Mapping[ir.Var, tirx.Buffer], outside: Sequence[Axis] = ()) -> Iterator[Stage]:
    """Yield the loop nests of a stage, which together compute each element once.

    Args:
        stage: A stage as `fuse` returns it.
        flat: For each tensor, the one-dimensional buffer that the nests load and store instead.
        outside: Axes of loops around the stage.
    """
    for part in _unconditional(without_units(stage), outside):
        nest = _merged(_flat(_split(_simplified(part, outside), outside), flat, outside), outside)
        yield _kept(nest, outside)


def _unconditional(stage: Stage, outside: Sequence[Axis]) -> Iterator[Stage]:
    """Yield the parts of a stage in which its conditions on axes are constant."""
    if not conditions(stage):
        yield stage
        return
    # Simplify first, since a reshape's modulos hide the axis of a condition; recurse, since conditions may be nested.
    found = list(parts(_simplified(stage, outside)))
    for part in found:
        yield from [part] if len(found) == 1 else _unconditional(part, outside)


def _analyzer(axes: Sequence[Axis]) -> sym.Analyzer:
    analyzer = sym.Analyzer()
    for axis in axes:
        analyzer.bind(axis.var, ir.Range(0, axis.extent))
    return analyzer


def _simplified(stage: Stage, outside: Sequence[Axis]) -> Stage:
    """Return a copy of the stage without conditions that are constant, and with simplified offsets."""
    analyzer = _analyzer((*all_axes(stage), *outside))

    def change(expr: ir.Expr) -> ir.Expr | None:
        if call_name(expr) == CONDITIONAL:
            condition = analyzer.simplify(expr.args[0])
            if isinstance(condition, prim.IntImm):
                return rebuild(expr.args[1 if int(condition) else 2], change)
        if isinstance(expr, prim.Div) and str(expr.ty.dtype).startswith("int"):
            floor = tirx.FloorDiv(rebuild(expr.a, change), expr.b)
            return analyzer.simplify(floor) if analyzer.can_prove(floor.a >= 0) else None
        if isinstance(expr, prim.Cast) and _returns(expr):
            return rebuild(expr.value.value, change)
        if isinstance(expr, TensorLoad) and len(expr.indices) != 0:
            at = [rebuild(index, change) for index in expr.indices]
            return tirx.BufferLoad(expr.source, [analyzer.simplify(index, 4) for index in at])
        return None

    simple = each(stage, lambda e: rebuild(e, change))
    return replace(simple, indices=tuple(analyzer.simplify(index) for index in simple.indices))


def _returns(cast: prim.Cast) -> bool:
    """Whether a cast reverts the cast from 8-bit or 16-bit integers to float32 that is its operand."""
    inner = cast.value
    return (
        isinstance(inner, prim.Cast)
        and str(inner.ty.dtype) == "float32"
        and str(inner.value.ty.dtype) == str(cast.ty.dtype)
        and str(cast.ty.dtype) in {"int8", "uint8", "int16", "uint16"}
    )


def _split(stage: Stage, outside: Sequence[Axis]) -> Stage:
    """Return a copy in which each axis that some index divides by a constant is split into two axes."""
    while True:
        found = next(
            (pair for expr in expressions(stage) for e in walk(expr) if (pair := _division(stage, e))), None
        )
        if found is None:
            return stage
        axis, divisor = found
        dtype = str(axis.var.ty.dtype)
        outer = Axis(tirx.Var(f"{axis.var.name}_o", dtype), axis.extent // divisor)
        inner = Axis(tirx.Var(f"{axis.var.name}_i", dtype), divisor)
        both = {axis.var: outer.var * tirx.IntImm(dtype, divisor) + inner.var}
        stage = each(stage, partial(substitute, values=both))

        def put(axes: Sequence[Axis], new: Sequence[Axis], old: Axis = axis) -> list[Axis]:
            return [a for axis in axes for a in (new if axis.var.same_as(old.var) else [axis])]

        reduced = stage.reduction.axes if stage.reduction else ()
        stage = _simplified(
            with_axes(stage, put(stage.axes, (outer, inner)), put(reduced, (outer, inner))), outside
        )


def _division(stage: Stage, expr: ir.Expr) -> tuple[Axis, int] | None:
    if not (isinstance(expr, (prim.FloorDiv, prim.FloorMod)) and isinstance(expr.b, prim.IntImm)):
        return None
    divisor = int(expr.b)
    for axis in all_axes(stage):
        if isinstance(expr.a, ir.Var) and expr.a.same_as(axis.var) and axis.extent % divisor == 0:
            return (axis, divisor) if 1 < divisor < axis.extent else None
    return None


def _flat(stage: Stage, flat: Mapping[ir.Var, tirx.Buffer], outside: Sequence[Axis]) -> Stage:
    """Return a copy in which each load and the store have one flat offset."""
    analyzer = _analyzer((*all_axes(stage), *outside))

    def offset(buffer: ir.Var, indices: Sequence[ir.Expr]) -> ir.Expr:
        shape, total = shape_of(buffer), tirx.IntImm("int64", 0)
        for position, (index, extent) in enumerate(zip(indices, shape, strict=True)):
            if extent > 1:
                wide = index if str(index.ty.dtype) == "int64" else tirx.Cast("int64", index)
                total = total + wide * tirx.IntImm("int64", math.prod(shape[position + 1 :]))
        return analyzer.simplify(total, 4)

    def change(expr: ir.Expr) -> ir.Expr | None:
        if not isinstance(expr, TensorLoad):
            return None
        at = offset(expr.source, [rebuild(i, change) for i in expr.indices])
        return tirx.BufferLoad(flat[expr.source], [at])

    store = offset(stage.target, [rebuild(index, change) for index in stage.indices])
    changed = each(replace(stage, indices=()), lambda e: rebuild(e, change))
    return replace(changed, target=flat[stage.target], indices=(store,))


def _kept(stage: Stage, outside: Sequence[Axis]) -> Stage:
    """Return a copy of the nest with offsets that TVM's passes do not miscompile; see `_truncated`.

    The offsets must be flat and contain no loads.
    """
    axes = (*all_axes(stage), *outside)
    analyzer = _analyzer(axes)

    def change(expr: ir.Expr) -> ir.Expr | None:
        if not isinstance(expr, TensorLoad):
            return None
        return tirx.BufferLoad(expr.source, [_truncated(index, axes, analyzer) for index in expr.indices])

    stored = tuple(_truncated(index, axes, analyzer) for index in stage.indices)
    return replace(each(replace(stage, indices=()), lambda e: rebuild(e, change)), indices=stored)


def _truncated(offset: ir.Expr, axes: Sequence[Axis], analyzer: sym.Analyzer) -> ir.Expr:
    """Rewrite floor divisions and modulos by constants as truncated ones, if the dividend may decrease along an axis.

    FlattenBuffer of TVM 0.27 rewrites (c - i) // d, where i is a loop variable, to i // -d + c // d, and (c - i) % d
    likewise, which is wrong if c is no multiple of d. It only rewrites floor divisions; truncated divisions are equal
    for dividends that are not negative.

    Args:
        offset: A flat offset.
        axes: The loops around the offset.
        analyzer: Analyzer to which the bounds of the axes were given.
    """

    def change(expr: ir.Expr) -> ir.Expr | None:
        if (
            type(expr) not in _TRUNCATED
            or not isinstance(expr.b, prim.IntImm)
            or not _decreases(expr.a, axes)
        ):
            return None
        if loads(expr.a):
            return None  # FlattenBuffer rewrites no dividends with loads, only affine expressions of loop variables
        lowest = int(analyzer.const_int_bound(expr.a).min_value)
        if lowest == sym.ConstIntBound.NEG_INF:
            return None  # if_then_else has no bounds, and FlattenBuffer does not rewrite it
        inside, dtype, divisor = rebuild(expr.a, change), str(expr.ty.dtype), int(expr.b)
        # Number of divisors to add so that the dividend is not negative.
        times = max(0, -(lowest // divisor))
        raised = inside + tirx.IntImm(dtype, times * divisor)
        quotient = _TRUNCATED[type(expr)](raised, expr.b)
        return quotient - tirx.IntImm(dtype, times) if isinstance(expr, prim.FloorDiv) else quotient

    return rebuild(offset, change)


def _decreases(dividend: ir.Expr, axes: Sequence[Axis]) -> bool:
    """Whether the dividend decreases, or may decrease, as some axis grows."""
    steps = [step_of(dividend, axis.var) for axis in axes if uses(dividend, axis.var)]
    return any(step is None or step < 0 for step in steps)


def _merged(stage: Stage, outside: Sequence[Axis]) -> Stage:
    """Return a copy in which adjacent axes are merged if all offsets allow it."""
    while True:
        reduced = stage.reduction.axes if stage.reduction else ()
        pairs = [*itertools.pairwise(stage.axes), *itertools.pairwise(reduced)]
        pair = next((pair for pair in pairs if _mergeable(stage, *pair)), None)
        if pair is None:
            return _simplified(stage, outside)
        outer, inner = pair
        both = Axis(inner.var, outer.extent * inner.extent)
        zero = {outer.var: tirx.IntImm(str(outer.var.ty.dtype), 0)}
        stage = each(stage, partial(substitute, values=zero))

        def put(axes: Sequence[Axis], pair: tuple[Axis, Axis] = pair, both: Axis = both) -> list[Axis]:
            kept = [axis for axis in axes if axis is not pair[0]]
            return [both if axis is pair[1] else axis for axis in kept]

        stage = with_axes(stage, put(stage.axes), put(reduced))


def _mergeable(stage: Stage, outer: Axis, inner: Axis) -> bool:
    offsets = [stage.indices[0]]
    for expr in (stage.value, *([stage.reduction.term] if stage.reduction else [])):
        bare = _outside_loads(expr, offsets)
        if any(e.same_as(outer.var) or e.same_as(inner.var) for e in bare):
            return False
    for offset in offsets:
        outer_step, inner_step = step_of(offset, outer.var), step_of(offset, inner.var)
        if inner_step is None or outer_step != inner_step * inner.extent:
            return False
    return True


def _outside_loads(expr: ir.Expr, offsets: list[ir.Expr]) -> list[ir.Var]:
    """Return the variables used outside of loads; append the offsets of the loads to `offsets`."""
    if isinstance(expr, TensorLoad):
        offsets.append(expr.indices[0])
        return []
    if isinstance(expr, ir.Var):
        return [expr]
    return [var for child in children(expr) for var in _outside_loads(child, offsets)]
