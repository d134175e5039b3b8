# SPDX-License-Identifier: Apache-2.0
"""Layer norm and RMS norm of float32 or float16 rows: statistics, then one pass that normalises, scales and shifts.

    y = (x - mean) * rate * gamma + beta      rate = 1 / sqrt(variance + epsilon)

A row is assumed to fit L1. The mean is computed first, then the sum of the squared differences from it, which is
accurate for large means; the order of both sums depends on the length alone. With eps = 2**-24, and k = length / 16 + 8
the number of roundings of an element in a sum, the error is at most

    2 k eps |gamma| rate (|x - mean| + mean |x|) + 2 eps |beta|

A float16 row is copied to float32 first, and a float16 result is rounded once, which adds an error of 2**-11 of it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.attributes import is_false, numbers
from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics.narrow import fma
from schedules.intrinsics.pin import pins
from schedules.intrinsics.registers import LANES
from schedules.intrinsics.vector_f32 import Vector
from schedules.kernels.common import float_data, threads, tiling
from schedules.kernels.common.contract import Array, declined
from schedules.kernels.common.cost_model import arithmetic, scalar
from schedules.kernels.rowwise import row_vectors
from schedules.kernels.rowwise.row_kernel import Params as Params
from schedules.kernels.rowwise.row_kernel import RowKernel, rejection_of
from schedules.numerics import binary32
from schedules.tir.emit import kernel_function, load

NAME = "norm_f32"

COMPOSITES = {"arm.layer_norm": "layer norm", "arm.rms_norm": "RMS norm"}

UNROLL = 4
"""Vectors of one iteration that normalises."""

BETWEEN = 40
"""Instructions of a row beside its vectors: both sums across lanes, the root, two divisions."""

WAITING = 30
"""Cycles of a row in which sums, root and divisions wait for each other, by llvm-mca: 41 on Neoverse N1, 18 on N2."""


@dataclass(frozen=True)
class NormRows:
    """The rows that are normalised, and the parameters of the norm.

    Attributes:
        count: Number of rows.
        length: Number of elements of a row.
        centred: Whether the mean is subtracted.
        epsilon: The number that is added to the variance.
    """

    count: int
    length: int
    centred: bool
    epsilon: float


def _cycles(workload: Workload, rows: NormRows, params: Params, core: Core) -> float:
    # Per vector: half an LDP per pass; FADD; FSUB, FMLA; FSUB, FMUL, FMLA, a store, and an LDP of gamma and beta.
    vector = arithmetic(7.2) + scalar(2.5) if rows.centred else arithmetic(3.5) + scalar(1.5)
    vectors = len(row_vectors.starts(rows.length, LANES))
    vector += float_data.around(workload, copied=workload.operands[0].dtype != "float32")
    return ((vector * vectors + scalar(BETWEEN)).cycles(core) + WAITING) * rows.count


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return one array: for each vector of a row, four elements of gamma, then four of beta if there is a beta."""
    rows = _KERNEL.rows(workload)
    padded = np.zeros((len(constants), max(LANES, rows.length)), np.float32)
    padded[:, : rows.length] = [constant.ravel() for constant in constants]
    return (
        np.stack([padded[:, at : at + LANES] for at in row_vectors.starts(rows.length, LANES)]).reshape(-1),
    )


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    rows = _KERNEL.rows(workload)
    sides = len(workload.operands) - 1
    x, size = workload.operands[0], len(row_vectors.starts(rows.length, LANES)) * sides * LANES
    arguments = [(x.shape, x.dtype), ((size,), "float32"), (x.shape, workload.output_dtype)]
    with kernel_function(workload.composite.replace(".", "_"), arguments) as function:
        data, factor, output = function.buffers

        def row(index: ir.Expr) -> None:
            at = T.Bind(index * rows.length)
            source, start = row_vectors.staged(data, at, rows.length, LANES, 0, "float32")
            mean, rate = _statistics(source, start, rows)

            def step(first: ir.Expr, vector: ir.Expr, _fresh: int) -> None:
                parts = [load(factor, (vector * sides + side) * LANES, LANES) for side in range(sides)]
                scaled = T.Bind(_left(source, start + first, mean) * tirx.Broadcast(rate, LANES))
                value = fma(scaled, *parts) if rows.centred else scaled * parts[0]
                tiling.store_part(output, T.Bind(value), at + first, min(LANES, rows.length))

            row_vectors.each(rows.length, LANES, UNROLL, step, apart=UNROLL)

        with pins():
            threads.each(rows.count, params.parallel, row)
    return function.prim_func


