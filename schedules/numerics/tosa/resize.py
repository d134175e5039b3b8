# SPDX-License-Identifier: Apache-2.0
"""Bilinear resize of an 8-bit image, which keeps its scale and zero point: RESIZE, then RESCALE.

    y, v  = divmod(i * d + offset, n)        for output row i; x, w likewise for its column
    total = (n - v) * (n' - w) * q[y, x]     + (n - v) * w * q[y, x + 1]
          +      v  * (n' - w) * q[y + 1, x] +      v  * w * q[y + 1, x + 1]
    q     = rescale(total, 1 / (n * n'))

n, d and offset are the parameters of the row axis, n' is n of the column axis; pixels outside of the image equal the
nearest pixel at its edge. The coordinate modes define, for an axis of `size` pixels that is resized to `out` pixels,

    half_pixel       n / d = out / size                offset = (d - n) / 2; n and d doubled if it is no integer
    asymmetric       n / d = out / size                offset = 0
    align_corners    n / d = (out - 1) / (size - 1)    offset = 0

in lowest terms. pytorch_half_pixel is half_pixel, except that an output of a single pixel has the first pixel's value.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import ir, te, tirx

from schedules.numerics.qdq.values import TABLE_DTYPES, Array, Quantization, limits
from schedules.numerics.routine import Routine, routine
from schedules.numerics.tosa.rescale import rescale, rescale_tir, scale_of

MODES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
"""Names in Relax of the ways to find where an output lies."""

MAX_UNITS = 1 << 11
"""Upper limit of n (TOSA 1.0, RESIZE), which also keeps sums of 8-bit values within int32."""


@dataclass(frozen=True)
class ResizeAxis:
    """The parameters of RESIZE along one axis.

    Attributes:
        size: Number of pixels of the image.
        out: Number of pixels of the result.
        n: Number of units of distance between two input pixels.
        d: Number of units between two output pixels.
        offset: Offset of the first output from the first input pixel, in units of 1 / n pixel.
    """

    size: int
    out: int
    n: int
    d: int
    offset: int

    @property
    def border(self) -> int:
        """Distance of the last output from the last input pixel, in units of 1 / n pixel."""
        return (self.out - 1) * self.d - (self.size - 1) * self.n + self.offset


def axis_of(mode: str, size: int, out: int) -> ResizeAxis:
    """Return RESIZE's parameters for a coordinate mode and sizes in pixels.

    Raises:
        ValueError: The mode is not one of `MODES`, or n would exceed `MAX_UNITS`.
    """
    if mode not in MODES:
        raise ValueError(f"RESIZE supports the coordinates {', '.join(MODES)}, not {mode}")
    n, d = (out - 1, size - 1) if mode == "align_corners" else (out, size)
    half = mode == "half_pixel" or (mode == "pytorch_half_pixel" and out > 1)
    if size == 1:
        n, d, half = out, 1, False
    elif out == 1 and not half:
        n, d = 1, size
    common = math.gcd(n, d)
    n, d = n // common, d // common
    if half and (d - n) % 2:
        n, d = 2 * n, 2 * d
    if n > MAX_UNITS:
        raise ValueError(f"from {size} to {out} pixels, n is {n}; RESIZE allows at most {MAX_UNITS}")
    return ResizeAxis(size, out, n, d, (d - n) // 2 if half else 0)


def resize(q: Array, rows: ResizeAxis, columns: ResizeAxis) -> Array:
    """Compute the bilinear resize of q [N, H, W, C] by the module's definition."""
    wide = _interpolated(_interpolated(q.astype(np.int64), rows, 1), columns, 2)
    scale = scale_of(1 / (rows.n * columns.n))
    return np.asarray(rescale(wide, scale.multiplier, scale.shift).astype(q.dtype))


def _interpolated(value: npt.NDArray[np.int64], axis: ResizeAxis, at: int) -> npt.NDArray[np.int64]:
    whole, part = np.divmod(np.arange(axis.out) * axis.d + axis.offset, axis.n)
    part = part.reshape(-1, *[1] * (value.ndim - at - 1))
    before, after = (value.take(np.clip(whole + i, 0, axis.size - 1), at) for i in (0, 1))
    return np.asarray(before * (axis.n - part) + after * part)


