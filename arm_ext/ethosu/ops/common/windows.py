# SPDX-License-Identifier: Apache-2.0
"""Windows of convolutions and pools over the rows and columns of images."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from arm_ext.ethosu.ops.common.constraint import SUPPORTED_OPS, Constraint, at_most
from arm_ext.ethosu.ops.common.operators import Attributes, Operator
from arm_ext.ethosu.tosa.common import joined, sliced
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor

MAX_STRIDE = 3
"""Largest stride of one command on Ethos-U55 and U65 (Vela 5.2, SUPPORTED_OPS.md)."""


@dataclass(frozen=True)
class Window:
    """A window over rows and columns, or over depth, rows and columns.

    Attributes:
        kernel: Number of taps along each axis.
        strides: Distance from one window to the next along each axis.
        dilation: Distance from one tap to the next along each axis.
        padding: Padding before each axis, then after each: top, left, bottom, right.
    """

    kernel: tuple[int, ...]
    strides: tuple[int, ...] = (1, 1)
    dilation: tuple[int, ...] = (1, 1)
    padding: tuple[int, ...] = (0, 0, 0, 0)

    @property
    def rows(self) -> int:
        """Number of rows of taps, without dilation."""
        return self.kernel[-2]

    @property
    def area(self) -> int:
        """Number of taps in rows times columns."""
        return self.kernel[-2] * self.kernel[-1]

    @property
    def sides(self) -> list[tuple[int, int]]:
        """The padding before and after each axis."""
        return list(zip(self.padding[: len(self.kernel)], self.padding[len(self.kernel) :], strict=True))


@dataclass(frozen=True, kw_only=True)
class Windowed(Attributes):
    """Attributes of an operator over windows.

    Attributes:
        window: Kernel, strides, dilation and padding.
    """

    window: Window


def _rows(operator: Operator[Windowed]) -> int:
    return operator.attributes.window.rows


def _area(operator: Operator[Windowed]) -> int:
    return operator.attributes.window.area


def of_windows(rows: int, area: int) -> tuple[Constraint[Windowed], ...]:
    """Return the constraints on windows of at most `rows` rows and `area` taps in rows times columns."""
    return (
        Constraint(
            "its window has too many rows", f"at most {rows}", _rows, at_most(rows), "a smaller window", SUPPORTED_OPS
        ),
        Constraint(
            "its window has too many taps", f"at most {area}", _area, at_most(area), "a smaller window", SUPPORTED_OPS
        ),
    )  # fmt: skip


def over_images(
    graph: TosaGraph, data: TosaTensor, padding: Sequence[int], windows: Callable[[TosaTensor], TosaTensor]
) -> TosaTensor:
    """Emit an operator over windows; with padding, for each image of a batch separately.

    Where a batch of several images is a slice of a tensor, Vela 5.2 drops the padding at the top and left.
    """
    if data.shape[0] == 1 or not any(padding):
        return windows(data)
    one = (1, *data.shape[1:])
    starts = [(image, *[0] * (len(one) - 1)) for image in range(data.shape[0])]
    return joined(graph, [windows(sliced(graph, data, start, one)) for start in starts], 0)
