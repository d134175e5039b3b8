# SPDX-License-Identifier: Apache-2.0
"""Emission of loop nests with a reduction: vector accumulators, along an axis of the result or a reduced axis.

Bytes are summed in 16 bits as long as these cannot overflow, by one widening addition per eight bytes.

Each element is reduced by one task, in an order that depends on the shapes alone.
"""

from collections.abc import Sequence
from dataclasses import replace

from tvm import ir, tirx
from tvm.ir.expr import TensorLoad
from tvm.ir.prim import expr as prim
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import InstructionSet
from schedules.generic import functions_f32
from schedules.generic.elementwise import step_lanes
from schedules.generic.expressions import element, lanes_of, loads, step_of
from schedules.generic.loops import cover, loops, spread
from schedules.generic.stages import Axis, Kind, Stage, StageReduction
from schedules.generic.vector import VectorPosition, compute, shuffled_stride, splat, store
from schedules.tir.emit import i64, take

LANES = 16
"""Elements of one step: see `elementwise`."""

ROWS = 4
"""Rows of a tile whose terms share a vector: 16 accumulators of binary32, 4 vectors and a splat fit 32 registers."""


def emit(nest: Stage, place: VectorPosition, parallel: bool) -> str:
    """Emit the code of a nest with a reduction; return a short description of its form for reports."""
    if nest.reduction is None:
        raise ValueError("a nest without a reduction")
    return _ReductionTile(nest, nest.reduction, vector_axis(nest, nest.reduction), place).emit(parallel)


def vector_axis(nest: Stage, reduction: StageReduction) -> Axis | None:
    """Return the axis to vectorise, with the fewest loads and stores of single elements; None if there is none."""
    found = loads(reduction.term)

    def price(axis: Axis) -> float:
        steps = [step_of(load.indices[0], axis.var) for load in found]
        strided = sum(shuffled_stride(load, axis.var) is not None for load in found)
        single = sum(step not in {0, 1} for step in steps) - strided / 2
        stored = step_of(nest.indices[0], axis.var)
        # After the loop, vectors along a reduced axis need a sum across lanes, vectors along another axis a store.
        return single + (0.25 if stored == 0 else 0.0 if stored == 1 else 1.0) + 1.0 / axis.extent

    axes = [axis for axis in (*nest.axes, *reduction.axes) if axis.extent > 1]
    return min(axes, key=price, default=None)


BYTES = 252
"""Number of bytes whose sum always fits in 16 bits: 256 * 255 is below 2**16, 256 * 128 no more than 2**15."""

UNROLL = 4
"""Bytes of each lane that one iteration adds; it divides `BYTES`."""


def byte_sum(nest: Stage) -> ir.Expr | None:
    """Return the 8-bit load whose elements a nest sums in int32 (at least `UNROLL` of them); None for other nests."""
    found = nest.reduction
    if found is None or found.kind != "sum" or not isinstance(found.term, prim.Cast):
        return None
    byte = found.term.value
    fits = element(found.term) == "int32" and element(byte) in {"int8", "uint8"}
    # `axes` is empty if all reduced axes have size 1.
    is_long = bool(found.axes) and found.axes[-1].extent >= UNROLL
    return byte if fits and isinstance(byte, TensorLoad) and is_long else None


