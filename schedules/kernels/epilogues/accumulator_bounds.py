# SPDX-License-Identifier: Apache-2.0
"""Accumulator bounds of integer products, proven from their weights or from their dtypes alone."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tvm import ir

from schedules.composites.transposed_convolution import Geometry
from schedules.composites.workload import Magnitude, Operand, Step
from schedules.kernels.epilogues.requantize import BIASED_LIMIT
from schedules.kernels.epilogues.requantize_fused import fused_constants
from schedules.numerics.qdq.dynamic import REACH

Array = np.ndarray[Any, Any]

PANEL = 8
"""Columns of the narrowest panels."""

MOST = 0.5
"""Share of panels with a proven fused form above which kernels have code for that form. The branch costs an unproven
panel about as many instructions as the form saves a proven one."""

BYTE_SPAN = 255
"""Greatest difference of two 8-bit values."""

RANGES = {"int8": (-128, 127), "uint8": (0, 255)}
"""Least and greatest value of 8-bit data, by its dtype."""

DATA_RANGES = {**RANGES, "int16": (-32768, 32767)}
"""Least and greatest value of the data of a product by constant weights, by its dtype."""


def magnitude(
    weights: Array, column_axis: int, data_dtype: str, offset: Array | None, multiplier: Array
) -> Magnitude:
    """Bound |sum w x + offset|, and its product with the multiplier, over all data.

    Args:
        weights: Integers; each column sums over all axes but `column_axis`.
        column_axis: Column axis of `weights`.
        data_dtype: A key of `DATA_RANGES`.
        offset: One offset per column, or one for all; None is 0.
        multiplier: One multiplier per column, or one for all.
    """
    return _magnitude([weights], column_axis, DATA_RANGES[data_dtype], offset, multiplier)


def _magnitude(
    sums: Sequence[Array], column_axis: int, data: tuple[int, int], offset: Array | None, multiplier: Array
) -> Magnitude:
    """Return bounds that hold for each of several weight tensors, applied to the same data."""
    others = tuple(axis for axis in range(sums[0].ndim) if axis != column_axis)
    low = high = np.zeros((), np.int64)
    for weights in sums:
        # A product by a weight is extremal at the ends of the data's range; the sign of the weight decides at which.
        above = np.maximum(weights, 0).sum(others, dtype=np.int64)
        below = np.minimum(weights, 0).sum(others, dtype=np.int64)
        low = np.minimum(low, above * data[0] + below * data[1])
        high = np.maximum(high, above * data[1] + below * data[0])
    if offset is not None:
        shift = offset.astype(np.int64).ravel()
        low, high = low + shift, high + shift
    total = np.maximum(np.abs(low), np.abs(high)).astype(np.float64)
    scaled = total * np.abs(multiplier.astype(np.float64)).ravel()
    weight = max(max(int(w.max(initial=0)), -int(w.min(initial=0))) for w in sums)
    span = max(_span(w, others) for w in sums)
    return Magnitude(
        _power_above(total.max(initial=0.0)), _power_above(scaled.max(initial=0.0)), weight, span
    )


def _span(weights: Array, summed: tuple[int, ...]) -> int:
    """Return the maximum difference of two weights of a column; for int8, the bound by the dtype."""
    if weights.dtype == np.int8 or not weights.size:
        return BYTE_SPAN
    return int(np.ptp(weights.astype(np.int64), axis=summed).max())


def magnitude_of(
    anchor: ir.Call, operands: Sequence[Operand], steps: Sequence[Step], constants: Sequence[Array]
) -> Magnitude | None:
    """Return the accumulator bounds of a composite.

    Returns:
        None unless the anchor multiplies data of `DATA_RANGES` by constant weights and is requantised per column.
    """
    by_name = {step.name: step.operand for step in steps}
    axis = _column_axis(anchor)
    multiplier, offset = by_name.get("requantize"), by_name.get("offset")
    if axis is None or multiplier is None:
        return None
    x, w = operands
    per_column = [operand for operand in (multiplier, offset) if operand is not None]
    if w.kind != "constant" or x.dtype not in DATA_RANGES:
        return None
    if any(math.prod(operand.shape) not in (1, w.shape[axis]) for operand in per_column):
        return None
    found = magnitude(
        constants[w.index],
        axis,
        x.dtype,
        constants[offset.index] if offset is not None else None,
        _multiplier(steps, constants),
    )
    return replace(found, fused=_gains_fused(found, steps, constants[multiplier.index]))


def _gains_fused(found: Magnitude, steps: Sequence[Step], multiplier: Array) -> bool:
    """Whether the fused requantisation is exact for a share of more than `MOST` of the panels (of `PANEL` columns)."""
    step = next(step for step in steps if step.name == "requantize")
    if multiplier.dtype != np.float32 or 1 << found.accumulator > BIASED_LIMIT:
        return False
    zero_point, low, high = (int(step.parameter(name)) for name in ("zero_point", "low", "high"))
    proven = fused_constants(multiplier.ravel(), 1 << found.accumulator, zero_point, low, high).proven
    whole = np.pad(proven, (0, -proven.size % PANEL), constant_values=True).reshape(-1, PANEL).all(1)
    return bool(whole.mean() > MOST)


def _multiplier(steps: Sequence[Step], constants: Sequence[Array]) -> Array:
    """Return the multipliers of the step "requantize" as float64; integer multipliers are divided by 2**shift."""
    step = next(step for step in steps if step.name == "requantize")
    assert step.operand is not None
    shift = int(dict(step.parameters).get("shift", 0))
    return np.asarray(np.ldexp(constants[step.operand.index].astype(np.float64), -shift))


def _column_axis(anchor: ir.Call) -> int | None:
    """Return the axis of output columns of the weights; None if the anchor is no convolution or matrix product."""
    match str(anchor.op.name):
        case "relax.nn.conv1d" | "relax.nn.conv2d":
            return str(anchor.attrs.kernel_layout).index("O")
        case "relax.matmul" if len(anchor.args[1].ty.shape) == 2:
            return 1
    return None


def magnitude_of_transposed(
    operands: Sequence[Operand],
    attributes: Mapping[str, str],
    steps: Sequence[Step],
    constants: Sequence[Array],
) -> Magnitude | None:
    """Return the accumulator bounds of a transposed convolution: those of its largest phase.

    Args:
        operands: Data and weights.
        attributes: The attributes that `Geometry.read` takes, and "x_zero".
        steps: Steps of the composite.
        constants: Constants of the composite.

    Returns:
        None if the convolution is not requantised per column.
    """
    by_name = {step.name: step.operand for step in steps}
    multiplier, offset = by_name.get("requantize"), by_name.get("offset")
    x, w = operands
    geometry = Geometry.read(x.shape, w.shape, attributes)
    if multiplier is None or geometry.groups > 1:
        return None
    rows, columns = (axis.phases() for axis in geometry.axes)
    weights, zero = constants[w.index], int(attributes["x_zero"])
    least, most = DATA_RANGES[x.dtype]
    return _magnitude(
        [weights[:, list(down.taps)][:, :, list(across.taps)] for down in rows for across in columns],
        0,
        (least - zero, most - zero),
        constants[offset.index] if offset is not None else None,
        _multiplier(steps, constants),
    )


def magnitude_of_run_time(
    operands: Sequence[Operand], zero_points: Sequence[int], steps: Sequence[Step], constants: Sequence[Array]
) -> Magnitude | None:
    """Bound |sum (a - za) (b - zb)|, and its product with the multiplier, over all values of a and b.

    Returns:
        None if the product is not requantised.
    """
    requantize = next((step for step in steps if step.name == "requantize"), None)
    if requantize is None or requantize.operand is None:
        return None
    total = float(operands[0].seen[-1])
    for operand, zero in zip(operands, zero_points, strict=True):
        info = np.iinfo(operand.dtype)
        total *= max(zero - int(info.min), int(info.max) - zero)
    scaled = total * np.abs(_multiplier(steps, constants)).max(initial=0.0)
    return Magnitude(_power_above(total), _power_above(float(scaled)))


def magnitude_of_dynamic(weights: Array) -> Magnitude:
    """Return bounds of |sum (q - z) w| for all 8-bit q and zero points z; weights are [K, N], or filters [O, ...]."""
    summed = (0,) if weights.ndim == 2 else tuple(range(1, weights.ndim))
    sums = np.abs(weights.astype(np.int64)).sum(summed)
    most = int(np.abs(weights.astype(np.int64)).max(initial=0))
    return Magnitude(_power_above(float(REACH * sums.max(initial=0))), 0, most, _span(weights, summed))


def _power_above(bound: float) -> int:
    """Return the minimum p with bound < 2 ** p."""
    return math.frexp(bound)[1] if bound >= 1 else 0
