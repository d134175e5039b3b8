# SPDX-License-Identifier: Apache-2.0
"""Fusion of stages: elementwise stages are inlined into their readers, or become the epilogue of a reduction.

t = f(x); y = g(t)      →  y = g(f(x))      if f is not computed much more often than before
s = sum(x); y = f(s)    →  y = f(sum(x))    if each element of s is read once
"""

from dataclasses import dataclass, replace

from tvm import ir
from tvm.ir.expr import TensorLoad
from tvm.ir.prim import expr as prim
from tvm_ffi import structural_equal

from schedules.generic.expressions import (
    CONDITIONAL,
    call_name,
    children,
    loads,
    rebuild,
    substitute,
    uses,
    walk,
)
from schedules.generic.stages import Stage, StagedFunction, shape_of

_CHEAP = 2
"""Number of operations up to which computing a value again is cheaper than storing and loading it."""

_SHARED = 8
"""The same where the only reader has the element twice; no polynomial, of which LLVM would compare too much."""

_GROWTH = 2
"""Largest factor by which inlining may increase the number of computations of an elementwise stage."""

FUNCTION_COST = 18
"""Operations of a polynomial for exp, tanh and the like, copies of coefficients included: 18 for exp, 25 for tanh."""

_ONE_OPERATION = {"", CONDITIONAL, "nearbyint", "round", "sqrt", "rsqrt"}
"""Names of functions that are one operation; the empty one is that of what is no call."""


def fuse(program: StagedFunction) -> StagedFunction:
    """Inline elementwise stages, merge reductions with their only reader; drop tensors that are no longer written."""
    stages = list(program.stages)
    kept = set(program.params)
    reads = _Reads()
    position = 0
    while position < len(stages):
        stage = stages[position]
        readers = [other for other in stages if stage.target in reads.of(other)]
        if stage.target not in kept and all(_worthwhile(stage, reader, len(readers)) for reader in readers):
            inlined = {id(reader): _inlined(stage, reader) for reader in readers}
            stages = [inlined.get(id(other), other) for other in stages if other is not stage]
            # Start over, because earlier stages may be fusable now that their readers have changed.
            changed = {source for reader in inlined.values() for source in reads.of(reader)}
            position = min([position, *(k for k, s in enumerate(stages[:position]) if s.target in changed)])
        else:
            position += 1
    for stage in list(stages):
        readers = [other for other in stages if stage.target in reads.of(other)]
        if stage.reduction and stage.target not in kept and len(readers) == 1:
            merged = _epilogue(stage, readers[0])
            if merged is not None:
                stages = [merged if s is readers[0] else s for s in stages if s is not stage]
    written = {stage.target for stage in stages}
    return StagedFunction(
        program.params, tuple(t for t in program.temporaries if t in written), tuple(stages)
    )


def values_of(stage: Stage) -> tuple[ir.Expr, ...]:
    """Return the expressions that a stage computes: its value and, for a reduction, the term."""
    return (stage.value, stage.reduction.term) if stage.reduction else (stage.value,)


def cost(expr: ir.Expr) -> int:
    """Count the operations of an elementwise expression, without loads, casts and index arithmetic."""
    if isinstance(expr, TensorLoad):
        return 0
    return _own_cost(expr) + sum(cost(child) for child in children(expr))


def _own_cost(expr: ir.Expr) -> int:
    if isinstance(expr, ir.Var | prim.IntImm | prim.FloatImm | prim.Cast):
        return 0
    return 1 if call_name(expr) in _ONE_OPERATION else FUNCTION_COST


@dataclass(frozen=True)
class LoopCost:
    """The operations and loads of an expression in the innermost loop.

    Attributes:
        inside: Number of operations and loads that depend on the loop's variable.
        hoisted: Number of operations and loads that do not depend on it, and are computed before the loop.
        varies: Whether the expression depends on the loop's variable.
    """

    inside: int
    hoisted: int
    varies: bool


def loop_cost(expr: ir.Expr, var: ir.Var) -> LoopCost:
    """Count the operations and loads of an elementwise expression in a loop over `var`."""
    if isinstance(expr, TensorLoad):
        varies, own, parts = uses(expr, var), len(loads(expr)), []
    else:
        parts, own = [loop_cost(child, var) for child in children(expr)], _own_cost(expr)
        if call_name(expr) == CONDITIONAL and not loads(expr.args[0]):
            # Loops are split where such a condition changes: one branch is computed, without the condition.
            parts, own = [max(parts[1:], key=lambda part: part.inside)], 0
        varies = any(part.varies for part in parts) or (isinstance(expr, ir.Var) and expr.same_as(var))
    return LoopCost(
        inside=sum(part.inside for part in parts) + (own if varies else 0),
        hoisted=sum(part.hoisted for part in parts) + (0 if varies else own),
        varies=varies,
    )


