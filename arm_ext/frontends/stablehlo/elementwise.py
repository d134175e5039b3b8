# SPDX-License-Identifier: Apache-2.0
"""Elementwise operators of StableHLO and CHLO.

erfc is computed as 1 - erf, so with an error of some 2^-23 absolute. reduce_precision with float32's exponent rounds
the bits: TVM computes bfloat16 in float32, and a cast there and back rounds nothing.
"""

import math
from collections.abc import Callable
from typing import Any

from tvm import relax
from tvm.ir import Call, Expr, Var

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common import maths
from arm_ext.frontends.stablehlo.attributes import ints, tensor_of, word
from arm_ext.frontends.stablehlo.scalars import by_total_order
from arm_ext.frontends.stablehlo.sorting import total_order
from arm_ext.frontends.stablehlo.translator import Convert, Translator
from arm_ext.frontends.stablehlo.values import Held
from relay_passes.canonicalize.define_rounding import rounded

Function = Callable[..., Expr]
R = relax.op

_EXPONENT, _MANTISSA = 8, 23
"""Numbers of bits of the exponent and of the mantissa of float32."""
_FLOAT16 = (5, 10)

_COMPARE: dict[str, Function] = {
    "EQ": R.equal,
    "GE": R.greater_equal,
    "GT": R.greater,
    "LE": R.less_equal,
    "LT": R.less,
    "NE": R.not_equal,
}
# LLVM's code generator compares Booleans as floats, which it then refuses.
_BOOLEAN: dict[str, Function] = {
    "EQ": lambda t, a, b: R.logical_not(t.emit(R.logical_xor(a, b))),
    "NE": lambda t, a, b: R.logical_xor(a, b),
}


def elementwise(function: Function) -> Convert:
    """Return a converter for an operator that is one Relax call."""

    def convert(t: Translator, op: Any, operands: list[Held]) -> list[Held]:
        exprs, kept = t.together(operands)
        return [Held(t.emit(function(*exprs)), operands[0].shape, kept)]

    return convert


def composed(function: Callable[..., Expr]) -> Convert:
    """Return a converter for an operator that `function`, of translator and operands, composes from others."""

    def convert(t: Translator, op: Any, operands: list[Held]) -> list[Held]:
        exprs, kept = t.together(operands)
        return [Held(t.emit(function(t, *exprs)), operands[0].shape, kept)]

    return convert


def logical(on_bools: Function, on_integers: Function) -> Convert:
    """Return a converter that uses `on_bools` for booleans and `on_integers` for integers."""

    def function(t: Translator, *operands: Expr) -> Expr:
        return (on_bools if str(operands[0].ty.dtype) == "bool" else on_integers)(*operands)

    return composed(function)


def same(t: Translator, op: Any, operands: list[Held]) -> list[Held]:
    """Convert an operator that changes no value, such as a sharding, a barrier or uniform_quantize."""
    return operands


def _compare(t: Translator, op: Any, operands: list[Held]) -> list[Held]:
    direction = word(op, "comparison_direction")
    if operands[0].dtype == "bool" and direction in _BOOLEAN:
        return composed(_BOOLEAN[direction])(t, op, operands)
    if by_total_order(op):
        return composed(lambda t, a, b: _COMPARE[direction](total_order(t, a), total_order(t, b)))(
            t, op, operands
        )
    return elementwise(_COMPARE[direction])(t, op, operands)


def _convert(t: Translator, op: Any, operands: list[Held]) -> list[Held]:
    tensor = tensor_of(op.results[0].type)
    (x,) = operands
    if tensor is None or tensor.dtype == x.dtype:
        return operands
    if tensor.dtype == "bool":
        return [Held(t.emit(R.not_equal(x.expr, t.number(0, x))), x.shape, x.kept)]
    return [Held(t.emit(R.astype(x.expr, tensor.dtype)), x.shape, x.kept)]


def _select(t: Translator, op: Any, operands: list[Held]) -> list[Held]:
    condition, yes, no = operands
    if (chosen := condition.scalar()) is not None:
        return [yes if chosen else no]
    # The predicate may be one for all elements.
    exprs, kept = t.together([Held(condition.expr, yes.shape, condition.kept), yes, no])
    return [Held(t.emit(R.where(*exprs)), yes.shape, kept)]


