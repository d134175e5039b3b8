# SPDX-License-Identifier: Apache-2.0
"""Geometry of a transposed convolution of data [N, H, W, C], and the ordinary convolutions that it decomposes into.

    y[n, oy, ox, o] = sum over ky, kx, i of x[n, iy, ix, i] * w[o, ky, kx, i] iy = (oy + top - ky * dilation) / stride,
    and ix alike, if both are integers inside of the data

A phase is the outputs with the same remainder modulo the stride. They use the same kernel taps, so that each phase is
an ordinary convolution of stride 1 by some taps of the kernel.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tvm import ir, te, tirx

from schedules.composites.attributes import encoded, numbers


@dataclass(frozen=True)
class OutputPhase:
    """The outputs along one axis, at distances of the stride, that are computed from the same kernel taps.

    Attributes:
        first: Index of the first output; the next one is a stride further.
        count: Number of outputs.
        taps: Kernel indices, in the order of the inputs that they multiply.
        start: Index of the input that the first tap multiplies for the first output; it may be outside of the data.
        step: Distance between the inputs of two consecutive taps.
    """

    first: int
    count: int
    taps: tuple[int, ...]
    start: int
    step: int

    @property
    def stop(self) -> int:
        """Index, in elements of the axis, after the last input that the phase reads."""
        return self.start + self.count + (len(self.taps) - 1) * self.step


@dataclass(frozen=True)
class SpatialAxis:
    """The parameters of a transposed convolution along one spatial axis.

    Attributes:
        size: Number of inputs.
        kernel: Number of taps.
        stride: Distance between the outputs of two consecutive inputs.
        dilation: Distance between the outputs of two consecutive taps.
        before: Number of outputs that are cropped at the start.
        outputs: Number of outputs.
    """

    size: int
    kernel: int
    stride: int
    dilation: int
    before: int
    outputs: int

    def phases(self) -> tuple[OutputPhase, ...]:
        """Return the phases of all outputs; a phase of outputs without any tap has empty `taps`."""
        found = []
        for first in range(min(self.stride, self.outputs)):
            at = first + self.before
            met = [tap for tap in range(self.kernel) if (at - tap * self.dilation) % self.stride == 0]
            taps = tuple(reversed(met))
            start = (at - taps[0] * self.dilation) // self.stride if taps else 0
            count = -(-(self.outputs - first) // self.stride)
            found.append(
                OutputPhase(first, count, taps, start, self.dilation // math.gcd(self.dilation, self.stride))
            )
        return tuple(found)

    def border(self) -> tuple[int, int]:
        """Return the numbers of zero inputs (before, after) the data that outputs read."""
        phases = [phase for phase in self.phases() if phase.taps]
        before = max((-phase.start for phase in phases), default=0)
        after = max((phase.stop - self.size for phase in phases), default=0)
        return max(before, 0), max(after, 0)


@dataclass(frozen=True)
class Geometry:
    """Shapes and parameters of a transposed convolution.

    Attributes:
        data: Shape of the data, [N, H, W, C].
        weights: Shape of the weights, [output channels of a group, kernel rows, kernel columns, input channels].
        strides: Strides of rows and columns.
        padding: Numbers of outputs that are cropped at top, left, bottom, right.
        output_padding: Numbers of rows added at the bottom and of columns added at the right.
        dilation: Dilation of rows and columns.
        groups: Number of groups of channels.
    """

    data: tuple[int, ...]
    weights: tuple[int, ...]
    strides: tuple[int, ...]
    padding: tuple[int, ...]
    output_padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @classmethod
    def read(cls, data: Sequence[int], weights: Sequence[int], attributes: Mapping[str, str]) -> "Geometry":
        """Return the geometry for given shapes and the attributes, as text, of a `relax.nn.conv2d_transpose`."""
        window = {
            name: numbers(attributes, name) for name in ("strides", "padding", "output_padding", "dilation")
        }
        return cls(tuple(data), tuple(weights), **window, groups=int(attributes["groups"]))

    @property
    def attributes(self) -> dict[str, str | int]:
        """The attributes as text, from which `read` parses them."""
        names = ("strides", "padding", "output_padding", "dilation")
        return {"groups": self.groups, **{name: encoded(getattr(self, name)) for name in names}}

    @property
    def axes(self) -> tuple[SpatialAxis, SpatialAxis]:
        """The row axis and the column axis."""
        rows, columns = (
            SpatialAxis(
                size,
                kernel,
                stride,
                dilation,
                self.padding[index],
                (size - 1) * stride
                - self.padding[index]
                - self.padding[index + 2]
                + (kernel - 1) * dilation
                + extra
                + 1,
            )
            for index, (size, kernel, stride, dilation, extra) in enumerate(
                zip(
                    self.data[1:3],
                    self.weights[1:3],
                    self.strides,
                    self.dilation,
                    self.output_padding,
                    strict=True,
                )
            )
        )
        return rows, columns

    @property
    def output(self) -> tuple[int, int, int, int]:
        """Shape of the result, [N, H, W, C]."""
        rows, columns = self.axes
        return self.data[0], rows.outputs, columns.outputs, self.weights[0] * self.groups


Read = Callable[[ir.Expr], ir.Expr]
"""Function from an element of the data to the expression that is multiplied by the weight, such as a cast."""


def compute(x: te.Tensor, w: te.Tensor, geometry: Geometry, dtype: str, read: Read) -> te.Tensor:
    """Build the TE expression of the sums, with loops over the taps from the last to the first.

    In this order no quotient has a loop variable that is subtracted: TVM's FlattenBuffer miscompiles (c - k) // d to k
    // -d + c // d.

    Args:
        x: Data, [N, H, W, C].
        w: Weights in the order of `Geometry.weights`.
        geometry: Geometry of `x` and `w`.
        dtype: Dtype of the sums.
        read: Converts an element of `x` to `dtype`; elements outside of the data are 0.
    """
    ky, kx = (
        te.reduce_axis((0, size), name)
        for size, name in zip(geometry.weights[1:3], ("ky", "kx"), strict=True)
    )
    depth, columns = geometry.data[3] // geometry.groups, geometry.weights[0]
    i = te.reduce_axis((0, depth), "i")

    def meets(axis: SpatialAxis, output: ir.Expr, back: ir.Expr) -> tuple[ir.Expr, ir.Expr]:
        """Return (index of an output's input at a tap, counted from the last tap, whether this input exists)."""
        at = output + (axis.before - (axis.kernel - 1) * axis.dilation) + back * axis.dilation
        place = tirx.floordiv(at, axis.stride)
        inside = tirx.all(at >= 0, place < axis.size)
        return place, inside if axis.stride == 1 else tirx.all(inside, tirx.floormod(at, axis.stride) == 0)

    def value(n: ir.Expr, oy: ir.Expr, ox: ir.Expr, o: ir.Expr) -> ir.Expr:
        (y, below), (z, beside) = (
            meets(axis, *at) for axis, at in zip(geometry.axes, ((oy, ky), (ox, kx)), strict=True)
        )
        channel = i if geometry.groups == 1 else tirx.floordiv(o, columns) * depth + i
        column = o if geometry.groups == 1 else tirx.floormod(o, columns)
        # The weights are indexed by the input channel among all groups.
        tap = (axis.kernel - 1 - back for axis, back in zip(geometry.axes, (ky, kx), strict=True))
        product = read(x(n, y, z, channel)) * tirx.Cast(dtype, w(column, *tap, channel))
        return te.sum(tirx.if_then_else(tirx.all(below, beside), product, tirx.const(0, dtype)), [ky, kx, i])

    return te.compute(geometry.output, value, "conv2d_transpose")
