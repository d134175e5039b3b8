# SPDX-License-Identifier: Apache-2.0
"""Requantisation of single accumulators on Cortex-M without an FPU, equal to `qdq` in binary32.

The definition is rne(fl(fl(acc) * m)), with rne for rounding half to even and fl for rounding to binary32. With
M = floor(m * 2**32) for m < 1, one product of 32 by 32 bits gives v = |acc| * M / 2**32 in fixed point, and

    (1 - 2**-23) * v  <=  fl(fl(|acc|) * m)  <=  (1 + 2**-23) * (v + |acc| / 2**32)

since each fl is off by at most 2**-24 of its value. If no half-integer is within this distance of v, both round to the
same integer. Results from 1024 on saturate whatever they are, so that 2**-23 * v is below 2**-13; `zone` is a bound of
the distance in units of 2**-32. Of accumulators below 2**20 one in a thousand is that near to a half-integer: for
those, and for m >= 1, binary32 is computed by the compiler's routines.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics import dsp
from schedules.kernels.common.contract import Array
from schedules.kernels.epilogues.requantize import Form, Requantization
from schedules.tir.emit import importing

INSTRUCTIONS = 60
"""Of an output, with a call and a product of 64 bits by a routine, as on an M0+."""

MOST_BITS = 28
"""|acc| below two to this power, of which a sixteenth of all fractions is near enough to a half-integer."""

_DEFINITION = """
define linkonce_odr hidden i32 @arm_requantize_exactly(i32 %x, float %m) noinline {
  %value = sitofp i32 %x to float
  %product = fmul float %value, %m
  %large = fcmp oge float %product, 1048576.0
  br i1 %large, label %saturated, label %rounded
saturated:
  ret i32 1048576
rounded:
  ; Below 2**22, adding 1.5 * 2**23 rounds to an integer, which the lower bits of the sum hold.
  %sum = fadd float %product, 12582912.0
  %bits = bitcast float %sum to i32
  %whole = sub i32 %bits, 1262485504
  ret i32 %whole
}

define linkonce_odr hidden i32 @arm_requantize(i32 %acc, float %m, i32 %scaled, i32 %zone) noinline {
  %sign = ashr i32 %acc, 31
  %flipped = xor i32 %acc, %sign
  %x = sub i32 %flipped, %sign
  %wide = zext i32 %x to i64
  %factor = zext i32 %scaled to i64
  %product = mul i64 %wide, %factor
  %upper = lshr i64 %product, 32
  %whole = trunc i64 %upper to i32
  %fraction = trunc i64 %product to i32
  %shifted = add i32 %fraction, %zone
  %distance = xor i32 %shifted, -2147483648
  %width = shl i32 %zone, 1
  %near = icmp ult i32 %distance, %width
  %unknown = icmp eq i32 %scaled, 0
  %slow = or i1 %near, %unknown
  br i1 %slow, label %exact, label %fast
exact:
  %defined = call i32 @arm_requantize_exactly(i32 %x, float %m)
  br label %end
fast:
  %half = lshr i32 %fraction, 31
  %nearest = add i32 %whole, %half
  br label %end
end:
  %magnitude = phi i32 [ %defined, %exact ], [ %nearest, %fast ]
  %signed = xor i32 %magnitude, %sign
  %result = sub i32 %signed, %sign
  ret i32 %result
}
"""


def definitions() -> AbstractContextManager[Any]:
    """Open a scope in which `requantized` may be emitted."""
    return importing(_DEFINITION + dsp.RESCALE)


def scales(multipliers: Array, form: Form) -> Array:
    """Return the constants of each column as float32: its multiplier, and the bits of M, 0 if that is not known."""
    scaled = np.zeros(multipliers.size, np.uint32)
    if form == "convert":
        exact = multipliers.astype(np.float64) * (1 << 32)
        known = (multipliers > 0) & (multipliers < 1)
        scaled[known] = np.floor(exact[known]).astype(np.uint64).astype(np.uint32)
    return np.stack([multipliers.astype(np.float32), scaled.view(np.float32)], -1).ravel()


def zone(accumulator: int) -> int:
    """Return the zone for |acc| < 2**accumulator."""
    return (1 << accumulator) + (1 << 20)


def requantized(
    acc: ir.Expr, constants: Sequence[ir.Expr], to: Requantization, form: Form, accumulator: int
) -> ir.Expr:
    """Emit the output of an int32 accumulator.

    Args:
        acc: The accumulator.
        constants: The two of `scales`.
        to: Quantisation of the output.
        form: "convert" or "rescale".
        accumulator: Exponent p with |acc| < 2**p, at most `MOST_BITS`.
    """
    multiplier, scaled = constants
    if form == "rescale":
        rounded = dsp.rescale(acc, T.Bind(tirx.reinterpret("int32", multiplier)), to.shift)
    else:
        bits = T.Bind(tirx.reinterpret("int32", scaled))
        width = tirx.IntImm("int32", zone(accumulator))
        rounded = T.Bind(tirx.call_extern("int32", "arm_requantize", acc, multiplier, bits, width))
    moved = T.Bind(rounded + tirx.IntImm("int32", to.zero_point))
    low, high = (tirx.IntImm("int32", limit) for limit in (to.low, to.high))
    return tirx.Cast(to.dtype, tirx.min(tirx.max(moved, low), high))
