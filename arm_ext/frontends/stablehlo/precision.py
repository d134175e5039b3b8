# SPDX-License-Identifier: Apache-2.0
"""StableHLO's reduce_precision: rounding to a narrower float format in the same dtype.

With float32's exponent it is done on the bits: TVM computes bfloat16 in float32, and a cast there and back rounds
nothing.
"""

from typing import Any

from tvm import relax

from arm_ext.common.errors import ModelError
from arm_ext.frontends.stablehlo.attributes import ints
from arm_ext.frontends.stablehlo.translator import Convert, Translator
from arm_ext.frontends.stablehlo.values import Held
from relay_passes.canonicalize.define_rounding import rounded

R = relax.op
_EXPONENT, _MANTISSA = 8, 23
"""Bits of float32."""
_FLOAT16 = (5, 10)


def _reduce_precision(t: Translator, op: Any, operands: list[Held]) -> list[Held]:
    (x,), (exponent, mantissa) = operands, (ints(op, "exponent_bits")[0], ints(op, "mantissa_bits")[0])
    if x.dtype == "float32" and (exponent, mantissa) == (_EXPONENT, _MANTISSA):
        return operands
    if x.dtype == "float32" and (exponent, mantissa) == _FLOAT16:
        result = t.emit(R.astype(t.emit(R.astype(x.expr, "float16")), x.dtype))
    elif x.dtype == "float32" and exponent == _EXPONENT and mantissa < _MANTISSA:
        result = t.emit_kernel("rounded", lambda data: rounded(data, _MANTISSA - mantissa), x.expr)
    else:
        raise ModelError(f"it rounds {x.dtype} to {exponent} bits of exponent and {mantissa} of mantissa")
    return [Held(result, x.shape, x.kept)]


# Operator → what converts it.
CONVERTERS: dict[str, Convert] = {"stablehlo.reduce_precision": _reduce_precision}
