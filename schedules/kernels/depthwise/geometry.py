# SPDX-License-Identifier: Apache-2.0
"""Loop structure of depthwise convolutions: channels in vectors, and two axes in patches of outputs.

Small kernels skip border inputs in separate code for each border; for larger kernels that code would be long, and the
data is copied with its border. If several output channels share an input channel, a copy repeats each element. If a
pixel has fewer channels than a vector has lanes, an output row is treated as one pixel of many channels: with a stride
of 1 the inputs of these are neighbours, too.

    y[w, c] = sum over k of x[w + k d, c] * w[k, c]    is    y[f] = sum over k of x[f + k d C] * w[k, f mod C]
"""

from dataclasses import dataclass, replace

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.composites.attributes import ConvolutionAttributes
from schedules.composites.workload import Workload
from schedules.kernels.common import copies
from schedules.kernels.common.contract import Array
from schedules.kernels.common.copies import REGISTER
from schedules.kernels.depthwise.axis_steps import SteppedAxis
from schedules.tir.emit import i64, load, store

Quad = tuple[int, int, int, int]


@dataclass(frozen=True)
class Depthwise:
    """Shapes and parameters of a depthwise convolution.

    Attributes:
        data: Shape of the data, [N, H, W, C].
        kernel: Numbers of rows and columns of the kernel.
        strides: Strides of rows and columns.
        dilation: Dilation of rows and columns.
        pads: Widths of the border: top, left, bottom, right.
        multiplier: Number of output channels per input channel.
    """

    data: Quad
    kernel: tuple[int, int]
    strides: tuple[int, int]
    dilation: tuple[int, int]
    pads: Quad
    multiplier: int = 1

    @property
    def axes(self) -> tuple[SteppedAxis, SteppedAxis]:
        """The row axis and the column axis, in steps of one output."""
        _, height, width, _ = self.data
        top, left, bottom, right = self.pads
        rows, columns = (
            SteppedAxis(size, self.kernel[i], self.strides[i], *border, 1, self.dilation[i])
            for i, (size, border) in enumerate(((height, (top, bottom)), (width, (left, right))))
        )
        return rows, columns


@dataclass(frozen=True)
class Field:
    """The loop structure of a depthwise convolution: axes, strides, and whether its data is copied first.

    Attributes:
        of: The depthwise convolution.
        down: The axis that is divided into bands of patches.
        across: The axis along which the patches of a band follow each other.
        channels: Number of contiguous channels, in the data as in the output.
        source: Strides of the data in elements: of images, and of inputs along `down` and `across`.
        target: Strides of the output in elements: of images, and of outputs along `down` and `across`.
        padded: Whether the data is copied with its border.
    """

    of: Depthwise
    down: SteppedAxis
    across: SteppedAxis
    channels: int
    source: tuple[int, int, int]
    target: tuple[int, int, int]
    padded: bool

    def cut(self, down: int, across: int) -> "Field":
        """Return a copy of this loop structure whose patches have `down` by `across` outputs."""
        return replace(self, down=replace(self.down, step=down), across=replace(self.across, step=across))

    def blocks(self, lanes: int) -> list[int]:
        """Return the first channel of each vector; the last vector may overlap the one before it."""
        return [min(start, self.channels - lanes) for start in range(0, self.channels, lanes)]

    def lanes_of(self, lanes: int) -> Array:
        """Return the output channel of each lane of each vector, [vectors, lanes]."""
        outputs = self.of.data[3] * self.of.multiplier
        return np.asarray((np.array(self.blocks(lanes))[:, None] + np.arange(lanes)) % outputs)

    @property
    def shape(self) -> Quad:
        """Shape of the data, with its border if `padded`, before channels are repeated."""
        images, height, width, channels = self.of.data
        top, left, bottom, right = self.of.pads if self.padded else (0, 0, 0, 0)
        return images, top + height + bottom, left + width + right, channels

    @property
    def copied(self) -> int:
        """Number of elements that padding and channel repetition write before the first product."""
        elements = int(np.prod(self.shape))
        repeated = elements * self.of.multiplier if self.of.multiplier > 1 else 0
        return repeated + (elements if self.padded else 0)


def field_of(
    of: Depthwise, lanes: int, *, transposed: bool = False, border: int = 0
) -> Field | tuple[str, str, str]:
    """Return the loop structure for vectors of `lanes` lanes, or why it is not supported (reason, limit, actual value).

    Args:
        of: The depthwise convolution.
        lanes: Number of lanes of a vector.
        transposed: Whether rows and columns exchange their roles, so that `down` is the column axis.
        border: Maximum extent of the kernel for which borders have separate code instead of a padded copy.
    """
    rows, columns = of.axes
    channels = of.data[3] * of.multiplier
    narrow = channels < lanes
    plain = max(rows.reach, columns.reach) <= border and of.multiplier == 1 and not narrow
    padded = any(of.pads) and not plain
    if padded:
        rows, columns = (
            replace(axis, size=axis.before + axis.size + axis.after, before=0, after=0)
            for axis in (rows, columns)
        )
    line = columns.size * channels
    source = (rows.size * line, line, channels)
    target = (rows.outputs * columns.outputs * channels, columns.outputs * channels, channels)
    if narrow and of.strides[1] > 1:
        return "too few channels", f"{lanes} or more, or stride 1", f"{channels}, stride {of.strides[1]}"
    if narrow:
        channels *= columns.outputs
        columns = replace(columns, size=columns.reach)
        if channels < lanes:
            return "too few elements in a row", f"{lanes} or more", str(channels)
    if transposed:
        rows, columns = columns, rows
        source, target = ((pitch[0], pitch[2], pitch[1]) for pitch in (source, target))
    return Field(of, rows, columns, channels, source, target, padded)


def prepared(x: tirx.Buffer, field: Field, border: float) -> tirx.Buffer:
    """Emit the padded or repeated copy of the data that `field` needs and return its buffer; `x` if none is needed."""
    if field.padded:
        top, left, bottom, right = field.of.pads
        widths = ((0, 0), (top, bottom), (left, right), (0, 0))
        x = copies.padded(x, field.of.data, widths, border)
    if field.of.multiplier > 1:
        x = _repeated(x, int(np.prod(field.shape)), field.of.multiplier)
    return x


def _repeated(source: tirx.Buffer, count: int, times: int) -> tirx.Buffer:
    """Emit a copy of a flat buffer in which each element occurs `times` times in succession."""
    lanes = REGISTER // np.dtype(str(source.dtype)).itemsize
    target = T.alloc_buffer((count * times,), source.dtype, scope="global", layout=None)

    def vector(at: ir.Expr, size: int) -> None:
        value = load(source, at, size)
        for part in range(times):
            order = [(part * size + lane) // times for lane in range(size)]
            repeated = value if size == 1 else tirx.Shuffle([value], order)
            store(target, repeated, at * times + part * size, size)

    whole = count // lanes
    if whole:
        with T.serial(i64(0), i64(whole)) as index:
            vector(T.Bind(index * lanes), lanes)
    for at, size in copies.pieces(count - whole * lanes, lanes):
        vector(i64(whole * lanes + at), size)
    return target


def is_depthwise(workload: Workload) -> bool:
    """Return whether a workload is a convolution in int8 of as many groups as channels."""
    if not workload.composite.startswith("arm.conv2d_s8"):
        return False
    return ConvolutionAttributes.of(workload).groups == workload.operands[0].shape[-1]
