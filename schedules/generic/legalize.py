# SPDX-License-Identifier: Apache-2.0
"""Plain loops of operators in layouts that TVM has none for."""

from collections.abc import Callable

from tvm import ir, relax, te, tirx

from schedules import transposed
from schedules.transposed import Geometry

_CONV2D_TRANSPOSE = "relax.nn.conv2d_transpose"
_LAYOUTS = ("NHWC", "OHWI")


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


LEGALIZE: dict[str, Callable[[relax.BlockBuilder, ir.Call], ir.Expr]] = {_CONV2D_TRANSPOSE: _conv2d_transpose}
"""For `relax.transform.LegalizeOps`: by operator."""
