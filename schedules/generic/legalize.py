# SPDX-License-Identifier: Apache-2.0
"""Plain loops of operators where TVM has none, or others that cost more."""

from collections.abc import Callable

from tvm import ir, relax, te, tirx

from schedules import transposed
from schedules.transposed import Geometry

_CONV2D_TRANSPOSE = "relax.nn.conv2d_transpose"
_LAYOUTS = ("NHWC", "OHWI")

_MAX_POOL2D = "relax.nn.max_pool2d"


def _conv2d_transpose(builder: relax.BlockBuilder, call: ir.Call) -> ir.Expr:
    """Channels last; TVM has NCHW."""
    attrs = call.attrs
    if (str(attrs.data_layout), str(attrs.kernel_layout)) != _LAYOUTS:
        return ir.Op.get(_CONV2D_TRANSPOSE).get_attr("FLegalize")(builder, call)
    x, w = call.args
    names = ("strides", "padding", "output_padding", "dilation")
    window = {name: tuple(int(number) for number in getattr(attrs, name)) for name in names}
    data, weights = (tuple(int(size) for size in tensor.ty.shape) for tensor in (x, w))
    geometry = Geometry(data, weights, **window, groups=int(attrs.groups))
    dtype = str(call.ty.dtype)

    def value(data: te.Tensor, kernel: te.Tensor) -> te.Tensor:
        return transposed.compute(data, kernel, geometry, dtype, lambda element: tirx.Cast(dtype, element))

    return builder.call_te(value, x, w, primfunc_name_hint="conv2d_transpose")


def _max_pool2d(builder: relax.BlockBuilder, call: ir.Call) -> ir.Expr:
    """TVM's, whose padded copy of the data ends where the last window does: strides may leave padding unread."""
    attrs, layout = call.attrs, str(call.attrs.layout)
    top, left, *after = (int(width) for width in attrs.padding)
    for at, (axis, before) in enumerate(zip("HW", (top, left), strict=True)):
        size, outputs = (int(tensor.ty.shape[layout.index(axis)]) for tensor in (call.args[0], call))
        taps, stride, dilation = (int(each[at]) for each in (attrs.pool_size, attrs.strides, attrs.dilation))
        read = (outputs - 1) * stride + (taps - 1) * dilation + 1
        after[at] = min(after[at], max(read - before - size, 0))
    same = {
        name: getattr(attrs, name) for name in ("pool_size", "strides", "dilation", "ceil_mode", "layout")
    }
    pool = relax.op.nn.max_pool2d(
        call.args[0], **same, padding=(top, left, *after), out_layout=attrs.out_layout
    )
    return ir.Op.get(_MAX_POOL2D).get_attr("FLegalize")(builder, builder.normalize(pool))


LEGALIZE: dict[str, Callable[[relax.BlockBuilder, ir.Call], ir.Expr]] = {
    _CONV2D_TRANSPOSE: _conv2d_transpose,
    _MAX_POOL2D: _max_pool2d,
}
"""For `relax.transform.LegalizeOps`: by operator."""
