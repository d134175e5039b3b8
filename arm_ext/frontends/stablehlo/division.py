# SPDX-License-Identifier: Apache-2.0
"""Division in StableHLO. Integers have a quotient for every divisor: what XLA gives on the CPU."""

from tvm import relax
from tvm.ir import Expr

from arm_ext.frontends.stablehlo.values import Values

R = relax.op


def quotient(t: Values, a: Expr, b: Expr) -> Expr:
    """A / b; of integers with results for a divisor of 0, at which a processor may stop, and for -1."""
    if not _is_integer(a):
        return R.divide(a, b)
    safe, is_zero, is_negative = _divisor(t, b)
    y = t.emit(R.where(is_zero, t.emit(R.bitwise_not(t.number(0, a))), t.emit(R.divide(a, safe))))
    return y if is_negative is None else R.where(is_negative, t.emit(R.subtract(t.number(0, a), a)), y)


def remainder(t: Values, a: Expr, b: Expr) -> Expr:
    """What a division leaves; of integers all of it for a divisor of 0."""
    if not _is_integer(a):
        return R.mod(a, b)
    safe, is_zero, _ = _divisor(t, b)
    return R.where(is_zero, a, t.emit(R.mod(a, safe)))


def _is_integer(x: Expr) -> bool:
    return "int" in str(x.ty.dtype)


def _divisor(t: Values, b: Expr) -> tuple[Expr, Expr, Expr | None]:
    """A divisor with 1 for 0 and -1, and where it is the one and, among signed ones, the other."""
    is_zero = t.emit(R.equal(b, t.number(0, b)))
    if str(b.ty.dtype).startswith("u"):
        return t.emit(R.where(is_zero, t.number(1, b), b)), is_zero, None
    is_negative = t.emit(R.equal(b, t.number(-1, b)))
    unsafe = t.emit(R.logical_or(is_zero, is_negative))
    return t.emit(R.where(unsafe, t.number(1, b), b)), is_zero, is_negative
