# SPDX-License-Identifier: Apache-2.0
"""Layer norm and RMS norm of 8-bit rows, bit-exact to the numerics `qdq`.

A row is read twice from L1. The first pass sums its values and their squares, in integers. The second pass normalises
four values per vector, and requantises by conversion (FCVTNS), which is exact for any value. Scalars between the passes
are computed in binary64. The last vector of a row overlaps the one before it if the length is no multiple of 16.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics.narrow import fcvtns, fmulx, narrow8, sqadd16, sqxtn16
from schedules.intrinsics.registers import LANES, VECTOR
from schedules.intrinsics.sdot import sdot
from schedules.intrinsics.smull import sadalp, smull
from schedules.intrinsics.vector import combine, high, low
from schedules.kernels.common import threads, tiling
from schedules.kernels.common.contract import Array, declined
from schedules.kernels.common.cost_model import arithmetic, scalar
from schedules.kernels.epilogues.accumulator_bounds import RANGES
from schedules.kernels.rowwise import row_vectors
from schedules.kernels.rowwise.row_kernel import RowKernel, rejection_of
from schedules.tir.emit import i64, kernel_function, load, store, take


def sums_of(source: tirx.Buffer, start: ir.Expr, length: int, *, dot: bool) -> tuple[ir.Expr, ir.Expr]:
    """Emit the sums of a row's values (less 128 for uint8) and of their squares, int32."""
    sums = T.alloc_buffer((2 * LANES,), "int32", layout=None)
    for part in range(2):
        store(sums, tirx.Broadcast(tirx.IntImm("int32", 0), LANES), i64(part * LANES), LANES)
    flip = tirx.Broadcast(tirx.IntImm("int8", -128), VECTOR)

    def add(at: ir.Expr, _index: ir.Expr, count: int) -> None:
        values = tirx.reinterpret("int8x16", load(source, start + at, VECTOR))
        if str(source.dtype) == "uint8":
            values = T.Bind(values ^ flip)
        values = T.Bind(row_vectors.fresh(values, count, 0))
        for part, value in enumerate(_added(sums, values, dot=dot)):
            store(sums, value, i64(part * LANES), LANES)

    row_vectors.each(length, VECTOR, 1, add)
    total, squares = (
        tirx.call_llvm_pure_intrin("int32", "llvm.vector.reduce.add.v4i32", _part(sums, part))
        for part in range(2)
    )
    return T.Bind(total), T.Bind(squares)


def _part(sums: tirx.Buffer, part: int) -> ir.Expr:
    return sums.vload([i64(part * LANES)], f"int32x{LANES}")


def _added(sums: tirx.Buffer, values: ir.Expr, *, dot: bool) -> tuple[ir.Expr, ir.Expr]:
    """Return the two sums plus 16 int8 values, and plus their squares."""
    total, squares = _part(sums, 0), _part(sums, 1)
    if dot:
        ones = tirx.Broadcast(tirx.IntImm("int8", 1), VECTOR)
        return T.Bind(sdot(total, values, ones)), T.Bind(sdot(squares, values, values))
    pairs = tirx.call_llvm_pure_intrin("int16x8", "llvm.aarch64.neon.saddlp.v8i16.v16i8", values)
    halves = (T.Bind(low(values)), T.Bind(high(values)))
    for half in halves:
        squares = sadalp(squares, smull(half, half))
    return T.Bind(sadalp(total, pairs)), T.Bind(squares)


NAME = "norm_s8"

COMPOSITES = {"arm.layer_norm_s8": "layer norm", "arm.rms_norm_s8": "RMS norm"}

LONGEST = 1 << 15
"""Elements of a row: the sum of their squares, below 2**14 each, is below 2**29."""

SUMS = {True: 2, False: 7}
"""Vector instructions of both sums of 16 values: two SDOT; or an SADDLP, two SMULL and three SADALP, and a move."""

RESULT = 7 + 7 * LANES + 5
"""Vector instructions of 16 results: four TBL and three DUP that widen; SCVTF, FSUB, FMUL, FMULX, FADD, FCVTNS and
SQXTN of each four; SQADD and SQXTN of each eight; the store."""

BETWEEN = 30
"""Instructions between the sums of a row and its results."""


@dataclass(frozen=True)
class Params:
    """Parameters of the kernel.

    Attributes:
        dot: Whether SDOT computes the sums.
        parallel: Whether rows are spread over the runtime's threads.
    """

    dot: bool
    parallel: bool = False


@dataclass(frozen=True)
class QuantizedNormRows:
    """The rows that are normalised, and the norm's parameters.

    Attributes:
        count: Number of rows.
        length: Number of elements of a row.
        dtype: Dtype of the data.
        centred: Whether the mean is subtracted.
        spread: The constant b of the definition, which is added to n**2 times the variance.
        zero: The number that the definition subtracts from each value.
        zero_point: Zero point of the result.
    """

    count: int
    length: int
    dtype: str
    centred: bool
    spread: float
    zero: int
    zero_point: int


