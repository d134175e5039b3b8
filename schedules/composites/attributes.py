# SPDX-License-Identifier: Apache-2.0
"""The attributes of a composite's anchor: stored as text in a `Workload`, parsed into typed records for kernels.

No other module reads or writes the text of attributes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from schedules.composites.workload import Workload


@dataclass(frozen=True)
class ConvolutionAttributes:
    """The attributes of a convolution of images.

    Attributes:
        strides: Strides of rows and columns.
        padding: Widths of the border: top, left, bottom, right.
        dilation: Dilation of rows and columns.
        groups: Number of groups of channels.
        layouts: Layouts of data, weights and output, such as ("NHWC", "OHWI", "NHWC"); the output's may be empty.
    """

    strides: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int]
    groups: int
    layouts: tuple[str, str, str]

    @classmethod
    def of(cls, workload: Workload) -> "ConvolutionAttributes":
        """Parse the attributes of a workload whose anchor is a two-dimensional convolution."""
        attributes = dict(workload.attributes)
        (down, across), (below, beside) = (numbers(attributes, name) for name in ("strides", "dilation"))
        top, left, bottom, right = numbers(attributes, "padding")
        data, weights, output = (attributes[f"{name}_layout"] for name in ("data", "kernel", "out"))
        groups = int(attributes["groups"])
        return cls(
            (down, across), (top, left, bottom, right), (below, beside), groups, (data, weights, output)
        )


def encoded(value: Any) -> str:
    """Encode an attribute as text: a tuple as "[1, 2]", a float as the shortest text that parses to the same value."""
    return str(list(value)) if isinstance(value, tuple) else str(value)


def numbers(attributes: Mapping[str, str], name: str) -> tuple[int, ...]:
    """Parse an attribute that is a list of integers."""
    return _parsed(attributes[name])


@cache  # cached, because the estimates of a thousand candidates parse the same texts
def _parsed(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in text.strip("[()]").split(",") if number)


def is_false(attributes: Mapping[str, str], name: str) -> bool:
    """Whether an attribute exists and is False."""
    return attributes.get(name) == encoded(False)
