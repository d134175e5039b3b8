# SPDX-License-Identifier: Apache-2.0
"""StableHLO's slices with run-time start indices."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import Expr

from arm_ext.frontends.graph import Shape, Value
from arm_ext.frontends.stablehlo.attributes import ints
from arm_ext.frontends.stablehlo.loop_outputs import Stack, stacked
from arm_ext.frontends.stablehlo.rearrange import sliced
from arm_ext.frontends.stablehlo.translator import Convert, Translator

R = relax.op


def _start(t: Translator, start: Value, most: int) -> Expr | int:
    """Return the start of a window clamped to 0 … `most`: a number if it is constant, else a scalar expression."""
    number = start.scalar()
    if number is not None:
        return int(min(max(number, 0), most))
    return t.emit(R.clip(start.expr, 0, most))


def _dynamic_slice(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    x, *starts = operands
    sizes = ints(op, "slice_sizes")
    if not x.small:
        return [Value(t, x.expr, sizes)]
    begin = [_start(t, s, n - size) for s, n, size in zip(starts, x.shape, sizes, strict=True)]
    if (part := _part(x, begin, sizes)) is not None:
        return [Value(t, part, sizes)]
    data = x.full
    first = [b if isinstance(b, int) else 0 for b in begin]
    last = [b + size if isinstance(b, int) else n for b, size, n in zip(begin, sizes, x.shape, strict=True)]
    data = sliced(t, data, first, last)
    for axis, b in enumerate(begin):
        if not isinstance(b, int):
            data = t.emit(R.take(data, _counted(t, b, sizes[axis]), axis=axis))
    return [Value(t, data, sizes)]


def _part(x: Value, begin: Sequence[Expr | int], sizes: Shape) -> Expr | None:
    """Return a slice of the pieces that earlier iterations of an unrolled loop wrote.

    None if it reads other elements.
    """
    cut = [axis for axis, (n, size) in enumerate(zip(x.shape, sizes, strict=True)) if n != size]
    if not isinstance(x, Stack) or cut != [x.axis] or not isinstance(start := begin[x.axis], int):
        return None
    return x.part(start, start + sizes[x.axis])


def _counted(t: Translator, start: Expr, size: int) -> Expr:
    """Emit `start`, `start` + 1, …: `size` indices."""
    if size == 1:
        return t.reshaped(start, [1])
    return t.emit(R.add(start, relax.const(np.arange(size), str(start.ty.dtype))))


def _dynamic_update_slice(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    x, update, *starts = operands
    begin = [_start(t, s, n - m) for s, n, m in zip(starts, x.shape, update.shape, strict=True)]
    cut = [axis for axis, (n, m) in enumerate(zip(x.shape, update.shape, strict=True)) if n != m]
    if not cut:
        return [update]
    if len(cut) == 1 and isinstance(start := begin[cut[0]], int):
        return [stacked(t, x, cut[0]).replaced(start, update.full)]
    # Otherwise, each element is selected: from the update if its indices along all axes are in the window.
    inside: Expr | None = None
    new = update.full
    for axis in cut:
        size, b = update.shape[axis], begin[axis]
        scalar = relax.const(b, "int32") if isinstance(b, int) else b
        places = relax.const(np.arange(x.shape[axis]), str(scalar.ty.dtype))
        at = t.emit(R.subtract(places, scalar))
        within = t.emit(
            R.logical_and(
                t.emit(R.greater_equal(at, t.number(0, at))), t.emit(R.less(at, t.number(size, at)))
            )
        )
        if size > 1:
            new = t.emit(R.take(new, t.emit(R.clip(at, 0, size - 1)), axis=axis))
        within = t.reshaped(within, [x.shape[axis], *[1] * (len(x.shape) - axis - 1)])
        inside = within if inside is None else t.emit(R.logical_and(inside, within))
    return [Value(t, t.emit(R.where(inside, new, x.full)), x.shape)]


# Operator → its converter.
CONVERTERS: dict[str, Convert] = {
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": _dynamic_update_slice,
}
