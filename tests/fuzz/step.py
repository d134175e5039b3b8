# SPDX-License-Identifier: Apache-2.0
"""A step from one value of a graph to the next, and what it may ask of the value."""

import math
from collections.abc import Callable
from dataclasses import dataclass

from tests.fuzz.builder import Builder, Value

CHANNELS = (1, 7, 8, 9, 31)
MAX_SIZE = 1 << 13
"""Elements of a value: larger ones only take longer."""


@dataclass(frozen=True)
class Step:
    """A way to go on from a value.

    Attributes:
        build: Appends nodes; returns the result.
        accepts: Whether it can go on from this value.
        weight: How often it is drawn, beside others.
    """

    build: Callable[[Builder, Value], Value]
    accepts: Callable[[Value], bool]
    weight: int = 1

    @property
    def name(self) -> str:
        return self.build.__name__


def any_value(_x: Value) -> bool:
    return True


def is_image(x: Value) -> bool:
    """[batch, channels, height, width]."""
    return x.rank == 4


def is_small_image(x: Value) -> bool:
    """One that may grow."""
    return is_image(x) and x.size <= MAX_SIZE // 8


def is_input(x: Value) -> bool:
    """One of the graph's, with a channel axis."""
    return x.name.startswith("x") and has_axes(x)


def has_axes(x: Value) -> bool:
    return x.rank >= 2


def can_split(x: Value) -> bool:
    return has_axes(x) and x.shape[1] > 1 and x.shape[-1] > 1


def filters(b: Builder, shape: tuple[int, ...], terms: int) -> Value:
    """Weights whose sums of `terms` products stay near 1."""
    bound = 2 / math.sqrt(terms)
    return b.uniform(shape, -bound, bound)
