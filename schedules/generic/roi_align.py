# SPDX-License-Identifier: Apache-2.0
"""Average RoiAlign with loops that terminate for every box, and a sum that is initialised.

A bin of a box is the average of grid x grid samples; grid = ceil(bin size) if the model does not set a ratio. In TVM's
loops the trip count is grid: for a box of infinite size they never end, and for an empty box the sum is not
initialised. Samples outside of the image are 0, so the loops here start with the first sample inside the image:

    sample k of a bin is at    start + (k + 0.5) size / grid,    size / grid > 1/2 if grid = ceil(size) > 1

so at most 2 H + 6 samples are read along an axis of H pixels. Boxes with more than 2^24 samples per bin, infinite boxes
and boxes with NaN have the average 0, since all but a negligible part of their samples is outside of the image.
"""

from dataclasses import dataclass

from tvm import ir, relax, te, tirx, topi

NAME = "relax.vision.roi_align"

_MOST_SAMPLES = 1 << 24
"""Largest number of samples along an axis of a bin: binary32 counts no further."""


@dataclass(frozen=True)
class _Samples:
    """The samples of a bin, along one axis, that may be inside the image.

    Attributes:
        grid: Number of all samples of the bin along the axis, as a float.
        first: Index of the first sample that is read, as a float.
        start: Coordinate of the start of the bin.
        size: Extent of the bin.
        axis: Loop over the samples that are read.
    """

    grid: ir.Expr
    first: ir.Expr
    start: ir.Expr
    size: ir.Expr
    axis: tirx.IterVar

    @property
    def index(self) -> ir.Expr:
        """Index of the current sample of the loop, as a float."""
        return self.first + tirx.Cast(str(self.first.ty.dtype), self.axis)

    @property
    def at(self) -> ir.Expr:
        """Coordinate of the current sample of the loop."""
        return self.start + (self.index + 0.5) * self.size / self.grid


def legalize(builder: relax.BlockBuilder, call: ir.Call) -> ir.Expr:
    """Legalise RoiAlign by averages; RoiAlign by maxima is legalised by TVM."""
    attrs = call.attrs
    if str(attrs.mode) != "avg" or str(attrs.layout) != "NCHW":
        return ir.Op.get(NAME).get_attr("FLegalize")(builder, call)

    def value(data: te.Tensor, rois: te.Tensor) -> te.Tensor:
        return _average(data, rois, attrs)

    return builder.call_te(value, *call.args, primfunc_name_hint="roi_align")


def _average(data: te.Tensor, rois: te.Tensor, attrs: ir.Attrs) -> te.Tensor:
    _, channels, height, width = data.shape
    out_height, out_width = (int(size) for size in attrs.pooled_size)
    shape = (rois.shape[0], channels, out_height, out_width)
    names = ("y", "x")

    def limit(box: ir.Expr, column: int) -> ir.Expr:
        return rois[box, column] * float(attrs.spatial_scale)

    def samples(box: ir.Expr, bins: tuple[ir.Expr, ir.Expr]) -> list[_Samples]:
        limits = (
            (limit(box, 2), limit(box, 4), height, out_height),
            (limit(box, 1), limit(box, 3), width, out_width),
        )
        return [
            _samples(name, bin_, low, high, size, count, attrs)
            for name, bin_, (low, high, size, count) in zip(names, bins, limits, strict=True)
        ]

    def total(box: ir.Expr, channel: ir.Expr, row: ir.Expr, column: ir.Expr) -> ir.Expr:
        y, x = samples(box, (row, column))
        sample = _sample(data, (tirx.Cast("int32", rois[box, 0]), channel), y.at, x.at)
        counted = tirx.all(*(each.index < each.grid for each in (y, x)))
        return te.sum(tirx.if_then_else(counted, sample, tirx.const(0, data.dtype)), axis=[y.axis, x.axis])

    totals = te.compute(shape, total, "totals")

    def average(box: ir.Expr, channel: ir.Expr, row: ir.Expr, column: ir.Expr) -> ir.Expr:
        y, x = samples(box, (row, column))
        count = tirx.max(tirx.Cast(data.dtype, y.grid * x.grid), tirx.const(1, data.dtype))
        return totals[box, channel, row, column] / count

    return te.compute(shape, average, "roi_align")


def _samples(
    name: str, bin_: ir.Expr, low: ir.Expr, high: ir.Expr, size: ir.Expr, bins: int, attrs: ir.Attrs
) -> _Samples:
    """Return the samples of a bin along an axis of `size` pixels.

    Args:
        name: Name of the loop.
        bin_: Index of the bin.
        low: Coordinate of the start of the box.
        high: Coordinate of the end of the box.
        size: Number of pixels of the image along the axis.
        bins: Number of bins along the axis.
        attrs: Attributes of the operator.
    """
    dtype = str(low.ty.dtype)

    def number(value: float) -> ir.Expr:
        return tirx.const(value, dtype)

    extent = high - low
    extent = extent if attrs.aligned else tirx.max(extent, number(1))
    each = extent / number(bins)
    start = low + tirx.Cast(dtype, bin_) * each
    if (ratio := int(attrs.sample_ratio)) > 0:
        return _Samples(number(ratio), number(0), start, each, te.reduce_axis((0, ratio), name))
    grid = tirx.ceil(each)
    is_counted = tirx.all(grid >= number(1), grid <= number(_MOST_SAMPLES))
    grid = tirx.if_then_else(is_counted, grid, number(0))
    # Start one sample earlier, because rounding may move a sample to the edge at -1.
    before = tirx.ceil((number(-1) - start) * grid / each - number(0.5)) - number(1)
    first = tirx.if_then_else(is_counted, tirx.max(tirx.min(before, grid), number(0)), number(0))
    most = tirx.Cast("int32", 2 * size + 6)
    read = tirx.min(tirx.max(tirx.Cast("int32", grid - first), 1), most)
    return _Samples(grid, first, start, each, te.reduce_axis((0, read), name))


def _sample(data: te.Tensor, image: tuple[ir.Expr, ir.Expr], y: ir.Expr, x: ir.Expr) -> ir.Expr:
    """Return the bilinear sample at (y, x): 0 outside of the image, the nearest pixel close to an edge."""
    limits = [int(size) for size in data.shape[2:]]
    is_outside = tirx.any(*(tirx.any(at < -1, at > size) for at, size in zip((y, x), limits, strict=True)))
    inside = [tirx.min(tirx.max(at, 0), size - 1) for at, size in zip((y, x), limits, strict=True)]
    value = topi.cpp.utils.bilinear_sample_nchw(data, (*image, *inside), limits[0] - 1, limits[1] - 1)
    return tirx.if_then_else(is_outside, tirx.const(0, data.dtype), value)
