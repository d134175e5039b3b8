# SPDX-License-Identifier: Apache-2.0
"""The numerics `tosa`: what quantised operators of packages for an NPU compute, in operators of TOSA 1.0.

Each definition is what its TOSA operators give, so that a region computes the same on the NPU and on the CPU.
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
