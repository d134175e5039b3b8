# SPDX-License-Identifier: Apache-2.0
"""Softmax of 8-bit rows, bit-exact to the numerics `qdq` or `tosa`.

    d = max - q;  S = sum of e[d];  y = e[d] / S in units of the result

The 32-bit table entries are gathered by SVE, or loaded one by one on cores without SVE. They are summed at the same
time, and stored for the division, which computes four results at a time (`quotient_s8`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.intrinsics import sve
from schedules.intrinsics.registers import LANES, VECTOR
from schedules.kernels.common import copies, tiling
from schedules.kernels.common.contract import Array, declined
from schedules.kernels.common.cost_model import Cost
from schedules.kernels.common.threads import each
from schedules.kernels.epilogues import tosa_rescale
from schedules.kernels.epilogues.accumulator_bounds import RANGES
from schedules.kernels.epilogues.requantize import Requantization
from schedules.kernels.rowwise.row_kernel import RowKernel, rejection_of
from schedules.kernels.softmax import quotient_s8
from schedules.numerics.tosa import RescaleFactor
from schedules.tir.emit import i64, kernel_function, load, store

UNROLL = 8
"""Elements of one iteration of the sum."""


def _vectors(data: tirx.Buffer, at: ir.Expr, length: int, step, rest: float) -> None:  # type: ignore[no-untyped-def]
    """Emit `step` for every 16 values of a row: (vector, offset in the row, number of values without padding)."""
    whole, left = divmod(length, VECTOR)
    if whole:
        with T.serial(i64(0), i64(whole)) as outer:
            step(load(data, at + outer * VECTOR, VECTOR), outer * VECTOR, VECTOR)
    if left:
        stage = T.alloc_buffer((VECTOR,), data.dtype, layout=None)
        copies.fill(stage, i64(0), VECTOR, rest)
        copies.copy(data, at + whole * VECTOR, stage, i64(0), left)
        step(load(stage, i64(0), VECTOR), i64(whole * VECTOR), left)


def greatest(data: tirx.Buffer, at: ir.Expr, length: int) -> ir.Expr:
    """Emit the maximum of a row."""
    dtype = str(data.dtype)
    least = int(np.iinfo(dtype).min)
    top = T.alloc_buffer((VECTOR,), dtype, layout=None)
    store(top, tirx.Broadcast(tirx.IntImm(dtype, least), VECTOR), i64(0), VECTOR)

    def step(values: ir.Expr, _at: ir.Expr, _count: int) -> None:
        store(top, tirx.max(top.vload([i64(0)], f"{dtype}x{VECTOR}"), values), i64(0), VECTOR)

    _vectors(data, at, length, step, least)
    name = "smax" if dtype == "int8" else "umax"
    vector = top.vload([i64(0)], f"{dtype}x{VECTOR}")
    return T.Bind(tirx.call_llvm_pure_intrin(dtype, f"llvm.vector.reduce.{name}.v16i8", vector))


def distances(data: tirx.Buffer, at: ir.Expr, length: int, top: ir.Expr) -> tirx.Buffer:
    """Emit maximum - value for each value of a row; return the buffer, uint8, padded to whole vectors."""
    found = T.alloc_buffer((-(-length // VECTOR) * VECTOR,), "uint8", layout=None)
    highest = tirx.Broadcast(tirx.reinterpret("uint8", top), VECTOR)

    def step(values: ir.Expr, offset: ir.Expr, _count: int) -> None:
        store(found, highest - tirx.reinterpret("uint8x16", values), offset, VECTOR)

    _vectors(data, at, length, step, 0)
    return found


def entries(
    distances: tirx.Buffer, length: int, table: tirx.Buffer, total: tirx.Buffer, *, gather: bool
) -> tirx.Buffer:
    """Emit the look-ups of distances; return the entries, int32, and add their sum S to `total`, int64 [1]."""
    kept = T.alloc_buffer((-(-length // VECTOR) * VECTOR,), "int32", layout=None)

    def add(first: ir.Expr, count: int) -> None:
        found = [load(table, tirx.Cast("int64", load(distances, first + u, 1)), 1) for u in range(count)]
        for u, entry in enumerate(found):
            store(kept, entry, first + u, 1)
        terms = [tirx.Cast("int64", entry) for entry in found]
        while len(terms) > 1:
            # Sum neighbours first, so that only one addition per iteration depends on the previous iteration.
            terms = [sum(terms[u + 1 : u + 2], start=terms[u]) for u in range(0, len(terms), 2)]
        store(total, total.vload([i64(0)], "int64") + terms[0], i64(0), 1)

    done = length // LANES * LANES if gather else 0
    if done:
        _gathered(distances, done, table, kept, total)
    whole, rest = divmod(length - done, UNROLL)
    if whole:
        with T.serial(i64(0), i64(whole)) as outer:
            add(outer * UNROLL, UNROLL)
    if rest:
        add(i64(length - rest), rest)
    return kept


def _gathered(
    distances: tirx.Buffer, count: int, table: tirx.Buffer, entries: tirx.Buffer, total: tirx.Buffer
) -> None:
    """Emit the look-ups by SVE for the first `count` distances, a multiple of four, and the sum of their entries."""
    sums = T.alloc_buffer((LANES,), "int64", layout=None)
    store(sums, tirx.Broadcast(i64(0), LANES), i64(0), LANES)

    def four(first: ir.Expr, u: int) -> None:
        entry = T.Bind(sve.gathered(table, T.Bind(sve.widened(distances, first))))
        store(entries, entry, first, LANES)
        pairs = tirx.call_llvm_pure_intrin("int64x2", "llvm.aarch64.neon.saddlp.v2i64.v4i32", entry)
        place = i64(u % 2 * (LANES // 2))
        store(sums, sums.vload([place], "int64x2") + pairs, place, LANES // 2)

    whole = count // VECTOR
    with T.serial(i64(0), i64(whole)) as outer:
        for u in range(LANES):
            four(outer * VECTOR + u * LANES, u)
    for u in range(count % VECTOR // LANES):
        four(i64(whole * VECTOR + u * LANES), u)
    store(
        total,
        tirx.call_llvm_pure_intrin("int64", "llvm.vector.reduce.add.v4i64", sums.vload([i64(0)], "int64x4")),
        i64(0),
        1,
    )


NAME = "softmax_s8"

COMPOSITE = "arm.softmax_s8"

RESCALED = "arm.tosa_softmax_s8"

SIZE = 256
"""Number of possible distances of two 8-bit values."""

LOOKED_UP = {False: 3.5 + 5 / UNROLL, True: (3.5 + 5 / UNROLL) / LANES}
"""Instructions per table entry, by whether SVE gathers: a load of the distance and of the entry, half an STP, an
addition, and the loop."""

SHARED = 41 / VECTOR
"""Instructions per result. Four results take a load, SCVTF, five for the quotient, FCVTNS and SQXTN; eight take SQADD
and SQXTN; 16 take a store."""

VECTOR_SLOTS = {False: 5.0, True: 4.3}
"""Slots of the vector pipes per element: 16 distances are moved to general registers one by one (UMOV), or a
gather of four entries takes four."""


@dataclass(frozen=True)
class Params:
    """Parameters of the kernel.

    Attributes:
        parallel: Whether rows are spread over the runtime's threads.
        gather: Whether SVE gathers the table entries.
    """

    parallel: bool
    gather: bool = False


@dataclass(frozen=True)
class QuantizedSoftmaxRows:
    """The rows of a softmax along the last axis, and its output quantisation.

    Attributes:
        count: Number of rows.
        length: Number of elements of a row.
        dtype: Dtype of the data.
        scale: Scale of the result; a RESCALE of the numerics `tosa`.
        zero_point: Zero point of the result.
    """

    count: int
    length: int
    dtype: str
    scale: float | RescaleFactor
    zero_point: int


def _cycles(workload: Workload, rows: QuantizedSoftmaxRows, params: Params, core: Core) -> float:
    # The maximum takes a load and SMAX, the distances a load, SUB and a store.
    instructions = 5 / VECTOR + LOOKED_UP[params.gather] + SHARED
    element = Cost(instructions, VECTOR_SLOTS[params.gather])
    return (element * (rows.count * rows.length)).cycles(core)


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return the tables unchanged: exponentials, and for the numerics `tosa` reciprocals."""
    return tuple(constants)


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    rows = _KERNEL.rows(workload)
    x = workload.operands[0]
    tables = [((SIZE,), "int32") for operand in workload.operands if operand.kind == "constant"]
    arguments = [(x.shape, x.dtype), *tables, (workload.output_shape, workload.output_dtype)]
    with (
        kernel_function(workload.composite.replace(".", "_"), arguments) as function,
        sve.functions(params.gather),
    ):
        data, table, *others, output = function.buffers

        def one(row: ir.Expr) -> None:
            at = T.Bind(row * rows.length)
            # Keep `total` alive around the vectors below; if it shared their memory, LLVM would make it a vector's
            # lane.
            total = T.alloc_buffer((1,), "int64", layout=None)
            store(total, i64(0), i64(0), 1)
            top = greatest(data, at, rows.length)
            apart = distances(data, at, rows.length, top)
            looked_up = entries(apart, rows.length, table, total, gather=params.gather)
            sixteen = _sixteen(total.vload([i64(0)], "int64"), rows, others, str(output.dtype))
            _shares(looked_up, sixteen, rows, output, at)

        each(rows.count, params.parallel, one)
    return function.prim_func


