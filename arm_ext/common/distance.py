# SPDX-License-Identifier: Apache-2.0
"""The distance between an output and its reference."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Distance:
    """The distance between an output and its reference.

    Attributes:
        exact: Whether every element is equal.
        relative: max |difference| / max |reference| for floats; the largest difference for integers.
        differing: Fraction of elements that differ.
        top1: Whether the largest element along the last axis is the same everywhere.
    """

    exact: bool
    relative: float
    differing: float
    top1: bool


def distance(actual: npt.NDArray[Any], reference: npt.NDArray[Any]) -> Distance:
    """Compare two arrays of equal shape; where only one of them is NaN, the distance is infinite."""
    same = (actual == reference) | ((actual != actual) & (reference != reference))
    wide_actual, wide_reference = actual.astype(np.float64), reference.astype(np.float64)
    gap = np.where(same, 0.0, np.abs(wide_actual - wide_reference))
    largest = float(np.max(gap, initial=0.0))
    if reference.dtype.kind == "f":
        finite = np.abs(wide_reference[np.isfinite(wide_reference)])
        scale = float(np.max(finite, initial=0.0))
        largest = largest / scale if scale else largest
    top1 = (
        actual.ndim == 0 or bool(np.all(actual.argmax(-1) == reference.argmax(-1))) if actual.size else True
    )
    return Distance(
        exact=bool(same.all()),
        relative=largest if np.isfinite(largest) else float("inf"),
        differing=np.count_nonzero(~same) / same.size if same.size else 0.0,
        top1=top1,
    )


def says_nothing(value: npt.NDArray[Any]) -> str:
    """Return the reason why a comparison with an array cannot reveal an error, such as "all NaN"; "" if it can."""
    if value.size < _FEW:
        return ""
    values = value.reshape(-1)
    if value.dtype.kind == "f" and np.isnan(values).all():
        return ALL_NAN
    return f"all {values[0]}" if bool((values == values[0]).all()) else ""


ALL_NAN = "all NaN"

_FEW = 2
"""A single element is compared whatever it is."""
