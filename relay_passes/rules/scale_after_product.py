# SPDX-License-Identifier: Apache-2.0
"""The scale of int8 weights of a product with float data is applied after the product: weights stay int8 in memory.

    matmul(x, dequantize(Q, s))                   →    matmul(x, Q)·s        s: one number, or one per output channel
    matmul(x, dequantize(permute_dims(Q), s))     →    likewise, with Q permuted

For any dtype of x, the product is summed in float32 and multiplied by s in float32, because sums of integers may exceed
the range of float16. If x is float16, the cast of the weights to float16 is removed, too, as integers need none. An
output differs from the original by at most (K + 2)·u·Σ|x·Q·s|, u the unit roundoff of float32, plus the errors of the
removed rounding to float16.

Quantised: applies to products that `integerize` left, whose data is float.
"""

import numpy as np
from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_op, wildcard

from relay_passes.ir.calls import tensor_const
from relay_passes.ir.shapes import shape_of
from relay_passes.rewriter.rule import Match, Rule
from schedules.diagnostic import Diagnostic

_data, _weight, _scale, _zero = wildcard(), wildcard(), wildcard(), wildcard()
_dequantized = is_op("relax.dequantize")(_weight, _scale, _zero)
_cast = is_op("relax.astype")(_dequantized)
_permuted = is_op("relax.permute_dims")(_dequantized)
_product = is_op("relax.matmul")(_data, _dequantized | _cast | _permuted)

_MATRIX = 2


def check(match: Match) -> Match | Diagnostic:
    """Check that weights are an int8 matrix with one scale per output channel (or one) and no zero point."""
    for part in ("weight", "scale", "zero"):
        if not match.is_constant(part):
            return match.reject(f"{part} is not a constant")
    weight, scale = match.constant("weight"), match.constant("scale")
    if weight.dtype != np.int8 or weight.ndim != _MATRIX:
        return match.reject(
            "weight is no matrix of int8", limit="int8, 2 axes", actual=f"{weight.dtype}, {weight.ndim} axes"
        )
    if match.constant("zero").any():
        return match.reject(
            "weight has a zero point", limit=0, actual=int(np.abs(match.constant("zero")).max())
        )
    axis = int(match.values["dequantized"].attrs.axis) % _MATRIX
    if scale.size > 1 and axis != _output_axis(match):
        return match.reject("scale goes along the sum", limit=_output_axis(match), actual=axis)
    if "permuted" in match.values and shape_of(match.values["permuted"]) != weight.shape[::-1]:
        return match.reject("weight is permuted, but not transposed")
    return match


def rewrite(match: Match) -> Expr:
    """Return the float32 product with the integers, multiplied by the scale."""
    weight, scale = match.constant("weight"), match.constant("scale").astype(np.float32)
    if "permuted" in match.values:
        weight = np.ascontiguousarray(weight.T)
    product = relax.op.matmul(match.operands["data"], relax.const(weight), out_dtype="float32")
    scaled = relax.op.multiply(
        product, tensor_const(scale.reshape(-1) if scale.size > 1 else scale.reshape(1))
    )
    dtype = str(match.values["product"].ty.dtype)
    return scaled if dtype == "float32" else relax.op.astype(scaled, dtype)


def _output_axis(match: Match) -> int:
    return 0 if "permuted" in match.values else 1


RULE = Rule(
    name="scale_after_product",
    pattern=_product,
    parts={
        "data": _data,
        "weight": _weight,
        "scale": _scale,
        "zero": _zero,
        "dequantized": _dequantized,
        "permuted": _permuted,
        "product": _product,
    },
    check=check,
    rewrite=rewrite,
)