Sixteen = Callable[[Sequence[ir.Expr]], ir.Expr]
"""Function from four int32x4 of table entries to 16 results."""


def _sixteen(
    total: ir.Expr, rows: QuantizedSoftmaxRows, others: Sequence[tirx.Buffer], dtype: str
) -> Sixteen:
    """Emit the per-row code of the division; return the function that emits 16 results.

    `others` are the tables except that of exponentials.
    """
    if isinstance(rows.scale, RescaleFactor):
        low, high = RANGES[dtype]
        to = Requantization(rows.zero_point, low, high, dtype, rows.scale.shift)
        return quotient_s8.sixteen_tosa(total, others[0], rows.scale, to)
    return quotient_s8.sixteen_qdq(total, rows.scale, rows.zero_point, dtype)


def _shares(
    entries: tirx.Buffer, sixteen: Sixteen, rows: QuantizedSoftmaxRows, output: tirx.Buffer, at: ir.Expr
) -> None:
    """Emit the division of a row's table entries by their sum, and the stores of the requantised results."""

    def step(first: ir.Expr, count: int) -> None:
        value = T.Bind(sixteen([load(entries, first + v, LANES) for v in range(0, VECTOR, LANES)]))
        tiling.store_part(output, value, at + first, count)

    whole_vectors, left = divmod(rows.length, VECTOR)
    if whole_vectors:
        with T.serial(i64(0), i64(whole_vectors)) as outer:
            step(outer * VECTOR, VECTOR)
    if left:
        step(i64(whole_vectors * VECTOR), left)


