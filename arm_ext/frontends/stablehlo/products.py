# SPDX-License-Identifier: Apache-2.0
"""StableHLO's dot_general and convolution with any order of axes, in the layouts that the kernels support."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir.dialects import stablehlo
from tvm import relax
from tvm.ir import Expr

from arm_ext.common.errors import ModelError
from arm_ext.frontends.graph import Value
from arm_ext.frontends.stablehlo.attributes import ints, tensor_of
from arm_ext.frontends.stablehlo.rearrange import flipped, padded, result_shape
from arm_ext.frontends.stablehlo.translator import Convert, Translator

R = relax.op
_CONVOLUTIONS = {1: R.nn.conv1d, 2: R.nn.conv2d, 3: R.nn.conv3d}
_TRANSPOSED = {1: R.nn.conv1d_transpose, 2: R.nn.conv2d_transpose}


def _sizes(shape: Sequence[int], axes: Sequence[int]) -> list[int]:
    return [shape[axis] for axis in axes]


def _dot_general(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    d = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    return [
        _product(
            t,
            op,
            operands,
            (d.lhs_batching_dimensions, d.rhs_batching_dimensions),
            (d.lhs_contracting_dimensions, d.rhs_contracting_dimensions),
        )
    ]


def _dot(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    return [_product(t, op, operands, ([], []), ([len(operands[0].shape) - 1], [0]))]


def _product(
    t: Translator, op: Any, operands: Sequence[Value], batch: Sequence[Any], summed: Sequence[Any]
) -> Value:
    """Emit a product of [batch, left, k] and [batch, k, right].

    The operands are exchanged if that takes fewer transposes.
    """
    tensor = tensor_of(op.results[0].type)
    assert tensor is not None  # operators with other types have been refused earlier
    sides = [_Side(x, list(both), list(sums)) for x, both, sums in zip(operands, batch, summed, strict=True)]
    a, b = sides
    if sum(b.moves(a)) < sum(a.moves(b)) if a.batch else a.is_constant and not b.is_constant:
        y = _multiplied(t, b, a, tensor.dtype)
        lead, count = len(a.batch), len(tensor.shape)
        split = lead + len(b.free)
        y = t.permuted(y, [*range(lead), *range(split, count), *range(lead, split)])
    else:
        y = _multiplied(t, a, b, tensor.dtype)
    return Value(t, y, tensor.shape)


@dataclass(frozen=True)
class _Side:
    """An operand of a product, its batch axes and its contracted axes."""

    held: Value
    batch: list[int]
    summed: list[int]

    @property
    def free(self) -> list[int]:
        """The axes that are neither batch axes nor contracted axes."""
        return [axis for axis in range(len(self.held.shape)) if axis not in (*self.batch, *self.summed)]

    @property
    def is_constant(self) -> bool:
        return self.held.constant() is not None

    def moves(self, right: "_Side") -> tuple[bool, bool]:
        """Return whether this operand, as the left one, and `right`, as the right one, need a transpose."""
        orders = [*self.batch, *self.free, *self.summed], [*right.batch, *right.summed, *right.free]
        return orders[0] != sorted(orders[0]), orders[1] != sorted(orders[1])


def _multiplied(t: Translator, a: _Side, b: _Side, dtype: str) -> Expr:
    """Emit the product; its axes are the batch axes, then the left operand's free axes, then the right one's."""
    lead, rows = _sizes(a.held.shape, a.batch), _sizes(a.held.shape, a.free)
    columns, k = _sizes(b.held.shape, b.free), math.prod(_sizes(a.held.shape, a.summed))
    # Without batch axes, the left operand may have any number of axes.
    flat = [math.prod(rows)] if lead else rows or [1]
    x = t.reshaped(t.permuted(a.held.full, [*a.batch, *a.free, *a.summed]), [*lead, *flat, k])
    w = t.permuted(b.held.full, [*b.batch, *b.summed, *b.free])
    w = t.reshaped(w, [*lead, k, math.prod(columns)])
    y = t.emit(R.matmul(x, w, dtype if dtype != a.held.dtype else None))
    return t.reshaped(y, [*lead, *rows, *columns])


# Axes of batch, channels and space; for weights: of output channels, input channels and space.
Axes = tuple[int, int, list[int]]


@dataclass(frozen=True)
class _Convolution:
    """Parameters of a convolution; each tuple has one element per spatial axis.

    Attributes:
        strides: Elements from one window to the next.
        gaps: Distance of the data's elements: 1 if no zeros are inserted between them.
        dilation: Distance of the weights' elements.
        low: Zeros before the data.
        high: Zeros behind the data.
        groups: Groups of channels.
    """

    strides: tuple[int, ...]
    gaps: tuple[int, ...]
    dilation: tuple[int, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    groups: int


def _numbers(op: Any, rank: int) -> _Convolution:
    if rank not in _CONVOLUTIONS:
        raise ModelError(f"it has {rank} spatial axes; {', '.join(map(str, _CONVOLUTIONS))} are supported")
    if ints(op, "batch_group_count", (1,)) != (1,):
        raise ModelError(f"its batch_group_count is {ints(op, 'batch_group_count')[0]}; only 1 is supported")
    names = ("window_strides", "lhs_dilation", "rhs_dilation")
    strides, gaps, dilation = (ints(op, name, (1,) * rank) for name in names)
    pads = ints(op, "padding", (0,) * 2 * rank)
    (groups,) = ints(op, "feature_group_count", (1,))
    return _Convolution(strides, gaps, dilation, pads[0::2], pads[1::2], groups)


def _convolution(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    d = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    source = (d.input_batch_dimension, d.input_feature_dimension, list(d.input_spatial_dimensions))
    target = (d.output_batch_dimension, d.output_feature_dimension, list(d.output_spatial_dimensions))
    spatial = list(d.kernel_spatial_dimensions)
    kernel = (d.kernel_output_feature_dimension, d.kernel_input_feature_dimension, spatial)
    rank = len(spatial)
    c, (x, w) = _numbers(op, rank), (held.full for held in operands)
    if "window_reversal" in op.attributes:
        turned = [bool(turn) for turn in op.attributes["window_reversal"]]
        w = flipped(t, w, [axis for axis, turn in zip(spatial, turned, strict=True) if turn])
    taps = [int(w.ty.shape[axis]) for axis in spatial]
    margins = [tap - 1 - p for pair in (c.low, c.high) for tap, p in zip(taps, pair, strict=True)]
    plain = c.strides == c.dilation == (1,) * rank and c.groups == 1
    if plain and max(c.gaps) > 1 and min(margins) >= 0 and rank in _TRANSPOSED:
        y = _transposed_convolution(t, x, w, (source, kernel), c.gaps, margins)
        return [_ordered(t, y, (0, 1, list(range(2, rank + 2))), target, result_shape(op))]
    tensor = tensor_of(op.results[0].type)
    assert tensor is not None  # operators with other types have been refused earlier
    last = source[1] == rank + 1
    y = _direct_convolution(t, x, w, (source, kernel), c, last, tensor.dtype)
    order = (0, rank + 1, list(range(1, rank + 1))) if last else (0, 1, list(range(2, rank + 2)))
    return [_ordered(t, y, order, target, tensor.shape)]


def _direct_convolution(
    t: Translator, x: Expr, w: Expr, axes: tuple[Axes, Axes], c: _Convolution, last: bool, dtype: str
) -> Expr:
    """Emit a convolution of data in a channels-last or channels-first layout."""
    source, kernel = axes
    rank, low, high = len(c.strides), c.low, c.high
    # Relax's padding is not negative, and has no gaps between elements of the data: such padding is emitted before.
    if max(c.gaps) > 1 or min(*low, *high) < 0:
        before, behind, between = ([0] * (rank + 2) for _ in range(3))
        for k, axis in enumerate(source[2]):
            before[axis], behind[axis], between[axis] = low[k], high[k], c.gaps[k] - 1
        x, low, high = padded(t, x, 0, before, behind, between), (0,) * rank, (0,) * rank
    data_axes, layout = _layout(source, rank, last)
    kernel_axes, kernel_layout = _kernel(kernel, rank, last)
    return t.emit(
        _CONVOLUTIONS[rank](
            t.permuted(x, data_axes),
            t.permuted(w, kernel_axes),
            strides=list(c.strides),
            padding=[*low, *high],
            dilation=list(c.dilation),
            groups=c.groups,
            data_layout=layout,
            kernel_layout=kernel_layout,
            out_dtype=dtype,
        )
    )


def _layout(axes: Axes, rank: int, last: bool) -> tuple[list[int], str]:
    """Return the data's axes in the order of a layout, and the layout's name: channels last or channels first."""
    letters = "DHW"[-rank:]
    return ([axes[0], *axes[2], axes[1]], f"N{letters}C") if last else ([*axes[:2], *axes[2]], f"NC{letters}")


def _kernel(axes: Axes, rank: int, last: bool) -> tuple[list[int], str]:
    letters = "DHW"[-rank:]
    return ([axes[0], *axes[2], axes[1]], f"O{letters}I") if last else ([*axes[:2], *axes[2]], f"OI{letters}")


def _transposed_convolution(
    t: Translator,
    x: Expr,
    w: Expr,
    axes: tuple[Axes, Axes],
    strides: Sequence[int],
    margins: list[int],
) -> Expr:
    """Emit a convolution of data that has zeros between its elements as a transposed convolution, which skips them."""
    source, kernel = axes
    rank = len(strides)
    w = flipped(t, w, kernel[2])
    return t.emit(
        _TRANSPOSED[rank](
            t.permuted(x, [source[0], source[1], *source[2]]),
            t.permuted(w, [kernel[1], kernel[0], *kernel[2]]),
            strides=list(strides),
            padding=margins,
            data_layout="NC" + "HW"[-rank:],
            kernel_layout="IO" + "HW"[-rank:],
        )
    )


def _ordered(t: Translator, y: Expr, order: Axes, target: Axes, shape: Sequence[int]) -> Value:
    """Permute a result's axes to the order in which the model has them."""
    have = [order[0], order[1], *order[2]]
    want = [target[0], target[1], *target[2]]
    axes = [0] * len(have)
    for at, to in zip(have, want, strict=True):
        axes[to] = at
    return Value(t, t.permuted(y, axes), tuple(shape))


# Operator → its converter.
CONVERTERS: dict[str, Convert] = {
    "stablehlo.convolution": _convolution,
    "stablehlo.dot": _dot,
    "stablehlo.dot_general": _dot_general,
}
