# SPDX-License-Identifier: Apache-2.0
"""Properties of a bilinear resize that constraints compare with their limits, and its phases.

By a whole factor f = n / d, output f * i + k of an axis lies at (n * i + d * k + offset) / n: as far from pixel i for
every i. So there are f results of the image's size, which take turns.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from arm_ext.ethosu.operators import Operator

MAX_WEIGHT = 127
"""Of a convolution."""


@dataclass(frozen=True)
class Phase:
    """The interpolation of the k-th output of every pixel.

    Attributes:
        start: The first of the two pixels that it lies between, counted from its own: 0 or -1.
        weights: What the two count.
    """

    start: int
    weights: tuple[int, int]


def phases_of(operator: Operator, axis: Literal["y", "x"]) -> Sequence[Phase]:
    """Return the phases along rows ("y") or columns ("x"); the upscaling factor must be an integer."""
    n, d, offset = (operator.attributes[f"{axis}_{name}"] for name in ("n", "d", "offset"))
    found = (divmod(d * k + offset, n) for k in range(n // d))
    return [Phase(start, (n - part, part)) for start, part in found]


def extent(operator: Operator) -> int:
    """Return the greatest height or width of the image or the result."""
    return max(dim for tensor in (*operator.inputs, operator.output) for dim in tensor.shape[1:3])


def factors(operator: Operator) -> tuple[Fraction, Fraction]:
    """Return the upscaling factors of rows and columns."""
    given = operator.attributes
    return Fraction(given["y_n"], given["y_d"]), Fraction(given["x_n"], given["x_d"])


def are_whole(found: Sequence[Fraction]) -> bool:
    """Whether the factors are integers."""
    return all(factor.denominator == 1 for factor in found)


def greatest_weight(operator: Operator) -> int:
    """Return the greatest weight of a pixel in a sum, for integer factors."""
    return math.prod(max(max(phase.weights) for phase in phases_of(operator, axis)) for axis in ("y", "x"))


def convolves(operator: Operator) -> bool:
    """Whether the resize can be computed by convolutions."""
    return are_whole(factors(operator)) and greatest_weight(operator) <= MAX_WEIGHT
