# SPDX-License-Identifier: Apache-2.0
"""Requantisation of int32 accumulators to 8-bit values in vector registers, for both numerics.

For `qdq`, that is

    q = saturate(rne(fl(fl(acc) * m)) + zp)

There are four ways ("forms") to compute it, each exact under a condition on the accumulators that is proven from the
weights:

- "convert": FCVTNS, then saturating narrows; always exact.
- "magic": adding 1.5 * 2**23 rounds half to even and leaves the integer in the low bits; exact while
  |acc * m| + |zp| < `MAGIC_LIMIT`.
- "biased": as "magic", but the accumulators start from bias + 0x4B400000, the bits of 1.5 * 2**23, so that one FSUB
  converts them to float; exact while also |acc| < 2**22.
- "fused": as "biased", but with an initial accumulator and an addend per channel, so that a single FMLA does all;
  exact for the channels for which `requantize_fused.fused_constants` proves it.

For `tosa` there is the form "rescale": see `tosa_rescale`. With the form "none", the result is the accumulators.

FMULX is used instead of FMUL, because LLVM would contract FMUL and the addition into one rounding. An odd zero point in
the added constant would round ties the wrong way, since ties go to even sums. ADDP corrects this without another
instruction: UZP1 takes the lower 16 bits of each sum, while ADDP adds to them the upper 16 bits, which are the same for
all sums, and odd (see `addend_of`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from tvm import ir, tirx

from schedules.intrinsics.narrow import addp16, fcvtns, fma, fmulx, narrow8, sqadd16, sqadd32, sqxtn16
from schedules.intrinsics.vector import combine
from schedules.kernels.epilogues.tosa_rescale import rescale16
from schedules.numerics.binary32 import MAGIC, MAGIC_BITS

Form = Literal["fused", "biased", "magic", "convert", "rescale", "none"]

HALF = 1 << 16
"""A step of the upper half of a register of 32 bits."""

BIASED_LIMIT = 1 << 22
"""|acc| below this keeps MAGIC + acc between 2**23 and 2**24."""

ODD_UPPER = MAGIC_BITS // HALF + 1
"""The upper 16 bits of every sum (value plus constant) for odd zero points."""

MAGIC_LIMIT = ODD_UPPER - 1
"""Limit of |acc * m| + |zp| below which the value is in the 16 bits that are kept: signed ones for even zero points;
for odd ones lower halves from 0 to 2**16 - 1, which are the value minus `ODD_UPPER` modulo 2**16."""

INSTRUCTIONS: dict[Form, float] = {
    "fused": 0.75,
    "biased": 1.0,
    "magic": 1.0,
    "convert": 1.25,
    "rescale": 0.75,
    "none": 0.0,
}
"""Vector instructions of one output (three to five an accumulator of four)."""


@dataclass(frozen=True)
class Requantization:
    """Parameters of a requantisation.

    Attributes:
        zero_point: Zero point of the output.
        low: Minimum value of the output.
        high: Maximum value of the output.
        dtype: "int8" or "uint8"; for the form "convert" also "int16".
        shift: Shift for the form "rescale".
    """

    zero_point: int
    low: int
    high: int
    dtype: str
    shift: int = 0


NOT_REQUANTIZED = Requantization(0, -128, 127, "int8")
"""Placeholder for the form "none", in which no requantisation follows the accumulators."""


def form_of(accumulator: float, scaled: float, zero_point: int) -> Form:
    """Return the cheapest form of the numerics `qdq` that is exact for the given accumulator bounds.

    Args:
        accumulator: Bound of |acc|, bias included.
        scaled: Bound of |acc * m|.
        zero_point: Zero point of the output.
    """
    if scaled + abs(zero_point) >= MAGIC_LIMIT - 1:
        return "convert"
    return "biased" if accumulator < BIASED_LIMIT else "magic"


def requantize16(
    form: Form,
    acc: Sequence[ir.Expr],
    m: Sequence[ir.Expr],
    to: Requantization,
    addend: Sequence[ir.Expr] = (),
) -> ir.Expr:
    """Emit the requantisation of 16 accumulators to 16 values of `to.dtype`, in the same order.

    Args:
        form: Form of the requantisation.
        acc: Four int32x4.
        m: Four float32x4 of multipliers; for the form "rescale" the bits of integers.
        to: Zero point, limits and dtype of the output.
        addend: Four float32x4 for the form "fused", unused by the others.
    """
    if form == "convert":
        whole = [fcvtns(tirx.Cast("float32x4", a) * s) for a, s in zip(acc, m, strict=True)]
        extra = to.zero_point
        if to.dtype == "int16" and extra:  # in 16 bits the sum could overflow
            whole = [sqadd32(each, tirx.Broadcast(tirx.IntImm("int32", extra), 4)) for each in whole]
        narrow = [sqxtn16(each) for each in whole]
        half = [combine(narrow[0], narrow[1]), combine(narrow[2], narrow[3])]
        if to.dtype == "int16":
            return clamp(combine(*half), to)
    elif form == "rescale":
        half = rescale16(acc, [tirx.reinterpret("int32x4", factor) for factor in m], to.shift)
        extra = to.zero_point
    else:
        extra, odd = 0, to.zero_point % 2
        if form == "fused":
            reals = [fma(_real(a), s, c) for a, s, c in zip(acc, m, addend, strict=True)]
            bits = [tirx.reinterpret("int32x4", real) for real in reals]
        else:
            bits = [_magic(form, a, s, to.zero_point) for a, s in zip(acc, m, strict=True)]
        half = [(_sums if odd else _lower)(bits[i], bits[i + 1]) for i in (0, 2)]
    if extra:
        half = [sqadd16(h, tirx.Broadcast(tirx.IntImm("int16", extra), 8)) for h in half]
    value = combine(narrow8(half[0], to.dtype), narrow8(half[1], to.dtype))
    return clamp(value, to)


def clamp(value: ir.Expr, to: Requantization) -> ir.Expr:
    """Emit the clamp of 16 values to [low, high], unless these are the dtype's limits."""
    limits = np.iinfo(to.dtype)
    if to.low > limits.min:
        value = tirx.max(value, tirx.Broadcast(tirx.IntImm(to.dtype, to.low), 16))
    if to.high < limits.max:
        value = tirx.min(value, tirx.Broadcast(tirx.IntImm(to.dtype, to.high), 16))
    return value


