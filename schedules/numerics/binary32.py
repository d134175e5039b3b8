# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of binary32 in numpy, for definitions that a compiled model equals bit for bit."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

Values = Array | np.floating[Any]
"""An array, or one number."""

MAGIC = 12582912.0
"""1.5 * 2**23: the binary32 numbers from 2**23 to 2**24 are the integers, so that its addition rounds half to even."""

MAGIC_BITS = 0x4B400000
"""The bits of `MAGIC`."""


def fma(a: Values, b: Values, c: Values) -> Array:
    """Return a * b + c of float32 values, rounded once.

    The sum in binary64 is rounded to odd, so that the second rounding, to binary32, is correct (Boldo and Melquiond,
    Emulation of FMA and correctly rounded sums, 2008).
    """
    with np.errstate(over="ignore", invalid="ignore"):
        product, addend = a.astype(np.float64) * b, c.astype(np.float64)  # the product is exact: 48 bits
        total = product + addend
        part = total - product
        error = (product - (total - part)) + (addend - part)
        bits = total.view(np.int64)
        step = np.where((error > 0) == (total > 0), 1, -1)
        inexact = (error != 0) & np.isfinite(total) & (bits % 2 == 0)
        odd: Array = np.where(inexact, bits + step, bits).view(np.float64)
        return odd.astype(np.float32)


def total(lanes: Array) -> Array:
    """Return the sums of four lanes, [..., 4], as kernels add them: (v0 + v1) + (v2 + v3)."""
    pairs = lanes[..., 0::2] + lanes[..., 1::2]
    sums: Array = pairs[..., 0] + pairs[..., 1]
    return sums
