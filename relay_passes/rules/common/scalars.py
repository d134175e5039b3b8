# SPDX-License-Identifier: Apache-2.0
"""Checks of constants whose elements are all equal, of clamp bounds, and of broadcast shapes."""

import math
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
from tvm.ir import Call, Constant, Expr
from tvm.tirx import FloatImm, IntImm

from relay_passes.ir.shapes import static_shape
from relay_passes.rewriter.rule import Match
from schedules.diagnostic import Diagnostic

# A float32 constant is within eps of the number that it represents; one that an exporter computed in float32, such
# as 1 / sqrt(2), within a few.
TOLERANCE = 4 * float(np.finfo(np.float32).eps)


def all_normal(values: npt.NDArray[Any]) -> bool:
    """Whether all values of a float (or bfloat16) tensor are finite and neither 0 nor subnormal."""
    magnitudes = np.abs(values)
    return bool(np.isfinite(values).all() and magnitudes.min() >= ml_dtypes.finfo(values.dtype).tiny)


def uniform_value(expr: Expr) -> float | None:
    """Return the number that all elements of a constant are equal to, for any shape; None for other expressions."""
    if not isinstance(expr, Constant):
        return None
    value = expr.value.numpy()
    return float(value.flat[0]) if value.size and (value == value.flat[0]).all() else None


def is_number(expr: Expr, number: float) -> bool:
    """Whether `expr` is a constant whose elements are all equal to `number` rounded to float32."""
    actual = uniform_value(expr)
    return actual is not None and math.isclose(actual, number, rel_tol=TOLERANCE)


def has_bounds(call: Call) -> bool:
    """Whether all bounds of a `relax.clip` or `relax.nn.relu` are constants."""
    return all(isinstance(arg, IntImm | FloatImm) for arg in call.args[1:])


def bounds(call: Call) -> tuple[float, float]:
    """Return the bounds of a `relax.clip` or `relax.nn.relu` for which `has_bounds` holds."""
    if str(call.op.name) == "relax.nn.relu":
        return 0.0, math.inf
    low, high = call.args[1:]
    return float(low.value), float(high.value)


def enlarged(match: Match) -> Diagnostic | None:
    """Return a rejection if broadcasting a constant makes the part "root" larger than "x"; else None."""
    x, root = match.operands["x"], match.values["root"]
    if x.ty == root.ty:
        return None
    return match.reject("a constant enlarges the tensor", static_shape(x), static_shape(root))
