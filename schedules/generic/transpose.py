# SPDX-License-Identifier: Apache-2.0
"""Emission of loop nests that read along one axis and write along another: blocks are transposed in registers.

A block is computed as vectors along the axis that is read contiguously, so that conversions are vector code. The values
to store, whose dtype is often narrower, are then transposed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tvm import ir, sym, tirx
from tvm.ir.prim import expr as prim
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.generic.expressions import (
    CONDITIONAL,
    call_name,
    element,
    lanes_of,
    loads,
    rebuild,
    step_of,
    substitute,
)
from schedules.generic.loops import cover, lanes_for, loops, spread
from schedules.generic.stages import Axis, Stage
from schedules.generic.vector import VectorPosition, compute, splat, store
from schedules.tir.emit import i64

REGISTER_BITS = 128

INTERLEAVED = (2, 3, 4)
"""Vectors that ST2, ST3 and ST4 interleave."""

INTERLEAVED_LANES = 16
"""Lanes of each interleaved vector; LLVM emits several stores for vectors wider than a register."""


def transposition(nest: Stage, along: Axis) -> Axis | None:
    """Return the axis along which all loads are contiguous, if it is not `along`; else None."""
    found = loads(nest.value)
    # Not for Booleans: a vector has one bit per element, memory one byte.
    if element(nest.value) == "bool" or all(step_of(load.indices[0], along.var) in {0, 1} for load in found):
        return None
    for axis in reversed(nest.axes):
        steps = [step_of(load.indices[0], axis.var) for load in found]
        if axis is not along and 1 in steps and all(step in {0, 1} for step in steps) and axis.extent > 1:
            return axis
    return None


def is_interleaved(nest: Stage, along: Axis, read: Axis) -> bool:
    """Whether a nest stores vectors along `read` interleaved by ST2, ST3 or ST4."""
    return along.extent in INTERLEAVED and step_of(nest.indices[0], read.var) == along.extent


def interleaved_values(nest: Stage, along: Axis) -> list[ir.Expr]:
    """Return a nest's value for each index of the short axis `along`, without conditions that depend on it.

    A channel shuffle has such a condition: whether an element is from the first or the second of two joined tensors.
    """
    analyzer = sym.Analyzer()
    for axis in nest.axes:
        analyzer.bind(axis.var, ir.Range(0, axis.extent))

    def decided(expr: ir.Expr) -> ir.Expr | None:
        if call_name(expr) != CONDITIONAL:
            return None
        condition = analyzer.simplify(expr.args[0])
        if not isinstance(condition, prim.IntImm):
            return None
        return rebuild(expr.args[1 if int(condition) else 2], decided)

    dtype = str(along.var.ty.dtype)
    rows = (substitute(nest.value, {along.var: tirx.IntImm(dtype, row)}) for row in range(along.extent))
    return [rebuild(value, decided) for value in rows]


def transposed_blocks(nest: Stage, along: Axis, read: Axis, place: VectorPosition, parallel: bool) -> str:
    """Emit the code of a nest in transposed blocks; return a short description of it for reports."""
    outer = [axis for axis in nest.axes if axis is not along and axis is not read]
    interleaved = is_interleaved(nest, along, read)
    bits = int(element(nest.value).lstrip("abdefilnotu"))
    natural = max(2, REGISTER_BITS // bits)
    lanes = lanes_for(read.extent, INTERLEAVED_LANES if interleaved else natural)
    rows = along.extent if interleaved else lanes_for(along.extent, natural)
    values = interleaved_values(nest, along) if interleaved else [nest.value] * rows

    def block(at: Mapping[ir.Var, ir.Expr], x: ir.Expr, y: ir.Expr) -> None:
        vectors = []
        for row in range(rows):
            here = replace(place, at={**place.at, **at, along.var: x + i64(row), read.var: y})
            vectors.append(splat(compute(values[row], replace(here, along=read.var, lanes=lanes)), lanes))
        turned = [_interleaved(vectors)] if interleaved else _turned(vectors)
        for column, value in enumerate(turned):
            here = replace(place, at={**place.at, **at, along.var: x, read.var: y + i64(column)})
            start = compute(nest.indices[0], here)
            store(place.buffers[nest.target], start, value, lanes_of(value))

    with loops(outer, parallel) as at:
        _each(
            read.extent,
            lanes,
            lambda y: _each(along.extent, rows, lambda x: block(at, x, y)),
            parallel and not outer,
        )
    return f"blocks of {rows} x {lanes}, transposed"


def _each(extent: int, step: int, body: Callable[[ir.Expr], None], parallel: bool = False) -> None:
    """Emit `body` for the start of each block of an axis; the last block may overlap the one before it."""
    full, last = cover(extent, step)
    if full == 1:
        body(i64(0))
    else:
        with spread(full, parallel) as index:
            body(T.Bind(index * i64(step)))
    if last is not None:
        body(i64(last))


def _interleaved(vectors: Sequence[ir.Expr]) -> ir.Expr:
    """Return lane 0 of each vector, then lane 1 of each, …; LLVM combines this and its store to ST2, ST3 or ST4."""
    lanes = lanes_of(vectors[0])
    order = [lane + lanes * vector for lane in range(lanes) for vector in range(len(vectors))]
    return tirx.Shuffle(list(vectors), order)


def _turned(rows: Sequence[ir.Expr]) -> list[ir.Expr]:
    """Return a transposed block: as many vectors as a row has lanes; both numbers are powers of two.

    Zipping row i with row i + n/2 interleaves two halves; after log2(n) rounds the vectors, one after the other, are
    the transposed block.
    """
    vectors, lanes = list(rows), lanes_of(rows[0])
    half = len(vectors) // 2
    zipped = [index for lane in range(lanes) for index in (lane, lanes + lane)]
    for _ in range(len(rows).bit_length() - 1):
        pairs = zip(vectors[:half], vectors[half:], strict=True)
        vectors = [
            T.Bind(tirx.Shuffle(list(pair), part))
            for pair in pairs
            for part in (zipped[:lanes], zipped[lanes:])
        ]
    if len(rows) == lanes:
        return vectors
    if len(rows) < lanes:
        starts = range(0, lanes, len(rows))
        return [tirx.Shuffle([v], list(range(at, at + len(rows)))) for v in vectors for at in starts]
    several = len(rows) // lanes
    return [
        tirx.Shuffle(vectors[at : at + several], list(range(len(rows))))
        for at in range(0, len(rows), several)
    ]
