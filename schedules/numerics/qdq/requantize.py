# SPDX-License-Identifier: Apache-2.0
"""Requantisation of the integer accumulators of convolutions, matrix products, sums and averages.

    m[c] = fl(fl(xs * ws[c]) / fl(ys * n))
    q    = saturate(rne(fl(fl(acc) * m[c])) + zp)

xs and ws are the scales of data and weights (ws = 1 for a sum), and n is the divisor of an average (else 1). relu,
relu6 and clip become limits of the saturation. The fused integer kernels and the global average pool of onnxruntime,
and convolution and fully connected of XNNPACK give the same bits.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import ir, te, tirx

from schedules.numerics.qdq.values import (
    Array,
    Bounds,
    Floats,
    Quantization,
    integer_bounds,
    limits,
    saturate,
    saturate_tir,
)
from schedules.numerics.routine import Routine, broadcast, routine


def multiplier(
    input_scale: npt.ArrayLike,
    weight_scale: npt.ArrayLike,
    output_scale: npt.ArrayLike,
    count: npt.ArrayLike = 1,
) -> Floats:
    """Compute the requantisation multiplier, each step rounded to binary32; the arguments broadcast."""
    product = np.asarray(input_scale, np.float32) * np.asarray(weight_scale, np.float32)
    divisor = np.asarray(output_scale, np.float32) * np.asarray(count, np.float32)
    return np.asarray(product / divisor, np.float32)


def requantize(
    acc: npt.NDArray[np.integer[Any]],
    m: npt.ArrayLike,
    zero_point: int,
    dtype: str,
    bounds: tuple[int, int] | None = None,
) -> Array:
    """Requantise accumulators by the module's definition.

    Args:
        acc: int32 or int64 accumulators, bias included.
        m: float32 multipliers; broadcast against `acc`.
        zero_point: Zero point of the output, within `dtype`.
        dtype: One of `DTYPES`.
        bounds: Minimum and maximum of the result, if narrower than those of `dtype`.

    Raises:
        ValueError: A dtype not in `DTYPES`.
    """
    low, high = bounds or limits(dtype)
    return saturate(acc.astype(np.float32) * np.asarray(m, np.float32), zero_point, low, high, dtype)


def requantize_tir(
    acc: ir.Expr, m: ir.Expr, zero_point: int, dtype: str, bounds: tuple[int, int] | None = None
) -> ir.Expr:
    """Return the TIR expression of `requantize` for one accumulator and one float32 multiplier.

    Raises:
        ValueError: A dtype not in `DTYPES`.
    """
    low, high = bounds or limits(dtype)
    return saturate_tir(tirx.Cast("float32", acc) * m, zero_point, low, high, dtype)


def requantize_routine(
    shape: Sequence[int], dtype: str, m: Floats, y: Quantization, bounds: Bounds
) -> Routine:
    """Return a routine that computes `requantize`; the multipliers, of the accumulators' rank, are its constant."""
    low, high = integer_bounds(y, bounds)
    acc = te.placeholder(shape, dtype, "acc")
    scale = te.placeholder(m.shape, "float32", "multiplier")
    out = te.compute(
        shape,
        lambda *i: requantize_tir(acc(*i), broadcast(scale, shape, i), y.zero_point, y.dtype, (low, high)),
        "requantize",
    )
    return routine(
        "qdq.requantize",
        [acc, scale, out],
        [m],
        zero_point=y.zero_point,
        low=low,
        high=high,
        output_dtype=y.dtype,
    )