def _cycles(workload: Workload, rows: QuantizedNormRows, params: Params, core: Core) -> float:
    # The row is loaded twice, g and h once.
    vector = arithmetic(SUMS[params.dot] + RESULT) + scalar(2 + VECTOR / LANES)
    return (vector * len(_starts(rows)) + scalar(BETWEEN)).cycles(core) * rows.count


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return one array: for each vector of a row, 16 elements of g, then 16 of h."""
    rows = _KERNEL.rows(workload)
    pair = np.zeros((2, max(VECTOR, rows.length)), np.float32)
    pair[:, : rows.length] = [constant.ravel() for constant in constants]
    return (np.stack([pair[:, at : at + VECTOR] for at in _starts(rows)]).reshape(-1),)


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    rows = _KERNEL.rows(workload)
    x = workload.operands[0]
    factors = ((len(_starts(rows)) * 2 * VECTOR,), "float32")
    arguments = [(x.shape, x.dtype), factors, (workload.output_shape, workload.output_dtype)]
    with kernel_function(workload.composite.replace(".", "_"), arguments) as function:
        data, factor, output = function.buffers

        def row(index: ir.Expr) -> None:
            at = T.Bind(index * rows.length)
            # A row shorter than a vector is padded with the value that is 0 in the sums.
            source, start = row_vectors.staged(data, at, rows.length, VECTOR, _middle(rows))
            mean, rate = _statistics(rows, *sums_of(source, start, rows.length, dot=params.dot))
            _results(source, start, rows, (mean, rate), factor, output, at)

        threads.each(rows.count, params.parallel, row)
    return function.prim_func


def _starts(rows: QuantizedNormRows) -> tuple[int, ...]:
    return row_vectors.starts(rows.length, VECTOR)


def _middle(rows: QuantizedNormRows) -> int:
    """Return the number to subtract from values so that they fit int8: 128 for uint8, else 0."""
    return 128 if rows.dtype == "uint8" else 0


def _statistics(rows: QuantizedNormRows, total: ir.Expr, squares: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
    """Return (m, r) of a row, float32, such that a normalised value is (float(q) - m) * r."""
    n = i64(rows.length)
    wide, wide_squares = T.Bind(tirx.Cast("int64", total)), T.Bind(tirx.Cast("int64", squares))
    length = tirx.FloatImm("float64", float(rows.length))
    if rows.centred:
        # The variance does not depend on the value subtracted from the data, but the mean does.
        variance = wide_squares * n - wide * wide
        whole = tirx.Cast("float64", wide + n * _middle(rows))
        mean = tirx.Cast("float32", tirx.Div(whole, length))
    else:
        shift = _middle(rows) - rows.zero
        variance = (wide_squares + wide * (2 * shift) + n * shift**2) * n
        mean = tirx.FloatImm("float32", float(rows.zero))
    deviation = tirx.sqrt(tirx.Cast("float64", variance) + tirx.FloatImm("float64", rows.spread))
    return T.Bind(mean), T.Bind(tirx.Cast("float32", tirx.Div(length, deviation)))


def _results(
    source: tirx.Buffer,
    start: ir.Expr,
    rows: QuantizedNormRows,
    statistics: tuple[ir.Expr, ir.Expr],
    factor: tirx.Buffer,
    output: tirx.Buffer,
    to: ir.Expr,
) -> None:
    """Emit the normalisation of a row and its stores."""
    mean, rate = (tirx.Broadcast(value, LANES) for value in statistics)
    count = min(VECTOR, rows.length)

    def step(at: ir.Expr, block: ir.Expr, _fresh: int) -> None:
        values = load(source, start + at, VECTOR)
        words = []
        for part in range(0, VECTOR, LANES):
            g, h = (load(factor, block * (2 * VECTOR) + side + part, LANES) for side in (0, VECTOR))
            d = T.Bind(tirx.Cast("float32x4", tirx.Cast("int32x4", take(values, part, LANES))) - mean)
            words.append(T.Bind(sqxtn16(fcvtns(fmulx(d * rate, g) + h))))
        tiling.store_part(output, _narrowed(words, rows, str(output.dtype)), to + at, count)

    row_vectors.each(rows.length, VECTOR, 1, step)


def _narrowed(words: Sequence[ir.Expr], rows: QuantizedNormRows, dtype: str) -> ir.Expr:
    """Emit four int16x4, with the zero point added, narrowed to 16 values."""
    halves = [combine(words[0], words[1]), combine(words[2], words[3])]
    if rows.zero_point:
        zero_point = tirx.Broadcast(tirx.IntImm("int16", rows.zero_point), 2 * LANES)
        halves = [sqadd16(half, zero_point) for half in halves]
    return T.Bind(combine(*(narrow8(half, dtype) for half in halves)))


def _read(workload: Workload) -> QuantizedNormRows | Diagnostic:
    refusal = rejection_of(workload, NAME, "norm of integers", COMPOSITES, RANGES)
    if refusal is not None:
        return refusal
    x, attributes = workload.operands[0], dict(workload.attributes)
    inner = len(x.shape) - int(attributes["axes"])
    length = math.prod(x.shape[inner:])
    if length > LONGEST:
        return declined(NAME, "rows are too long for sums of 32 bits", f"at most {LONGEST}", str(length))
    return QuantizedNormRows(
        count=math.prod(x.shape[:inner]),
        length=length,
        dtype=x.dtype,
        centred=workload.composite == "arm.layer_norm_s8",
        spread=float(attributes["spread"]),
        zero=int(attributes["zero"]),
        zero_point=int(attributes["y_zero_point"]),
    )


_KERNEL = RowKernel(
    NAME,
    _read,
    lambda workload: COMPOSITES[workload.composite],
    lambda core: Params("dotprod" in core.features),
    _cycles,
)
matches, default, candidates, estimate = (
    _KERNEL.matches,
    _KERNEL.default,
    _KERNEL.candidates,
    _KERNEL.estimate,
)
