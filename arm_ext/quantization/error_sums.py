# SPDX-License-Identifier: Apache-2.0
"""Error measures of one tensor, from sums over samples."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_WORST_DB, _BEST_DB = -100.0, 200.0
_DIGITS = 4


@dataclass
class ErrorSums:
    """Sums over the elements of a tensor and its reference, from which error measures are computed.

    Attributes:
        count: Number of elements.
        signal: Sum of squares of the reference, where it is finite.
        power: Sum of squares of the tensor, at the same elements.
        noise: Sum of squares of the differences.
        product: Sum of the products of tensor and reference.
        shift: Sum of the differences.
        distance: Sum of the absolute differences.
        gap: Greatest absolute difference.
        least: Least value of the reference.
        greatest: Greatest value of the reference.
    """

    count: int = 0
    signal: float = 0.0
    power: float = 0.0
    noise: float = 0.0
    product: float = 0.0
    shift: float = 0.0
    distance: float = 0.0
    gap: float = 0.0
    least: float = math.inf
    greatest: float = -math.inf

    def add(self, value: Array, reference: Array) -> None:
        """Add one sample."""
        wide, exact = value.astype(np.float64), reference.astype(np.float64)
        same = (wide == exact) | (np.isnan(wide) & np.isnan(exact))
        with np.errstate(invalid="ignore"):
            signed = np.where(
                same, 0.0, np.nan_to_num(wide - exact, nan=np.inf, posinf=np.inf, neginf=-np.inf)
            )
        difference = np.abs(signed)
        both = np.isfinite(exact) & np.isfinite(wide)
        finite = exact[np.isfinite(exact)]
        self.count += exact.size
        self.signal += float(np.sum(finite**2))
        self.power += float(np.sum(wide[both] ** 2))
        self.noise += float(np.sum(difference**2))
        self.product += float(np.sum(wide[both] * exact[both]))
        self.shift += float(np.sum(signed[both]))
        self.distance += float(np.sum(difference))
        self.gap = max(self.gap, float(np.max(difference, initial=0.0)))
        self.least = min(self.least, float(np.min(finite, initial=math.inf)))
        self.greatest = max(self.greatest, float(np.max(finite, initial=-math.inf)))

    @property
    def sqnr_db(self) -> float:
        """Signal-to-quantisation-noise ratio in dB, clamped to -100 … 200."""
        if self.noise == 0.0:
            return _BEST_DB
        if self.signal == 0.0 or math.isinf(self.noise):
            return _WORST_DB
        return min(max(10 * math.log10(self.signal / self.noise), _WORST_DB), _BEST_DB)

    @property
    def relative(self) -> float:
        """The maximum difference, divided by the largest magnitude of the reference."""
        largest = max(abs(self.least), abs(self.greatest)) if self.least <= self.greatest else 0.0
        relative = self.gap / largest if largest else self.gap
        return float(f"{min(relative, np.finfo(np.float32).max):.{_DIGITS}g}")

    @property
    def cosine(self) -> float:
        """Cosine of the angle between the tensor and its reference; 1 if both are zero."""
        if self.signal == 0.0 or self.power == 0.0:
            return 1.0 if self.signal == self.power else 0.0
        return self.product / math.sqrt(self.signal * self.power)

    @property
    def gain(self) -> float:
        """Least-squares factor by which the tensor is larger than its reference."""
        return self.product / self.signal if self.signal else 1.0

    @property
    def mean(self) -> float:
        """The mean of the absolute differences."""
        return self.distance / self.count if self.count else 0.0

    @property
    def mean_shift(self) -> float:
        """The mean of the signed differences."""
        return self.shift / self.count if self.count else 0.0


@dataclass
class ChannelSums:
    """Sums over the elements of each channel of a tensor and its reference.

    Attributes:
        signal: Sum of squares of the reference, where it is finite.
        noise: Sum of squares of the differences, where they are finite.
    """

    signal: Array = field(default_factory=lambda: np.zeros(0))
    noise: Array = field(default_factory=lambda: np.zeros(0))

    def add(self, value: Array, reference: Array, axis: int) -> None:
        """Add one sample, whose channels are along an axis."""
        rest = tuple(other for other in range(reference.ndim) if other != axis % reference.ndim)
        exact = reference.astype(np.float64)
        finite = np.isfinite(exact) & np.isfinite(value)
        difference = np.where(finite, value, 0.0) - np.where(finite, exact, 0.0)
        signal, noise = (np.sum(found**2, axis=rest) for found in (np.where(finite, exact, 0.0), difference))
        self.signal = self.signal + signal if self.signal.size else signal
        self.noise = self.noise + noise if self.noise.size else noise

    def sqnr_db(self, weights: Array) -> float:
        """Return the SQNR of a weighted sum of the channels, with independent errors; weights multiply the squares."""
        if self.signal.shape != weights.shape:
            return _BEST_DB
        signal, noise = float(self.signal @ weights), float(self.noise @ weights)
        return ErrorSums(signal=signal, noise=noise).sqnr_db


def error_of(value: Array, reference: Array) -> ErrorSums:
    """Return the error sums of a single tensor and its reference."""
    sums = ErrorSums()
    sums.add(value, reference)
    return sums
