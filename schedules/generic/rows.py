# SPDX-License-Identifier: Apache-2.0
"""Loop fusion across stages that iterate over the same rows, such as those of softmax and layer norm.

    for row: t[row] = f(x[row])
    for row: y[row] = g(t[row])      →      for row: { t = f(x[row]); y[row] = g(t) }

A row of the intermediate tensor is then still in L1, and the tensor needs space for one row only. A loop along which a
reduced tensor is contiguous is not shared, because it is vectorised (such as an argmax over a leading channel axis).
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tvm import ir, tirx
from tvm.ir.expr import TensorLoad

from schedules.generic.expressions import loads, rebuild, substitute, uses
from schedules.generic.fusion import values_of
from schedules.generic.stages import Axis, Stage, StagedFunction, shape_of, without_units


@dataclass(frozen=True)
class RowLoops:
    """A program, and the outermost loops that all its stages share.

    Attributes:
        axes: The shared loops; if there are none, the program is unchanged.
        program: The stages without the shared loops, whose variables are free in it.
    """

    axes: tuple[Axis, ...]
    program: StagedFunction


def share_rows(program: StagedFunction) -> RowLoops:
    """Move as many outer loops as possible out of the stages, so that all stages share them."""
    stages = [without_units(stage) for stage in program.stages]
    depth = 0
    if len(stages) > 1:
        while _shared(replace(program, stages=tuple(stages)), depth + 1) and not _has_vectors(stages, depth):
            depth += 1
    if depth == 0:
        return RowLoops((), program)
    axes = tuple(Axis(tirx.Var(f"row{i}", "int64"), stages[0].axes[i].extent) for i in range(depth))
    inside = {tensor: _row_of(tensor, depth) for tensor in program.temporaries}
    cut = tuple(_inside(stage, axes, inside) for stage in stages)
    return RowLoops(axes, StagedFunction(program.params, tuple(inside.values()), cut))


def _shared(program: StagedFunction, depth: int) -> bool:
    """Whether the first `depth` loops of all stages iterate over the same rows of the tensors between the stages.

    At least one stage must keep a loop, because rows of one element have no vectors.
    """
    if not any(stage.reduction or len(stage.axes) > depth for stage in program.stages):
        return False
    first = program.stages[0].axes
    written = {stage.target for stage in program.stages}
    for stage in program.stages:
        axes = stage.axes[:depth]
        if len(axes) < depth or any(a.extent != b.extent for a, b in zip(axes, first, strict=False)):
            return False
        if not _at_row(stage.target, stage.indices, axes):
            return False
        for load in itertools.chain.from_iterable(loads(value) for value in values_of(stage)):
            if load.source in written and not _at_row(load.source, load.indices, axes):
                return False
    return True


def _has_vectors(stages: Sequence[Stage], depth: int) -> bool:
    """Whether a reduction reads contiguously along its loop of index `depth`, which must then be vectorised."""
    return any(
        len(load.indices)
        and load.indices[-1].same_as(stage.axes[depth].var)
        and any(uses(index, axis.var) for index in load.indices for axis in stage.reduction.axes)
        for stage in stages
        if stage.reduction
        for load in loads(stage.reduction.term)
    )


def _at_row(tensor: ir.Var, indices: Sequence[ir.Expr], axes: tuple[Axis, ...]) -> bool:
    real = [(index, extent) for index, extent in zip(indices, shape_of(tensor), strict=True) if extent > 1][
        : len(axes)
    ]
    return len(real) == len(axes) and all(
        extent == axis.extent and isinstance(index, ir.Var) and index.same_as(axis.var)
        for (index, extent), axis in zip(real, axes, strict=True)
    )


def _row_of(tensor: ir.Var, depth: int) -> tirx.Buffer:
    shape = [extent for extent in shape_of(tensor) if extent > 1][depth:]
    return tirx.decl_buffer(shape or [1], str(tensor.ty.dtype), f"{tensor.name}_row")


def _inside(stage: Stage, rows: tuple[Axis, ...], inside: Mapping[ir.Var, tirx.Buffer]) -> Stage:
    """Return a copy of the stage for one row, in which the shared axes are free variables."""
    depth = len(rows)

    def kept(tensor: ir.Var, indices: Sequence[ir.Expr]) -> list[ir.Expr]:
        real = [i for i, extent in zip(indices, shape_of(tensor), strict=True) if extent > 1][depth:]
        return real or [tirx.IntImm("int64", 0)]

    def change(expr: ir.Expr) -> ir.Expr | None:
        if isinstance(expr, TensorLoad) and expr.source in inside:
            at = [rebuild(index, change) for index in expr.indices]
            return tirx.BufferLoad(inside[expr.source], kept(expr.source, at))
        return None

    here = {axis.var: row.var for axis, row in zip(stage.axes, rows, strict=False)}

    def moved(expr: ir.Expr) -> ir.Expr:
        return substitute(rebuild(expr, change), here)

    indices, target = list(stage.indices), stage.target
    if target in inside:
        indices, target = kept(target, indices), inside[target]
    reduction = stage.reduction
    if reduction:
        reduction = replace(reduction, term=moved(reduction.term))
    return Stage(target, stage.axes[depth:], tuple(moved(i) for i in indices), moved(stage.value), reduction)
