# SPDX-License-Identifier: Apache-2.0
"""The integers of a resize that interpolates; one that does not is a move."""

from tvm.ir import Call

from relay_passes.integerize.context import Context
from relay_passes.integerize.values import Quantized, Refusal, static_shape
from relay_passes.sources import Names

RESIZE = "image.resize2d"
_BILINEAR = "linear"


def interpolated(context: Context, call: Call, names: Names) -> Quantized | Refusal:
    """A bilinear resize of a quantised tensor, quantised as that one is."""
    x, attrs = context.known(call.args[0]), call.attrs
    quantization = None if x is None else x.per_tensor
    if x is None or quantization is None:
        return Refusal("its input is not quantised per tensor")
    if attrs.method != _BILINEAR:
        return Refusal("it interpolates otherwise than by neighbours", _BILINEAR, str(attrs.method))
    layout, mode = str(attrs.layout), str(attrs.coordinate_transformation_mode)
    shape = static_shape(call)
    size = [shape[layout.index(axis)] for axis in "HW"]
    try:
        routine = context.numerics.resize(x.shape, size, mode, quantization, layout)
    except ValueError as err:
        return Refusal(str(err))
    value = context.call(routine, [x.value], call, quantization.dtype, x.names, names)
    return Quantized(value, x.scale, x.zero_point, names)
