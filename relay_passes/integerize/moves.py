# SPDX-License-Identifier: Apache-2.0
"""Integer forms of operators that move or select elements, which commute with quantisation.

    move(dequantize(x))    →    dequantize(move(x))
    quantize(move(x))      →    move(quantize(x))

Quantisation is monotonic, so that the quantised maximum of values is the maximum of the quantised values. Padding uses
the quantised padding value. A resize moves elements only if it does not interpolate.

A resize that interpolates computes new values, by the `resize` of the numerics.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax
from tvm.ir import Call, Expr, GenericConst
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)

from relay_passes.integerize.context import Context, integers, operator
from relay_passes.integerize.numerics import Quantization
from relay_passes.integerize.values import Quantized, narrow, static_shape
from relay_passes.ir.sources import Names, sources_of
from schedules.diagnostic import Diagnostic

RESIZE = "image.resize2d"
_BILINEAR = "linear"


def interpolated(context: Context, call: Call, names: Names) -> Quantized | Diagnostic:
    """Return the bilinear resize of a quantised tensor, with the same scale and zero point."""
    x, attrs = context.known(call.args[0]), call.attrs
    quantization = None if x is None else x.per_tensor
    if x is None or quantization is None:
        return Diagnostic.of("its input is not quantised per tensor")
    if attrs.method != _BILINEAR:
        return Diagnostic.of("it interpolates otherwise than by neighbours", _BILINEAR, str(attrs.method))
    layout, mode = str(attrs.layout), str(attrs.coordinate_transformation_mode)
    shape = static_shape(call)
    size = [shape[layout.index(axis)] for axis in "HW"]
    try:
        routine = context.numerics.resize(x.shape, size, mode, quantization, layout)
    except ValueError as err:
        return Diagnostic.of(str(err))
    value = context.call(routine, [x.value], call, quantization.dtype, x.names, names)
    return Quantized(value, x.scale, x.zero_point, names)


# Operators that move the elements of argument 0; their other arguments and attributes are unchanged.
_PLAIN = (
    "batch_flatten",
    "broadcast_to",
    "dynamic_strided_slice",
    "expand_dims",
    "flatten",
    "flip",
    "gather_elements",
    "gather_nd",
    "max",
    "min",
    "nn.batch_flatten",
    "nn.max_pool1d",
    "nn.max_pool2d",
    "nn.max_pool3d",
    "nn.pixel_shuffle",
    "permute_dims",
    "repeat",
    "reshape",
    "split",
    "squeeze",
    "strided_slice",
    "take",
    "tile",
)
_RESHAPES = ("reshape", "squeeze", "expand_dims", "flatten", "nn.batch_flatten")


def is_move(call: Call) -> bool:
    """Whether a call only moves elements of its argument 0."""
    name = operator(call)
    return name in (*_PLAIN, "nn.pad") or (name == RESIZE and call.attrs.method == "nearest_neighbor")


def moved(context: Context, call: Call, data: Expr, to: Quantization, *names: Names) -> Expr | Diagnostic:
    """Emit `call` on integers with the quantisation `to`; for a split, return the tuple."""
    if operator(call) == "nn.pad" and call.attrs.pad_mode == "constant":
        value = np.float32(call.attrs.pad_value)
        q = int(context.numerics.quantize(value, to))
        return context.emit(R.nn.pad(data, integers(call.attrs.pad_width), pad_value=q), *names)
    further = list(call.args[1:])
    if operator(call) == "take" and not isinstance(further[0], GenericConst):
        # An index is less than the length of the axis, which fits 32 bits.
        dtype = context.numerics.index_dtype
        if str(further[0].ty.dtype) != dtype:
            further[0] = context.emit(R.astype(further[0], dtype), *names)
    return context.emit(Call(call.op, [data, *further], call.attrs, call.ty_args), *names)


def commuted(context: Context, call: Call) -> Quantized | None:
    """Return the quantised result of a move of a quantised tensor; None if the operand is not quantised."""
    x = context.known(call.args[0])
    if x is None:
        return None
    if x.constant is not None:
        return _constant(call, x)
    quantization = x.per_tensor
    if quantization is None or not _keeps(context, call, quantization):
        return None
    value = moved(context, call, x.value, quantization, x.names, sources_of(call))
    return None if isinstance(value, Diagnostic) else Quantized(value, x.scale, x.zero_point, ())


def joined(context: Context, call: Call) -> Quantized | None:
    """Return the quantised result of a concatenation of tensors with equal scale and zero point; None for others."""
    parts = [context.known(field) for field in _fields(context, call)]
    known = [part for part in parts if part is not None]
    alike = {part.per_tensor for part in known}
    if len(known) < len(parts) or len(alike) != 1 or None in alike:
        return None
    names = (*(part.names for part in known), sources_of(call))
    value = context.emit(R.concat([part.value for part in known], call.attrs.axis), *names)
    return Quantized(value, known[0].scale, known[0].zero_point, ())


def _fields(context: Context, call: Call) -> list[Expr]:
    fields = call.args[0]
    return list(fields.fields) if isinstance(fields, relax.Tuple) else []


def fields(context: Context, call: Call) -> list[Expr]:
    """Return the tensors that a concatenation joins; none if the call's argument is no tuple expression."""
    return _fields(context, call)


def _keeps(context: Context, call: Call, quantization: Quantization) -> bool:
    """Whether the padding value, if there is one, can be represented exactly in the quantisation."""
    if operator(call) != "nn.pad" or call.attrs.pad_mode != "constant":
        return True
    value = float(np.float32(call.attrs.pad_value))
    q = int(context.numerics.quantize(value, quantization))
    return (q - quantization.zero_point) * quantization.scale == value


def _constant(call: Call, x: Quantized) -> Quantized | None:
    """Return a constant moved together with its scales; None for moves that importers do not emit for weights."""
    assert x.constant is not None
    arrays: tuple[npt.NDArray[Any], ...] = (x.constant, x.scale, x.zero_point)
    whole = [np.broadcast_to(array, x.constant.shape) for array in arrays]
    name = operator(call)
    if name in _RESHAPES:
        shape = static_shape(call)
        whole = [array.reshape(shape) for array in whole]
    elif name == "permute_dims":
        axes = None if call.attrs.axes is None else integers(call.attrs.axes)
        whole = [array.transpose(axes) for array in whole]
    elif name == "broadcast_to":
        whole = [np.broadcast_to(array, static_shape(call)) for array in whole]
    else:
        return None
    value, scale, zero_point = (np.asarray(array, order="C") for array in whole)
    return Quantized(relax.const(value), narrow(scale), narrow(zero_point), x.names)
