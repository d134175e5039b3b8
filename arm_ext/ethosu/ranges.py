# SPDX-License-Identifier: Apache-2.0
"""Range analysis of Relax's integer arithmetic, because TOSA leaves overflow of 32 bits undefined.

    add(astype(x, "int32"), 1000)    →    from 872 to 1127, for x of 8 bits

Ranges are of types, constants and casts alone; nothing is known of a tensor's values.
"""

from collections.abc import Callable, Mapping
from itertools import product

import numpy as np
from tvm.ir import Call, Expr, GenericConst

from arm_ext.ethosu.integer_ops import name_of

Range = tuple[int, int]
"""The least and the greatest value."""

_ALL: Range = (-(1 << 31), (1 << 31) - 1)
_SHIFTS: Range = (0, 31)
_BY_ENDS: Mapping[str, Callable[[int, int], int]] = {
    "integer_add": lambda a, b: a + b,
    "integer_subtract": lambda a, b: a - b,
    "integer_multiply": lambda a, b: a * b,
}

COMPUTED = (*_BY_ENDS, "abs", "negative", "left_shift", "right_shift", "logical_right_shift", "divide")
"""Kinds whose result depends on how far their operands reach."""


def range_of(arg: Expr, value: Expr | None) -> Range:
    """Return the range of an operand: a constant's, a widened dtype's, or the whole range of its dtype.

    Args:
        arg: The operand.
        value: What computes it, if anything does.
    """
    if isinstance(arg, GenericConst):
        numbers = arg.value.numpy()
        return int(numbers.min()), int(numbers.max())
    dtype = str(arg.ty.dtype)
    if isinstance(value, Call) and name_of(value) == "astype":
        dtype = str(value.args[0].ty.dtype)
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
            # -2**31 / -1 is one too many.
            safe = least > 0 or most < -1 or (most < 0 and operands[0][0] > _ALL[0])
            return _ALL if safe else None
    found = [_BY_ENDS[kind](a, b) for a, b in product(*operands)]
    return min(found), max(found)


def fits(kind: str, operands: tuple[Range, ...]) -> bool:
    """Whether TOSA defines an operator's result for all operands in these ranges."""
    found = result(kind, operands)
    return found is not None and _ALL[0] <= found[0] and found[1] <= _ALL[1]
