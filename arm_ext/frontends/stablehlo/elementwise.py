# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators of StableHLO and CHLO.

erfc is computed as 1 - erf, so with an error of some 2^-23 absolute. reduce_precision with float32's exponent rounds
the bits: TVM computes bfloat16 in float32, and a cast there and back rounds nothing.
"""

import math
from collections.abc import Callable
from typing import Any

from tvm import relax
from tvm.ir import Call

from arm_ext.common.errors import ModelError
from arm_ext.frontends.graph import Operand, Value
from arm_ext.frontends.ops import arithmetic, maths
from arm_ext.frontends.ops.arithmetic import equal, maximum, minimum, where
from arm_ext.frontends.stablehlo.attributes import ints, tensor_of, word
from arm_ext.frontends.stablehlo.scalars import by_total_order
from arm_ext.frontends.stablehlo.sorting import total_order
from arm_ext.frontends.stablehlo.translator import Convert, Translator
from relay_passes.canonicalize.define_rounding import rounded

Function = Callable[..., Value]
R = relax.op

_EXPONENT, _MANTISSA = 8, 23
"""Numbers of bits of the exponent and of the mantissa of float32."""
_FLOAT16 = (5, 10)

_COMPARE: dict[str, Function] = {
    "EQ": equal,
    "GE": lambda a, b: a >= b,
    "GT": lambda a, b: a > b,
    "LE": lambda a, b: a <= b,
    "LT": lambda a, b: a < b,
    "NE": arithmetic.different,
}


def by(function: Function) -> Convert:
    """Return a converter for an operator that a function of `frontends.ops` computes."""

    def convert(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
        return [function(*operands)]

    return convert


def same(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    """Convert an operator that changes no value, such as a sharding, a barrier or uniform_quantize."""
    return operands


def _compare(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    if by_total_order(op):
        operands = [t.hold(total_order(t, x.full)) for x in operands]
    return [_COMPARE[word(op, "comparison_direction")](*operands)]


def _convert(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    tensor = tensor_of(op.results[0].type)
    return operands if tensor is None else [arithmetic.cast(operands[0], tensor.dtype)]


def _select(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    condition, yes, no = operands
    if (chosen := condition.scalar()) is not None:
        return [yes if chosen else no]
    # The predicate may be a scalar for all elements.
    return [where(Value(t, condition.expr, yes.shape, condition.kept), yes, no)]


def _clamp(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    low, x, high = operands
    least, most = low.scalar(), high.scalar()
    if least is not None and most is not None:
        return [arithmetic.clip(x, least, most)]
    low, high = (Value(t, bound.expr, x.shape, bound.kept) for bound in (low, high))
    return [minimum(maximum(x, low), high)]


def _extremum(function: Function, neutral: float) -> Convert:
    """Return a converter of max or min that drops a float operand equal to `neutral`, a reduction's initial value."""

    def convert(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
        left, right = operands
        for x, other in ((left, right), (right, left)):
            if arithmetic.is_float(other) and other.scalar() == neutral:
                return [x]
        return [function(left, right)]

    return convert


def _quotient(a: Value, b: Value) -> Value:
    """Return a / b. An integer divided by 0 gives a result with all bits set, as XLA on the CPU does.

    `define_division` defines the other cases.
    """
    if arithmetic.is_float(a):
        return a / b
    return where(equal(b, 0), ~a.number(0), a / b)


def _divide(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    x, count = operands
    number = count.scalar()
    if isinstance(number, float) and (mean := _mean(t, x, 1 / number if number else 0.0)):
        return [mean]
    return [x / count if number else _quotient(x, count)]


def _multiply(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    left, right = operands
    if left.dtype == "bool":
        return [left & right]
    for x, factor in (operands, operands[::-1]):
        number = factor.scalar()
        if isinstance(number, float) and (mean := _mean(t, x, number)):
            return [mean]
    return [left * right]


def _mean(t: Translator, x: Value, factor: float) -> Value | None:
    """Return a sum times `factor` as a mean, if x is a sum and the factor is 1 / number of elements; else None."""
    call = x.call
    if not isinstance(call, Call) or call.op.name != "relax.sum":
        return None
    data = call.args[0]
    axes = [int(axis) for axis in call.attrs.axis]
    count = math.prod(int(data.ty.shape[axis]) for axis in axes)
    if not math.isclose(factor * count, 1, rel_tol=1e-6):
        return None
    return Value(t, t.emit(R.mean(data, axes, call.attrs.keepdims)), x.shape, x.kept)


def _reduce_precision(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    (x,), (exponent, mantissa) = operands, (ints(op, "exponent_bits")[0], ints(op, "mantissa_bits")[0])
    if x.dtype == "float32" and (exponent, mantissa) == (_EXPONENT, _MANTISSA):
        return operands
    if x.dtype == "float32" and (exponent, mantissa) == _FLOAT16:
        return [arithmetic.cast(arithmetic.cast(x, "float16"), x.dtype)]
    if x.dtype == "float32" and exponent == _EXPONENT and mantissa < _MANTISSA:
        return [t.kernel("rounded", lambda data: rounded(data, _MANTISSA - mantissa), x)]
    raise ModelError(
        f"it rounds {x.dtype} to {exponent} bits of exponent and {mantissa} of mantissa, which is not supported"
    )


def _sum(a: Value, b: Value) -> Value:
    return a | b if a.dtype == "bool" else a + b


def _square(x: Operand) -> Value:
    assert isinstance(x, Value)
    return x * x


_FUNCTIONS: dict[str, Function] = {
    "chlo.acos": maths.acos,
    "chlo.acosh": maths.acosh,
    "chlo.asin": maths.asin,
    "chlo.asinh": maths.asinh,
    "chlo.atan": maths.atan,
    "chlo.atanh": maths.atanh,
    "chlo.cosh": maths.cosh,
    "chlo.erf": maths.erf,
    "chlo.erfc": maths.erfc,
    "chlo.is_inf": arithmetic.is_infinite,
    "chlo.sinh": maths.sinh,
    "chlo.square": _square,
    "chlo.tan": maths.tan,
    "stablehlo.abs": arithmetic.absolute,
    "stablehlo.add": _sum,
    "stablehlo.and": lambda a, b: a & b,
    "stablehlo.atan2": maths.atan2,
    "stablehlo.cbrt": maths.cube_root,
    "stablehlo.ceil": arithmetic.ceil,
    "stablehlo.cosine": maths.cos,
    "stablehlo.count_leading_zeros": arithmetic.count_leading_zeros,
    "stablehlo.exponential": maths.exp,
    "stablehlo.exponential_minus_one": maths.expm1,
    "stablehlo.floor": arithmetic.floor,
    "stablehlo.is_finite": arithmetic.is_finite,
    "stablehlo.log": maths.log,
    "stablehlo.log_plus_one": maths.log1p,
    "stablehlo.logistic": maths.sigmoid,
    "stablehlo.negate": lambda x: -x,
    "stablehlo.not": lambda x: ~x,
    "stablehlo.or": lambda a, b: a | b,
    "stablehlo.popcnt": arithmetic.count_ones,
    "stablehlo.power": maths.power,
    "stablehlo.remainder": arithmetic.remainder,
    "stablehlo.round_nearest_afz": arithmetic.round_half_away,
    "stablehlo.round_nearest_even": arithmetic.round_even,
    "stablehlo.rsqrt": maths.rsqrt,
    "stablehlo.shift_left": lambda a, b: a << b,
    "stablehlo.shift_right_arithmetic": lambda a, b: a >> b,
    "stablehlo.shift_right_logical": arithmetic.shift_right_logical,
    "stablehlo.sign": arithmetic.sign,
    "stablehlo.sine": maths.sin,
    "stablehlo.sqrt": maths.sqrt,
    "stablehlo.subtract": lambda a, b: a - b,
    "stablehlo.tan": maths.tan,
    "stablehlo.tanh": maths.tanh,
    "stablehlo.xor": lambda a, b: a ^ b,
}
"""Operator → the function of the vocabulary that it is."""

CONVERTERS: dict[str, Convert] = {
    **{name: by(function) for name, function in _FUNCTIONS.items()},
    "sdy.sharding_constraint": same,
    "stablehlo.clamp": _clamp,
    "stablehlo.compare": _compare,
    "stablehlo.convert": _convert,
    "stablehlo.divide": _divide,
    "stablehlo.maximum": _extremum(maximum, -math.inf),
    "stablehlo.minimum": _extremum(minimum, math.inf),
    "stablehlo.multiply": _multiply,
    "stablehlo.optimization_barrier": same,
    "stablehlo.reduce_precision": _reduce_precision,
    "stablehlo.select": _select,
    "stablehlo.uniform_dequantize": same,
    "stablehlo.uniform_quantize": same,
}
"""Operator → what converts it."""