class _Reads:
    """Cache of the tensors that each stage reads: fused groups may have hundreds of stages."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Stage, frozenset[ir.Var]]] = {}

    def of(self, stage: Stage) -> frozenset[ir.Var]:
        if id(stage) not in self._known:
            found = frozenset(load.source for value in values_of(stage) for load in loads(value))
            self._known[id(stage)] = stage, found
        return self._known[id(stage)][1]


def _worthwhile(stage: Stage, reader: Stage, readers: int) -> bool:
    if stage.reduction or _axis_of_dim(stage) is None:
        return False
    found = [load for v in values_of(reader) for load in loads(v) if load.source.same_as(stage.target)]
    times = len(found)
    guarded = any(call_name(e) == CONDITIONAL for e in walk(stage.value))
    if reader.reduction and guarded:
        return False
    price = cost(stage.value)
    # If an expression (such as SiLU) reads an element twice, LLVM computes the element once and keeps it in a register.
    shared = readers == 1 and times == 2 and not reader.reduction and structural_equal(*found)
    if readers * times > 1 and price > (_SHARED if shared and not guarded else _CHEAP):
        return False
    if price == 0 and not reader.reduction:
        return True
    return reader.work * times <= _GROWTH * max(stage.size, 1) or (price <= 1 and not reader.reduction)


def _axis_of_dim(stage: Stage) -> list[ir.Var | None] | None:
    """Return, for each dimension of the target, the axis that indexes it; None if some index is no axis.

    For a dimension of extent 1 the entry may be None.
    """
    axes = {axis.var: axis.extent for axis in stage.axes}
    found: list[ir.Var | None] = []
    for index, extent in zip(stage.indices, shape_of(stage.target), strict=True):
        if extent == 1:
            found.append(index if isinstance(index, ir.Var) else None)
        elif isinstance(index, ir.Var) and axes.pop(index, None) == extent:
            found.append(index)
        else:
            return None
    return found


def _inlined(producer: Stage, stage: Stage) -> Stage:
    dims = _axis_of_dim(producer) or []

    def change(expr: ir.Expr) -> ir.Expr | None:
        if not (isinstance(expr, TensorLoad) and expr.source.same_as(producer.target)):
            return None
        at = [rebuild(index, change) for index in expr.indices]
        return substitute(
            producer.value, {var: index for var, index in zip(dims, at, strict=True) if var is not None}
        )

    value = rebuild(stage.value, change)
    if stage.reduction is None:
        return replace(stage, value=value)
    return replace(
        stage, value=value, reduction=replace(stage.reduction, term=rebuild(stage.reduction.term, change))
    )


def _epilogue(stage: Stage, reader: Stage) -> Stage | None:
    """Return the reduction with its reader as epilogue; None if the reader cannot be one.

    The reader must read each element of the reduction once, at its own index.
    """
    dims = _axis_of_dim(stage)
    if reader.reduction or stage.reduction is None or dims is None:
        return None
    axes = {axis.var: axis.extent for axis in reader.axes if axis.extent > 1}
    places: dict[ir.Var, ir.Expr] = {}
    mine = [load for load in loads(reader.value) if load.source.same_as(stage.target)]
    extents = shape_of(stage.target)
    for var, index, extent in zip(dims, mine[0].indices, extents, strict=True):
        if extent > 1 and not (isinstance(index, ir.Var) and axes.pop(index, None) == extent):
            return None
        if var is not None:
            places[var] = index
    alike = all(
        index.same_as(other) or extent == 1
        for load in mine[1:]
        for index, other, extent in zip(load.indices, mine[0].indices, extents, strict=True)
    )
    if axes or not alike:
        return None
    old = stage.reduction

    def change(expr: ir.Expr) -> ir.Expr | None:
        return stage.value if isinstance(expr, TensorLoad) and expr.source.same_as(stage.target) else None

    # `stage.value` is the result of the reduction, to which an epilogue may already have been applied.
    moved = substitute(stage.value, places)
    value = rebuild(reader.value, lambda e: moved if change(e) is not None else None)
    return replace(reader, value=value, reduction=replace(old, term=substitute(old.term, places)))
