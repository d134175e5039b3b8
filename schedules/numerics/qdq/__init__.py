# SPDX-License-Identifier: Apache-2.0
"""The numerics `qdq`: definitions of the quantised operators of CPU packages, each in numpy and in TIR.

fl() is one rounding to binary32 and rne() rounds half to even. The order is part of every definition: multiply or
divide, round, then add the integer zero point, then saturate. No multiply-add is fused.
"""

from schedules.numerics.qdq.dynamic import conv_dynamic_routine, linear_dynamic_routine
from schedules.numerics.qdq.matmul import matmul_dynamic_routine
from schedules.numerics.qdq.numerics import NUMERICS, Qdq
from schedules.numerics.qdq.requantize import multiplier, requantize, requantize_tir

__all__ = [
    "NUMERICS",
    "Qdq",
    "conv_dynamic_routine",
    "linear_dynamic_routine",
    "matmul_dynamic_routine",
    "multiplier",
    "requantize",
    "requantize_tir",
]
