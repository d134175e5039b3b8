# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions of two quantised tensors: RESCALE of each, the operator on int32, RESCALE of the result.

    add, subtract       q = saturate(rescale(rescale(da, fa) op rescale(db, fb), fy) + zy)
    multiply            q = saturate(rescale(da * db, sa * sb / sy) + zy)
    maximum, minimum    q = op(saturate(rescale(da, sa / sy) + zy), saturate(rescale(db, sb / sy) + zy))

with da = a - za. The factors of add and subtract rescale both operands to the scale s / 2**bits, s = max(sa, sb):

    fa = 2**bits * sa / s    fb = 2**bits * sb / s    fy = s / (2**bits * sy)    bits = 19, or 14 for 16-bit operands
    fa = fb = 1              fy = s / sy              if sa = sb: the sum is exact

With these factors Ethos-U55 and U65 compute the function in one command. A constant operand c is an int32 tensor: of
add and subtract rne(c / s * 2**bits) with sb = max|c| / 127; of multiply rne(c / sb) with sb = max|c| / 32767; of
maximum and minimum, c quantised as y.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from tvm import ir, te, tirx

from schedules.numerics.qdq.values import (
    Array,
    Bounds,
    Floats,
    Quantization,
    integer_bounds,
    limits,
    quantize,
)
from schedules.numerics.routine import Routine, broadcast, routine
from schedules.numerics.tosa.rescale import RescaleFactor, rescale, rescale_tir, saturate_tir, scale_of

Op = Literal["add", "subtract", "multiply", "maximum", "minimum"]
Operand = Quantization | Floats

OPS: tuple[str, ...] = get_args(Op)

_SUM_BITS = {8: 19, 16: 14}
_ONE = scale_of(1.0)
# The quantised value of max|c| of a constant: the maximum of 8 bits, or of 16 bits for products.
_CONSTANT_STEPS = {"add": 127, "subtract": 127, "multiply": 32767}
_TIR: dict[str, Callable[[ir.Expr, ir.Expr], ir.Expr]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b,
    "maximum": tirx.max,
    "minimum": tirx.min,
}


@dataclass(frozen=True)
class Term:
    """One operand: its zero point and its RESCALE before the operator.

    Attributes:
        zero_point: Zero point, which is subtracted first; 0 for a constant.
        scale: The RESCALE that follows the subtraction.
        constant: Values of a constant operand, int32 and already rescaled; None for a tensor.
    """

    zero_point: int
    scale: RescaleFactor
    constant: Array | None = None


@dataclass(frozen=True)
class Terms:
    """The RESCALEs of the operands and of the result.

    Attributes:
        a: RESCALE of the first operand.
        b: RESCALE of the second operand.
        y: RESCALE of the result; the identity for maximum and minimum, whose operands are rescaled to y's scale.
    """

    a: Term
    b: Term
    y: RescaleFactor


def terms(op: Op, operands: tuple[Operand, Operand], y: Quantization) -> Terms:
    """Return the RESCALEs of a function of quantised operands or constant float32 arrays.

    Raises:
        ValueError: A scale is out of RESCALE's range, or the function is a product of 16-bit tensors with zero points.
    """
    if op in ("maximum", "minimum"):
        a, b = (_as_output(operand, y) for operand in operands)
        return Terms(a, b, _ONE)
    a_step, b_step = (_step(op, operand) for operand in operands)
    if op == "multiply":
        if all(_bits(operand) == 16 and _zero(operand) for operand in operands):
            raise ValueError("a product of two 16-bit tensors with zero points exceeds int32")
        a, b = (_term(operand, _ONE, step) for operand, step in zip(operands, (a_step, b_step), strict=True))
        return Terms(a, b, scale_of(a_step * b_step / y.scale))
    step = max(a_step, b_step)
    units = 1 if a_step == b_step else 1 << _SUM_BITS[max(_bits(operand) for operand in operands)]
    a, b = (
        _term(operand, scale_of(units * own / step), step / units)
        for operand, own in zip(operands, (a_step, b_step), strict=True)
    )
    return Terms(a, b, scale_of(step / (units * y.scale)))


def _step(op: Op, operand: Operand) -> float:
    if not isinstance(operand, np.ndarray):
        return float(operand.scale)
    greatest = float(np.abs(operand.astype(np.float64)).max(initial=0.0))
    return (greatest or 1.0) / _CONSTANT_STEPS[op]


def _bits(operand: Operand) -> int:
    return 8 if isinstance(operand, np.ndarray) else np.iinfo(operand.dtype).bits


