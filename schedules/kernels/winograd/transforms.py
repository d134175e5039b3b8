# SPDX-License-Identifier: Apache-2.0
"""Winograd's minimal filtering F(m x m, 3 x 3): transforms of weights in float64, and of data as vector code.

    Y = A^T [ (G w G^T) * (B^T d B) ] A        * is elementwise, summed over the channels

sqrt(1/2) and +-sqrt(2), whose product is 1: its errors are a quarter of those of +-1 and +-2. The interpolation points
of an axis are 0, pairs +-a, and infinity (Lavin and Gray, arXiv 1509.09308): for m = 2, +-1; for m = 4, +-sqrt(1/2) and
+-sqrt(2), whose product is 1, and which give a quarter of the errors of +-1 and +-2. +-sqrt(1/2) and +-sqrt(2), whose
product is 1: its errors are a quarter of those of +-1 and +-2.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from tvm import ir
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.pin import barrier
from schedules.intrinsics.vector_f32 import Vector
from schedules.kernels.common.contract import Array

TAPS = 3
"""Rows and columns of the kernel."""

_A, _B = math.sqrt(0.5), math.sqrt(2)
_PAIRS = {2: (1.0,), 4: (_A, _B)}

INPUT_OPERATIONS = {2: 4, 4: 12}
"""Instructions of the data's transform of one line, by m."""

OUTPUT_OPERATIONS = {2: 4, 4: 13}
"""Instructions of the result's transform of one line, by m."""

READS = {2: 16, 4: 60}
"""Vectors that either transform of a tile reads, by m: 6 x 6 of them twice, a line less each time."""

_BLOCK = 1 << 13
"""Weights per tap that are transformed at a time: with what is computed of them, 1 MB of float64."""

Line = Callable[[Sequence[ir.Expr]], list[ir.Expr]]


@dataclass(frozen=True)
class Transform:
    """The transform F(m x m, 3 x 3).

    Attributes:
        outputs: m, 2 or 4.
    """

    outputs: int

    @property
    def size(self) -> int:
        """Number of inputs in a row or column of a tile: m + 2."""
        return self.outputs + TAPS - 1

    @property
    def input_parts(self) -> tuple[Sequence[int], ...]:
        """Rows of B^T d B, divided into parts whose intermediate values fit the registers."""
        return (range(self.size),) if self.outputs == 2 else (range(3), range(3, 6))

    @property
    def output_parts(self) -> tuple[Sequence[int], ...]:
        """Rows of A^T m A, divided into parts; for m = 4, rows computed from sums, and rows from differences."""
        return (range(self.outputs),) if self.outputs == 2 else ((0, 2), (1, 3))

    @property
    def points(self) -> tuple[float, ...]:
        """The finite interpolation points; infinity is another point."""
        return (0.0, *(sign * point for point in _PAIRS[self.outputs] for sign in (1, -1)))

    @property
    def a(self) -> Array:
        """A, float64 [size, outputs]."""
        powers = [[point**i for i in range(self.outputs)] for point in self.points]
        return np.array([*powers, [0.0] * (self.outputs - 1) + [1.0]])

    @property
    def b(self) -> Array:
        """B, float64 [size, size]: a column holds the coefficients of a polynomial that is 0 at all other points."""
        others = [[q for q in self.points if q != point] for point in self.points]
        rows = [np.append(np.poly(roots)[::-1], 0.0) for roots in others]
        return np.array([*rows, np.poly(self.points)[::-1]]).T

    @property
    def g(self) -> Array:
        """G, float64 [size, 3]."""
        weights = [math.prod(point - q for q in self.points if q != point) for point in self.points]
        powers = [
            [point**i / weight for i in range(TAPS)]
            for point, weight in zip(self.points, weights, strict=True)
        ]
        return np.array([*powers, [0.0, 0.0, 1.0]])

    def weights(self, w: Array) -> Array:
        """Transform weights float32 [O, 3, 3, I] to [size * size, I, O], computed in float64 and rounded once.

        Element-wise products are summed, because their bits, unlike those of a BLAS, are the same on every machine. A
        few output channels are computed at a time, so that they stay in caches.
        """
        count, _, _, channels = w.shape
        u = np.empty((self.size, self.size, channels, count), np.float32)
        block = max(1, _BLOCK // channels)
        for start in range(0, count, block):
            part = w[start : start + block].astype(np.float64)
            for i, of_rows in enumerate(self.g):
                row = _sum(of_rows, part.swapaxes(0, 1))
                for j, of_columns in enumerate(self.g):
                    u[i, j, :, start : start + block] = _sum(of_columns, row.swapaxes(0, 1)).T
        return u.reshape(self.size**2, channels, count)

    def input_line(self, d: Sequence[ir.Expr]) -> list[ir.Expr]:
        """Emit B^T d for one line d of `size` vectors of four channels."""
        if self.outputs == 2:
            return [T.Bind(value) for value in (d[2] - d[0], d[2] + d[1], d[2] - d[1], d[3] - d[1])]
        first, last = T.Bind(d[4] + d[0]), T.Bind(d[5] + d[1])
        rows = [_fma(d[2], -(_A**2 + _B**2), first)]
        for point, other in ((_A, _B), (_B, _A)):
            even, odd = _fma(d[2], -(other**2), d[4]), _fma(d[1], -(other**2), d[3])
            rows += [_fma(odd, point, even), _fma(-odd, point, even)]
        return [*rows, _fma(d[3], -(_A**2 + _B**2), last)]

    def output_line(self, m: Sequence[ir.Expr]) -> list[ir.Expr]:
        """Emit A^T m for one line m of `size` vectors of four channels."""
        sums = [T.Bind(m[i] + m[i + 1]) for i in range(1, self.size - 1, 2)]
        differences = [T.Bind(m[i] - m[i + 1]) for i in range(1, self.size - 1, 2)]
        if self.outputs == 2:
            return [T.Bind(m[0] + sums[0]), T.Bind(differences[0] + m[3])]
        const = _VECTOR.const
        return [
            T.Bind(T.Bind(m[0] + sums[0]) + sums[1]),
            _fma(differences[1], _B, differences[0] * const(_A)),
            _fma(sums[1], _B**2, sums[0] * const(_A**2)),
            _fma(differences[1], _B**3, _fma(differences[0], _A**3, m[5])),
        ]


_VECTOR = Vector(4)


def _sum(factors: Array, values: Array) -> Array:
    """Return the sum of factors[k] * values[k] over k."""
    terms = (value * factor for factor, value in zip(factors, values, strict=True) if factor)
    return reduce(np.add, terms)


def _fma(x: ir.Expr, by: float, plus: ir.Expr) -> ir.Var:
    return _VECTOR.fma(x, _VECTOR.const(by), plus)


def square(
    line: Line, column: Callable[[int], Sequence[ir.Expr]], size: int, parts: Sequence[Sequence[int]]
) -> Iterator[tuple[int, list[ir.Expr]]]:
    """Emit the transform of all columns, then of all rows; must be called within `pin.pins`.

    The intermediate values exceed the registers, so they are computed, and their inputs loaded, in parts.

    Args:
        line: Emits the transform of one line (row or column).
        column: Returns the values of a column.
        size: Number of columns.
        parts: Rows of the result, by part; the rows of a part use the same intermediate values.

    Yields:
        (row of the result, its values).
    """
    for rows in parts:
        barrier()
        columns = [line(column(index)) for index in range(size)]
        for row in rows:
            yield row, line([values[row] for values in columns])