class _ReductionTile:
    """Emitter of the code of one nest with a reduction."""

    def __init__(
        self, nest: Stage, reduction: StageReduction, along: Axis | None, place: VectorPosition
    ) -> None:
        self.nest, self.reduction, self.along, self.place = nest, reduction, along, place
        self.across = along is not None and any(axis is along for axis in reduction.axes)
        self.lanes = step_lanes(reduction.term, along.extent, place.isa) if along else 1
        self.dtype = element(reduction.term)
        outer = [axis for axis in nest.axes if axis is not along]
        self.row = self._shared_rows(outer)
        self.outer = [axis for axis in outer if axis is not self.row]

    def _shared_rows(self, axes: Sequence[Axis]) -> Axis | None:
        """Return an axis along which all loaded vectors are the same; None if there is none."""
        if self.along is None:
            return None
        found = [load.indices[0] for load in loads(self.reduction.term)]
        vectors = [offset for offset in found if step_of(offset, self.along.var) == 1]
        return next((a for a in reversed(axes) if any(step_of(v, a.var) == 0 for v in vectors)), None)

    def emit(self, parallel: bool) -> str:
        """Emit the code of the nest; return a short description of it for reports."""
        rows = min(ROWS, self.row.extent) if self.row else 1
        with loops(self.outer, parallel) as at:
            here = replace(self.place, at={**self.place.at, **at})
            if self.row is None:
                self._columns(here, 1, parallel and not self.outer)
            else:
                full, rest = divmod(self.row.extent, rows)
                with spread(full, parallel and not self.outer) as index:
                    moved = {**here.at, self.row.var: T.Bind(index * i64(rows))}
                    self._columns(replace(here, at=moved), rows, parallel=False)
                if rest:
                    moved = {**here.at, self.row.var: i64(full * rows)}
                    self._columns(replace(here, at=moved), rest, parallel=False)
        where = "across lanes" if self.across else f"vectors of {self.lanes}"
        return f"{self.reduction.kind}, {where}" + (f", {rows} rows" if rows > 1 else "")

    def _columns(self, place: VectorPosition, rows: int, parallel: bool) -> None:
        if self.along is None or self.across:
            self._element(place, rows)
            return
        full, last = cover(self.along.extent, self.lanes)
        with spread(full, parallel) as index:
            self._vector(place, T.Bind(index * i64(self.lanes)), rows)
        if last is not None:
            self._vector(place, i64(last), rows)

    def _rows(self, place: VectorPosition, rows: int) -> list[VectorPosition]:
        if self.row is None:
            return [place]
        first = place.at[self.row.var]
        return [replace(place, at={**place.at, self.row.var: first + i64(r)}) for r in range(rows)]

    def _vector(self, place: VectorPosition, first: ir.Expr, rows: int) -> None:
        """Emit one vector of the result for each of `rows`."""
        assert self.along is not None
        here = replace(place, at={**place.at, self.along.var: first}, along=self.along.var, lanes=self.lanes)
        acc = self._accumulators(rows, self.lanes, self.reduction.init)
        byte = byte_sum(self.nest)
        if byte is not None and self.row is None and self.lanes > 1:
            self._bytes(acc, here, byte)
        else:
            with loops(self.reduction.axes) as at:
                self._step(acc, replace(here, at={**here.at, **at}), rows, self.lanes)
        for number, row in enumerate(self._rows(here, rows)):
            self._finish(_part(acc, number, self.lanes), row)

    def _bytes(self, acc: tirx.Buffer, place: VectorPosition, byte: ir.Expr) -> None:
        """Emit the sum of the nest's bytes into its single accumulator."""
        *others, last = self.reduction.axes
        half = "int16" if element(byte) == "int8" else "uint16"

        def some(inside: VectorPosition, first: ir.Expr, count: int) -> None:
            part = T.alloc_buffer((self.lanes,), half, layout=None)
            store(part, i64(0), tirx.const(0, half), self.lanes)

            def add(start: ir.Expr, number: int) -> None:
                for step in range(number):
                    here = replace(inside, at={**inside.at, last.var: start + i64(step)})
                    wide = tirx.Cast(f"{half}x{self.lanes}", splat(compute(byte, here), self.lanes))
                    store(part, i64(0), _part(part, 0, self.lanes) + wide, self.lanes)

            whole, rest = divmod(count, UNROLL)
            with T.serial(i64(0), i64(whole)) as index:
                add(T.Bind(first + index * i64(UNROLL)), UNROLL)
            add(first + i64(whole * UNROLL), rest)
            total = tirx.Cast(f"int32x{self.lanes}", _part(part, 0, self.lanes))
            store(acc, i64(0), _part(acc, 0, self.lanes) + total, self.lanes)

        with loops(others) as at:
            inside = replace(place, at={**place.at, **at})
            blocks, rest = divmod(last.extent, BYTES)
            if blocks:
                with T.serial(i64(0), i64(blocks)) as index:
                    some(inside, T.Bind(index * i64(BYTES)), BYTES)
            if rest:
                some(inside, i64(blocks * BYTES), rest)

    def _element(self, place: VectorPosition, rows: int) -> None:
        """Emit one element of the result for each of `rows`."""
        others = [axis for axis in self.reduction.axes if axis is not self.along]
        lanes = self.lanes
        extent = self.along.extent if self.along else 1
        acc = self._accumulators(rows, lanes, _neutral(self.reduction, self.dtype))
        rest = self._accumulators(rows, 1, self.reduction.init)
        with loops(others) as at:
            inside = replace(place, at={**place.at, **at})
            if self.along is None:
                self._step(rest, inside, rows, 1)
            else:
                var, full = self.along.var, extent // lanes
                with T.serial(i64(0), i64(full)) as index:
                    here = {**inside.at, var: T.Bind(index * i64(lanes))}
                    self._step(acc, replace(inside, at=here, along=var, lanes=lanes), rows, lanes)
                for at_last in range(full * lanes, extent):
                    self._step(rest, replace(inside, at={**inside.at, var: i64(at_last)}), rows, 1)
        for number, row in enumerate(self._rows(place, rows)):
            total = _part(rest, number, 1)
            if self.along is not None:
                total = self._combine(total, self._folded(_part(acc, number, lanes)))
            self._finish(T.Bind(total), row)

    def _accumulators(self, rows: int, lanes: int, start: ir.Expr) -> tirx.Buffer:
        # Load and store accumulators as full vectors at constant offsets, so that LLVM keeps them in registers.
        acc = T.alloc_buffer((rows * lanes,), self.dtype, layout=None)
        for row in range(rows):
            store(acc, i64(row * lanes), start, lanes)
        return acc

    def _step(self, acc: tirx.Buffer, place: VectorPosition, rows: int, lanes: int) -> None:
        for number, row in enumerate(self._rows(place, rows)):
            term = splat(compute(self.reduction.term, row), lanes)
            store(acc, i64(number * lanes), self._combine(_part(acc, number, lanes), term), lanes)

    def _combine(self, a: ir.Expr, b: ir.Expr) -> ir.Expr:
        return combine(self.reduction.kind, a, b, self.place.isa)

    def _folded(self, vector: ir.Expr) -> ir.Expr:
        """Emit the reduction of a vector's lanes to one, by combining halves repeatedly."""
        lanes = lanes_of(vector)
        while lanes > 1:
            lanes //= 2
            vector = T.Bind(vector)
            low, high = (take(vector, at, lanes) for at in (0, lanes))
            vector = self._combine(low, high)
        return vector

    def _finish(self, result: ir.Expr, place: VectorPosition) -> None:
        nest = self.nest
        value = compute(nest.value, replace(place, at={**place.at, self.reduction.result: T.Bind(result)}))
        start = compute(nest.indices[0], replace(place, along=None, lanes=1))
        target = place.buffers[nest.target]
        step = 1 if place.along is None else step_of(nest.indices[0], place.along)
        if step == 1:
            store(target, start, value, place.lanes)
            return
        for lane in range(place.lanes):
            offset = compute(nest.indices[0], place.lane(lane))
            T.buffer_store(target, value if lanes_of(value) == 1 else take(value, lane, 1), [offset])


def combine(kind: Kind, a: ir.Expr, b: ir.Expr, isa: InstructionSet) -> ir.Expr:
    """Emit the combination of two partial results of a reduction."""
    if kind in {"max", "min"}:
        if element(a).startswith("float"):
            return functions_f32.extremum({"max": "maximum", "min": "minimum"}[kind], a, b, isa)
        return (prim.Max if kind == "max" else prim.Min)(a, b)
    return a + b if kind == "sum" else a * b


def _part(acc: tirx.Buffer, number: int, lanes: int) -> ir.Expr:
    return acc.vload([i64(number * lanes)], acc.dtype if lanes == 1 else f"{acc.dtype}x{lanes}")


def _neutral(reduction: StageReduction, dtype: str) -> ir.Expr:
    """Return the neutral element: vectors start from it, and the reduction's initial value is combined at the end."""
    if reduction.kind in {"max", "min"}:
        return reduction.init
    return tirx.const(0 if reduction.kind == "sum" else 1, dtype)