def _clamp(t: Translator, op: Any, operands: list[Held]) -> list[Held]:
    low, x, high = operands
    bounds = low.scalar(), high.scalar()
    if None not in bounds:
        return [Held(t.emit(R.clip(x.expr, *bounds)), x.shape, x.kept)]
    limits = [Held(bound.expr, x.shape, bound.kept) for bound in (low, high)]
    (least, value, most), kept = t.together([limits[0], x, limits[1]])
    return [Held(t.emit(R.minimum(t.emit(R.maximum(value, least)), most)), x.shape, kept)]


def _extremum(function: Function, neutral: float) -> Convert:
    """Return a converter of maximum or minimum that drops a neutral operand, as exporters write before reductions."""

    def convert(t: Translator, op: Any, operands: list[Held]) -> list[Held]:
        left, right = operands
        for x, other in ((left, right), (right, left)):
            if other.dtype.startswith(("float", "bfloat")) and other.scalar() == neutral:
                return [x]
        return elementwise(function)(t, op, operands)

    return convert


def _quotient(t: Translator, a: Expr, b: Expr) -> Expr:
    """Return a / b. XLA on the CPU gives integers by 0 all bits; `define_division` has the rest."""
    divided = t.emit(R.divide(a, b))
    if "int" not in str(a.ty.dtype):
        return divided
    is_zero = t.emit(R.equal(b, t.number(0, b)))
    return R.where(is_zero, t.emit(R.bitwise_not(t.number(0, a))), divided)


def _divide(t: Translator, op: Any, operands: list[Held]) -> list[Held]:
    x, count = operands
    number = count.scalar()
    if isinstance(number, float) and (mean := _mean(t, x, 1 / number if number else 0.0)):
        return [mean]
    return (elementwise(R.divide) if number else composed(_quotient))(t, op, operands)


def _multiply(t: Translator, op: Any, operands: list[Held]) -> list[Held]:
    if operands[0].dtype == "bool":
        return elementwise(R.logical_and)(t, op, operands)
    for x, factor in (operands, operands[::-1]):
        number = factor.scalar()
        if isinstance(number, float) and (mean := _mean(t, x, number)):
            return [mean]
    return elementwise(R.multiply)(t, op, operands)


def _mean(t: Translator, x: Held, factor: float) -> Held | None:
    """Return a sum times `factor` as a mean if the factor is one over the number of elements; else None."""
    call = t.bound(x)
    if not isinstance(call, Call) or call.op.name not in ("relax.sum", "relax.nn.avg_pool2d"):
        return None
    if call.op.name == "relax.sum":
        data = call.args[0]
        axes = [int(axis) for axis in call.attrs.axis]
        count = math.prod(int(data.ty.shape[axis]) for axis in axes)
        if math.isclose(factor * count, 1, rel_tol=1e-6):
            return Held(t.emit(R.mean(data, axes, call.attrs.keepdims)), x.shape, x.kept)
    return None


def negated(t: Translator, x: Expr) -> Expr:
    """Return -x, without a double negation."""
    call = t.builder.lookup_binding(x) if isinstance(x, Var) and x in t.names else x
    if isinstance(call, Call):
        if call.op.name == "relax.negative":
            return call.args[0]
        if call.op.name == "relax.multiply":
            for k, factor in enumerate(call.args):
                inner = t.builder.lookup_binding(factor) if factor in t.names else factor
                if isinstance(inner, Call) and inner.op.name == "relax.negative":
                    return t.emit(R.multiply(inner.args[0], call.args[1 - k]))
    return t.emit(R.negative(x))


def _sign(t: Translator, x: Expr) -> Expr:
    sign = R.sign(x)
    return R.where(t.emit(R.not_equal(x, x)), x, t.emit(sign)) if "float" in str(x.ty.dtype) else sign


def _erfc(t: Translator, x: Expr) -> Expr:
    return R.add(t.number(1, x), t.emit(R.erf(negated(t, x))))


