# SPDX-License-Identifier: Apache-2.0
"""What is read along with an operand that another one is broadcast to: made once for each run of the other."""

import math
from collections.abc import Sequence

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.emit import i64, load, store
from schedules.kernels import copies
from schedules.kernels.broadcast_plan import VECTOR, Plan


def tables_of(
    plan: Plan, other: tirx.Buffer | None, constants: Sequence[tirx.Buffer], at: ir.Expr
) -> tuple[Sequence[tirx.Buffer], ir.Expr]:
    """What is read along with the runs, and from where: of a constant all of it, else of the run at `at`.

    Args:
        plan: What is computed.
        other: The operand that stays; None for a constant.
        constants: The constant, or M and k of all values of the operand.
        at: Where its run begins.
    """
    if other is None:
        # Runs of a constant stand with their copies.
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
    """Fills a table, of 16 elements more than `period`, with its first `run` elements over and over."""
    if run < VECTOR:
        whole = run * (VECTOR // math.gcd(run, VECTOR))
        with T.serial(i64(0), i64(whole - run)) as index:
            store(table, load(table, index, 1), index + run, 1)
        run = whole
    with T.serial(i64(0), i64(period // run - 1)) as index:
        copies.copy(table, i64(0), table, T.Bind((index + 1) * run), run)
    copies.copy(table, i64(0), table, i64(period), VECTOR)
