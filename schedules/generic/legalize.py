# SPDX-License-Identifier: Apache-2.0
"""Legalisations of Relax operators that TVM does not legalise, or legalises to slower loops."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm import ir, relax, te, tirx, topi

from schedules.composites import transposed_convolution
from schedules.composites.transposed_convolution import Geometry
from schedules.generic import roi_align, scatter

_CONV2D_TRANSPOSE = "relax.nn.conv2d_transpose"
_LAYOUTS = ("NHWC", "OHWI")

_MATMUL = "relax.matmul"
_HALF = "float16"

_NARROW = 3
"""Most taps along an axis of a narrow window: LLVM unrolls the loops over so few, and computes their offsets once for
all channels."""

# Wrapped in a lambda, because TVM inspects the Python signature of a function, which its built-in operators lack.
_GREATEST_FLOAT = te.comm_reducer(
    lambda a, b: tirx.max(a, b), lambda dtype: tirx.const(-math.inf, dtype), "max"
)


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
class _PoolWindowAxis:
    """The windows of a pooling operator along one axis."""

    size: int
    outputs: int
    taps: int
    stride: int
    dilation: int
    before: int

    @property
    def after(self) -> int:
        """Padding behind the data that windows read."""
        last = (self.outputs - 1) * self.stride + (self.taps - 1) * self.dilation - self.before
        return max(last + 1 - self.size, 0)

    @property
    def holds_what_is_nearest(self) -> bool:
        """Whether each window that extends past an edge of the data contains the element at this edge.

        Then reading this element instead of the border does not change the maximum.
        """
        meets = self.taps > self.before and (self.outputs - 1) * self.stride < self.before + self.size
        return (meets and self.dilation == 1) or not (self.before or self.after)

    def padded(self, output: ir.Expr, tap: ir.Expr) -> ir.Expr:
        """Return the index in the padded data that tap `tap` of window `output` reads."""
        return output * self.stride + tap * self.dilation

    def nearest(self, output: ir.Expr, tap: ir.Expr) -> ir.Expr:
        """Return the index in the data that tap `tap` of window `output` reads, clamped to the data."""
        at = output * self.stride + tap * self.dilation - self.before
        at = tirx.max(at, 0) if self.before else at
        return tirx.min(at, self.size - 1) if self.after else at


def _max_pool(builder: relax.BlockBuilder, call: ir.Call) -> ir.Expr:
    """Legalise max pooling; narrow and strided windows need no padded copy of the data.

    Such windows read the element at an edge again instead of the border. Other pools read a padded copy that ends with
    the last window. The initial value for floats is -infinity. TVM's initial value is the minimum finite number, which
    it returns for a window of -infinities.
    """
    attrs, layout = call.attrs, str(call.attrs.layout)
    spatial = [axis for axis in "DHW" if axis in layout]
    sizes = [[tensor.ty.shape[layout.index(axis)] for tensor in (call.args[0], call)] for axis in spatial]
    if not all(isinstance(size, tirx.IntImm) for pair in sizes for size in pair):
        return call.op.get_attr("FLegalize")(builder, call)
    axes = {
        axis: _PoolWindowAxis(
            *map(int, sizes[at]),
            *(int(each[at]) for each in (attrs.pool_size, attrs.strides, attrs.dilation, attrs.padding)),
        )
        for at, axis in enumerate(spatial)
    }
    # Reading the nearest element instead of a padded copy saves instructions (counted) only in these cases, not with
    # wide windows, or if TVM fuses the loops over columns and channels.
    cheap = layout[-1] == "C" and axes["W"].stride > 1 and all(axis.taps <= _NARROW for axis in axes.values())
    reads_nearest = cheap and all(axis.holds_what_is_nearest for axis in axes.values())
    taps = {name: te.reduce_axis((0, axis.taps), f"tap_{name.lower()}") for name, axis in axes.items()}
    greatest = _GREATEST_FLOAT if "float" in str(call.ty.dtype) else te.max

    def value(data: te.Tensor) -> te.Tensor:
        def at(name: str, output: ir.Expr) -> ir.Expr:
            if name not in axes:
                return output
            axis = axes[name]
            return axis.nearest(output, taps[name]) if reads_nearest else axis.padded(output, taps[name])

        def most(*output: ir.Expr) -> ir.Expr:
            return greatest(data(*map(at, layout, output)), [*taps.values()])

        if not reads_nearest:
            data = _padded(data, [axes.get(name) for name in layout])
        return te.compute(call.ty.shape, most, "max_pool")

    return builder.call_te(value, call.args[0], primfunc_name_hint=call.op.name.rpartition(".")[2])


def _padded(data: te.Tensor, axes: Sequence[_PoolWindowAxis | None]) -> te.Tensor:
    """Return a copy padded with the minimum of the dtype; the data itself if no window extends past an edge."""
    before, after = ([getattr(axis, side) if axis else 0 for axis in axes] for side in ("before", "after"))
    if not any(before + after):
        return data
    dtype = str(data.dtype)
    border = tirx.const(-math.inf, dtype) if "float" in dtype else tirx.min_value(dtype)
    return topi.nn.pad(data, before, after, border)


def _matmul(builder: relax.BlockBuilder, call: ir.Call) -> ir.Expr:
    """Legalise a matmul; float16 products are summed in float32, and the result is rounded once.

    A sum in float16 loses small terms: a sum of ones stops growing at 2048.
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
    **{f"relax.nn.max_pool{rank}d": _max_pool for rank in (1, 2, 3)},
    roi_align.NAME: roi_align.legalize,
    "relax.scatter_elements": scatter.scatter_elements,
    "relax.scatter_nd": scatter.scatter_nd,
}
"""Operator → its legalisation, for `relax.transform.LegalizeOps`."""
