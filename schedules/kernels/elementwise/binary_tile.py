# SPDX-License-Identifier: Apache-2.0
"""Emission of the sum, difference or product of 16 values of two 8-bit tensors, in a form of `binary_forms`.

Vector instructions per 16 outputs: 24 for `Linear`, 24 for `Scaled`, 48 for `Exact` (4 of them divisions if there is no
reciprocal), 44 for `Steps`, 20 for `Product`. Each limit that is narrower than the dtype's adds one. If one operand is
broadcast, an `Affine` form takes 10 with 16-bit multipliers, 14 with 32-bit multipliers.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import add, mul, sub

from tvm import ir, tirx

from schedules.intrinsics.narrow import fcvtns, fmulx, narrow8, shift_narrow8, sqadd16, sqxtn16
from schedules.intrinsics.vector import combine, high, low, unzip
from schedules.kernels.elementwise.binary_forms import (
    Exact,
    Form,
    Linear,
    Op,
    Per,
    Product,
    QuantizedBinary,
    Rescaled,
    Scaled,
    Steps,
)
from schedules.kernels.epilogues.requantize import Requantization, clamp, requantize16
from schedules.kernels.epilogues.tosa_rescale import rescale32
from schedules.numerics.tosa import RescaleFactor
from schedules.numerics.tosa.rescale import MULTIPLIER_BITS
from schedules.tir.emit import i64, load

INSTRUCTIONS: dict[type, float] = {Linear: 1.5, Scaled: 1.5, Exact: 3.0, Steps: 2.75, Product: 1.25}
"""Vector instructions per output, by form."""

_OF: dict[Op, Callable[[ir.Expr, ir.Expr], ir.Expr]] = {"add": add, "subtract": sub, "multiply": mul}

_DYADIC = MULTIPLIER_BITS - 1
"""Index of the uppermost bit of a multiplier; a multiplier with this bit alone is a power of two."""

HALF_WORD = 16
"""Number of bits that are shifted out by taking the upper halves of 32-bit words."""


def constants16(form: Form, buffer: tirx.Buffer) -> tuple[ir.Expr, ...]:
    """Emit, before a loop, the loads of the constants of `binary16`; `buffer` holds `Linear.constants()`.

    The constants are loaded and not immediate, because LLVM would expand (a + k) * ma and need one more instruction.
    """
    if not isinstance(form, Linear):
        return ()
    return tuple(tirx.Broadcast(load(buffer, i64(i), 1), 4) for i in range(3))


def binary16(
    what: QuantizedBinary, form: Form, a: ir.Expr, b: ir.Expr, constants: Sequence[ir.Expr]
) -> ir.Expr:
    """Emit 16 results of `what.y.dtype`.

    Args:
        what: The quantised function.
        form: Form of `what`.
        a: 16 values of `what.a.dtype`.
        b: 16 values of `what.b.dtype`.
        constants: Result of `constants16`.
    """
    to = Requantization(what.y.zero_point, what.low, what.high, what.y.dtype)
    match form:
        case Linear():
            return _linear(form, a, b, constants, to)
        case Scaled():
            return _scaled(what, form, a, b, to)
        case Exact():
            return _exact(what, form, a, b, to)
        case Steps():
            assert isinstance(what, Rescaled)
            return _steps(what, a, b, to)


def _linear(
    form: Linear, a: ir.Expr, b: ir.Expr, constants: Sequence[ir.Expr], to: Requantization
) -> ir.Expr:
    k, ma, mb = constants
    total = [(x + k) * ma + y * mb for x, y in zip(_words(a), _words(b), strict=True)]
    return _shifted(total, form.shift, to)


def affine16(
    form: tuple[int, int], a: ir.Expr, m: Sequence[ir.Expr], k: Sequence[ir.Expr], to: Requantization
) -> ir.Expr:
    """Emit 16 results of an affine form (`schedules.kernels.elementwise.affine_forms`).

    Args:
        form: Shift and lift of the affine form.
        a: 16 values of the operand that is not broadcast.
        m: The multipliers for 16 values of the broadcast operand, two int16x8 or four int32x4.
        k: The constants for these values, four int32x4.
        to: Zero point, limits and dtype of the output.
    """
    shift, lift = form
    if not lift:
        words = zip(_words(a), m, k, strict=True)
        return _shifted([x * factor + start for x, factor, start in words], shift, to)
    total = []
    for index, part in enumerate((low, high)):
        half = tirx.Cast("int16x8", part(a)) << tirx.Broadcast(tirx.IntImm("int16", lift), 8)
        for at, quarter in enumerate((low, high), start=2 * index):
            x, factor = (tirx.Cast("int32x4", quarter(v)) for v in (half, m[index]))
            total.append(x * factor + k[at])
    return _shifted(total, shift, to)


def _shifted(total: Sequence[ir.Expr], shift: int, to: Requantization) -> ir.Expr:
    """Emit the right shift (17 to 24, rounding down) of four int32x4, saturated to 16 values of `to.dtype`."""
    halves = []
    for i in (0, 2):
        upper = tirx.reinterpret("int16x8", unzip(total[i], total[i + 1], "int16x8")[1])
        halves.append(shift_narrow8(upper, shift - HALF_WORD, to.dtype))
    return clamp(combine(*halves), to)


def _scaled(what: QuantizedBinary, form: Scaled, a: ir.Expr, b: ir.Expr, to: Requantization) -> ir.Expr:
    base = tirx.Broadcast(tirx.IntImm("int32", form.base), 4)
    factors = zip(_words(a, what.a.zero_point), _words(b, what.b.zero_point), strict=True)
    acc = [x * y + base for x, y in factors]
    return requantize16("fused", acc, [_splat(form.m)] * 4, to, [_splat(form.addend)] * 4)


def _steps(what: Rescaled, a: ir.Expr, b: ir.Expr, to: Requantization) -> ir.Expr:
    own_a, own_b, own_y = what.scales
    words = [_words(a, what.a.zero_point), _words(b, what.b.zero_point)]
    steps = [[_rescaled(w, s) for w in part] for part, s in zip(words, (own_a, own_b), strict=True)]
    acc = [_OF[what.op](x, y) for x, y in zip(*steps, strict=True)]
    m = tirx.reinterpret("float32x4", _int_splat(own_y.multiplier))
    return requantize16("rescale", acc, [m] * 4, replace(to, shift=own_y.shift))


def _rescaled(word: ir.Expr, scale: RescaleFactor) -> ir.Expr:
    lift = _DYADIC - scale.shift
    if scale.multiplier == 1 << _DYADIC and lift >= 0:
        return word << _int_splat(lift) if lift else word
    return rescale32(word, _int_splat(scale.multiplier), scale.shift)


def _exact(what: QuantizedBinary, form: Exact, a: ir.Expr, b: ir.Expr, to: Requantization) -> ir.Expr:
    return real16(what.op, (real_words(a, what.a), real_words(b, what.b)), what.y.scale, form.reciprocal, to)


def real_words(q: ir.Expr, per: Per) -> list[ir.Expr]:
    """Dequantise 16 bytes by the quantisation `per`, to four float32x4."""
    return [fmulx(tirx.Cast("float32x4", word), _splat(per.scale)) for word in _words(q, per.zero_point)]


def real16(
    op: Op,
    operands: tuple[Sequence[ir.Expr], Sequence[ir.Expr]],
    scale: float,
    reciprocal: float | None,
    to: Requantization,
) -> ir.Expr:
    """Emit 16 results of a function that is computed in float32.

    Args:
        op: The binary function.
        operands: Two operands of four float32x4 each.
        scale: Scale of the output.
        reciprocal: Reciprocal of the scale, if a multiplication by it replaces the division; else None.
        to: Zero point, limits and dtype of the output.
    """
    narrow = []
    for a, b in zip(*operands, strict=True):
        result = fmulx(a, b) if op == "multiply" else _OF[op](a, b)
        scaled = tirx.Div(result, _splat(scale)) if reciprocal is None else fmulx(result, _splat(reciprocal))
        narrow.append(sqxtn16(fcvtns(scaled)))
    half = [combine(narrow[0], narrow[1]), combine(narrow[2], narrow[3])]
    if to.zero_point:
        half = [sqadd16(h, tirx.Broadcast(tirx.IntImm("int16", to.zero_point), 8)) for h in half]
    return clamp(combine(narrow8(half[0], to.dtype), narrow8(half[1], to.dtype)), to)


def _words(x: ir.Expr, zero_point: int = 0) -> list[ir.Expr]:
    """Emit 16 bytes minus the zero point as four int32x4; the difference fits 16 bits."""
    halves = [tirx.Cast("int16x8", low(x)), tirx.Cast("int16x8", high(x))]
    if zero_point:
        halves = [half - tirx.Broadcast(tirx.IntImm("int16", zero_point), 8) for half in halves]
    return [tirx.Cast("int32x4", part(half)) for half in halves for part in (low, high)]


def _int_splat(value: int) -> ir.Expr:
    return tirx.Broadcast(tirx.IntImm("int32", value), 4)


def _splat(value: float) -> ir.Expr:
    return tirx.Broadcast(tirx.FloatImm("float32", value), 4)
