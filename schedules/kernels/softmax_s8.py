# SPDX-License-Identifier: Apache-2.0
"""Softmax of 8-bit rows, to the bit as a numerics defines it.

    d = max - q;  S = sum of e[d];  y = e[d] / S in units of the result

Table entries of 32 bits are looked up one by one where the vector instructions have no gather, which is in SVE: their
sum is taken on the way, and they are kept for the division, which goes four at a time: `softmax_quotient` of the
numerics `qdq`, `softmax_rescaled` of `tosa`.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import Core
from schedules.emit import i64, kernel_function, load, store
from schedules.intrinsics import sve
from schedules.kernel import Array, Match, Rejection, taken
from schedules.kernels import (
    rescale_tile,
    row_contract,
    softmax_entries,
    softmax_quotient,
    softmax_rescaled,
    tiling,
)
from schedules.kernels.cost import VECTOR
from schedules.kernels.requantize_tile import Requantization
from schedules.kernels.softmax_entries import LANES, UNROLL
from schedules.kernels.threads import each
from schedules.magnitude import RANGES
from schedules.numerics.tosa import Scale
from schedules.workload import Workload

NAME = "softmax_s8"

COMPOSITE = "arm.softmax_s8"

RESCALED = "arm.tosa_softmax_s8"

SIZE = 256
"""Distances of two 8-bit values."""

LOOKED_UP = {False: 3.5 + 5 / UNROLL, True: (3.5 + 5 / UNROLL) / LANES}
"""Instructions of one entry, without a gather and with one: a load of the distance and of the entry, half an STP and an
addition, and what closes the loop."""

SHARED = 41 / VECTOR
"""Instructions of one result: load, SCVTF, five of the quotient, FCVTNS, SQXTN of four; SQADD and SQXTN of eight; a
store of 16."""


@dataclass(frozen=True)
class Params:
    """How the work is spread.

    Attributes:
        parallel: Whether rows are spread over the runtime's threads.
        gather: Whether SVE looks entries up.
    """

    parallel: bool
    gather: bool = False


@dataclass(frozen=True)
class Rows:
    """A softmax along the last axis.

    Attributes:
        count: How many.
        length: Of each.
        dtype: Of the data.
        scale: Of the result; a RESCALE of the numerics `tosa`.
        zero_point: Of the result.
    """

    count: int
    length: int
    dtype: str
    scale: float | Scale
    zero_point: int


def matches(workload: Workload, core: Core) -> Match | Rejection:
    """Takes softmax of 8-bit data along the last axis."""
    return row_contract.matched(NAME, core, _read(workload), "softmax")


def default(workload: Workload, core: Core) -> Params:
    """Threads where the call is long enough."""
    serial = Params(parallel=False, gather=sve.pays(core))
    return row_contract.spread(serial, _rows(workload), estimate(workload, serial, core))


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """The default: there is nothing to tune."""
    return (default(workload, core),)


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Cycles of one call on one core with all loads in L1."""
    rows = _rows(workload)
    # The greatest value: a load, SMAX; the distances: a load, SUB, a store.
    return rows.count * rows.length * (5 / VECTOR + LOOKED_UP[params.gather] + SHARED) / core.issue_width


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """The tables as they are: exponentials, and reciprocals of the numerics `tosa`."""
    return tuple(constants)


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Emits the kernel; see `schedules.kernel.Kernel.build` for its arguments."""
    rows = _rows(workload)
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
            # Alive before and after the vectors below: sharing their bytes, it would be a lane of a vector register.
            total = T.alloc_buffer((1,), "int64", layout=None)
            store(total, i64(0), i64(0), 1)
            top = softmax_entries.greatest(data, at, rows.length)
            distances = softmax_entries.distances(data, at, rows.length, top)
            entries = softmax_entries.entries(distances, rows.length, table, total, gather=params.gather)
            sixteen = _sixteen(total.vload([i64(0)], "int64"), rows, others, str(output.dtype))
            _shares(entries, sixteen, rows, output, at)

        each(rows.count, params.parallel, one)
    return function.prim_func


Sixteen = Callable[[Sequence[ir.Expr]], ir.Expr]
"""From four int32x4 entries to 16 results."""


def _sixteen(total: ir.Expr, rows: Rows, others: Sequence[tirx.Buffer], dtype: str) -> Sixteen:
    """Emits what a row has in common; `others` are the tables beside that of exponentials."""
    if isinstance(rows.scale, Scale):
        low, high = RANGES[dtype]
        to = Requantization(rows.zero_point, low, high, dtype, rows.scale.shift)
        return softmax_rescaled.sixteen(total, others[0], rows.scale, to)
    return softmax_quotient.sixteen(total, rows.scale, rows.zero_point, dtype)


def _shares(entries: tirx.Buffer, sixteen: Sixteen, rows: Rows, output: tirx.Buffer, at: ir.Expr) -> None:
    """Divides a row's entries and stores them requantised."""

    def step(first: ir.Expr, count: int) -> None:
        value = T.Bind(sixteen([load(entries, first + v, LANES) for v in range(0, VECTOR, LANES)]))
        tiling.store_part(output, value, at + first, count)

    whole_vectors, left = divmod(rows.length, VECTOR)
    if whole_vectors:
        with T.serial(i64(0), i64(whole_vectors)) as outer:
            step(outer * VECTOR, VECTOR)
    if left:
        step(i64(whole_vectors * VECTOR), left)


def _rows(workload: Workload) -> Rows:
    return taken(_read(workload), workload)


def _read(workload: Workload) -> Rows | Rejection:
    composites = (COMPOSITE, RESCALED)
    refusal = row_contract.refused(workload, NAME, "softmax of integers", composites, RANGES)
    if refusal is not None:
        return refusal
    x = workload.operands[0]
    attributes = dict(workload.attributes)
    axis, last = int(attributes["axis"]), len(x.shape) - 1
    if axis != last:
        return Rejection(NAME, "not along the last axis", str(last), str(axis))
    scale: float | Scale
    if workload.composite == RESCALED:
        scale = Scale(int(attributes["y_multiplier"]), int(attributes["y_shift"]))
        if not rescale_tile.exact(scale.shift, softmax_rescaled.BITS):
            least = f"{softmax_rescaled.BITS} or more"
            return Rejection(NAME, "a RESCALE of that shift may overflow", least, str(scale.shift))
    else:
        scale = float(np.float32(attributes["y_scale"]))
    return Rows(
        count=math.prod(x.shape[:-1]),
        length=x.shape[-1],
        dtype=x.dtype,
        scale=scale,
        zero_point=int(attributes["y_zero_point"]),
    )
