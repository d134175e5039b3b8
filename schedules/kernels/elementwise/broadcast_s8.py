# SPDX-License-Identifier: Apache-2.0
"""Sums, differences and products of two 8-bit tensors, one of which is broadcast or a constant of binary32.

    a [N, H, W, C] * b [N, 1, 1, C],  a [N, S, C] + b [S, C],  a * scalar, ...

A table holds, for each element of a run of b, the constants of an `Affine` form, or b itself if there is no such form
(because of ties); a loop reads a and the table in parallel. Short runs are repeated in the table, so that its length is
a multiple of a vector. The table has 16 additional elements, because the last vector, which ends where a ends, may
start at any element.
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
from schedules.intrinsics.registers import VECTOR
from schedules.kernels.common import copies, tiling
from schedules.kernels.common.contract import Array, KernelMatch, missing_feature, taken
from schedules.kernels.common.cost_model import LOOP_OVERHEAD
from schedules.kernels.common.threads import PARALLEL_CYCLES, each
from schedules.kernels.elementwise import binary_tile
from schedules.kernels.elementwise.binary_forms import Exact, Form, Linear, form_of
from schedules.kernels.elementwise.broadcast_plan import BroadcastPlan, read
from schedules.tir.emit import i64, kernel_function, load, store


def tables_of(
    plan: BroadcastPlan, other: tirx.Buffer | None, constants: Sequence[tirx.Buffer], at: ir.Expr
) -> tuple[Sequence[tirx.Buffer], ir.Expr]:
    """Return the buffers of the tables of a run, emitting the code that fills them, and the run's offset in them.

    Args:
        plan: Plan of the broadcast.
        other: The broadcast operand; None for a constant.
        constants: The packed constant, or m and k for all values of the operand.
        at: Offset of the operand's run.
    """
    if other is None:
        # A packed constant already has the repeated elements after each run.
        return constants, tirx.floordiv(at, plan.inner) * (plan.period + VECTOR)
    dtypes = [str(c.dtype) for c in constants] if plan.form else [str(other.dtype)]
    tables = [T.alloc_buffer((plan.period + VECTOR,), dtype, layout=None) for dtype in dtypes]
    with T.serial(i64(0), i64(plan.inner)) as index:
        b = load(other, at + index, 1)
        values = [b]
        if plan.form:
            least = int(np.iinfo(str(other.dtype)).min)
            entry = T.Bind(tirx.Cast("int64", b) - least)
            values = [load(each, entry, 1) for each in constants]
        for table, value in zip(tables, values, strict=True):
            store(table, value, index, 1)
    for table in tables:
        _repeat(table, plan.inner, plan.period)
    return tables, i64(0)


def _repeat(table: tirx.Buffer, run: int, period: int) -> None:
    """Emit the filling of a table of `period` + 16 elements with repeated copies of its first `run` elements."""
    if run < VECTOR:
        whole = run * (VECTOR // math.gcd(run, VECTOR))
        with T.serial(i64(0), i64(whole - run)) as index:
            store(table, load(table, index, 1), index + run, 1)
        run = whole
    with T.serial(i64(0), i64(period // run - 1)) as index:
        copies.copy(table, i64(0), table, T.Bind((index + 1) * run), run)
    copies.copy(table, i64(0), table, i64(period), VECTOR)


NAME = "broadcast_s8"

UNROLL = 2
"""Vectors of a loop iteration."""

GATHER = 7
"""Number of instructions that look up m and k for one value of b."""

COPY = 3
"""Number of instructions that copy one value of b."""

AFFINE = {7: 17 / VECTOR, 0: 20 / VECTOR}
"""Instructions per output, by `Affine.lift`: 10 or 14 of the form, loads of a, m and k, and a store, for 16 outputs."""


@dataclass(frozen=True)
class Params:
    """Parameters of the kernel.

    Attributes:
        parallel: Whether the runtime's threads share it.
    """

    parallel: bool = False


def matches(workload: Workload, core: Core) -> KernelMatch | Diagnostic:
    """Accept functions of two 8-bit tensors, one of the output's shape, the other broadcast or a constant."""
    if not core.neon:
        return missing_feature(NAME, "neon", core)
    plan = read(workload)
    if isinstance(plan, Diagnostic):
        return plan
    form = "affine" if plan.form else type(_other_form(plan)).__name__.lower()
    return KernelMatch(f"{plan.function.op}, {plan.repeats} times a run of {plan.inner}, form {form}")


