# SPDX-License-Identifier: Apache-2.0
"""The numerics `qdq`: what integer convolutions and matrix products of CPU packages compute.

    m[c] = fl(fl(xs * ws[c]) / ys)
    q    = saturate(rne(fl(fl(acc) * m[c])) + zp)

fl() is one rounding to binary32 and rne() rounds half to even. The order is part of the definition: multiply, round,
then add the integer zero point, then saturate. onnxruntime's fused integer kernels and XNNPACK's convolution and
fully connected compute the same, bit for bit.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import ir, tirx

DTYPES = ("int8", "uint8", "int16", "uint16")
"""Dtypes whose limits, less a zero point, are exact in binary32."""


def multiplier(
    input_scale: npt.ArrayLike, weight_scale: npt.ArrayLike, output_scale: npt.ArrayLike
) -> npt.NDArray[np.float32]:
    """Requantisation multiplier: scales in float32, of any shapes that broadcast; two roundings to binary32."""
    product = np.asarray(input_scale, np.float32) * np.asarray(weight_scale, np.float32)
    return np.asarray(product / np.asarray(output_scale, np.float32), np.float32)


def requantize(acc: npt.NDArray[np.int32], m: npt.ArrayLike, zero_point: int, dtype: str) -> npt.NDArray[Any]:
    """Accumulators to quantised values, as defined above.

    Args:
        acc: int32 accumulators, bias included.
        m: float32 multipliers; broadcast against `acc`.
        zero_point: Of the output, within `dtype`.
        dtype: One of `DTYPES`.

    Raises:
        ValueError: Another dtype.
    """
    low, high = _limits(dtype)
    scaled = acc.astype(np.float32) * np.asarray(m, np.float32)
    # float64 holds the sum exactly, and an overflowed product saturates like any other.
    return np.clip(np.rint(scaled).astype(np.float64) + zero_point, low, high).astype(dtype)


def requantize_tir(acc: ir.Expr, m: ir.Expr, zero_point: int, dtype: str) -> ir.Expr:
    """`requantize` of one int32 accumulator by one float32 multiplier, as an expression.

    It saturates before it rounds: the limits are whole numbers, so both orders agree, and the conversion to int32
    cannot overflow. No float addition follows the multiply, so LLVM has nothing to contract into an FMA.

    Raises:
        ValueError: A dtype not in `DTYPES`.
    """
    low, high = _limits(dtype)
    scaled = tirx.Cast("float32", acc) * m
    least, most = (tirx.FloatImm("float32", limit - zero_point) for limit in (low, high))
    whole = tirx.nearbyint(tirx.max(tirx.min(scaled, most), least))
    return tirx.Cast(dtype, tirx.Cast("int32", whole) + tirx.IntImm("int32", zero_point))


def _limits(dtype: str) -> tuple[int, int]:
    if dtype not in DTYPES:
        raise ValueError(f"qdq requantises to {', '.join(DTYPES)}, not to {dtype}")
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)
