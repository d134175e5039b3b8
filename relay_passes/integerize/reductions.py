# SPDX-License-Identifier: Apache-2.0
"""Integer accumulators of sums and averages of a quantised tensor, with their divisors.

    mean(dequantize(x), axes)    →    (sum(x, axes) - n * zx) / n
    avg_pool2d(dequantize(x))    →    (a depthwise convolution of x by ones - n * zx) / n

n is the number of elements of the window; at borders, if the operator is defined so, of its part inside of the tensor.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from tvm import relax
from tvm.ir import Call
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)

from relay_passes.integerize.context import Context, accumulator_dtype, integers
from relay_passes.integerize.numerics import Quantization
from relay_passes.integerize.products import padded
from relay_passes.integerize.values import UNBOUNDED, Quantized, Sum, static_shape
from relay_passes.ir.sources import sources_of, union
from schedules.diagnostic import Diagnostic


def reduction(context: Context, call: Call) -> Sum | Diagnostic:
    """Return the accumulators of a mean or sum over axes, or why there are none."""
    x = context.known(call.args[0])
    if x is None:
        return Diagnostic.of("its input is not quantised")
    rank = len(x.shape)
    axes = range(rank) if call.attrs.axis is None else [axis % rank for axis in integers(call.attrs.axis)]
    return _over(context, call, x, list(axes), bool(call.attrs.keepdims), divide=call.op.name == "relax.mean")


def global_pool(context: Context, call: Call) -> Sum | Diagnostic:
    """Return the accumulators of an adaptive average pool to one element, or why there are none."""
    x = context.known(call.args[0])
    if x is None:
        return Diagnostic.of("its input is not quantised")
    layout = str(call.attrs.layout)
    axes = [axis for axis, letter in enumerate(layout) if letter in "DHW"]
    size = [static_shape(call)[axis] for axis in axes]
    if any(n != 1 for n in size):
        return Diagnostic.of("an adaptive pool has windows of several sizes", [1] * len(size), size)
    return _over(context, call, x, axes, keepdims=True, divide=True)


def _over(
    context: Context, call: Call, x: Quantized, axes: Sequence[int], keepdims: bool, *, divide: bool
) -> Sum | Diagnostic:
    xq = x.per_tensor
    if xq is None:
        return Diagnostic.of("its input is quantised per channel")
    names = union((x.names, sources_of(call)))
    n = math.prod(x.shape[axis] for axis in axes)
    magnitude = n * x.magnitude
    wide = context.emit(R.astype(x.value, accumulator_dtype(magnitude)), names)
    total = context.emit(R.sum(wide, list(axes), keepdims=keepdims), names)
    rank = (1,) * len(static_shape(total))
    count = np.full(rank, n if divide else 1, np.float32)
    return _average(xq, (total, n, magnitude), count, names, "int32")


def average_pool(context: Context, call: Call) -> Sum | Diagnostic:
    """Return the accumulators of a two-dimensional average pool, or why there are none."""
    x, attrs = context.known(call.args[0]), call.attrs
    if x is None:
        return Diagnostic.of("its input is not quantised")
    xq = x.per_tensor
    if xq is None:
        return Diagnostic.of("its input is quantised per channel")
    layout = str(attrs.layout)
    if layout not in ("NCHW", "NHWC"):
        return Diagnostic.of("its layout is blocked", "NCHW or NHWC", layout)
    names = union((x.names, sources_of(call)))
    windows = _windows(call, x.shape, layout)
    padding = [w.before for w in windows] + [w.after for w in windows]
    axes = [layout.index(axis) for axis in "HW"]
    if not any(padding) and [w.size for w in windows] == [x.shape[axis] for axis in axes]:
        return _over(context, call, x, axes, keepdims=True, divide=True)  # weights of ones take memory
    channels = x.shape[layout.index("C")]
    kernel = [w.size for w in windows]
    kernel_layout = "OIHW" if layout == "NCHW" else "OHWI"
    ones_shape = (channels, 1, *kernel) if layout == "NCHW" else (channels, *kernel, 1)
    data = x.value
    if any(padding):
        data = padded(context, data, layout, padding, xq.zero_point, names)
    n = math.prod(kernel)
    magnitude = n * x.magnitude
    total = R.nn.conv2d(
        data,
        relax.const(np.ones(ones_shape, np.int8)),
        strides=integers(attrs.strides),
        dilation=integers(attrs.dilation),
        groups=channels,
        data_layout=layout,
        kernel_layout=kernel_layout,
        out_dtype=accumulator_dtype(magnitude),
    )
    inside = [w.counts if not attrs.count_include_pad else np.full(1, w.size) for w in windows]
    count = np.multiply.outer(*inside).astype(np.float32)
    if (count == count.flat[0]).all():
        count = count[:1, :1]
    count = count[None, None] if layout == "NCHW" else count[None, :, :, None]
    return _average(xq, (context.emit(total, names), n, magnitude), count, names, x.dtype)


def _average(
    xq: Quantization,
    summed: tuple[relax.Var, int, int],
    count: npt.NDArray[np.float32],
    names: tuple[str, ...],
    data_dtype: str,
) -> Sum:
    total, n, magnitude = summed
    rank = (1,) * count.ndim
    offset = np.full(rank, -n * xq.zero_point, np.int64)
    ones = np.ones(rank, np.float32)
    return Sum(total, offset, magnitude, xq.scale, ones, count, UNBOUNDED, names, data_dtype)


class _PoolWindows:
    """The windows of a pool along one axis.

    Attributes:
        size: Number of taps.
        before: Padding before the data.
        after: Padding after the data; larger than the operator's if the output size is rounded up.
        counts: For each output, the number of taps inside the tensor, at least 1.
    """

    def __init__(self, size: int, stride: int, dilation: int, before: int, after: int, extent: int, out: int):
        self.size, self.before = size, before
        reach = (out - 1) * stride + (size - 1) * dilation + 1
        self.after = max(after, reach - extent - before)
        taps = np.arange(out)[:, None] * stride + np.arange(size) * dilation - before
        self.counts = ((taps >= 0) & (taps < extent)).sum(1).clip(1)


def _windows(call: Call, shape: Sequence[int], layout: str) -> list[_PoolWindows]:
    attrs = call.attrs
    padding = integers(attrs.padding)
    out = static_shape(call)
    return [
        _PoolWindows(
            size=integers(attrs.pool_size)[i],
            stride=integers(attrs.strides)[i],
            dilation=integers(attrs.dilation)[i],
            before=padding[i],
            after=padding[2 + i],
            extent=shape[layout.index(axis)],
            out=out[layout.index(axis)],
        )
        for i, axis in enumerate("HW")
    ]
