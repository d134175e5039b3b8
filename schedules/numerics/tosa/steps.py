# SPDX-License-Identifier: Apache-2.0
"""Requantisation from or to 16 bits, with an optional clamp, by one RESCALE.

    y = saturate(rescale(q - zx, xs / ys) + zy)

A requantisation of 8-bit tensors is a table, like any other function.
"""

from collections.abc import Sequence

import numpy as np
from tvm import te, tirx

from schedules.numerics.qdq.table import Real
from schedules.numerics.qdq.values import Array, Bounds, Quantization, dequantize, integer_bounds, limits
from schedules.numerics.routine import Routine, routine
from schedules.numerics.tosa.rescale import RescaleFactor, fits, rescale, rescale_tir, saturate_tir, scale_of


def clamp_of(function: Real, x: Quantization) -> Bounds | None:
    """Return the limits of a function that is a clamp (or the identity) for all values of x; else None."""
    low, high = limits(x.dtype)
    real = dequantize(np.arange(low, high + 1), x).astype(np.float64)
    with np.errstate(all="ignore"):
        found = function(real)
    least, most = float(found.min()), float(found.max())
    if not np.array_equal(found, np.clip(real, least, most)):
        return None
    return (least if least > real[0] else None, most if most < real[-1] else None)


def steps_of(x: Quantization, y: Quantization) -> RescaleFactor:
    """Return the RESCALE from x's scale to y's.

    Raises:
        ValueError: The scale is out of RESCALE's range, or RESCALE is undefined for some values.
    """
    scale = scale_of(x.scale / y.scale)
    reach = max(abs(limit - x.zero_point) for limit in limits(x.dtype))
    if not fits(reach, scale.shift):
        raise ValueError(f"RESCALE by {x.scale / y.scale} is undefined for some values of {x.dtype}")
    return scale


def restepped(q: Array, x: Quantization, y: Quantization, bounds: Bounds = (None, None)) -> Array:
    """Requantise values from the quantisation x to y by the module's definition."""
    scale = steps_of(x, y)
    whole = rescale(q.astype(np.int64) - x.zero_point, scale.multiplier, scale.shift) + y.zero_point
    return np.asarray(np.clip(whole, *integer_bounds(y, bounds)).astype(y.dtype))


def restepped_routine(shape: Sequence[int], x: Quantization, y: Quantization, bounds: Bounds) -> Routine:
    """Return a routine that computes `restepped`.

    Its attributes are x_zero_point, y_zero_point, y_multiplier, y_shift, low and high.

    Raises:
        ValueError: The scale is out of RESCALE's range, or RESCALE is undefined for some values.
    """
    scale = steps_of(x, y)
    low, high = integer_bounds(y, bounds)
    q = te.placeholder(shape, x.dtype, "q")
    out = te.compute(
        shape,
        lambda *i: saturate_tir(
            rescale_tir(
                tirx.Cast("int32", q(*i)) - tirx.IntImm("int32", x.zero_point), scale.multiplier, scale.shift
            ),
            y.zero_point,
            low,
            high,
            y.dtype,
        ),
        "rescale",
    )
    parameters = {"low": low, "high": high, "y_multiplier": scale.multiplier, "y_shift": scale.shift}
    zeros = {"x_zero_point": x.zero_point, "y_zero_point": y.zero_point}
    return routine("tosa.rescale", [q, out], [], **parameters, **zeros)
