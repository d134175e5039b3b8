# SPDX-License-Identifier: Apache-2.0
"""Batched int8 matmul of two run-time tensors over strided operands.

Axes may be permuted before the product, and leading axes broadcast: both only change strides. uint8 data is read as
int8 with its top bit flipped, and 128 is subtracted from its zero point.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from tvm import ir

from schedules.composites.workload import Operand, Workload
from schedules.diagnostic import Diagnostic
from schedules.kernels.common import batch_axes
from schedules.kernels.common.contract import declined
from schedules.kernels.epilogues import requantize_step
from schedules.kernels.epilogues.requantize import NOT_REQUANTIZED, Form, Requantization
from schedules.kernels.gemm.packed_panels_s8 import Lines
from schedules.kernels.gemm.product_s8 import FLIP

COMPOSITE = "arm.matmul_s8"

DYNAMIC = "arm.matmul_dynamic"
"""Name of the composite of int32 sums whose zero points are known at run time."""


@dataclass(frozen=True)
class RunTimeProduct:
    """A batch of matrix products.

    Attributes:
        lead: Leading axes of the result.
        rows: Rows of each matrix of the result.
        columns: Columns of each matrix of the result.
        a: Layout of each matrix A; its lines are the rows.
        b: Layout of each matrix B; its lines are the columns.
        steps: For each leading axis, the distances in elements between two matrices A and between two matrices B.
        offset: K * za * zb; 0 if the zero points are operands.
        to: Quantisation of the output.
        form: Form of the requantisation; "none" if the result is the int32 sums.
        zeros: The operands that hold the zero points of A and B; None if the zero points are attributes.
    """

    lead: tuple[int, ...]
    rows: int
    columns: int
    a: Lines
    b: Lines
    steps: tuple[tuple[int, int], ...]
    offset: int
    to: Requantization
    form: Form
    zeros: tuple[Operand, Operand] | None = None


def offsets(index: ir.Expr, product: RunTimeProduct) -> tuple[ir.Expr, ir.Expr]:
    """Return the offsets of matrices A and B for result `index` of the batch."""
    a, b = batch_axes.offsets(index, product.lead, product.steps, 2)
    return a, b


def product_of(workload: Workload, kernel: str) -> RunTimeProduct | Diagnostic:
    """Parse a workload of `COMPOSITE` or `DYNAMIC`.

    Args:
        workload: Any workload.
        kernel: Name of the kernel, for the rejection.
    """
    if workload.composite not in (COMPOSITE, DYNAMIC):
        return declined(
            kernel, "composite is no product of run time", COMPOSITE, workload.composite, unfit=True
        )
    dtypes = [operand.dtype for operand in workload.operands[:2]]
    if not set(dtypes) <= {"int8", "uint8"}:
        return declined(kernel, "operands are not of 8 bits", "int8 or uint8", ", ".join(dtypes), unfit=True)
    if any(operand.kind == "constant" for operand in workload.operands[:2]):
        return declined(kernel, "an operand is a constant", "inputs", "constant", unfit=True)
    if workload.composite == COMPOSITE and (found := _step_misfit(workload, kernel)) is not None:
        return found
    a, b, *points = workload.operands
    if 0 in (*a.seen, *b.seen):
        return declined(kernel, "a dimension is 0", "1 or more", f"{a.seen}, {b.seen}")
    zeros = _zeros(workload, (a, b)) if not points else (0, 0)
    lines = (_lines(a, (-2, -1), zeros[1]), _lines(b, (-1, -2), zeros[0]))
    scattered = next((x for x, line in zip((a, b), lines, strict=True) if 1 not in (line.line, line.k)), None)
    if scattered is not None:
        return declined(kernel, "neither rows nor columns are contiguous", "1 of 2", str(scattered.axes))
    sums: tuple[Requantization, Form] = (NOT_REQUANTIZED, "none")
    to, form = sums if points else requantize_step.quantization(workload)
    lead = np.broadcast_shapes(a.seen[:-2], b.seen[:-2])
    return RunTimeProduct(
        lead=lead,
        rows=a.seen[-2],
        columns=b.seen[-1],
        a=lines[0],
        b=lines[1],
        steps=tuple(zip(*(batch_axes.strides(x, len(lead) + 2)[:-2] for x in (a, b)), strict=True)),
        offset=a.seen[-1] * zeros[0] * zeros[1],
        to=to,
        form=form,
        zeros=(points[0], points[1]) if points else None,
    )


def _zeros(workload: Workload, operands: Sequence[Operand]) -> tuple[int, int]:
    """Return the constant zero points of both operands, minus 128 for an operand of uint8."""
    zeros = (int(dict(workload.attributes)[name]) for name in ("a_zero", "b_zero"))
    za, zb = (zero - FLIP * (x.dtype == "uint8") for zero, x in zip(zeros, operands, strict=True))
    return za, zb


def _step_misfit(workload: Workload, kernel: str) -> Diagnostic | None:
    """Return why the epilogue is not supported; None if it is supported."""
    requantize = workload.step("requantize")
    misfit = requantize_step.misfit(workload)
    if misfit is not None:
        return declined(kernel, *misfit)
    if requantize is None or requantize.operand is None or math.prod(requantize.operand.shape) != 1:
        return declined(
            kernel, "accumulators are not requantised per tensor", "one multiplier", str(requantize)
        )
    unknown = [step.name for step in workload.epilogue if step.name != "requantize"]
    if unknown:
        return declined(kernel, "a step has no implementation", "requantize", ", ".join(unknown))
    return None


def _lines(operand: Operand, axes: tuple[int, int], zero: int) -> Lines:
    """Return the layout of an operand whose axes `axes` are (lines, k); `zero` is the other operand's zero point."""
    strides, shape = operand.strides, operand.seen
    line, k = (strides[axis] for axis in axes)
    # An axis of one element may have any stride, so it counts as contiguous.
    k = 1 if shape[axes[1]] == 1 and line != 1 else k
    return Lines(shape[axes[1]], line, k, zero, operand.dtype == "uint8")
