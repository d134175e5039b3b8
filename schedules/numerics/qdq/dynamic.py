# SPDX-License-Identifier: Apache-2.0
"""Products of dynamically quantised data (one scale and zero point per row, or per tensor) by constant weights.

    acc[m, n] = sum over k of (q[m, k] - z[m]) * w[k, n]                int32, exact
    acc       = conv(q - z, w), scalar z, padded with 0                 for convolutions
    y[m, n]   = fl(fl(fl(acc[m, n]) * s[m]) * scale[n] + bias[n])       fl rounds to float32; the outer one is an FMA

s and z are constants, or computed at run time per row or per tensor. Weights have eight bits, or nine if they are
uint8 minus a zero point. XNNPACK defines products of dynamically quantised data in the same way.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import te, tirx

from schedules.composites.attributes import encoded
from schedules.numerics.qdq.values import Array, Floats
from schedules.numerics.routine import PRODUCT, Routine, broadcast, routine

NAME = "qdq.linear_dynamic"

CONVOLUTIONS = {1: "qdq.conv1d_dynamic", 2: "qdq.conv2d_dynamic"}
"""Convolutions by their number of spatial axes."""

_LAYOUTS = {1: ("NWC", "OWI"), 2: ("NHWC", "OHWI")}

REACH = 255
"""Most that 8-bit data and a zero point of their dtype differ by."""


def accumulators(q: Array, weights: Array, zero_point: Array) -> Array:
    """Compute int64 accumulators of data [..., M, K] by weights [K, N]; zero points broadcast against the data."""
    product: Array = (q.astype(np.int64) - zero_point.astype(np.int64)) @ weights.astype(np.int64)
    return product


def real(acc: Array, row_scale: Floats, scale: Floats, bias: Floats) -> Floats:
    """Dequantise accumulators by the module's definition; all arguments broadcast."""
    by_row = acc.astype(np.float32) * row_scale.astype(np.float32)
    return fused(by_row, scale.astype(np.float32), bias.astype(np.float32))


def fused(a: Floats, b: Floats, c: Floats) -> Floats:
    """Return a * b + c, rounded once to binary32.

    The product is exact in binary64. The sum is rounded to odd in binary64, so that rounding it to binary32 is correct.
    """
    product, addend = a.astype(np.float64) * b, np.asarray(c, np.float64)
    total = product + addend
    rest = total - product
    lost = (product - (total - rest)) + (addend - rest)
    even = (total.view(np.int64) & 1) == 0
    up, down = lost > 0, lost < 0
    odd = np.nextafter(total, np.where(up, np.inf, -np.inf))
    return np.asarray(np.where((up | down) & even, odd, total), np.float32)


def linear_dynamic_routine(
    shape: Sequence[int], dtype: str, weights: npt.NDArray[np.integer[Any]], zero_point: Sequence[int]
) -> Routine:
    """Return a routine that computes a matrix product's int32 accumulators.

    Args:
        shape: Shape of the data, [..., M, K].
        dtype: Dtype of the data.
        weights: int8 or int16 [K, N].
        zero_point: Shape of the int32 zero points, which broadcasts to [..., M, 1].
    """
    x = te.placeholder(shape, dtype, "x")
    zero = te.placeholder(zero_point, "int32", "zero_point")
    w = te.placeholder(weights.shape, str(weights.dtype), "w")
    k = te.reduce_axis((0, shape[-1]), "k")

    def value(*i: tirx.Var) -> tirx.Expr:
        *rows, column = i
        data = tirx.Cast("int32", x(*rows, k)) - broadcast(zero, shape, (*rows, tirx.IntImm("int64", 0)))
        return te.sum(data * tirx.Cast("int32", w(k, column)), axis=k)

    acc = te.compute((*shape[:-1], weights.shape[1]), value, "linear_dynamic")
    return routine(NAME, [x, zero, w, acc], [weights], pattern=PRODUCT)


def conv_dynamic_routine(
    shape: Sequence[int],
    dtype: str,
    weights: npt.NDArray[np.integer[Any]],
    zero_point: Sequence[int],
    window: Mapping[str, Sequence[int]],
    groups: int,
) -> Routine:
    """Return a routine that computes a convolution's int32 accumulators.

    Args:
        shape: Shape of the data, channels last.
        dtype: Dtype of the data.
        weights: int8 or int16 [O, spatial axes, I / groups].
        zero_point: Shape of the scalar int32 zero point.
        window: "strides", "dilation", and "padding" (before all axes, then after all).
        groups: Number of channel groups.
    """
    axes = len(shape) - 2
    strides, dilation, padding = (window[name] for name in ("strides", "dilation", "padding"))
    before, after = padding[:axes], padding[axes:]
    x = te.placeholder(shape, dtype, "x")
    zero = te.placeholder(zero_point, "int32", "zero_point")
    w = te.placeholder(weights.shape, str(weights.dtype), "w")
    spatial = [size + low + high for size, low, high in zip(shape[1:-1], before, after, strict=True)]

    def centred(n: tirx.Var, *i: tirx.Var) -> tirx.Expr:
        *place, channel = i
        inside = [at - low for at, low in zip(place, before, strict=True)]
        bounds = [tirx.all(at >= 0, at < size) for at, size in zip(inside, shape[1:-1], strict=True)]
        value = tirx.Cast("int32", x(n, *inside, channel)) - zero(*[0] * len(zero_point))
        return tirx.if_then_else(tirx.all(*bounds), value, tirx.IntImm("int32", 0))

    data = te.compute((shape[0], *spatial, shape[-1]), centred, "centred")
    taps = [te.reduce_axis((0, size), "tap") for size in weights.shape[1:-1]]
    depth = te.reduce_axis((0, weights.shape[-1]), "depth")
    sizes = zip(spatial, weights.shape[1:-1], strides, dilation, strict=True)
    outputs = [(size - (kernel - 1) * apart - 1) // stride + 1 for size, kernel, stride, apart in sizes]

    def value(n: tirx.Var, *i: tirx.Var) -> tirx.Expr:
        *place, column = i
        at = [p * s + t * d for p, s, t, d in zip(place, strides, taps, dilation, strict=True)]
        first = tirx.floordiv(column, weights.shape[0] // groups) * weights.shape[-1]
        product = data(n, *at, first + depth) * tirx.Cast("int32", w(column, *taps, depth))
        return te.sum(product, axis=[*taps, depth])

    acc = te.compute((shape[0], *outputs, weights.shape[0]), value, "conv_dynamic")
    data_layout, kernel_layout = _LAYOUTS[axes]
    attributes = {name: encoded(tuple(numbers)) for name, numbers in window.items()}
    return routine(
        CONVOLUTIONS[axes],
        [x, zero, w, acc],
        [weights],
        pattern=PRODUCT,
        **attributes,
        groups=groups,
        data_layout=data_layout,
        kernel_layout=kernel_layout,
        out_layout=data_layout,
    )
