# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions of 8-bit tensors: sums, differences and products of two, and tables of 256 entries.

Tensors are read as flat arrays of bytes, 16 per vector. The last vector overlaps the one before it if the size is not a
multiple of 16; a tensor smaller than a vector is copied to a padded buffer first.
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
from schedules.intrinsics.registers import VECTOR
from schedules.kernels.common import copies, tiling
from schedules.kernels.common.contract import Array, KernelMatch, declined, missing_feature
from schedules.kernels.common.cost_model import LOOP_OVERHEAD, arithmetic, scalar
from schedules.kernels.common.threads import PARALLEL_CYCLES, PARALLEL_TASKS
from schedules.kernels.elementwise import binary_tile
from schedules.kernels.elementwise.binary_forms import Linear, Rescaled, form_of
from schedules.kernels.elementwise.binary_workload import (
    BINARY,
    binary_of,
    overflow,
    shapes_misfit,
    tensors_misfit,
)
from schedules.kernels.epilogues import table_lookup
from schedules.tir.emit import i64, kernel_function, load, store

NAME = "elementwise_s8"

TABLE = "arm.table_s8"

UNROLLS = (2, 1, 4)
"""Vectors of a loop iteration worth considering, the default first: LDP and STP of two."""


@dataclass(frozen=True)
class Params:
    """Parameters of the kernel.

    Attributes:
        unroll: Number of vectors per loop iteration.
        parallel: Whether the runtime's threads share it.
    """

    unroll: int
    parallel: bool = False

    def __post_init__(self) -> None:
        if self.unroll < 1:
            raise ValueError(f"unroll {self.unroll} is not positive")


def matches(workload: Workload, core: Core) -> KernelMatch | Diagnostic:
    """Accept functions of two tensors of one shape, and `arm.table_s8`, on cores with NEON."""
    if workload.composite not in (*BINARY, TABLE):
        limit = ", ".join((*BINARY, TABLE))
        return declined(
            NAME, "composite is no integer elementwise function", limit, workload.composite, unfit=True
        )
    if not core.neon:
        return missing_feature(NAME, "neon", core)
    tensors = workload.operands[:1] if workload.composite == TABLE else workload.operands
    misfit = tensors_misfit(NAME, workload, tensors)
    if misfit is not None:
        return misfit
    elements = math.prod(workload.output_shape)
    if workload.composite == TABLE:
        return KernelMatch(f"look-up of {elements} bytes in a table of {table_lookup.SIZE}")
    misfit = shapes_misfit(NAME, workload)
    if misfit is not None:
        return misfit
    what = binary_of(workload)
    if isinstance(what, Rescaled) and not what.exact():
        return declined(NAME, *overflow(what))
    form = type(form_of(what)).__name__.lower()
    return KernelMatch(f"{what.op} of {elements} bytes, form {form}")


def default(workload: Workload, core: Core) -> Params:
    """Return the default parameters; long calls use several threads."""
    return candidates(workload, core)[0]


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Return parameters with one, two and four vectors per iteration."""
    big = estimate(workload, Params(UNROLLS[0]), core) >= PARALLEL_CYCLES
    return tuple(Params(unroll, big) for unroll in UNROLLS)


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Return the cycles of one call on one core with all loads in L1."""
    elements = math.prod(workload.output_shape)
    if workload.composite == TABLE:
        return core.lookup_cycles * elements / VECTOR
    each, inputs = binary_tile.INSTRUCTIONS[type(form_of(binary_of(workload)))], 2
    output = arithmetic(each + 1 / VECTOR) + scalar((inputs + LOOP_OVERHEAD / params.unroll) / VECTOR)
    return (output * elements).cycles(core)


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return the table ordered by bit pattern; for binary functions the constants of a `Linear` form, else one 0."""
    if workload.composite == TABLE:
        return (table_lookup.pack(constants[0], workload.operands[0].dtype),)
    form = form_of(binary_of(workload))
    return (form.constants() if isinstance(form, Linear) else np.zeros(1, np.int32),)


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    arguments = [(operand.shape, operand.dtype) for operand in workload.inputs]
    if workload.composite == TABLE:
        arguments.append(((table_lookup.SIZE,), workload.output_dtype))
    else:
        form = form_of(binary_of(workload))
        arguments.append(((3 if isinstance(form, Linear) else 1,), "int32"))
    arguments.append((workload.output_shape, workload.output_dtype))
    with kernel_function(workload.composite.replace(".", "_"), arguments) as function:
        *inputs, constants, output = function.buffers
        inputs = [inputs[o.index] for o in workload.operands if o.kind == "input"]
        _run(inputs, output, math.prod(workload.output_shape), params, _prepare(workload, constants))
    return function.prim_func


Sixteen = Callable[..., ir.Expr]
"""Function from a vector of 16 elements of each input to one of the output."""


def _prepare(workload: Workload, constants: tirx.Buffer) -> Callable[[], Sixteen]:
    """Return a function that emits the loads of the constants, and returns the function that emits 16 results."""
    if workload.composite == TABLE:

        def look_up() -> Sixteen:
            table = table_lookup.registers(constants)
            return lambda q: table_lookup.look_up16(table, q)

        return look_up
    what = binary_of(workload)
    form = form_of(what)

    def binary() -> Sixteen:
        loaded = binary_tile.constants16(form, constants)
        return lambda a, b: binary_tile.binary16(what, form, a, b, loaded)

    return binary


def _run(
    inputs: Sequence[tirx.Buffer],
    output: tirx.Buffer,
    count: int,
    params: Params,
    prepare: Callable[[], Sixteen],
) -> None:
    """Emit the loops that apply the function to `count` elements."""
    step = VECTOR * params.unroll
    trips = count // step
    tasks = min(PARALLEL_TASKS, trips) if params.parallel else 1
    share = -(-trips // max(1, tasks))

    def vectors(sixteen: Sixteen, starts: Sequence[ir.Expr]) -> None:
        values = [T.Bind(sixteen(*(load(x, start, VECTOR) for x in inputs))) for start in starts]
        for start, value in zip(starts, values, strict=True):
            store(output, value, start, VECTOR)

    def trip_range(first: ir.Expr, stop: ir.Expr) -> None:
        sixteen = prepare()
        with T.serial(i64(0), stop - first) as inside:
            at = T.Bind((first + inside) * step)
            vectors(sixteen, [at + VECTOR * u for u in range(params.unroll)])

    if tasks > 1:
        with T.parallel(i64(0), i64(tasks)) as task:
            trip_range(T.Bind(task * share), T.Bind(tirx.min((task + 1) * share, i64(trips))))
    elif trips:
        trip_range(i64(0), i64(trips))
    rest = list(range(trips * step, count - VECTOR + 1, VECTOR))
    if count % VECTOR and count > VECTOR:
        rest.append(count - VECTOR)
    if rest:
        vectors(prepare(), [i64(at) for at in rest])
    if count < VECTOR:
        staged = [T.alloc_buffer((VECTOR,), x.dtype, layout=None) for x in inputs]
        for x, stage in zip(inputs, staged, strict=True):
            copies.copy(x, i64(0), stage, i64(0), count)
        value = T.Bind(prepare()(*(load(stage, i64(0), VECTOR) for stage in staged)))
        tiling.store_part(output, value, i64(0), count)
