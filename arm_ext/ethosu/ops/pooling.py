# SPDX-License-Identifier: Apache-2.0
"""2D pooling: AVG_POOL2D and MAX_POOL2D.

AVG_POOL2D takes averages whose result has the data's scale, and excludes padding from the divisor. Any other average is
a convolution by ones, or a sum over axes. Averages arrive as sums with a requantisation, in which `average_of` finds
them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import tosa_serializer as ts
from tvm.ir import Call

from arm_ext.ethosu.ops.common.constraint import (
    EARLIER,
    MEASURED,
    SUPPORTED_OPS,
    TOSA,
    Constraint,
    at_most,
    change,
)
from arm_ext.ethosu.ops.common.contract import Operation, Quirks, of_relax
from arm_ext.ethosu.ops.common.operators import Operator, RunTimeTensor
from arm_ext.ethosu.ops.common.reading import Array, Reader, integers
from arm_ext.ethosu.ops.common.sums import AccumulatorRescale, PendingSum, SumAttributes
from arm_ext.ethosu.ops.common.windows import MAX_STRIDE, Window, Windowed, of_windows, over_images
from arm_ext.ethosu.tosa.common import IGNORE_NAN, clamped, reshaped, sliced, unsliced
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor
from schedules.numerics.tosa.requantize import divisors

MAX_ROWS, MAX_AREA = 256, 1 << 16
"""Limits of a pool's window on every Ethos-U: height, and height * width (Vela 5.2, SUPPORTED_OPS.md)."""

MAX_PADDED = 8
"""Largest height and width of the window of an average with padding (Vela 5.2, SUPPORTED_OPS.md)."""


@dataclass(frozen=True, kw_only=True)
class Pool(Windowed):
    """Attributes of a pool.

    Attributes:
        ceil_mode: Whether the output size is rounded up, so that the last window may end beyond the padding.
    """

    ceil_mode: bool = False


@dataclass(frozen=True, kw_only=True)
class AveragePool(Pool, SumAttributes):
    """Attributes of an average whose result has the scale of its data.

    Attributes:
        input_zero_point: Zero point of the data.
    """

    input_zero_point: int

    def zero_points(
        self, inputs: Sequence[RunTimeTensor], output: RunTimeTensor
    ) -> Sequence[tuple[RunTimeTensor, int]]:
        """Return the data with its zero point, and the result with its own."""
        return (inputs[0], self.input_zero_point), (output, self.requantization.zero_point)


def average_of(total: PendingSum, bias: Array, multiplier: Array) -> PendingSum:
    """Return a sum as an average pool if its requantisation makes it one, else the sum itself.

    Args:
        total: A convolution by ones, or a sum over rows and columns; any other sum is returned.
        bias: The constant that the graph adds to it, which an average pool's zero point must account for.
        multiplier: Multiplier of the requantisation.
    """
    window = total.window
    if window is None or _counts_padding(window, multiplier):
        return total
    zero, first = -int(bias.flat[0]) // math.prod(window.kernel), total.channels_first

    def attributes(requantization: AccumulatorRescale) -> AveragePool:
        return AveragePool(
            window=window, input_zero_point=zero, channels_first=first, requantization=requantization
        )

    return replace(total, kind="average_pool2d", attributes=attributes)


def _counts_padding(window: Window, multiplier: Array) -> bool:
    """Whether an average divides by the size of the complete window even where part of it is padding."""
    if not any(window.padding):
        return False
    whole, _ = divisors(np.array([math.prod(window.kernel)], np.float32))
    return bool((multiplier == whole).all())


def _max_pool(call: Call, _: Reader) -> Pool:
    kernel, strides, dilation, padding = (
        tuple(integers(each))
        for each in (call.attrs.pool_size, call.attrs.strides, call.attrs.dilation, call.attrs.padding)
    )
    return Pool(
        window=Window(kernel, strides, dilation, padding),
        ceil_mode=bool(call.attrs.ceil_mode),
        channels_first=str(call.attrs.layout) == "NCHW",
    )


def _stride(operator: Operator[Pool]) -> int:
    """Return the largest stride along axes with several windows; 1 if there is only one window."""
    sizes, window = operator.inputs[0].shape[1:3], operator.attributes.window
    steps = zip(sizes, window.kernel, window.strides, strict=True)
    return max((stride for size, taps, stride in steps if taps < size), default=1)


def _padded_stride(operator: Operator[Pool]) -> int:
    """Return the largest stride of a pool with padding or ceil mode; 1 for other pools."""
    given = operator.attributes
    return _stride(operator) if any(given.window.padding) or given.ceil_mode else 1


def _padded_kernel(operator: Operator[AveragePool]) -> int:
    """Return the longer side of the window of a padded pool; 0 if there is no padding."""
    window = operator.attributes.window
    return max(window.kernel) if any(window.padding) else 0


