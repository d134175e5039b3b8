# SPDX-License-Identifier: Apache-2.0
"""Splitting of a stage at the indices where conditions on its axes (such as those of concat and pad) change."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from tvm import ir, sym, tirx
from tvm.ir.expr import TensorLoad
from tvm.ir.prim import expr as prim

from schedules.generic.expressions import CONDITIONAL, call_name, substitute, uses, walk
from schedules.generic.stages import Axis, Stage, each, expressions, with_axes, without_units

_MOST_NESTS = 64
"""Greatest number of pieces that one stage is cut into; conditions that would need more stay in the code."""


_COMPARE: dict[type, Callable[[int], bool]] = {
    prim.LT: lambda d: d < 0,
    prim.LE: lambda d: d <= 0,
    prim.GT: lambda d: d > 0,
    prim.GE: lambda d: d >= 0,
    prim.EQ: lambda d: d == 0,
    prim.NE: lambda d: d != 0,
}


def parts(stage: Stage) -> Iterator[Stage]:
    """Yield the parts of a stage between changes of its conditions; the unsplit stage if they exceed `_MOST_NESTS`."""
    cuts: dict[ir.Var, set[int]] = {axis.var: set() for axis in stage.axes}
    for condition in conditions(stage):
        _find_cuts(condition, cuts)
    ranges = []
    for axis in stage.axes:
        inside = sorted(c for c in cuts[axis.var] if 0 < c < axis.extent)
        ranges.append(list(itertools.pairwise([0, *inside, axis.extent])))
    if math.prod(len(r) for r in ranges) > _MOST_NESTS:
        yield stage
        return
    for box in itertools.product(*ranges):
        moved = {
            axis.var: axis.var + tirx.IntImm(str(axis.var.ty.dtype), low)
            for axis, (low, _) in zip(stage.axes, box, strict=True)
            if low
        }
        part = each(stage, partial(substitute, values=moved))
        axes = [Axis(axis.var, high - low) for axis, (low, high) in zip(stage.axes, box, strict=True)]
        yield without_units(with_axes(part, axes, stage.reduction.axes if stage.reduction else ()))


def conditions(stage: Stage) -> list[ir.Expr]:
    """Return the conditions of a stage's conditional expressions, including those inside indices."""
    inside = [inner for expr in expressions(stage) for inner in walk(expr)]
    branches = [inner.args[0] for inner in inside if call_name(inner) == CONDITIONAL]
    indices = [index for load in inside if isinstance(load, TensorLoad) for index in load.indices]
    chosen = [inner.condition for index in indices for inner in walk(index) if isinstance(inner, prim.Select)]
    return [*branches, *chosen]


def _find_cuts(condition: ir.Expr, cuts: Mapping[ir.Var, set[int]]) -> None:
    """Add to `cuts` the indices at which a condition on one axis, such as `axis + a < b`, changes."""
    for part in walk(condition):
        if type(part) not in _COMPARE:
            continue
        difference = part.a - part.b
        inside = [var for var in cuts if uses(difference, var)]
        if len(inside) != 1:
            continue
        found = sym.detect_linear_equation(difference, inside)
        if len(found) != 2 or not all(isinstance(c, prim.IntImm) for c in found):
            continue
        step, base = int(found[0]), int(found[1])
        near = -base // step if step else 0
        for place in range(near, near + 3):
            if _holds(part, step * place + base) != _holds(part, step * (place - 1) + base):
                cuts[inside[0]].add(place)


def _holds(comparison: ir.Expr, difference: int) -> bool:
    """Whether a comparison is true if its left side minus its right side equals `difference`."""
    return _COMPARE[type(comparison)](difference)