def _zero(operand: Operand) -> int:
    return 0 if isinstance(operand, np.ndarray) else operand.zero_point


def _term(operand: Operand, scale: RescaleFactor, step: float) -> Term:
    if isinstance(operand, np.ndarray):
        return Term(0, _ONE, np.rint(operand.astype(np.float64) / step).astype(np.int32))
    return Term(operand.zero_point, scale)


def _as_output(operand: Operand, y: Quantization) -> Term:
    if isinstance(operand, np.ndarray):
        return Term(0, _ONE, quantize(operand, y).astype(np.int32) - y.zero_point)
    return Term(operand.zero_point, scale_of(operand.scale / y.scale))


def binary(
    op: Op,
    values: tuple[Array, Array],
    operands: tuple[Operand, Operand],
    y: Quantization,
    bounds: Bounds = (None, None),
) -> Array:
    """Compute the quantised function of two tensors, which broadcast, by the module's definition.

    `values` of a constant operand are not used.
    """
    return of_terms(op, values, terms(op, operands, y), y, integer_bounds(y, bounds))


def of_terms(
    op: Op, values: tuple[Array, Array], found: Terms, y: Quantization, bounds: tuple[int, int]
) -> Array:
    """Compute `binary` by given RESCALEs; `bounds` are the minimum and maximum of y, clamp included."""

    def real(term: Term, value: Array) -> Array:
        if term.constant is not None:
            return term.constant.astype(np.int64)
        scaled = rescale(value.astype(np.int64) - term.zero_point, term.scale.multiplier, term.scale.shift)
        # Each operand of a maximum or minimum is rescaled and saturated to y's quantisation.
        least, most = (limit - y.zero_point for limit in limits(y.dtype))
        return np.clip(scaled, least, most) if op in ("maximum", "minimum") else scaled

    result = getattr(np, op)(real(found.a, values[0]), real(found.b, values[1]))
    whole = rescale(result, found.y.multiplier, found.y.shift) + y.zero_point
    return np.asarray(np.clip(whole, *bounds).astype(y.dtype))


def binary_routine(
    op: Op,
    shapes: tuple[Sequence[int], Sequence[int]],
    operands: tuple[Operand, Operand],
    y: Quantization,
    bounds: Bounds,
) -> Routine:
    """Return a routine that computes `binary`; a float array as an operand becomes an int32 constant.

    At least one operand is quantised. The attributes are zero_point, multiplier and shift with the prefixes a_, b_ and
    y_, low and high; a constant has no zero_point.
    """
    found = terms(op, operands, y)
    low, high = integer_bounds(y, bounds)
    named = dict(zip("ab", (found.a, found.b), strict=True))
    tensors = {
        name: te.placeholder(shape, "int32" if isinstance(o, np.ndarray) else o.dtype, name)
        for name, shape, o in zip("ab", shapes, operands, strict=True)
    }
    shape = np.broadcast_shapes(*(tuple(shape) for shape in shapes))
    least, most = (tirx.IntImm("int64", limit - y.zero_point) for limit in limits(y.dtype))

    def real(name: str, indices: Sequence[tirx.Var]) -> ir.Expr:
        term, element = named[name], tirx.Cast("int32", broadcast(tensors[name], shape, indices))
        if term.constant is not None:
            return tirx.Cast("int64", element)
        centred = element - tirx.IntImm("int32", term.zero_point)
        scaled = rescale_tir(centred, term.scale.multiplier, term.scale.shift)
        return tirx.max(tirx.min(scaled, most), least) if op in ("maximum", "minimum") else scaled

    def value(*i: tirx.Var) -> ir.Expr:
        result = tirx.Cast("int32", _TIR[op](real("a", i), real("b", i)))
        scaled = rescale_tir(result, found.y.multiplier, found.y.shift)
        return saturate_tir(scaled, y.zero_point, low, high, y.dtype)

    out = te.compute(shape, value, op)
    constants = {name: term.constant for name, term in named.items() if term.constant is not None}
    order = [*(n for n in "ab" if n not in constants), *constants]
    parameters: dict[str, Any] = {"low": low, "high": high, "y_zero_point": y.zero_point}
    for name, scale in (("a", found.a.scale), ("b", found.b.scale), ("y", found.y)):
        parameters |= {f"{name}_multiplier": scale.multiplier, f"{name}_shift": scale.shift}
    parameters |= {f"{n}_zero_point": term.zero_point for n, term in named.items() if n not in constants}
    return routine(f"tosa.{op}", [*(tensors[n] for n in order), out], list(constants.values()), **parameters)
