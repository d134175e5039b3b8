# SPDX-License-Identifier: Apache-2.0
"""Elementwise arithmetic, comparisons, bit operations and casts. Integers wrap around, and NaN operands give NaN."""

import math
from collections.abc import Callable

import numpy as np
from tvm import relax, te, tirx
from tvm.ir import Call, Expr

from arm_ext.common.errors import ModelError
from arm_ext.frontends.graph import Operand, Value

R = relax.op


def elementwise(function: Callable[..., Expr]) -> Callable[..., Value]:
    """Return a function on values that emits an elementwise Relax operator."""

    def operator(*operands: Operand) -> Value:
        graph = next(each.graph for each in operands if isinstance(each, Value))
        return graph.apply(function, *operands)

    return operator


absolute, ceil, floor, trunc, round_even = map(elementwise, (R.abs, R.ceil, R.floor, R.trunc, R.round))
maximum, minimum = map(elementwise, (R.maximum, R.minimum))
floor_divide, floor_mod, remainder = map(elementwise, (R.floor_divide, R.floor_mod, R.mod))
equal, different = map(elementwise, (R.equal, R.not_equal))


def is_float(x: Value) -> bool:
    """Whether the elements are floats."""
    return "float" in x.dtype


def where(condition: Value, x: Operand, y: Operand) -> Value:
    """Return x where the condition holds, and y elsewhere; one of them may be a number."""
    like = x if isinstance(x, Value) else y
    assert isinstance(like, Value)  # two numbers have no dtype
    chosen = [each if isinstance(each, Value) else like.number(each) for each in (x, y)]
    return like.graph.apply(R.where, condition, *chosen)


def cast(x: Value, dtype: str) -> Value:
    """Convert to another dtype; to Booleans as x ≠ 0, to integers as relay_passes' `define_casts` says."""
    return x if x.dtype == dtype else x.graph.apply(lambda e: R.astype(e, dtype), x)


def clip(x: Value, low: float, high: float) -> Value:
    """Return x limited to a range of numbers."""
    number = float if is_float(x) else int
    return x.graph.apply(lambda e: R.clip(e, number(low), number(high)), x)


def opposite_of(x: Value) -> Value | None:
    """Return -x without a negation, if x is itself a negation or a product with one; else None."""
    call = x.call
    if not isinstance(call, Call) or call.op.name not in ("relax.negative", "relax.multiply"):
        return None
    if call.op.name == "relax.negative":
        return Value(x.graph, call.args[0], x.shape, x.kept)
    for k, factor in enumerate(call.args):
        inner = Value(x.graph, factor, ()).call
        if isinstance(inner, Call) and inner.op.name == "relax.negative":
            product = x.graph.emit(R.multiply(inner.args[0], call.args[1 - k]))
            return Value(x.graph, product, x.shape, x.kept)
    return None


def sign(x: Value) -> Value:
    """Return -1, 0 or 1; NaN for NaN, for which TVM's operator gives 0."""
    found = x.graph.apply(R.sign, x)
    return where(is_nan(x), x, found) if is_float(x) else found


def sign_or_zero(x: Value) -> Value:
    """Return -1, 0 or 1; 0 for NaN, as in PyTorch."""
    return x.graph.apply(R.sign, x)


def is_nan(x: Value) -> Value:
    """Return whether each element is NaN; TVM's operator has no vector form."""
    return different(x, x)


def is_infinite(x: Value) -> Value:
    """Return whether each element is an infinity of either sign."""
    return equal(absolute(x), math.inf)


def is_finite(x: Value) -> Value:
    """Return whether each element is neither infinite nor NaN; true for all integers."""
    return absolute(x) < math.inf if is_float(x) else equal(x, x)


def round_half_away(x: Value) -> Value:
    """Round half away from zero."""
    cut = trunc(x)
    rest = absolute(x - cut)
    return cut + where(rest < 0.5, 0, sign_or_zero(x))


def sign_bit(x: Value) -> Value:
    """Return whether the sign bit is set, which includes -0 and some NaNs."""
    if x.dtype == "bool":
        return x & ~x
    if not is_float(x):
        return x < 0
    wide = "float64" if x.dtype == "float64" else "float32"
    bits = wide.replace("float", "int")

    def signs(data: te.Tensor) -> te.Tensor:
        return te.compute(
            data.shape,
            lambda *at: tirx.reinterpret(bits, data(*at).astype(wide)) < tirx.const(0, bits),
            "signs",
        )

    return x.graph.kernel("sign_bit", signs, x)


def shift_right_logical(x: Value, count: Value) -> Value:
    """Shift right and fill with zeros, as for unsigned integers."""
    if x.dtype.startswith("u"):
        return x >> count
    return cast(cast(x, f"u{x.dtype}") >> cast(count, f"u{x.dtype}"), x.dtype)


def _width(x: Value) -> int:
    dtype = np.dtype(x.dtype)
    if dtype.kind not in "iu":
        raise ModelError(f"it counts the bits of {dtype}; only those of integers can be counted")
    return dtype.itemsize * 8


def count_ones(x: Value) -> Value:
    """Return the number of set bits."""
    total = x & 1
    for k in range(1, _width(x)):
        total = total + ((x >> k) & 1)
    return total


def count_leading_zeros(x: Value) -> Value:
    """Return the number of leading zero bits."""
    width, shift = _width(x), 1
    while shift < width:
        x = x | (x >> shift)
        shift *= 2
    return width - count_ones(x)
