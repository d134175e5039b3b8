# SPDX-License-Identifier: Apache-2.0
"""Products of binary16 are accumulated in binary32 and rounded once, for any accumulator dtype in the model.

    anchor(x, w)    →    float16(anchor(x, w, out_dtype=float32))

A sum in binary16 stops growing if a term is less than half a unit in its last place; a sum of ones stops at 2048. Error
relative to sum(|x · w|) ≤ n eps for n terms, eps = 2^-24, plus half a unit of binary16. Kernels of binary16 match this
form. Matmuls of two computed tensors are not changed: they are part of attention, or generic loops that also sum in
binary32.

Quantised: integer accumulators are not binary16, so that the rule does not match.
"""

from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import wildcard

from relay_passes.ir.calls import with_attrs
from relay_passes.rewriter.rule import Match, Rule
from relay_passes.rules.common.linear_calls import anchor
from schedules.diagnostic import Diagnostic

_HALF, _FULL = "float16", "float32"

_x, _w = wildcard(), wildcard()
_root = anchor(_x, _w)


def check(match: Match) -> Match | Diagnostic:
    """Check that operands and result are float16 and, for a matmul, that weights are constant."""
    call, weight = match.values["root"], match.operands["w"]
    dtypes = [str(value.ty.dtype) for value in (match.operands["x"], weight, call)]
    if set(dtypes) != {_HALF}:
        return match.reject("an operand or the result is not float16", _HALF, ", ".join(dtypes))
    if call.op.name == "relax.matmul" and not match.is_constant("w"):
        return match.reject("both operands are computed at run time")
    return match


def rewrite(match: Match) -> Expr:
    """Return the product with its sum in binary32, then rounded."""
    return relax.op.astype(with_attrs(match.values["root"], out_dtype=_FULL), _HALF)


RULE = Rule(
    name="sum_halves_in_full",
    pattern=_root,
    parts={"x": _x, "w": _w, "root": _root},
    check=check,
    rewrite=rewrite,
)
