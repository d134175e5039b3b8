# SPDX-License-Identifier: Apache-2.0
"""Arithmetic and shifts on integers that are not quantised values, in TOSA's int32.

    astype(right_shift(astype(x, "uint32"), amounts), "int32")    →    one logical_right_shift of int32

TOSA does not define overflow of int32, shifts by more than 31, and division by 0. An operator is offloaded only if a
range analysis excludes them:

    add(astype(x, "int32"), 1000)    →    range [872, 1127] for x of int8

Ranges follow from dtypes, constants and casts; the results of other operators have the whole range of their dtype.
Arithmetic on accumulators is part of their sum and is not parsed here.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import tosa_serializer as ts
from tvm.ir import Call, Expr, GenericConst, Var

from arm_ext.ethosu.ops.common.constraint import EARLIER, OF_U85, SUPPORTED_OPS, TOSA, Constraint
from arm_ext.ethosu.ops.common.contract import Operation, of_relax, operator_of
from arm_ext.ethosu.ops.common.integers import (
    WIDE,
    IntegerOperands,
    TosaForm,
    emit_form,
    integer_dtypes,
    operands_of,
)
from arm_ext.ethosu.ops.common.operators import Operator
from arm_ext.ethosu.ops.common.reading import Reader, constants, dtype_of, name_of
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor

Range = tuple[int, int]
"""Least and greatest value, both included."""

_FORMS: Mapping[str, TosaForm] = {
    "integer_add": TosaForm(ts.Op.ADD),
    "integer_subtract": TosaForm(ts.Op.SUB),
    "integer_multiply": TosaForm(ts.Op.MUL),
    "abs": TosaForm(ts.Op.ABS),
    "negative": TosaForm(ts.Op.NEGATE),
    "left_shift": TosaForm(ts.Op.LOGICAL_LEFT_SHIFT),
    "right_shift": TosaForm(ts.Op.ARITHMETIC_RIGHT_SHIFT, (False,)),
    "logical_right_shift": TosaForm(ts.Op.LOGICAL_RIGHT_SHIFT),
    "divide": TosaForm(ts.Op.INTDIV),
}
KINDS = tuple(_FORMS)

_ALL: Range = (-(1 << 31), (1 << 31) - 1)
_SHIFTS: Range = (0, 31)
_BY_ENDS: Mapping[str, Callable[[int, int], int]] = {
    "integer_add": lambda a, b: a + b,
    "integer_subtract": lambda a, b: a - b,
    "integer_multiply": lambda a, b: a * b,
}


@dataclass(frozen=True, kw_only=True)
class Arithmetic(IntegerOperands):
    """Attributes of integer arithmetic.

    Attributes:
        ranges: Range of each operand.
    """

    ranges: tuple[Range, ...]


def _attributes(call: Call, reader: Reader) -> Arithmetic:
    return Arithmetic(operands=constants(list(call.args)), ranges=_ranges(call, reader))


def _ranges(call: Call, reader: Reader) -> tuple[Range, ...]:
    args = [arg for arg in call.args if isinstance(arg, Var | GenericConst)]
    return tuple(range_of(arg, reader.value(arg)) for arg in args)


def parse_shifted_bits(var: Var, value: Expr, reader: Reader) -> Operator[Arithmetic] | None:
    """Parse a right shift between a cast to uint32 and one back to int32, whose results have no other use."""
    assert isinstance(value, Call), value
    if str(value.attrs.dtype) != "int32":
        return None
    shift = reader.single(value.args[0])
    if shift is None or name_of(shift) != "right_shift" or not isinstance(shift.args[1], GenericConst):
        return None
    bits = reader.single(shift.args[0])
    if bits is None or name_of(bits) != "astype" or str(shift.ty.dtype) != "uint32":
        return None
    if dtype_of(bits.args[0]) != "int32":
        return None
    amounts = shift.args[1].value.numpy().astype(np.int32)  # a shift below 32, the range that TOSA allows
    given = Arithmetic(operands=(None, amounts), ranges=_ranges(shift, reader))
    found = operator_of("logical_right_shift", var, shift, given, [bits.args[0]])
    return replace(found, bindings=(shift.args[0], value.args[0], var))


def range_of(arg: Expr, value: Expr | None) -> Range:
    """Return the range of an operand: a constant's, a widened dtype's, or the whole range of its dtype.

    Args:
        arg: The operand.
        value: The value that it is bound to; None for a parameter or constant.
    """
    if isinstance(arg, GenericConst):
        numbers = arg.value.numpy()
        return int(numbers.min()), int(numbers.max())
    dtype = dtype_of(arg)
    if isinstance(value, Call) and name_of(value) == "astype":
        dtype = dtype_of(value.args[0])
    if "int" not in dtype:
        return 0, 1
    return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)


def result(kind: str, operands: tuple[Range, ...]) -> Range | None:
    """Return the range of an operator's result; None if the operands' ranges do not bound it."""
    match kind:
        case "abs" | "negative":
            ends = [-operands[0][0], -operands[0][1]]
            return min(ends), max(ends)
        case "left_shift" | "right_shift" | "logical_right_shift":
            least, most = operands[1]
            return _ALL if _SHIFTS[0] <= least and most <= _SHIFTS[1] else None
        case "divide":
            least, most = operands[1]
            # -2**31 / -1 exceeds int32 by one.
            safe = least > 0 or most < -1 or (most < 0 and operands[0][0] > _ALL[0])
            return _ALL if safe else None
    found = [_BY_ENDS[kind](a, b) for a, b in product(*operands)]
    return min(found), max(found)


def is_defined(kind: str, operands: tuple[Range, ...]) -> bool:
    """Whether TOSA defines an operator's result for all operands in these ranges."""
    found = result(kind, operands)
    return found is not None and _ALL[0] <= found[0] and found[1] <= _ALL[1]


