# SPDX-License-Identifier: Apache-2.0
"""Strides and offsets of tensors whose leading axes are broadcast to each other."""

from collections.abc import Sequence

from tvm import ir, tirx

from schedules.composites.workload import Operand
from schedules.tir.emit import i64


def strides(operand: Operand, rank: int) -> tuple[int, ...]:
    """Return the strides of an operand that is broadcast to `rank` axes; 0 along broadcast axes."""
    own = tuple(s if size > 1 else 0 for s, size in zip(operand.strides, operand.seen, strict=True))
    return (0,) * (rank - len(own)) + own


def offsets(
    index: ir.Expr, lead: Sequence[int], steps: Sequence[Sequence[int]], tensors: int
) -> list[ir.Expr]:
    """Return the offset of each tensor for item `index` of a batch.

    Args:
        index: Number of the item, counted through the leading axes.
        lead: Sizes of the leading axes.
        steps: For each leading axis the stride of each tensor.
        tensors: Number of tensors.
    """
    found: list[ir.Expr] = [i64(0)] * tensors
    for size, strides_of in zip(reversed(lead), reversed(steps), strict=True):
        at, index = tirx.floormod(index, size), tirx.floordiv(index, size)
        found = [offset + at * step for offset, step in zip(found, strides_of, strict=True)]
    return found
