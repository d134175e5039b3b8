# SPDX-License-Identifier: Apache-2.0
"""Batch axis analysis: which axis of each buffer of a PrimFunc is the batch axis, proven from the indices.

    y[s * q + j, f] = x[s * p + k, f] + w[f]    y has its batch axis 0, q indices per sample, if x has, p indices per
    sample

A store to sample s may read sample s of buffers with a batch axis; indices of other buffers must not depend on s.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

from tvm import sym, tirx
from tvm.ir import Expr, Range, TensorLoad, Var
from tvm.s_tir.stmt import SBlockRealize
from tvm_ffi import structural_map, structural_walk


@dataclass(frozen=True)
class Samples:
    """The batch axis of a tensor: index `i` along `axis` belongs to sample `i // inner`."""

    axis: int
    inner: int = 1


class MixedError(Exception):
    """The result of a sample depends, or may depend, on another sample; the message names the access."""


@dataclass(frozen=True)
class _GuardedStore:
    """A store with its conditions, its variables and their ranges; bound variables are substituted by their values."""

    store: tirx.BufferStore
    conditions: tuple[Expr, ...]
    ranges: dict[Var, Range]


def find_batch_axes(
    func: tirx.PrimFunc, operands: Sequence[Samples | None], count: int
) -> list[Samples | None]:
    """Return the batch axis of each output; None for an output that does not depend on the sample.

    Args:
        func: A PrimFunc as LegalizeOps emits it, with inputs, then outputs as parameters.
        operands: Batch axes of the inputs; None for inputs without a batch axis.
        count: Number of samples.

    Raises:
        MixedError: A sample of a buffer depends on another sample, or an access cannot be analysed.
    """
    where: dict[Var, Samples | None] = dict(zip(func.params, operands, strict=False))
    stores: dict[Var, list[_GuardedStore]] = {}
    for each in _stores(func.body, _Scope()):
        stores.setdefault(each.store.buffer, []).append(each)
    if any(buffer in where for buffer in stores):
        raise MixedError("it writes to its input")
    for buffer in stores:
        if buffer not in where:
            where |= _of_buffers(_together(buffer, stores, where), where, count)
    return [_known(buffer, where) for buffer in list(func.params)[len(operands) :]]


def _together(
    buffer: Var, stores: dict[Var, list[_GuardedStore]], where: dict[Var, Samples | None]
) -> dict[Var, list[_GuardedStore]]:
    """Return a buffer and the buffers of unknown batch axes that its stores read, such as argmax's value and index."""
    found, rest = {buffer: stores[buffer]}, [buffer]
    while rest:
        for source in (load.source for write in stores[rest.pop()] for load in _loads(write)):
            if source in stores and source not in where and source not in found:
                found[source] = stores[source]
                rest.append(source)
    return found


def _known(buffer: Var, where: dict[Var, Samples | None]) -> Samples | None:
    if buffer not in where:
        raise MixedError("how it reads its input is not known")
    return where[buffer]


@dataclass(frozen=True)
class _Scope:
    conditions: tuple[Expr, ...] = ()
    ranges: dict[Var, Range] = field(default_factory=dict)
    values: dict[Var, Expr] = field(default_factory=dict)

    def inline(self, expr: Expr) -> Expr:
        return structural_map(expr, [(Var, lambda var: self.values.get(var, var))]) if self.values else expr