def rms_norm(x: Array, gamma: Array, epsilon: float) -> Array:
    """Return the RMS norm of float32 rows [..., n] in numpy, bit for bit what the kernel computes."""
    length = x.shape[-1]
    at = row_vectors.starts(max(LANES, length), LANES)
    rows = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, max(0, LANES - length))])
    vectors = np.stack([rows[..., first : first + LANES] for first in at], -2)
    if length > LANES:
        vectors[..., -1, : -length % LANES] = 0
    vectors = np.pad(vectors, [(0, 0)] * (x.ndim - 1) + [(0, -len(at) % row_vectors.PARTS), (0, 0)])
    sums = np.zeros((*x.shape[:-1], row_vectors.PARTS, LANES), np.float32)
    for first in range(0, len(at), row_vectors.PARTS):
        part = vectors[..., first : first + row_vectors.PARTS, :]
        sums = binary32.fma(part, part, sums)
    pairs = sums[..., 0::2, :] + sums[..., 1::2, :]
    squares = binary32.total(pairs[..., 0, :] + pairs[..., 1, :])
    variance = binary32.fma(squares, np.float32(1 / length), np.float32(epsilon))
    rate = np.float32(1) / np.sqrt(variance)
    return np.asarray(x * rate[..., None] * gamma)


def _left(source: tirx.Buffer, at: ir.Expr, mean: ir.Expr | None) -> ir.Expr:
    """Emit the load of four elements, minus the mean unless it is None."""
    values = load(source, at, LANES)
    return values if mean is None else T.Bind(values - tirx.Broadcast(mean, LANES))


def _statistics(source: tirx.Buffer, start: ir.Expr, rows: NormRows) -> tuple[ir.Expr | None, ir.Expr]:
    """Emit (mean, rate) of a row; the mean is None in an RMS norm."""
    length = tirx.FloatImm("float32", float(rows.length))

    def plain(part: ir.Expr, at: ir.Expr, count: int) -> ir.Expr:
        return part + row_vectors.fresh(load(source, start + at, LANES), count, 0)

    mean = None
    if rows.centred:
        mean = T.Bind(
            row_vectors.total(row_vectors.reduced(rows.length, 0, plain, _sum, apart=row_vectors.PARTS))
            / length
        )

    def squared(part: ir.Expr, at: ir.Expr, count: int) -> ir.Expr:
        left = _left(source, start + at, mean)
        # The padding lanes of a short row are 0 and not the mean, so they must not be counted.
        if rows.length < LANES:
            left = tirx.Shuffle([left, _zero()], [i if i < rows.length else LANES + i for i in range(LANES)])
        left = T.Bind(row_vectors.fresh(left, count, 0))
        return fma(left, left, part)

    squares = row_vectors.total(row_vectors.reduced(rows.length, 0, squared, _sum, apart=row_vectors.PARTS))
    # TVM turns the division into a product; LLVM would merge product and sum only where the target has an FMA.
    scalar_fma = Vector(1).fma
    variance = scalar_fma(
        squares, tirx.FloatImm("float32", 1 / rows.length), tirx.FloatImm("float32", rows.epsilon)
    )
    return mean, T.Bind(tirx.Div(tirx.FloatImm("float32", 1.0), tirx.sqrt(variance)))


def _sum(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    return a + b


def _zero() -> ir.Expr:
    return tirx.Broadcast(tirx.FloatImm("float32", 0.0), LANES)


def _read(workload: Workload) -> NormRows | Diagnostic:
    refusal = rejection_of(workload, NAME, "norm of floats", COMPOSITES, float_data.DTYPES)
    if refusal is not None:
        return refusal
    shape, attributes = workload.operands[0].shape, dict(workload.attributes)
    if any(is_false(attributes, name) for name in ("center", "scale")):
        return declined(NAME, "gamma or beta is left out", "both", "one")
    axes = sorted(axis % len(shape) for axis in numbers(attributes, "axes"))
    last = list(range(len(shape) - len(axes), len(shape)))
    if axes != last:
        return declined(NAME, "not over the last axes", str(last), str(axes))
    return NormRows(
        count=math.prod(shape[: last[0]]),
        length=math.prod(shape[last[0] :]),
        centred=workload.composite == "arm.layer_norm",
        epsilon=float(attributes["epsilon"]),
    )


_KERNEL = RowKernel(
    NAME,
    _read,
    lambda workload: float_data.named(COMPOSITES[workload.composite], workload),
    lambda _: Params(),
    _cycles,
    portable=True,
)
matches, default, candidates, estimate = (
    _KERNEL.matches,
    _KERNEL.default,
    _KERNEL.candidates,
    _KERNEL.estimate,
)
