# SPDX-License-Identifier: Apache-2.0
"""Quantisation and dequantisation of single values in the numerics `qdq`.

    quantize(r)   = saturate(rne(fl(r / s)) + zp)
    dequantize(q) = fl((q - zp) * s)

q - zp is exact in binary32, so that both round to binary32 once.
"""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from tvm import ir, tirx

DTYPES = ("int8", "uint8", "int16", "uint16")
"""Dtypes whose limits, less a zero point, are exact in binary32."""

TABLE_DTYPES = ("int8", "uint8")
"""Dtypes whose values a table of 256 entries can hold."""

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float32]
Bounds = tuple[float | None, float | None]
"""Real limits of an absorbed relu or clip; None where there is none."""


class Quantization(Protocol):
    """A per-tensor quantisation: real = (q - zero_point) * scale."""

    @property
    def scale(self) -> float:
        """The scale, exact in binary32."""

    @property
    def zero_point(self) -> int:
        """The quantised value of 0."""

    @property
    def dtype(self) -> str:
        """Dtype of the quantised values; one of `DTYPES`."""


def limits(dtype: str) -> tuple[int, int]:
    """Return the minimum and maximum of `dtype`.

    Raises:
        ValueError: The dtype is not in `DTYPES`.
    """
    if dtype not in DTYPES:
        raise ValueError(f"qdq requantises to {', '.join(DTYPES)}, not to {dtype}")
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def every_value(dtype: str) -> Array:
    """Return the 256 values of an 8-bit dtype in ascending order, which is the order of table entries.

    Raises:
        ValueError: The dtype is not in `TABLE_DTYPES`.
    """
    if dtype not in TABLE_DTYPES:
        raise ValueError(f"a table has 256 entries, for {', '.join(TABLE_DTYPES)} and not for {dtype}")
    low, high = limits(dtype)
    return np.arange(low, high + 1, dtype=np.int32).astype(dtype)


def dequantize(q: Array, x: Quantization) -> Floats:
    """Dequantise values to binary32: fl((q - zp) * s)."""
    return np.asarray((q.astype(np.int32) - x.zero_point).astype(np.float32) * np.float32(x.scale))


def quantize(real: npt.ArrayLike, y: Quantization) -> Array:
    """Quantise real numbers: saturate(rne(fl(r / s)) + zp)."""
    return saturate(
        np.asarray(real, np.float32) / np.float32(y.scale), y.zero_point, *limits(y.dtype), y.dtype
    )


def saturate(scaled: Floats, zero_point: int, low: int, high: int, dtype: str) -> Array:
    """Round half to even, add the zero point, then clamp to [low, high] and cast."""
    # The sum is exact in float64, and an infinite quotient saturates like any other number.
    return np.clip(np.rint(scaled).astype(np.float64) + zero_point, low, high).astype(dtype)


def integer_bounds(y: Quantization, bounds: Bounds) -> tuple[int, int]:
    """Return the quantised limits of y, narrowed by the quantised real limits of a clamp.

    Quantisation is monotonic, so that a clamp after it equals a clamp before it.
    """
    low, high = limits(y.dtype)
    least, most = bounds
    return (
        low if least is None else int(quantize(least, y)),
        high if most is None else int(quantize(most, y)),
    )


def f32(value: float) -> ir.Expr:
    """Return a float32 immediate."""
    return tirx.FloatImm("float32", float(np.float32(value)))


def dequantize_tir(q: ir.Expr, x: Quantization) -> ir.Expr:
    """Return the TIR expression of `dequantize` for one value."""
    centred = tirx.Cast("int32", q) - tirx.IntImm("int32", x.zero_point)
    return tirx.Cast("float32", centred) * f32(x.scale)


def saturate_tir(scaled: ir.Expr, zero_point: int, low: int, high: int, dtype: str) -> ir.Expr:
    """Return the TIR expression of `saturate` for one binary32 number.

    It saturates before it rounds. The limits are integers, so both orders give the same result, and the conversion to
    int32 cannot overflow. No float addition follows, so LLVM cannot contract one into an FMA.
    """
    least, most = f32(low - zero_point), f32(high - zero_point)
    whole = tirx.nearbyint(tirx.max(tirx.min(scaled, most), least))
    return tirx.Cast(dtype, tirx.Cast("int32", whole) + tirx.IntImm("int32", zero_point))
