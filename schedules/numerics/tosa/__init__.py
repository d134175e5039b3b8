# SPDX-License-Identifier: Apache-2.0
"""The numerics `tosa`: definitions of the quantised operators of packages for an NPU, by operators of TOSA 1.0.

Each definition gives the bits of its TOSA operators, so that results on the NPU and on the CPU are equal.
"""

from schedules.numerics.tosa.numerics import NUMERICS, Tosa
from schedules.numerics.tosa.requantize import requantize
from schedules.numerics.tosa.rescale import RescaleFactor, fits, rescale, rescale_tir, scale_of, scales_of

__all__ = [
    "NUMERICS",
    "RescaleFactor",
    "Tosa",
    "fits",
    "requantize",
    "rescale",
    "rescale_tir",
    "scale_of",
    "scales_of",
]
