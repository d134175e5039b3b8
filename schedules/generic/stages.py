# SPDX-License-Identifier: Apache-2.0
"""The IR of the generic schedule: a function as stages, each of which is one loop nest that computes one tensor."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from tvm import ir, tirx
from tvm.ir.prim import expr as prim

from schedules.generic.expressions import UnsupportedError, substitute

Kind = Literal["sum", "product", "max", "min"]


@dataclass(frozen=True)
class Axis:
    """A loop from 0 to `extent` (exclusive)."""

    var: ir.Var
    extent: int


@dataclass(frozen=True)
class StageReduction:
    """The reduction of a stage, which combines the terms of each output element.

    Attributes:
        kind: Kind of combination: sum, product, maximum or minimum.
        axes: The reduced axes.
        init: Initial value.
        term: The expression of a term, for one index of the axes.
        result: The variable that stands for the combined terms in the stage's value.
    """

    kind: Kind
    axes: tuple[Axis, ...]
    init: ir.Expr
    term: ir.Expr
    result: ir.Var


@dataclass(frozen=True)
class Stage:
    """A loop nest: `target[indices] = value` for all values of the axes."""

    target: ir.Var
    axes: tuple[Axis, ...]
    indices: tuple[ir.Expr, ...]
    value: ir.Expr
    reduction: StageReduction | None = None

    @property
    def size(self) -> int:
        """Number of elements that the stage writes."""
        return math.prod(axis.extent for axis in self.axes)

    @property
    def work(self) -> int:
        """Number of elements that the stage computes; for a reduction, the number of combined terms."""
        terms = self.reduction.axes if self.reduction else ()
        return self.size * math.prod(axis.extent for axis in terms)


@dataclass(frozen=True)
class StagedFunction:
    """A function: its arguments, its temporary tensors, and its stages in program order."""

    params: tuple[ir.Var, ...]
    temporaries: tuple[ir.Var, ...]
    stages: tuple[Stage, ...]


def shape_of(buffer: ir.Var) -> tuple[int, ...]:
    """Return the shape of a tensor.

    Raises:
        UnsupportedError: The shape is symbolic.
    """
    if not all(isinstance(dim, prim.IntImm) for dim in buffer.ty.shape):
        raise UnsupportedError("a symbolic shape")
    return tuple(int(dim) for dim in buffer.ty.shape)


def each(stage: Stage, function: Callable[[ir.Expr], ir.Expr]) -> Stage:
    """Return a copy with a function applied to indices, value, and the reduction's term and initial value."""
    reduction = stage.reduction
    if reduction:
        reduction = replace(reduction, term=function(reduction.term), init=function(reduction.init))
    return replace(
        stage,
        indices=tuple(function(i) for i in stage.indices),
        value=function(stage.value),
        reduction=reduction,
    )


def with_axes(stage: Stage, axes: Sequence[Axis], reduced: Sequence[Axis]) -> Stage:
    """Return a copy of the stage with other loop axes and reduction axes."""
    reduction = replace(stage.reduction, axes=tuple(reduced)) if stage.reduction else None
    return replace(stage, axes=tuple(axes), reduction=reduction)


def all_axes(stage: Stage) -> tuple[Axis, ...]:
    """Return the axes of the result, then those of the reduction."""
    return (*stage.axes, *(stage.reduction.axes if stage.reduction else ()))


def without_units(stage: Stage) -> Stage:
    """Return a copy of the stage without axes of extent 1."""
    zero = {axis.var: tirx.IntImm(str(axis.var.ty.dtype), 0) for axis in all_axes(stage) if axis.extent == 1}
    stage = each(stage, partial(substitute, values=zero))
    reduced = stage.reduction.axes if stage.reduction else ()
    return with_axes(stage, [a for a in stage.axes if a.extent > 1], [a for a in reduced if a.extent > 1])


def expressions(stage: Stage) -> list[ir.Expr]:
    """Return the indices, the value, and the reduction's term of a stage."""
    terms = [stage.reduction.term] if stage.reduction else []
    return [*stage.indices, stage.value, *terms]
