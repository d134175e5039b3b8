# SPDX-License-Identifier: Apache-2.0
"""Products of float32 data by constant 4-bit weights with one scale per group of rows.

    y[m, n] = sum over k of x[m, k] * fl(q[k, n] * scale[k // group, n])        float32, in any order

q is from -8 to 7. A byte holds two rows in two's complement: the even row in its low four bits.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import te, tirx

from schedules.numerics.routine import PRODUCT, Routine, routine

Array = npt.NDArray[Any]

NAME = "float.linear_grouped"

LEAST, MOST = -8, 7
"""Range of the integers."""


def packed(integers: Array) -> Array:
    """Pack integers [K, N] of 4 bits into bytes, int8 [ceil(K / 2), N]."""
    padded = np.pad(integers.astype(np.int8), ((0, len(integers) % 2), (0, 0)))
    held: Array = np.bitwise_or(padded[::2] & 15, padded[1::2] << 4)
    return held


def unpacked(held: Array, depth: int) -> Array:
    """Unpack bytes to the integers, int8 [depth, N]."""
    rows: Array = np.stack([(held << 4) >> 4, held >> 4], axis=1).reshape(-1, held.shape[1])
    return rows[:depth]


def weights(held: Array, scales: Array, group: int, depth: int) -> Array:
    """Return the real weights, float32 [depth, N], of packed bytes and scales [groups, N]."""
    by_row = scales.take(np.arange(depth) // group, 0)
    floats: Array = unpacked(held, depth).astype(np.float32) * by_row
    return floats


def linear_grouped_routine(shape: Sequence[int], integers: Array, scales: Array, group: int) -> Routine:
    """Return a routine that computes the product.

    Args:
        shape: Shape of the data, [..., M, K].
        integers: Quantised weights [K, N], from LEAST to MOST.
        scales: float32 [ceil(K / group), N].
        group: Number of rows of the weights that share a scale.
    """
    held = packed(integers)
    x = te.placeholder(shape, "float32", "x")
    w = te.placeholder(held.shape, "int8", "w")
    scale = te.placeholder(scales.shape, "float32", "scale")
    k = te.reduce_axis((0, shape[-1]), "k")

    def value(*i: tirx.Var) -> tirx.Expr:
        *rows, column = i
        byte = tirx.Cast("int32", w(tirx.floordiv(k, 2), column))
        bits = (byte >> (4 * tirx.Cast("int32", tirx.floormod(k, 2)))) & 15
        # Sign-extend 4 bits without two shifts, which TVM would simplify as a product and a quotient.
        integer = (bits ^ 8) - 8
        weight = tirx.Cast("float32", integer) * scale(tirx.floordiv(k, group), column)
        return te.sum(x(*rows, k) * weight, axis=k)

    y = te.compute((*shape[:-1], held.shape[1]), value, "linear_grouped")
    return routine(NAME, [x, w, scale, y], [held, scales], pattern=PRODUCT, group=group)
