# SPDX-License-Identifier: Apache-2.0
"""Integer accumulators of convolutions and matrix products of quantised operands.

    conv2d(dequantize(x), dequantize(W))      →    conv2d(x, W - zw) - zx * sum(W - zw)
    matmul(dequantize(a), dequantize(W))      →    matmul(a, W - zw) - za * colsum(W - zw)
    matmul(dequantize(a), dequantize(b))      →    the numerics' matmul(a, b), which subtracts zero points
    conv2d(dequantize(x), dequantize(w))      →    conv2d(x - zx, w - zw), w of run time; both in wider integers

The operands are the quantised integers, so that kernels multiply 8-bit data: the zero point of data becomes an offset
that is added to the bias, and that of weights is subtracted at compile time. Borders are padded with zx, which
represents 0. A transposed convolution skips different taps at each output, so that its zero point is no constant
offset: the routine of the numerics subtracts it, and for other layouts than the routine's it is subtracted from the
data before.

    conv2d_transpose(dequantize(x), dequantize(W))      →    the numerics' conv2d_transpose(x, W - zw)

uint8 weights minus their zero point may need nine bits, and are then int16. Depthwise kernels do not support nine bits:
such convolutions are computed in float32, which is exact for sums of few products.

A constant that is added to a sum becomes part of its offset.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax
from tvm.ir import Call, Expr, Var
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)

from relay_passes.integerize.context import Context, accumulator_dtype, integers
from relay_passes.integerize.numerics import Array, Quantization
from relay_passes.integerize.values import UNBOUNDED, Quantized, Sum, narrow, static_shape
from relay_passes.ir.sources import Names, sources_of, union
from schedules.diagnostic import Diagnostic


def centred(w: Quantized) -> npt.NDArray[np.integer[Any]]:
    """Return a constant minus its zero point, in the smallest of int8, int16 and int32 that holds it."""
    assert w.constant is not None
    if w.constant.dtype == np.int8 and not np.any(w.zero_point):
        return w.constant
    wide = w.constant.astype(np.int64) - w.zero_point
    fitting = (t for t in (np.int8, np.int16, np.int32) if _fits(wide, t))
    return np.asarray(wide.astype(next(fitting)))


def _fits(values: npt.NDArray[np.int64], dtype: type[np.integer[Any]]) -> bool:
    info = np.iinfo(dtype)
    return int(values.min(initial=0)) >= info.min and int(values.max(initial=0)) <= info.max


def centred_data(context: Context, x: Quantized, xq: Quantization, names: Names) -> Expr:
    """Emit data minus its zero point; return the data itself if the zero point is 0."""
    return widened(context, x, xq, wide_dtype(x), names) if xq.zero_point else x.value


def widened(context: Context, x: Quantized, xq: Quantization, dtype: str, names: Names) -> Expr:
    """Emit data minus its zero point, in a dtype that holds the difference."""
    wide = context.emit(R.astype(x.value, dtype), names)
    return context.emit(R.subtract(wide, relax.const(np.array(xq.zero_point, dtype))), names)


def wide_dtype(*tensors: Quantized) -> str:
    """Return the integer dtype that holds all given tensors minus their zero points."""
    return "int16" if max(x.magnitude for x in tensors) < math.ldexp(1, 8) else "int32"


_EXACT_IN_FLOAT = 2**24

_CONVOLUTIONS: dict[str, Callable[..., Call]] = {
    "relax.nn.conv1d": R.nn.conv1d,
    "relax.nn.conv2d": R.nn.conv2d,
    "relax.nn.conv3d": R.nn.conv3d,
}
_TRANSPOSED: dict[str, Callable[..., Call]] = {
    "relax.nn.conv1d_transpose": R.nn.conv1d_transpose,
    "relax.nn.conv2d_transpose": R.nn.conv2d_transpose,
    "relax.nn.conv3d_transpose": R.nn.conv3d_transpose,
}


def convolution(context: Context, call: Call) -> Sum | Diagnostic:
    """Return the accumulators of a convolution or a transposed convolution, or why there are none."""
    operands = _operands(context, call)
    if isinstance(operands, Diagnostic):
        return operands
    x, xq, w = operands
    weight = w.constant
    if weight is None:
        return _of_run_time(context, call, (x, xq), w)
    layout, kernel_layout = str(call.attrs.data_layout), str(call.attrs.kernel_layout)
    out_layout = str(call.attrs.out_layout or layout)
    out_axis = kernel_layout.index("O")
    scale = narrow(np.broadcast_to(w.scale, weight.shape))
    if scale.size != scale.shape[out_axis]:
        return Diagnostic.of("its weight's scale varies along another axis than the output channels")
    transposed = call.op.name in _TRANSPOSED
    groups = int(call.attrs.groups) if transposed else 1

    def per_channel(values: Array) -> Array:
        # The output channel axis of a transposed convolution's weights spans one group only.
        values = values if values.size == 1 else np.tile(values.reshape(-1), groups)
        return values.reshape([-1 if axis == "C" else 1 for axis in out_layout])

    weights = centred(w)
    others = tuple(axis for axis in range(weight.ndim) if axis != out_axis)
    taps = np.abs(weights, dtype=np.int64).sum(others)
    names = union((x.names, w.names, sources_of(call)))
    if transposed:
        offset = np.zeros((1,) * weight.ndim, np.int64)
        magnitude = int(taps.max(initial=0)) * xq.reach
        acc = _transposed(context, call, (x, xq), weights, accumulator_dtype(magnitude), names)
    else:
        offset = per_channel(-xq.zero_point * weights.sum(others, dtype=np.int64))
        magnitude = int(taps.max(initial=0)) * x.magnitude
        dtype = accumulator_dtype(magnitude)
        exact = _in_float(call, weights, magnitude)
        factors, of = (weights.astype(np.float32), "float32") if exact else (weights, dtype)
        data = context.emit(R.astype(x.value, "float32"), names) if exact else x.value
        acc = context.emit(convolved(context, call, data, xq.zero_point, factors, of, names), names)
        acc = context.emit(R.astype(acc, dtype), names) if exact else acc
    return Sum(
        value=acc,
        offset=offset,
        magnitude=magnitude,
        input_scale=xq.scale,
        weight_scale=per_channel(scale.astype(np.float32)),
        count=np.ones((1,) * len(out_layout), np.float32),
        bounds=UNBOUNDED,
        names=names,
        data_dtype=x.dtype,
    )


def _in_float(call: Call, weights: Array, magnitude: int) -> bool:
    """Whether a convolution is depthwise with nine-bit weights and sums that float32 represents exactly."""
    depth = weights.shape[str(call.attrs.kernel_layout).index("I")]
    return weights.dtype == np.int16 and depth == 1 < int(call.attrs.groups) and magnitude < _EXACT_IN_FLOAT


def _of_run_time(
    context: Context, call: Call, data: tuple[Quantized, Quantization], w: Quantized
) -> Sum | Diagnostic:
    """Return the accumulators of a convolution whose weights are computed at run time, or why there are none."""
    (x, xq), wq = data, w.per_tensor
    if call.op.name in _TRANSPOSED:
        return Diagnostic.of("its weight is not a constant")
    if wq is None:
        return Diagnostic.of("its weight is computed at run time and quantised per channel")
    names = union((x.names, w.names, sources_of(call)))
    taps = math.prod(w.shape) // w.shape[str(call.attrs.kernel_layout).index("O")]
    magnitude = taps * xq.reach * wq.reach
    wide = wide_dtype(x, w)
    operands = [widened(context, each, q, wide, names) for each, q in ((x, xq), (w, wq))]
    dtype = accumulator_dtype(magnitude)
    acc = context.emit(_CONVOLUTIONS[call.op.name](*operands, **_window(call), out_dtype=dtype), names)
    ones = np.ones((1,) * len(w.shape), np.float32)
    zeros = np.zeros(ones.shape, np.int64)
    return Sum(acc, zeros, magnitude, xq.scale, ones * w.scale, ones, UNBOUNDED, names, x.dtype)


def convolved(
    context: Context, call: Call, data: Expr, zero_point: int, weight: Array, dtype: str, names: Names
) -> Call:
    """Return a convolution of integers; padding is made explicit if the zero point is not 0."""
    window = _window(call)
    if zero_point and any(window["padding"]):
        data = padded(context, data, str(call.attrs.data_layout), window["padding"], zero_point, names)
        window["padding"] = [0] * len(window["padding"])
    return _CONVOLUTIONS[call.op.name](data, relax.const(weight), **window, out_dtype=dtype)


def _window(call: Call) -> dict[str, Any]:
    """Return the attributes of a convolution except the dtype of its result."""
    lists = {name: integers(getattr(call.attrs, name)) for name in ("strides", "padding", "dilation")}
    layouts = {
        name: str(getattr(call.attrs, name)) for name in ("data_layout", "kernel_layout", "out_layout")
    }
    return {**lists, **layouts, "groups": int(call.attrs.groups)}


def padded(context: Context, data: Expr, layout: str, padding: list[int], value: int, names: Names) -> Expr:
    """Emit a pad of the spatial axes; `padding` has the widths before all axes, then those after."""
    before, after = padding[: len(padding) // 2], padding[len(padding) // 2 :]
    spatial = iter(zip(before, after, strict=True))
    widths = [pair for axis in layout for pair in (next(spatial) if axis in "DHW" else (0, 0))]
    return context.emit(R.nn.pad(data, widths, pad_value=value), names)


def matmul(context: Context, call: Call) -> Sum | Diagnostic:
    """Return the accumulators of a matrix product, with constant or run-time weights, or why there are none."""
    a, b = (context.known(arg) for arg in call.args)
    if a is None or b is None:
        return Diagnostic.of("an operand is not quantised")
    aq = a.per_tensor
    if aq is None:
        return Diagnostic.of("its first operand is quantised per channel")
    if len(a.shape) < 2 or len(b.shape) < 2:
        return Diagnostic.of("an operand is a vector", "rank 2 and above", min(len(a.shape), len(b.shape)))
    scale = b.scale.reshape(()) if b.scale.size == 1 else narrow(np.broadcast_to(b.scale, b.shape))
    if scale.ndim and scale.shape[-2] != 1:
        return Diagnostic.of("its second operand's scale varies along the axis of the sum")
    names = union((a.names, b.names, sources_of(call)))
    rank = len(call.ty.shape)
    sums = np.zeros((1,) * rank, np.int64)
    if b.constant is not None:
        weight = centred(b)
        offset = sums - aq.zero_point * weight.sum(-2, dtype=np.int64, keepdims=True)
        magnitude = int(np.abs(weight, dtype=np.int64).sum(-2).max(initial=0)) * a.magnitude
        value = context.emit(
            R.matmul(a.value, relax.const(weight), out_dtype=accumulator_dtype(magnitude)), names
        )
    else:
        bq = b.per_tensor
        if bq is None:
            return Diagnostic.of("its second operand is computed at run time and quantised per channel")
        offset = sums
        magnitude = a.shape[-1] * aq.reach * bq.reach
        dtype = accumulator_dtype(magnitude)
        routine = context.numerics.matmul((a.shape, b.shape), aq, bq, dtype)
        value = context.call(routine, [a.value, b.value], call, dtype, names)
    ones = np.ones((1,) * rank, np.float32)
    return Sum(value, offset, magnitude, aq.scale, ones * scale, ones, UNBOUNDED, names, a.dtype)


def biased(context: Context, call: Call) -> Sum | None:
    """Return a sum whose offset includes an added constant; None if the addition is not of this form."""
    for data, other in (tuple(call.args), tuple(call.args)[::-1]):
        acc, bias = context.sums.get(data), context.constant(other)
        if acc is None or bias is None or acc.bounds != UNBOUNDED or (acc.count != 1).any():
            continue
        if static_shape(data) != static_shape(call):
            continue
        units = context.numerics.bias(bias, acc.input_scale, acc.weight_scale)
        known = context.known(other)
        names = union((acc.names, known.names if known else (), sources_of(call)))
        return replace(acc, offset=acc.offset + units, names=names)
    return None


def _operands(context: Context, call: Call) -> tuple[Quantized, Quantization, Quantized] | Diagnostic:
    x, w = (context.known(arg) for arg in call.args)
    if x is None:
        return Diagnostic.of("its input is not quantised")
    if w is None:
        return Diagnostic.of("its weight is not quantised")
    xq = x.per_tensor
    if xq is None:
        return Diagnostic.of("its input is quantised per channel")
    if not (str(call.attrs.data_layout) + str(call.attrs.kernel_layout)).isalpha():
        return Diagnostic.of("its layout is blocked", "one letter an axis", call.attrs.data_layout)
    return x, xq, w


def _transposed(
    context: Context,
    call: Call,
    data: tuple[Quantized, Quantization],
    weight: Array,
    dtype: str,
    names: Names,
) -> Var:
    (x, xq), attrs = data, call.attrs
    spatial = ("strides", "padding", "output_padding", "dilation")
    window = {name: tuple(integers(getattr(attrs, name))) for name in spatial}
    layouts = (str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout or attrs.data_layout))
    if layouts == ("NHWC", "OHWI", "NHWC"):
        window_and_groups = {**window, "groups": int(attrs.groups)}
        routine = context.numerics.conv2d_transpose(x.shape, xq, weight, window_and_groups, dtype)
        return context.call(routine, [x.value], call, dtype, names)
    acc = _TRANSPOSED[call.op.name](
        centred_data(context, x, xq, names),
        relax.const(weight),
        **{name: list(numbers) for name, numbers in window.items()},
        groups=int(attrs.groups),
        data_layout=str(attrs.data_layout),
        kernel_layout=str(attrs.kernel_layout),
        out_layout=str(attrs.out_layout),
        out_dtype=dtype,
    )
    return context.emit(acc, names)
