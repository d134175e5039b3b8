# SPDX-License-Identifier: Apache-2.0
"""StableHLO's windowed reductions: pools, cumulative sums, and others."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import Expr

from arm_ext.common.errors import ModelError
from arm_ext.frontends.graph import Value
from arm_ext.frontends.stablehlo.attributes import ints
from arm_ext.frontends.stablehlo.rearrange import flipped, padded, result_shape, sliced
from arm_ext.frontends.stablehlo.reductions import (
    MAXIMUM,
    PRODUCT,
    SUM,
    Reducer,
    is_neutral,
    joined,
    reducer_for,
)
from arm_ext.frontends.stablehlo.translator import Convert, Translator

R = relax.op

# Maximum number of elements of a window, each of which becomes a call; larger windows occur only in pools.
_MAX_TAPS = 256


@dataclass(frozen=True)
class _Window:
    """The window of a reduction, with one number per axis in each field.

    Attributes:
        sizes: Number of elements that are reduced.
        strides: Elements from one window to the next.
        gaps: Distance of the data's elements: 1 if nothing is inserted between them.
        dilation: Distance of the elements of a window.
        low: Elements of padding before the data.
        high: Elements of padding behind the data.
    """

    sizes: Sequence[int]
    strides: Sequence[int]
    gaps: Sequence[int]
    dilation: Sequence[int]
    low: Sequence[int]
    high: Sequence[int]

    @property
    def moving(self) -> list[int]:
        """The axes along which the window has more than one element, a stride or padding."""
        plain = (1, 1, 1, 0, 0)
        numbers = zip(self.sizes, self.strides, self.gaps, self.low, self.high, strict=True)
        return [axis for axis, values in enumerate(numbers) if values != plain]


def _reduce_window(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    if len(operands) != 2:
        raise ModelError(f"it reduces {len(operands) // 2} tensors at once; only one is supported")
    x, initial = operands
    reducer, rank = reducer_for(op, x.dtype), len(x.shape)
    if not is_neutral(initial, reducer):
        raise ModelError(
            f"its initial value {initial.scalar()} changes the result; only the reducer's neutral element is supported"
        )
    pads = ints(op, "padding", (0,) * 2 * rank)
    names = ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
    sizes, strides, gaps, dilation = (ints(op, name, (1,) * rank) for name in names)
    w = _Window(sizes, strides, gaps, dilation, pads[0::2], pads[1::2])
    number = initial.scalar()
    assert number is not None  # it is neutral
    shape = result_shape(op)

    def windows(data: Expr) -> Expr:
        for way in (_cumulative, _pooled):
            if (y := way(t, data, w, reducer)) is not None:
                return y
        return _tapped(t, data, w, reducer, number, shape)

    return [Value(t, joined(t, x.full, windows), shape)]


def _cumulative(t: Translator, x: Expr, w: _Window, reducer: Reducer) -> Expr | None:
    """Emit a cumulative reduction, forward or backward; return None if the windows do not form one."""
    size = [int(n) for n in x.ty.shape]
    if len(w.moving) != 1:
        return None
    (axis,) = w.moving
    ahead, behind = (
        (w.low[axis], w.high[axis]) == (size[axis] - 1, 0),
        (w.low[axis], w.high[axis]) == (0, size[axis] - 1),
    )
    if w.sizes[axis] != size[axis] or w.strides[axis] != 1 or w.gaps[axis] != 1 or not (ahead or behind):
        return None
    if reducer not in (SUM, PRODUCT):
        return None
    data = x if ahead else flipped(t, x, [axis])
    y = t.emit((R.cumsum if reducer is SUM else R.cumprod)(data, axis))
    return y if ahead else flipped(t, y, [axis])


# Axes of an image in each of the two layouts.
_IMAGES = {"NHWC": (1, 2), "NCHW": (2, 3)}


def _pooled(t: Translator, x: Expr, w: _Window, reducer: Reducer) -> Expr | None:
    layout = next((name for name, axes in _IMAGES.items() if set(w.moving) <= set(axes)), None)
    is_float = np.dtype(str(x.ty.dtype)).kind == "f"
    if layout is None or len(w.sizes) != len(layout) or not w.moving or not is_float:
        return None
    if reducer not in (SUM, MAXIMUM) or max(w.gaps) > 1 or min(*w.low, *w.high) < 0:
        return None

    def pick(values: Sequence[int]) -> list[int]:
        return [values[axis] for axis in _IMAGES[layout]]

    reach = [d * (s - 1) for d, s in zip(pick(w.dilation), pick(w.sizes), strict=True)]
    if any(p > r for ends in (w.low, w.high) for p, r in zip(pick(ends), reach, strict=True)):
        return None
    options = {
        "pool_size": pick(w.sizes),
        "strides": pick(w.strides),
        "padding": [*pick(w.low), *pick(w.high)],
        "dilation": pick(w.dilation),
        "layout": layout,
    }
    if reducer is MAXIMUM:
        return R.nn.max_pool2d(x, **options)
    mean = t.emit(R.nn.avg_pool2d(x, count_include_pad=True, **options))
    return R.multiply(mean, t.number(math.prod(w.sizes), mean))


def _tapped(
    t: Translator, x: Expr, w: _Window, reducer: Reducer, number: float, shape: Sequence[int]
) -> Expr:
    """Emit the reduction of one strided slice for each position in the window."""
    if math.prod(w.sizes) > _MAX_TAPS:
        raise ModelError(
            f"its window of {list(w.sizes)} has more than {_MAX_TAPS} elements, and it is not a pool"
        )
    x = padded(t, x, number, w.low, w.high, [gap - 1 for gap in w.gaps])
    total: Expr | None = None
    for tap in itertools.product(*(range(size) for size in w.sizes)):
        start = [at * d for at, d in zip(tap, w.dilation, strict=True)]
        limit = [s + (n - 1) * step + 1 for s, n, step in zip(start, shape, w.strides, strict=True)]
        part = sliced(t, x, start, limit, w.strides)
        total = part if total is None else t.emit(reducer.join(total, part))
    return total


# Operator → its converter.
CONVERTERS: dict[str, Convert] = {"stablehlo.reduce_window": _reduce_window}