_OF_POOLS: tuple[Constraint[Pool], ...] = (
    *of_windows(MAX_ROWS, MAX_AREA),
    Constraint(
        "its stride is too great", f"at most {MAX_STRIDE}, but for a window as large as the data", _stride,
        at_most(MAX_STRIDE), "a smaller stride", SUPPORTED_OPS, EARLIER,
    ),
    Constraint(
        "its stride is too great for windows that are padded", f"at most {MAX_STRIDE}", _padded_stride,
        at_most(MAX_STRIDE), "no padding, or a smaller stride", MEASURED, ("u85",),
    ),
)  # fmt: skip
_KEEPS_TYPE: Constraint[AveragePool] = Constraint(
    "its result has another type than its data", "one type", change, lambda pair: pair[0] == pair[1],
    "quantise both alike", TOSA,
)  # fmt: skip
_PADDED: Constraint[AveragePool] = Constraint(
    "its padded window is too large", f"at most {MAX_PADDED} by {MAX_PADDED}", _padded_kernel, at_most(MAX_PADDED),
    "no padding, or a smaller window", SUPPORTED_OPS, EARLIER,
)  # fmt: skip
_UNDILATED: Constraint[Pool] = Constraint(
    "TOSA's pool is not dilated", "(1, 1)", lambda op: op.attributes.window.dilation,
    lambda dilation: dilation == (1, 1), "no dilation", TOSA,
)  # fmt: skip


def emit_maximum(graph: TosaGraph, operator: Operator[Pool], data: TosaTensor) -> TosaTensor:
    """Emit MAX_POOL2D."""
    window = operator.attributes.window

    def pooled(images: TosaTensor) -> TosaTensor:
        out = (images.shape[0], *operator.output.shape[1:])
        kept, padding = _windows(graph, images, out[1:3], window)
        kernel, strides = list(window.kernel), list(window.strides)
        return graph.add(ts.Op.MAX_POOL2D, [kept], out, kept.dtype, kernel, strides, padding, IGNORE_NAN)

    return over_images(graph, data, window.padding, pooled)


def emit_average(graph: TosaGraph, operator: Operator[AveragePool], data: TosaTensor) -> TosaTensor:
    """Emit AVG_POOL2D."""
    padding = operator.attributes.window.padding
    return over_images(graph, data, padding, lambda images: _average(graph, operator, images))


def _average(graph: TosaGraph, operator: Operator[AveragePool], data: TosaTensor) -> TosaTensor:
    given, own = operator.attributes, operator.attributes.requantization
    window = given.window
    out = tuple(
        (size + before + after - taps) // stride + 1
        for size, (before, after), taps, stride in zip(
            data.shape[1:3], window.sides, window.kernel, window.strides, strict=True
        )
    )
    data, padding = _windows(graph, data, out, window)
    zeros = [graph.scalar(given.input_zero_point, data.dtype), graph.scalar(own.zero_point, data.dtype)]
    shape, steps = (data.shape[0], *out, data.shape[3]), (list(window.kernel), list(window.strides))
    pooled = graph.add(ts.Op.AVG_POOL2D, [data, *zeros], shape, data.dtype, *steps, padding, ts.DType.INT32)
    clipped = clamped(graph, pooled, own.low, own.high)
    return reshaped(graph, clipped, (data.shape[0], *operator.output.shape[1:]))


def _windows(
    graph: TosaGraph, data: TosaTensor, out: Sequence[int], window: Window
) -> tuple[TosaTensor, list[int]]:
    """Return the data without trailing rows and columns that no window reaches, and the padding in TOSA's order."""
    size, padding = list(data.shape), []
    for axis in (0, 1):
        before, _ = window.sides[axis]
        reach = (out[axis] - 1) * window.strides[axis] + window.kernel[axis] - before
        after = reach - data.shape[1 + axis]
        size[1 + axis] += min(after, 0)
        padding += [before, max(after, 0)]
    kept = sliced(graph, data, [0] * len(size), size)
    # Vela 5.2 splits a pool with larger strides into several, which read a slice of a tensor as if it were the
    # whole.
    return unsliced(graph, kept) if max(window.strides) > MAX_STRIDE else kept, padding


AVERAGE: Operation[AveragePool] = Operation(
    kinds=("average_pool2d",),
    constraints=(_KEEPS_TYPE, _PADDED, *_OF_POOLS),
    emit=emit_average,
    quirks=Quirks(reads_slices=True),
)
MAXIMUM: Operation[Pool] = Operation(
    kinds=("nn.max_pool2d",),
    patterns={"nn.max_pool2d": of_relax("nn.max_pool2d", _max_pool)},
    constraints=(*_OF_POOLS, _UNDILATED),
    emit=emit_maximum,
    quirks=Quirks(reads_slices=True),
)