def default(workload: Workload, core: Core) -> Params:
    """Return the parameters; long calls use several threads."""
    return Params(estimate(workload, Params(), core) >= PARALLEL_CYCLES)


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Return the default: there is nothing to tune."""
    return (default(workload, core),)


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Return the cycles of one call on one core: instructions at the rate of dispatch, all loads in L1."""
    plan = _plan(workload)
    if plan.form:
        each, made = AFFINE[plan.form[1]], GATHER
    else:
        each, made = binary_tile.INSTRUCTIONS[type(_other_form(plan))] + 3 / VECTOR, COPY
    each += LOOP_OVERHEAD / (VECTOR * UNROLL) + (made / plan.repeats if plan.other else 0)
    return math.prod(workload.output_shape) * each / core.issue_width


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return m and k for each value of a tensor b, or the tables of a constant b.

    The tables are the constant, or its m and k, repeated in the order in which loops read them. Without an affine form,
    a tensor b has the constants of its form in `binary_forms`, or one 0.
    """
    plan = _plan(workload)
    form = plan.affine(constants) if plan.form else None
    if plan.other:
        if form is not None:
            return form.m, form.k
        exact = _other_form(plan)
        return (exact.constants() if isinstance(exact, Linear) else np.zeros(1, np.int32),)
    index = np.arange(plan.period + VECTOR) % plan.inner
    rows = (constants[0],) if form is None else (form.m, form.k)
    return tuple(values.reshape(-1, plan.inner)[:, index].ravel() for values in rows)


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Build the PrimFunc; see `schedules.kernels.common.contract.Kernel.build` for its arguments."""
    plan = _plan(workload)
    arguments = [(operand.shape, operand.dtype) for operand in workload.inputs]
    numbers = 256 if plan.other else _constant_rows(plan) * (plan.period + VECTOR)
    if plan.form:
        arguments += [((numbers,), "int16" if plan.form[1] else "int32"), ((numbers,), "int32")]
    elif plan.other:
        arguments.append(((3 if isinstance(_other_form(plan), Linear) else 1,), "int32"))
    else:
        arguments.append(((numbers,), "float32"))
    arguments.append((workload.output_shape, workload.output_dtype))
    with kernel_function(workload.composite.replace(".", "_") + "_broadcast", arguments) as function:
        *tensors, output = function.buffers
        inputs = [tensors[operand.index] for operand in workload.operands if operand.kind == "input"]
        code = _Code(plan, inputs, tensors[len(workload.inputs) :], output)
        code.emit(params.parallel)
    return function.prim_func


