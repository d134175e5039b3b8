# SPDX-License-Identifier: Apache-2.0
"""Legalisations of Relax operators for which TVM has none, or has loops that cost more."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tvm import ir, relax, te, tirx

from schedules.composites import transposed_convolution
from schedules.composites.transposed_convolution import Geometry
from schedules.generic import scatter

_CONV2D_TRANSPOSE = "relax.nn.conv2d_transpose"
_LAYOUTS = ("NHWC", "OHWI")

_MAX_POOL2D = "relax.nn.max_pool2d"

_MATMUL = "relax.matmul"
_HALF = "float16"

_NARROW = 3
"""Most taps along an axis of a narrow window: LLVM unrolls the loops over so few, and computes their offsets once for
all channels."""


def _conv2d_transpose(builder: relax.BlockBuilder, call: ir.Call) -> ir.Expr:
    """Legalise a transposed convolution in NHWC, for which TVM has no loops; leave other layouts to TVM."""
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
        return transposed_convolution.compute(
            data, kernel, geometry, dtype, lambda element: tirx.Cast(dtype, element)
        )

    return builder.call_te(value, x, w, primfunc_name_hint="conv2d_transpose")


@dataclass(frozen=True)
class _Windows:
    """Position of a pool's windows along one axis."""

    size: int
    outputs: int
    taps: int
    stride: int
    dilation: int
    before: int

    @property
    def after(self) -> int:
        """Padding behind the data that some window reads."""
        last = (self.outputs - 1) * self.stride + (self.taps - 1) * self.dilation - self.before
        return max(last + 1 - self.size, 0)

    @property
    def holds_what_is_nearest(self) -> bool:
        """Whether each window that reaches over an edge contains the element at that edge.

        Reading that element in place of the border then changes no maximum.
        """
        meets = self.taps > self.before and (self.outputs - 1) * self.stride < self.before + self.size
        return (meets and self.dilation == 1) or not (self.before or self.after)

    def nearest(self, output: ir.Expr, tap: ir.Expr) -> ir.Expr:
        """Return the index that a tap of a window reads, clamped to the data."""
        at = output * self.stride + tap * self.dilation - self.before
        at = tirx.max(at, 0) if self.before else at
        return tirx.min(at, self.size - 1) if self.after else at


def _max_pool2d(builder: relax.BlockBuilder, call: ir.Call) -> ir.Expr:
    """Legalise max pooling without a padded copy of the data if windows are narrow and strided.

    There, a window that reaches over an edge reads the element at the edge again. Other pools are legalised by TVM,
    with a padded copy that ends where the last window does.
    """
    attrs, layout = call.attrs, str(call.attrs.layout)
    axes = {
        axis: _Windows(
            *(int(tensor.ty.shape[layout.index(axis)]) for tensor in (call.args[0], call)),
            *(int(each[at]) for each in (attrs.pool_size, attrs.strides, attrs.dilation, attrs.padding)),
        )
        for at, axis in enumerate("HW")
    }
    # Otherwise looking for what is nearest takes more instructions than a copy, counted: where windows are wide, or
    # TVM's loops over columns and channels become one.
    cheap = layout[-1] == "C" and axes["W"].stride > 1 and all(axis.taps <= _NARROW for axis in axes.values())
    if cheap and all(axis.holds_what_is_nearest for axis in axes.values()):
        return _max_pool2d_of_nearest(builder, call, axes)
    padding = [*(axis.before for axis in axes.values()), *(axis.after for axis in axes.values())]
    window = {name: getattr(attrs, name) for name in ("pool_size", "strides", "dilation")}
    pool = relax.op.nn.max_pool2d(
        call.args[0], **window, padding=padding, layout=layout, out_layout=attrs.out_layout
    )
    return ir.Op.get(_MAX_POOL2D).get_attr("FLegalize")(builder, builder.normalize(pool))


def _max_pool2d_of_nearest(
    builder: relax.BlockBuilder, call: ir.Call, axes: Mapping[str, _Windows]
) -> ir.Expr:
    taps = {name: te.reduce_axis((0, axis.taps), f"tap_{name.lower()}") for name, axis in axes.items()}

    def value(data: te.Tensor) -> te.Tensor:
        def most(*output: ir.Expr) -> ir.Expr:
            places = zip(str(call.attrs.layout), output, strict=True)
            read = [axes[name].nearest(at, taps[name]) if name in axes else at for name, at in places]
            return te.max(data(*read), [*taps.values()])

        return te.compute(call.ty.shape, most, "max_pool2d")

    return builder.call_te(value, call.args[0], primfunc_name_hint="max_pool2d")


def _matmul(builder: relax.BlockBuilder, call: ir.Call) -> ir.Expr:
    """Legalise a matmul, with sums of binary16 in binary32 that are rounded once.

    A sum in binary16 loses its small terms: one of ones stops growing at 2048.
    """
    legalize = ir.Op.get(_MATMUL).get_attr("FLegalize")
    if str(call.ty.dtype) != _HALF:
        return legalize(builder, call)
    product = builder.normalize(relax.op.matmul(*call.args, out_dtype="float32"))
    full = builder.emit(legalize(builder, product))
    rounded = builder.normalize(relax.op.astype(full, _HALF))
    return rounded.op.get_attr("FLegalize")(builder, rounded)


LEGALIZE: dict[str, Callable[[relax.BlockBuilder, ir.Call], ir.Expr]] = {
    _CONV2D_TRANSPOSE: _conv2d_transpose,
    _MATMUL: _matmul,
    _MAX_POOL2D: _max_pool2d,
    "relax.scatter_elements": scatter.scatter_elements,
    "relax.scatter_nd": scatter.scatter_nd,
}
"""Operator → its legalisation, for `relax.transform.LegalizeOps`."""