def _reduce_precision(t: Translator, op: Any, operands: list[Held]) -> list[Held]:
    (x,), (exponent, mantissa) = operands, (ints(op, "exponent_bits")[0], ints(op, "mantissa_bits")[0])
    if x.dtype == "float32" and (exponent, mantissa) == (_EXPONENT, _MANTISSA):
        return operands
    if x.dtype == "float32" and (exponent, mantissa) == _FLOAT16:
        result = t.emit(R.astype(t.emit(R.astype(x.expr, "float16")), x.dtype))
    elif x.dtype == "float32" and exponent == _EXPONENT and mantissa < _MANTISSA:
        result = t.emit_kernel("rounded", lambda data: rounded(data, _MANTISSA - mantissa), x.expr)
    else:
        raise ModelError(
            f"it rounds {x.dtype} to {exponent} bits of exponent and {mantissa} of mantissa, which is not supported"
        )
    return [Held(result, x.shape, x.kept)]


# Operator → what converts it.
CONVERTERS: dict[str, Convert] = {
    "chlo.acos": composed(maths.acos),
    "chlo.acosh": composed(maths.acosh),
    "chlo.asin": composed(maths.asin),
    "chlo.asinh": composed(maths.asinh),
    "chlo.atan": composed(maths.atan),
    "chlo.atanh": composed(maths.atanh),
    "chlo.cosh": composed(maths.hyperbolic(1)),
    "chlo.erf": elementwise(R.erf),
    "chlo.erfc": composed(_erfc),
    "chlo.is_inf": composed(lambda t, x: R.equal(t.emit(R.abs(x)), t.number(math.inf, x))),
    "chlo.sinh": composed(maths.hyperbolic(-1)),
    "chlo.square": elementwise(lambda x: R.multiply(x, x)),
    "chlo.tan": elementwise(R.tan),
    "sdy.sharding_constraint": same,
    "stablehlo.abs": elementwise(R.abs),
    "stablehlo.add": logical(R.logical_or, R.add),
    "stablehlo.and": logical(R.logical_and, R.bitwise_and),
    "stablehlo.atan2": composed(maths.atan2),
    "stablehlo.cbrt": composed(maths.cube_root),
    "stablehlo.ceil": elementwise(R.ceil),
    "stablehlo.clamp": _clamp,
    "stablehlo.compare": _compare,
    "stablehlo.convert": _convert,
    "stablehlo.cosine": elementwise(R.cos),
    "stablehlo.count_leading_zeros": composed(maths.count_leading_zeros),
    "stablehlo.divide": _divide,
    "stablehlo.exponential": elementwise(R.exp),
    "stablehlo.exponential_minus_one": composed(maths.expm1),
    "stablehlo.floor": elementwise(R.floor),
    # TVM's own isfinite has no vector form.
    "stablehlo.is_finite": composed(lambda t, x: R.less(t.emit(R.abs(x)), t.number(math.inf, x))),
    "stablehlo.log": elementwise(R.log),
    "stablehlo.log_plus_one": composed(maths.log1p),
    "stablehlo.logistic": elementwise(R.sigmoid),
    "stablehlo.maximum": _extremum(R.maximum, -math.inf),
    "stablehlo.minimum": _extremum(R.minimum, math.inf),
    "stablehlo.multiply": _multiply,
    "stablehlo.negate": elementwise(R.negative),
    "stablehlo.not": logical(R.logical_not, R.bitwise_not),
    "stablehlo.optimization_barrier": same,
    "stablehlo.or": logical(R.logical_or, R.bitwise_or),
    "stablehlo.popcnt": composed(maths.count_ones),
    "stablehlo.power": composed(maths.power),
    "stablehlo.reduce_precision": _reduce_precision,
    "stablehlo.remainder": elementwise(R.mod),
    "stablehlo.round_nearest_afz": composed(maths.half_away),
    "stablehlo.round_nearest_even": elementwise(R.round),
    "stablehlo.rsqrt": elementwise(R.rsqrt),
    "stablehlo.select": _select,
    "stablehlo.shift_left": elementwise(R.left_shift),
    "stablehlo.shift_right_arithmetic": elementwise(R.right_shift),
    "stablehlo.shift_right_logical": composed(maths.shift_right_logical),
    "stablehlo.sign": composed(_sign),
    "stablehlo.sine": elementwise(R.sin),
    "stablehlo.sqrt": elementwise(R.sqrt),
    "stablehlo.subtract": elementwise(R.subtract),
    "stablehlo.tan": elementwise(R.tan),
    "stablehlo.tanh": elementwise(R.tanh),
    "stablehlo.uniform_dequantize": same,
    "stablehlo.uniform_quantize": same,
    "stablehlo.xor": logical(R.logical_xor, R.bitwise_xor),
}
