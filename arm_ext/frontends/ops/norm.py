# SPDX-License-Identifier: Apache-2.0
"""Normalisation by given statistics, or by statistics of the data."""

from arm_ext.frontends.graph import Value
from arm_ext.frontends.ops.maths import rsqrt


def inverse_deviation(variance: Value, epsilon: float) -> Value:
    """Return 1 / sqrt(variance + epsilon)."""
    return rsqrt(variance + epsilon)


def per_channel(x: Value, values: Value) -> Value:
    """Return one number per channel in a shape that broadcasts to data with channels on axis 1."""
    return values.reshape((1, x.shape[1], *[1] * (len(x.shape) - 2)))


def normalize(x: Value, mean: Value, inverse: Value, scale: Value | None, shift: Value | None) -> Value:
    """Return (x - mean) · inverse · scale + shift; all but x have one number per channel (axis 1 of x)."""
    y = (x - per_channel(x, mean)) * per_channel(x, inverse)
    y = y if scale is None else y * per_channel(x, scale)
    return y if shift is None else y + per_channel(x, shift)
