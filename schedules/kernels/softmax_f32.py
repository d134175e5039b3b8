# SPDX-License-Identifier: Apache-2.0
"""Softmax of float32 rows: the greatest value, the powers of the distances from it and their sum, one division.

A row whose length 4 does not divide goes through a copy, filled up with what has no share. With eps = 2**-24 and d the
distance from the greatest value, the error relative to a share is at most

    d eps + 2 ERROR + (length / 16 + 11) eps

from the difference, the power and the sum's powers, and the roundings of sum, reciprocal and product.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import Core
from schedules.emit import i64, kernel_function, load
from schedules.intrinsics.fmla import LANES
from schedules.intrinsics.vector_f32 import Vector
from schedules.kernel import Array, Match, Rejection, taken
from schedules.kernels import copies, row_vectors, softmax_row, threads, tiling
from schedules.kernels.cost import scalar
from schedules.workload import Workload

NAME = "softmax_f32"

COMPOSITE = "arm.softmax"

UNROLL = 4
"""Vectors of one iteration that scales."""

SCALED = 2
"""Instructions of a vector that is scaled: FMUL, half an LDP and half an STP."""

BETWEEN = 40
"""Instructions of a row beside its vectors: joins of four parts, twice, and a division."""


@dataclass(frozen=True)
class Params:
    """How the work is spread.

    Attributes:
        parallel: Whether rows are spread over the runtime's threads.
    """

    parallel: bool


def matches(workload: Workload, core: Core) -> Match | Rejection:
    """Takes softmax of float32 data along the last axis."""
    if not core.neon:
        return Rejection(NAME, "the core lacks a feature", "neon", core.name)
    rows = _read(workload)
    if isinstance(rows, Rejection):
        return rows
    return Match(f"float32 softmax of {rows[0]} rows of {rows[1]}")


def default(workload: Workload, core: Core) -> Params:
    """Threads where the call is long enough."""
    cycles = estimate(workload, Params(parallel=False), core)
    return Params(parallel=_rows(workload)[0] > 1 and cycles >= threads.PARALLEL_CYCLES)


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """The default: there is nothing to tune."""
    return (default(workload, core),)


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Cycles of one call on one core with all loads in L1."""
    count, length = _rows(workload)
    vector = scalar(sum(softmax_row.INSTRUCTIONS[False]) + SCALED)
    return (vector * -(-length // LANES) + scalar(BETWEEN)).cycles(core) * count


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """There are no constants."""
    return ()


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Emits the kernel; see `schedules.kernel.Kernel.build` for its arguments."""
    count, length = _rows(workload)
    shape = workload.operands[0].shape
    with kernel_function("arm_softmax_f32", [(shape, "float32")] * 2) as function:
        data, output = function.buffers

        def row(index: ir.Expr) -> None:
            at = T.Bind(index * length)
            source, target = (data, at), (output, at)
            if length % LANES:
                source = target = _staged(data, at, length)
            vectors = -(-length // LANES)
            top = softmax_row.greatest(*source, vectors)
            total = softmax_row.powers(*source, *target, vectors, top, base_e=True, v=Vector(LANES))
            share = tirx.Broadcast(T.Bind(tirx.FloatImm("float32", 1.0) / total), LANES)

            def step(first: ir.Expr, _index: ir.Expr, _fresh: int) -> None:
                powers, start = target
                value = T.Bind(load(powers, start + first, LANES) * share)
                tiling.store_part(output, value, at + first, min(LANES, length))

            row_vectors.each(length, LANES, UNROLL, step)

        threads.each(count, params.parallel, row)
    return function.prim_func


def _staged(data: tirx.Buffer, at: ir.Expr, length: int) -> tuple[tirx.Buffer, ir.Expr]:
    """A copy of a row, filled up to whole vectors."""
    pitch = -(-length // LANES) * LANES
    stage = T.alloc_buffer((pitch,), "float32", layout=None)
    copies.copy(data, at, stage, i64(0), length)
    copies.fill(stage, i64(length), pitch - length, float("-inf"))
    return stage, i64(0)


def _rows(workload: Workload) -> tuple[int, int]:
    return taken(_read(workload), workload)


def _read(workload: Workload) -> tuple[int, int] | Rejection:
    """(how many rows, length of each)."""
    if workload.composite != COMPOSITE:
        return Rejection(NAME, "composite is no softmax of float32", COMPOSITE, workload.composite)
    shape = workload.operands[0].shape
    last, axis = len(shape) - 1, int(dict(workload.attributes)["axis"]) % len(shape)
    if axis != last:
        return Rejection(NAME, "not along the last axis", str(last), str(axis))
    if 0 in shape:
        return Rejection(NAME, "a dimension is 0", "1 or more", str(shape))
    return math.prod(shape[:-1]), shape[-1]
