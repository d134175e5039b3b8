# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions of one 8-bit tensor, as a table of 256 entries.

    table[q] = saturate(rne(fl(fl(f(fl((q - zx) * xs))) / ys)) + zy)

f is computed in binary64 and rounded to binary32 once. f(x) = x is a requantisation, such as of the inputs of a concat.
Results equal those of onnxruntime for LeakyRelu, Concat and requantisation; for other functions they differ by at most
one unit, where the last bits of f differ.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from tvm import te, tirx

from schedules.numerics.qdq.values import Array, Quantization, dequantize, every_value, limits, quantize
from schedules.numerics.routine import FUSED, Routine, routine

Real = Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]
"""An elementwise function in binary64."""


def table(function: Real, x: Quantization, y: Quantization) -> Array:
    """Compute the 256 entries of a function's table, in ascending order of q.

    Raises:
        ValueError: x is not of 8 bits, or f is NaN for some value.
    """
    with np.errstate(all="ignore"):  # overflowing values saturate
        values = function(dequantize(every_value(x.dtype), x).astype(np.float64))
        if np.isnan(values).any():
            raise ValueError("the function is NaN for some of the 256 values")
        return quantize(values.astype(np.float32), y)


def look_up(entries: Array, q: Array) -> Array:
    """Return the table entry of each value."""
    return np.asarray(entries[q.astype(np.int32) - limits(q.dtype.name)[0]])


def table_routine(shape: Sequence[int], dtype: str, entries: Array) -> Routine:
    """Return a routine that computes `look_up` for a shape; the table is its constant."""
    q = te.placeholder(shape, dtype, "q")
    values = te.placeholder(entries.shape, str(entries.dtype), "table")
    least = tirx.IntImm("int32", limits(dtype)[0])
    out = te.compute(shape, lambda *i: values(tirx.Cast("int32", q(*i)) - least), "look_up")
    return routine("qdq.table", [q, values, out], [entries], pattern=FUSED)
