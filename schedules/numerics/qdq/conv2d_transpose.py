# SPDX-License-Identifier: Apache-2.0
"""Accumulators of a transposed convolution of quantised data by constant integers.

    acc = sum over taps at which there is an input of (x - zx) * w

Outputs use different taps, and fewer at the border. The zero point is subtracted inside the sum, because an offset
outside of it would depend on the taps. The sum is exact, as the caller passes a dtype that is wide enough.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import te, tirx

from schedules.composites.transposed_convolution import Geometry, compute
from schedules.numerics.qdq.values import Array, Quantization
from schedules.numerics.routine import PRODUCT, Routine, routine


def accumulators(x: Array, w: npt.NDArray[np.integer[Any]], x_zero: int, geometry: Geometry) -> Array:
    """Compute the accumulators, int64; for the shapes of data and weights see `Geometry`."""
    rows, columns = geometry.axes
    depth = geometry.data[3] // geometry.groups
    tall, wide = ((a.size - 1) * a.stride + (a.kernel - 1) * a.dilation + 1 for a in (rows, columns))
    # Add the contributions of all inputs, also to outputs that are cropped and to outputs without any input.
    full = np.zeros(
        (geometry.data[0], tall + rows.stride, wide + columns.stride, geometry.output[3]), np.int64
    )
    for ky, kx in np.ndindex(*geometry.weights[1:3]):
        down, right = ky * rows.dilation, kx * columns.dilation
        met = full[:, down:, right:][:, :: rows.stride, :: columns.stride][:, : rows.size, : columns.size]
        for group in range(geometry.groups):
            channels = slice(group * depth, (group + 1) * depth)
            own = slice(group * geometry.weights[0], (group + 1) * geometry.weights[0])
            centred = x[..., channels].astype(np.int64) - x_zero
            met[..., own] += centred @ w[:, ky, kx, channels].astype(np.int64).T
    return full[:, rows.before :, columns.before :][:, : rows.outputs, : columns.outputs]


def conv2d_transpose_routine(
    geometry: Geometry, x: Quantization, weights: npt.NDArray[np.integer[Any]], dtype: str
) -> Routine:
    """Return a routine that computes `accumulators` in `dtype`; the weights are its constant."""
    data = te.placeholder(geometry.data, x.dtype, "x")
    w = te.placeholder(geometry.weights, str(weights.dtype), "w")
    acc = compute(data, w, geometry, dtype, lambda q: tirx.Cast(dtype, q) - tirx.IntImm(dtype, x.zero_point))
    return routine(
        "qdq.conv2d_transpose",
        [data, w, acc],
        [weights],
        pattern=PRODUCT,
        x_zero=x.zero_point,
        **geometry.attributes,
    )