_ROUNDS: Constraint[Arithmetic] = Constraint(
    "the accelerator rounds the result of right shifts", "of Ethos-U85", lambda op: op.kind, lambda _: False,
    "leave it to the CPU", SUPPORTED_OPS, EARLIER,
)  # fmt: skip
_OF_32_BITS: Constraint[Arithmetic] = Constraint(
    "TOSA has it for int32 only", "int32", integer_dtypes, lambda found: found == (WIDE,), "widen it first",
    TOSA,
)  # fmt: skip
_DEFINED: Constraint[Arithmetic] = Constraint(
    "its result may overflow 32 bits or be undefined", "operands for which TOSA defines the result",
    lambda op: is_defined(op.kind, op.attributes.ranges), bool,
    "widen from fewer bits, or divide and shift by constants", TOSA,
)  # fmt: skip


def emit(graph: TosaGraph, operator: Operator[Arithmetic], *data: TosaTensor) -> TosaTensor:
    """Emit the TOSA operator of `_FORMS`, with a shift of 0 for MUL and zero points of 0 for NEGATE."""
    operands, further = operands_of(graph, operator, data), list[TosaTensor]()
    if operator.kind == "integer_multiply":
        further = [graph.scalar(0, "int8")]
    if operator.kind == "negative":
        further = [graph.scalar(0, operands[0].dtype)] * 2
    return emit_form(graph, _FORMS[operator.kind], operator, operands, further)


def _operation(*kinds: str, on: tuple[Constraint[Arithmetic], ...] = ()) -> Operation[Arithmetic]:
    """Return the operation for kinds that share constraints; `on` is the constraint on families, if any."""
    own = [kind for kind in kinds if kind != "logical_right_shift"]
    patterns = {kind.removeprefix("integer_"): of_relax(kind, _attributes) for kind in own}
    if "logical_right_shift" in kinds:
        patterns["astype"] = parse_shifted_bits
    return Operation(kinds=kinds, patterns=patterns, constraints=(*on, _OF_32_BITS, _DEFINED), emit=emit)


ON_ALL = _operation("integer_add", "integer_subtract", "integer_multiply", "abs", "negative", "left_shift")
ON_U85 = _operation("logical_right_shift", "divide", on=(OF_U85,))
RIGHT_SHIFT = _operation("right_shift", on=(_ROUNDS,))