def resize_routine(
    shape: Sequence[int], size: Sequence[int], mode: str, x: Quantization, layout: str = "NHWC"
) -> Routine:
    """Return a routine that computes `resize` to a size (rows, columns).

    Its attributes are layout and, with the prefixes y_ and x_, n, d, offset and border of rows and columns.

    Raises:
        ValueError: x is not of 8 bits, the layout is not "NHWC" or "NCHW", or for the reasons of `axis_of`.
    """
    if x.dtype not in TABLE_DTYPES:
        raise ValueError(f"bilinear resize is defined for {', '.join(TABLE_DTYPES)} and not for {x.dtype}")
    if layout not in ("NHWC", "NCHW"):
        raise ValueError(f"bilinear resize is defined for NHWC and NCHW and not for {layout}")
    at = [layout.index(name) for name in "HW"]
    rows, columns = (axis_of(mode, shape[a], out) for a, out in zip(at, size, strict=True))
    q = te.placeholder(shape, x.dtype, "q")
    dtype = _total_dtype(x, rows.n * columns.n)

    def value(*i: tirx.Var) -> ir.Expr:
        y, x_ = (_taps(axis, i[a], dtype) for axis, a in zip((rows, columns), at, strict=True))

        def pixel(row: ir.Expr, column: ir.Expr) -> ir.Expr:
            where: list[ir.Expr] = list(i)
            where[at[0]], where[at[1]] = row, column
            return tirx.Cast(dtype, q(*where))

        above, below = (
            pixel(row, x_.before) * x_.near + pixel(row, x_.after) * x_.far for row in (y.before, y.after)
        )
        return _rounded(above * y.near + below * y.far, rows.n * columns.n, x.dtype)

    result = list(shape)
    result[at[0]], result[at[1]] = size
    out = te.compute(result, value, "resize")
    parameters: dict[str, Any] = {
        f"{prefix}_{name}": getattr(axis, name)
        for prefix, axis in (("y", rows), ("x", columns))
        for name in ("n", "d", "offset", "border")
    }
    return routine("tosa.resize", [q, out], [], layout=layout, **parameters)


@dataclass(frozen=True)
class _Taps:
    """The interpolation of an output along one axis: the pixels before and after it, and their weights."""

    before: ir.Expr
    after: ir.Expr
    near: ir.Expr
    far: ir.Expr


def _taps(axis: ResizeAxis, i: tirx.Var, dtype: str) -> _Taps:
    at = i * axis.d + axis.offset
    whole = tirx.floordiv(at, axis.n)
    last = tirx.IntImm(i.ty.dtype, axis.size - 1)
    before = tirx.max(tirx.min(whole, last), tirx.IntImm(i.ty.dtype, 0))
    after = tirx.max(tirx.min(whole + 1, last), tirx.IntImm(i.ty.dtype, 0))
    far = tirx.Cast(dtype, tirx.floormod(at, axis.n))
    return _Taps(before, after, tirx.IntImm(dtype, axis.n) - far, far)


def _total_dtype(x: Quantization, units: int) -> str:
    """Return the dtype that holds the weighted sums plus the addend of rounding."""
    low, high = limits(x.dtype)
    info = np.iinfo(np.int16)
    return "int16" if low * units >= info.min and high * units <= info.max else "int32"


def _rounded(total: ir.Expr, units: int, dtype: str) -> ir.Expr:
    """Emit RESCALE of a total by 1 / units; the result, a mean of 8-bit values, needs no saturation."""
    if units == 1:
        return tirx.Cast(dtype, total)
    if _is_power(units):
        # (total * 2**30 + 2**(29 + bits)) >> (30 + bits)
        kind = total.ty.dtype
        half = tirx.IntImm(kind, units // 2)
        return tirx.Cast(dtype, tirx.shift_right(total + half, tirx.IntImm(kind, units.bit_length() - 1)))
    scale = scale_of(1 / units)
    return tirx.Cast(dtype, rescale_tir(total, scale.multiplier, scale.shift))


def _is_power(units: int) -> bool:
    return units & (units - 1) == 0
