# SPDX-License-Identifier: Apache-2.0
"""What the accumulators of an integer product stay below, proven from its weights."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import ir

from schedules.workload import Magnitude, Operand, Step

Array = np.ndarray[Any, Any]

RANGES = {"int8": (-128, 127), "uint8": (0, 255)}
"""Least and greatest value of the data, by its dtype."""


def magnitude(
    weights: Array, column_axis: int, data_dtype: str, offset: Array | None, multiplier: Array
) -> Magnitude:
    """The bounds of |sum w x + offset| and of its product with the multiplier, over all data.

    Args:
        weights: Integers; each column sums over all axes but `column_axis`.
        column_axis: Of `weights`.
        data_dtype: A key of `RANGES`.
        offset: One number a column, or one for all; None is 0.
        multiplier: The same, float32.
    """
    others = tuple(axis for axis in range(weights.ndim) if axis != column_axis)
    wide = weights.astype(np.int64)
    # Each product is greatest at one end of the data and least at the other.
    ends = np.stack([wide * end for end in RANGES[data_dtype]])
    low, high = (end.sum(others) for end in (ends.min(0), ends.max(0)))
    if offset is not None:
        shift = offset.astype(np.int64).ravel()
        low, high = low + shift, high + shift
    total = np.maximum(np.abs(low), np.abs(high)).astype(np.float64)
    scaled = total * np.abs(multiplier.astype(np.float64)).ravel()
    return Magnitude(_power_above(total.max(initial=0.0)), _power_above(scaled.max(initial=0.0)))


def magnitude_of(
    anchor: ir.Call, operands: Sequence[Operand], steps: Sequence[Step], constants: Sequence[Array]
) -> Magnitude | None:
    """`magnitude` of a composite.

    Returns:
        None where the anchor is no product of 8-bit data by constant weights, requantised by column.
    """
    by_name = {step.name: step.operand for step in steps}
    axis = _column_axis(anchor)
    multiplier, offset = by_name.get("requantize"), by_name.get("offset")
    if axis is None or multiplier is None:
        return None
    x, w = operands
    per_column = [operand for operand in (multiplier, offset) if operand is not None]
    if w.kind != "constant" or x.dtype not in RANGES:
        return None
    if any(math.prod(operand.shape) not in (1, w.shape[axis]) for operand in per_column):
        return None
    return magnitude(
        constants[w.index],
        axis,
        x.dtype,
        constants[offset.index] if offset is not None else None,
        constants[multiplier.index],
    )


def _column_axis(anchor: ir.Call) -> int | None:
    """The axis of the weights that is not summed over."""
    match str(anchor.op.name):
        case "relax.nn.conv2d":
            return str(anchor.attrs.kernel_layout).index("O")
        case "relax.matmul" if len(anchor.args[1].ty.shape) == 2:
            return 1
    return None


def _power_above(bound: float) -> int:
    """The least p with bound < 2 ** p."""
    return math.frexp(bound)[1] if bound >= 1 else 0