def _read(workload: Workload) -> QuantizedSoftmaxRows | Diagnostic:
    composites = (COMPOSITE, RESCALED)
    refusal = rejection_of(workload, NAME, "softmax of integers", composites, RANGES)
    if refusal is not None:
        return refusal
    x = workload.operands[0]
    attributes = dict(workload.attributes)
    axis, last = int(attributes["axis"]), len(x.shape) - 1
    if axis != last:
        return declined(NAME, "not along the last axis", str(last), str(axis))
    scale: float | RescaleFactor
    if workload.composite == RESCALED:
        scale = RescaleFactor(int(attributes["y_multiplier"]), int(attributes["y_shift"]))
        if not tosa_rescale.exact(scale.shift, quotient_s8.BITS):
            least = f"{quotient_s8.BITS} or more"
            return declined(NAME, "a RESCALE of that shift may overflow", least, str(scale.shift))
    else:
        scale = float(np.float32(attributes["y_scale"]))
    return QuantizedSoftmaxRows(
        count=math.prod(x.shape[:-1]),
        length=x.shape[-1],
        dtype=x.dtype,
        scale=scale,
        zero_point=int(attributes["y_zero_point"]),
    )


_KERNEL = RowKernel(
    NAME, _read, lambda _: "softmax", lambda core: Params(parallel=False, gather=sve.pays(core)), _cycles
)
matches, default, candidates, estimate = (
    _KERNEL.matches,
    _KERNEL.default,
    _KERNEL.candidates,
    _KERNEL.estimate,
)
