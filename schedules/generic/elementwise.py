# SPDX-License-Identifier: Apache-2.0
"""Emission of loop nests without a reduction: vectors along the stores' contiguous axis, or transposed blocks."""

from collections.abc import Mapping

from tvm import ir
from tvm.ir.expr import TensorLoad

from schedules.cores import THUMB, InstructionSet
from schedules.generic.expressions import bits_of, children, step_of
from schedules.generic.fusion import cost
from schedules.generic.loops import cover, lanes_for, loops, spread
from schedules.generic.stages import Axis, Stage
from schedules.generic.transpose import transposed_blocks, transposition
from schedules.generic.vector import VectorPosition, compute, store
from schedules.tir.emit import i64

LANES = 16
"""Elements of one step: a register of bytes, four of binary32, which also hides the latency of chains."""


FUNCTION_LANES = 8
"""Elements of one step with polynomials, whose constants take half of the registers."""

MANY_REGISTERS = 16
"""Vector registers from which a step takes several; MVE has 8."""

MANY_OPERATIONS = 10
"""Operations of an element from which a step takes `FUNCTION_LANES`; every polynomial has more."""


def most_lanes(value: ir.Expr, isa: InstructionSet) -> int:
    """Return the number of elements of one step: 1 without vectors, one register of the widest type with MVE."""
    if not isa.vector_bytes:
        return 1
    if isa.vector_registers < MANY_REGISTERS:
        return 8 * isa.vector_bytes // _widest(value)
    return FUNCTION_LANES if cost(value) >= MANY_OPERATIONS else LANES


def step_lanes(value: ir.Expr, extent: int, isa: InstructionSet) -> int:
    """Return the number of elements of one step along an axis of some extent.

    MVE has no vectors of two: LLVM computes those in two lanes of 64 bits, and converts floats there by calls.
    """
    lanes = lanes_for(extent, most_lanes(value, isa))
    return 1 if lanes == 2 and isa.machine == THUMB.machine else lanes


def _widest(value: ir.Expr) -> int:
    """Return the bits of the widest value that an expression computes, apart from indices."""
    below = () if isinstance(value, TensorLoad) else children(value)
    return max([bits_of(value), *map(_widest, below)])


def stored_along(nest: Stage) -> Axis | None:
    """Return the innermost axis along which the nest stores consecutive elements; None if there is none."""
    return next((axis for axis in reversed(nest.axes) if step_of(nest.indices[0], axis.var) == 1), None)


def emit(nest: Stage, place: VectorPosition, parallel: bool) -> str:
    """Emit the code of a nest; return a short description of its form for reports."""
    offset = nest.indices[0]
    along = stored_along(nest)
    if along is None:
        with loops(nest.axes, parallel) as at:
            here = _moved(place, at)
            store(place.buffers[nest.target], compute(offset, here), compute(nest.value, here), 1)
        return "one element at a time" if nest.axes else "one element"
    turned = transposition(nest, along) if place.isa.has_shuffles else None
    if turned is not None:
        return transposed_blocks(nest, along, turned, place, parallel)
    lanes = step_lanes(nest.value, along.extent, place.isa)
    outer = [axis for axis in nest.axes if axis is not along]
    full, last = cover(along.extent, lanes)

    def step(at: Mapping[ir.Var, ir.Expr], first: ir.Expr) -> None:
        here = _moved(place, {**at, along.var: first}, along.var, lanes)
        start = compute(offset, _moved(place, here.at))
        store(place.buffers[nest.target], start, compute(nest.value, here), lanes)

    with loops(outer, parallel) as at:
        if full == 1:
            step(at, i64(0))
        else:
            with spread(full, parallel and not outer) as index:
                step(at, index * i64(lanes))
        if last is not None:
            step(at, i64(last))
    return f"vectors of {lanes}" if lanes > 1 else "one element at a time"


def _moved(
    place: VectorPosition, at: Mapping[ir.Var, ir.Expr], along: ir.Var | None = None, lanes: int = 1
) -> VectorPosition:
    return VectorPosition({**place.at, **at}, place.buffers, place.isa, along, lanes)
