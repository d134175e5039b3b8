# SPDX-License-Identifier: Apache-2.0
"""Softmax of float32 or float16 rows: maximum, exp(x - maximum), the sum of these exponentials, and one division.

A float16 row, or one whose length is no multiple of 4, is copied to float32 first, and padded with values whose result
is 0. A float16 result is rounded once, with an error of 2**-11 of it or, below 2**-14, of 2**-25. With eps = 2**-24 and
d = maximum - x, the relative error of a result is at most

    d eps + 2 ERROR + (length / 16 + 11) eps

due to the difference, the exponentials of result and sum, and the roundings of sum, reciprocal and product.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics.pin import pins
from schedules.intrinsics.registers import LANES
from schedules.intrinsics.vector_f32 import Vector
from schedules.kernels.common import copies, float_data, threads, tiling
from schedules.kernels.common.contract import Array, declined
from schedules.kernels.common.cost_model import scalar
from schedules.kernels.rowwise import row_vectors
from schedules.kernels.rowwise.row_kernel import Params as Params
from schedules.kernels.rowwise.row_kernel import RowKernel, rejection_of
from schedules.kernels.softmax import exponentials_f32
from schedules.tir.emit import i64, kernel_function, load

NAME = "softmax_f32"

COMPOSITE = "arm.softmax"

UNROLL = 4
"""Vectors of one iteration that scales."""

SCALED = 2
"""Instructions of a vector that is scaled: FMUL, half an LDP and half an STP."""

BETWEEN = 40
"""Instructions of a row beside its vectors: joins of four parts, twice, and a division."""


@dataclass(frozen=True)
class SoftmaxRows:
    """The rows that softmax is computed over.

    Attributes:
        count: Number of rows.
        length: Number of elements of a row.
    """

    count: int
    length: int


def _cycles(workload: Workload, rows: SoftmaxRows, params: Params, core: Core) -> float:
    vector = scalar(sum(exponentials_f32.INSTRUCTIONS[False]) + SCALED)
    vector += float_data.around(workload, copied=_copies(workload))
    return (vector * -(-rows.length // LANES) + scalar(BETWEEN)).cycles(core) * rows.count


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return no arrays: there are no constants."""
    return ()


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    rows, x = _KERNEL.rows(workload), workload.operands[0]
    length, arguments = rows.length, [(x.shape, x.dtype), (x.shape, workload.output_dtype)]
    with kernel_function("arm_softmax_f32", arguments) as function:
        data, output = function.buffers

        def row(index: ir.Expr) -> None:
            at = T.Bind(index * length)
            source, target = (data, at), (output, at)
            if _copies(workload):
                source = target = _staged(data, at, length)
            vectors = -(-length // LANES)
            top = exponentials_f32.greatest(*source, vectors)
            total = exponentials_f32.powers(*source, *target, vectors, top, base_e=True, v=Vector(LANES))
            share = tirx.Broadcast(T.Bind(tirx.FloatImm("float32", 1.0) / total), LANES)

            def step(first: ir.Expr, _index: ir.Expr, _fresh: int) -> None:
                powers, start = target
                value = T.Bind(load(powers, start + first, LANES) * share)
                tiling.store_part(output, value, at + first, min(LANES, length))

            row_vectors.each(length, LANES, UNROLL, step)

        with pins():
            threads.each(rows.count, params.parallel, row)
    return function.prim_func


def _copies(workload: Workload) -> bool:
    return bool(_KERNEL.rows(workload).length % LANES) or float_data.converts(workload)


def _staged(data: tirx.Buffer, at: ir.Expr, length: int) -> tuple[tirx.Buffer, ir.Expr]:
    """Emit a float32 copy of a row, padded to whole vectors; return (buffer, offset)."""
    pitch = -(-length // LANES) * LANES
    stage = T.alloc_buffer((pitch,), "float32", layout=None)
    copies.copy(data, at, stage, i64(0), length)
    copies.fill(stage, i64(length), pitch - length, float("-inf"))
    return stage, i64(0)


def _read(workload: Workload) -> SoftmaxRows | Diagnostic:
    refusal = rejection_of(workload, NAME, "softmax of floats", (COMPOSITE,), float_data.DTYPES)
    if refusal is not None:
        return refusal
    shape = workload.operands[0].shape
    last, axis = len(shape) - 1, int(dict(workload.attributes)["axis"]) % len(shape)
    if axis != last:
        return declined(NAME, "not along the last axis", str(last), str(axis))
    return SoftmaxRows(math.prod(shape[:-1]), shape[-1])


_KERNEL = RowKernel(
    NAME, _read, lambda workload: float_data.named("softmax", workload), lambda _: Params(), _cycles
)
matches, default, candidates, estimate = (
    _KERNEL.matches,
    _KERNEL.default,
    _KERNEL.candidates,
    _KERNEL.estimate,
)
