# SPDX-License-Identifier: Apache-2.0
"""The operands of float attention as a batch of heads; strides express permuted and broadcast axes."""

from dataclasses import dataclass

import numpy as np

from schedules.composites.workload import Operand, Workload
from schedules.diagnostic import Diagnostic
from schedules.kernels.common import batch_axes, float_data
from schedules.kernels.common.contract import declined
from schedules.kernels.gemm.packed_panels_f32 import Matrix

COMPOSITE = "arm.attention"


@dataclass(frozen=True)
class AttentionHeads:
    """A batch of attention heads: sizes and strides.

    Attributes:
        lead: Leading axes of the result; their product is the number of heads.
        rows: Number of queries of a head.
        query: Distance in elements between two queries; each query is contiguous.
        keys: Layout of the matrix of keys: depth of a query by number of keys.
        values: Layout of the matrix of values: number of keys by columns of the result.
        steps: For each leading axis, the distances in elements between two heads of q, k, v and mask.
        mask: Distances in elements of the mask between two queries and between two keys; None without a mask.
    """

    lead: tuple[int, ...]
    rows: int
    query: int
    keys: Matrix
    values: Matrix
    steps: tuple[tuple[int, ...], ...]
    mask: tuple[int, int] | None


def operands(workload: Workload) -> list[Operand]:
    """Return the operands q, k, v, and the mask if there is one."""
    steps = [workload.step(name) for name in ("values", "mask")]
    return [*workload.operands, *(step.operand for step in steps if step is not None and step.operand)]


def heads_of(workload: Workload, kernel: str) -> AttentionHeads | Diagnostic:
    """Parse a workload of `COMPOSITE`.

    Args:
        workload: Any workload.
        kernel: Name of the kernel, for the rejection.
    """
    if workload.composite != COMPOSITE:
        return declined(kernel, "composite is no attention", COMPOSITE, workload.composite, unfit=True)
    q, k, v, *masks = operands(workload)
    dtypes = [*(operand.dtype for operand in (q, k, v, *masks)), workload.output_dtype]
    if not set(dtypes) <= set(float_data.DTYPES):
        reason = "dtype of an operand or the result is not supported"
        return declined(kernel, reason, " or ".join(float_data.DTYPES), ", ".join(dtypes), unfit=True)
    if any(operand.kind != "input" for operand in (q, k, v)):
        return declined(kernel, "an operand is a constant", "inputs", "constant")
    lead = np.broadcast_shapes(*(operand.seen[:-2] for operand in (q, k, v)))
    if 0 in (*q.seen, *k.seen, *v.seen) or workload.output_shape != (*lead, q.seen[-2], v.seen[-1]):
        return declined(kernel, "shapes do not broadcast to the heads", str(lead), str(workload.output_shape))
    if q.strides[-1] != 1 or any(1 not in operand.strides[-2:] for operand in (k, v)):
        return declined(kernel, "a head's queries are not contiguous", "1", str(q.strides))
    scores = (*lead, q.seen[-2], k.seen[-1])
    strides = [batch_axes.strides(operand, len(lead) + 2)[:-2] for operand in (q, k, v)]
    mask = None
    if masks:
        if np.broadcast_shapes(masks[0].seen, scores) != scores:
            return declined(kernel, "the mask enlarges the scores", str(scores), str(masks[0].seen))
        across = batch_axes.strides(masks[0], len(scores))
        strides.append(across[:-2])
        mask = (across[-2], across[-1])
    return AttentionHeads(
        lead=lead,
        rows=q.seen[-2],
        query=q.strides[-2],
        keys=Matrix(k.seen[-2], k.seen[-1], k.strides[-2], k.strides[-1]),
        values=Matrix(v.seen[-2], v.seen[-1], v.strides[-2], v.strides[-1]),
        steps=tuple(zip(*strides, strict=True)),
        mask=mask,
    )