class _Code:
    """Emitter of the loops of one kernel."""

    def __init__(
        self,
        plan: BroadcastPlan,
        inputs: Sequence[tirx.Buffer],
        constants: Sequence[tirx.Buffer],
        output: tirx.Buffer,
    ) -> None:
        self.plan, self.constants, self.output = plan, constants, output
        self.x = inputs[plan.whole if plan.other else 0]
        self.other = inputs[1 - plan.whole] if plan.other else None
        self.run = plan.repeats * plan.inner

    def emit(self, parallel: bool) -> None:
        """Emit the loops over all runs, in parallel or not."""
        count = math.prod(extent for extent, _ in self.plan.outer)
        shared = parallel and count >= self.run // self.plan.period

        def one(index: ir.Expr) -> None:
            rest, at = index, i64(0)
            for extent, step in reversed(self.plan.outer):
                at = at + tirx.floormod(rest, i64(extent)) * step
                rest = tirx.floordiv(rest, i64(extent))
            self._runs(T.Bind(index * self.run), T.Bind(at), parallel and not shared)

        if count == 1:
            self._runs(i64(0), i64(0), parallel)
        else:
            each(count, shared, one)

    def _runs(self, start: ir.Expr, at: ir.Expr, parallel: bool) -> None:
        """Emit all runs of the tensor that use the broadcast operand's run at offset `at`."""
        period = self.plan.period
        tables, first = tables_of(self.plan, self.other, self.constants, at)
        periods, rest = divmod(self.run, period)
        if periods:
            each(
                periods,
                parallel and periods > 1,
                lambda index: self._vectors(T.Bind(start + index * period), period, tables, first),
            )
        if rest and self.run < VECTOR:
            stage = T.alloc_buffer((VECTOR,), self.x.dtype, layout=None)
            copies.copy(self.x, start, stage, i64(0), rest)
            value = T.Bind(self._sixteen(stage, i64(0), tables, first))
            tiling.store_part(self.output, value, start, rest)
        elif rest >= VECTOR:
            self._vectors(T.Bind(start + periods * period), rest, tables, first)
        elif rest:
            begin = T.Bind(start + (self.run - VECTOR))
            value = self._sixteen(self.x, begin, tables, first + (period + rest - VECTOR))
            store(self.output, value, begin, VECTOR)

    def _vectors(self, start: ir.Expr, length: int, tables: Sequence[tirx.Buffer], first: ir.Expr) -> None:
        """Emit the results of `length` consecutive elements, at least one vector."""
        step = UNROLL * VECTOR
        trips = length // step if length // step > 1 else 0

        def some(offsets: Sequence[ir.Expr]) -> None:
            values = [T.Bind(self._sixteen(self.x, start + o, tables, first + o)) for o in offsets]
            for offset, value in zip(offsets, values, strict=True):
                store(self.output, value, start + offset, VECTOR)

        if trips:
            with T.serial(i64(0), i64(trips)) as trip:
                offset = T.Bind(trip * step)
                some([offset + VECTOR * u for u in range(UNROLL)])
        rest = list(range(trips * step, length - VECTOR + 1, VECTOR))
        if length % VECTOR:
            rest.append(length - VECTOR)
        if rest:
            some([i64(offset) for offset in rest])

    def _sixteen(self, x: tirx.Buffer, at: ir.Expr, tables: Sequence[tirx.Buffer], place: ir.Expr) -> ir.Expr:
        """Emit a vector of 16 results of the elements at offset `at`, with the table elements at `place`."""
        plan, values = self.plan, load(x, at, VECTOR)
        if plan.form is None:
            return self._exact(values, tables[0], place)
        lanes = 8 if plan.form[1] else 4
        m = [load(tables[0], place + i, lanes) for i in range(0, VECTOR, lanes)]
        k = [load(tables[1], place + i, 4) for i in range(0, VECTOR, 4)]
        return binary_tile.affine16(plan.form, values, m, k, plan.to)

    def _exact(self, values: ir.Expr, table: tirx.Buffer, place: ir.Expr) -> ir.Expr:
        """Emit 16 results by a form of `binary_forms`, which is not affine."""
        plan = self.plan
        if plan.other is None:
            reals = (
                binary_tile.real_words(values, plan.function.x),
                [load(table, place + i, 4) for i in range(0, VECTOR, 4)],
            )
            operands = reals if plan.function.first else reals[::-1]
            return binary_tile.real16(plan.function.op, operands, plan.function.y.scale, None, plan.to)
        b, form = load(table, place, VECTOR), _other_form(plan)
        constants = binary_tile.constants16(form, self.constants[0])
        return binary_tile.binary16(
            plan.what, form, *((values, b) if plan.function.first else (b, values)), constants
        )


def _other_form(plan: BroadcastPlan) -> Form:
    """Return the form of `binary_forms` for a plan without an affine form."""
    return form_of(plan.what) if plan.other else Exact(None)


def _constant_rows(plan: BroadcastPlan) -> int:
    return math.prod(extent for extent, step in plan.outer if step)


def _plan(workload: Workload) -> BroadcastPlan:
    return taken(read(workload), workload)