def _magic(form: Form, acc: ir.Expr, m: ir.Expr, zero_point: int) -> ir.Expr:
    real = _real(acc) - _splat(MAGIC) if form == "biased" else tirx.Cast("float32x4", acc)
    return tirx.reinterpret("int32x4", fmulx(real, m) + _splat(addend_of(zero_point)))


def addend_of(zero_point: int) -> int:
    """Return the constant whose addition rounds a float, and leaves integer + zero point in the sum's low bits.

    The constant is even, so that ties go to even values.

    Returns:
        A binary32 integer. With an even zero point, the value is the lower 16 bits of a sum; with an odd zero point,
        it is
            the sum of the lower and the upper 16 bits.
    """
    if zero_point % 2 == 0:
        return int(MAGIC) + zero_point
    return int(MAGIC) + ODD_UPPER * HALF - MAGIC_BITS + (zero_point - ODD_UPPER) % HALF


def _lower(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Emit the lower 16 bits of eight int32, as int16x8."""
    return tirx.Cast("int16x8", combine(a, b))


def _sums(a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Emit the lower plus the upper 16 bits of each of eight int32, as int16x8."""
    return addp16(*(tirx.reinterpret("int16x8", each) for each in (a, b)))


def _real(acc: ir.Expr) -> ir.Expr:
    return tirx.reinterpret("float32x4", acc)


def _splat(value: float) -> ir.Expr:
    return tirx.Broadcast(tirx.FloatImm("float32", value), 4)
