# SPDX-License-Identifier: Apache-2.0
"""Constant matrices that several front ends need."""

from typing import Any

import numpy as np
import numpy.typing as npt

# Cephes, atanf: the polynomial for |x| ≤ tan(pi / 8), from its highest power, in x² and times x³.
ATAN = (8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1)


def waves(
    samples: int, size: int, bins: int, inverse: bool, dtype: np.dtype[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return [samples, bins] matrices of cosines and sines, with the transform's sign, scaled."""
    # The product of the indices is taken modulo the length while it is exact.
    turns = np.outer(np.arange(samples), np.arange(bins)) % size / size
    scale = 1 / size if inverse else 1.0
    sign = 1 if inverse else -1
    angle = 2 * np.pi * turns
    return (scale * np.cos(angle)).astype(dtype), (sign * scale * np.sin(angle)).astype(dtype)