def _stores(stmt: tirx.Stmt, scope: _Scope) -> Iterator[_GuardedStore]:
    match stmt:
        case tirx.SeqStmt():
            for step in stmt.seq:
                if isinstance(step, tirx.Bind):
                    values = scope.values | {step.var: scope.inline(step.value)}
                    scope = _Scope(scope.conditions, scope.ranges, values)
                else:
                    yield from _stores(step, scope)
        case tirx.For() if not _reads(map(scope.inline, (stmt.min, stmt.extent))):
            ranges = scope.ranges | {stmt.loop_var: Range.from_min_extent(stmt.min, stmt.extent)}
            yield from _stores(stmt.body, _Scope(scope.conditions, ranges, scope.values))
        case SBlockRealize():
            block = stmt.block
            own = zip((it.var for it in block.iter_vars), map(scope.inline, stmt.iter_values), strict=True)
            conditions = (*scope.conditions, scope.inline(stmt.predicate))
            inner = _Scope(conditions, scope.ranges, scope.values | dict(own))
            for body in (block.init, block.body):
                if body is not None:
                    yield from _stores(body, inner)
        case tirx.IfThenElse():
            inner = _Scope((*scope.conditions, scope.inline(stmt.condition)), scope.ranges, scope.values)
            for branch in (stmt.then_case, stmt.else_case):
                if branch is not None:
                    yield from _stores(branch, inner)
        case tirx.BufferStore():
            inlined = tirx.BufferStore(
                stmt.buffer, scope.inline(stmt.value), [scope.inline(i) for i in stmt.indices]
            )
            yield _GuardedStore(inlined, scope.conditions, scope.ranges)
        case tirx.AllocBuffer():
            pass
        case _:
            raise MixedError("how it reads its input is not known")


def _of_buffers(
    stores: dict[Var, list[_GuardedStore]], where: dict[Var, Samples | None], count: int
) -> dict[Var, Samples | None]:
    """Return the batch axes of buffers that depend on each other; buffers of equal shapes have equal axes."""
    writes = [write for each in stores.values() for write in each]
    sources = {load.source for write in writes for load in _loads(write)} - stores.keys()
    known = [_known(source, where) for source in sources]
    if all(place is None for place in known):
        return dict.fromkeys(stores)
    shapes = {buffer: tuple(int(extent) for extent in buffer.ty.shape) for buffer in stores}
    distinct = sorted(set(shapes.values()))
    for axes in product(*(_divisible(shape, count) for shape in distinct)):
        places = {buffer: axes[distinct.index(shape)] for buffer, shape in shapes.items()}
        around: dict[Var, Samples | None] = {**where, **places}
        if all(_holds(w, places[w.store.buffer], around, count) for w in writes):
            return dict(places)
    raise MixedError("a sample of its output reads other samples of its input")


def _divisible(shape: tuple[int, ...], count: int) -> list[Samples]:
    return [
        Samples(axis, extent // count) for axis, extent in enumerate(shape) if extent and extent % count == 0
    ]


def _loads(write: _GuardedStore) -> list[TensorLoad]:
    return _reads((write.store.value, *write.store.indices, *write.conditions))


def _reads(exprs: Iterable[Expr]) -> list[TensorLoad]:
    found: list[TensorLoad] = []
    for expr in exprs:
        structural_walk(expr, [(TensorLoad, found.append)])
    return found


def _holds(write: _GuardedStore, samples: Samples, where: dict[Var, Samples | None], count: int) -> bool:
    """Whether a store to sample s reads no other sample than s."""
    place = write.store.indices[samples.axis]
    if place not in write.ranges:
        return False
    sample, inner = Var("sample", place.ty), Var("inner", place.ty)
    new = sample * samples.inner + inner if samples.inner > 1 else sample
    analyzer = sym.Analyzer()
    analyzer.bind(sample, Range(0, count))
    analyzer.bind(inner, Range(0, samples.inner))
    for var, bounds in write.ranges.items():
        if not var.same_as(place):
            analyzer.bind(var, bounds)

    def without_sample(expr: Expr) -> bool:
        found: list[Var] = []
        structural_walk(analyzer.simplify(expr), [(Var, found.append)])
        return not any(var.same_as(sample) for var in found)

    fits = True

    def read(load: TensorLoad) -> Expr:
        """Return a variable that replaces a load; clear `fits` if the load may read another sample."""
        nonlocal fits
        at, own = list(load.indices), where[load.source]
        if own is not None:
            along = at.pop(own.axis)
            fits = fits and analyzer.can_prove_equal(tirx.floordiv(along, own.inner), sample)
            fits = fits and without_sample(tirx.floormod(along, own.inner))
        fits = fits and all(map(without_sample, at))
        return Var("value", load.ty)

    others = [index for axis, index in enumerate(write.store.indices) if axis != samples.axis]
    for expr in (write.store.value, *others, *write.conditions):
        moved = structural_map(expr, [(Var, lambda var: new if var.same_as(place) else var)])
        fits = without_sample(structural_map(moved, [(TensorLoad, read)])) and fits
    return fits
