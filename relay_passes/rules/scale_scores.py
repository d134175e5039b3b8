# SPDX-License-Identifier: Apache-2.0
"""Attention's scale, whose root exporters apply to q and to k, is applied once to their product.

    softmax(matmul(q · a, k · b) + mask)    →    softmax(matmul(q, k) · (a · b) + mask)
    with one or both scales, with or without the mask; a and b are one number each

One multiplication in the matmul's epilogue replaces a pass over q and a pass over k. Sums of products are scaled
instead of the factors: error relative to sum(|q · k|) · a · b ≤ (n + 3) eps for n terms, eps = 2^-23. The rule does not
apply to float16, in which unscaled products could overflow.

Quantised: if a factor or the product is quantised, the rule does not match.
"""

import math

from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_const, is_op, wildcard

from relay_passes.rewriter.patterns import any_of
from relay_passes.rewriter.rule import Match, Rule
from relay_passes.rules.common.scalars import uniform_value
from schedules.diagnostic import Diagnostic

_DTYPES = ("float32", "float64")

_q, _k, _a, _b, _mask = wildcard(), wildcard(), is_const(), is_const(), wildcard()
_matmul, _multiply = is_op("relax.matmul"), is_op("relax.multiply")
_qa, _kb = _multiply(_q, _a), _multiply(_k, _b)
_scores = any_of(_matmul(_qa, _kb), _matmul(_qa, _k), _matmul(_q, _kb))
_masked = is_op("relax.add")(_scores, _mask)
_root = is_op("relax.nn.softmax")(_masked | _scores)


def check(match: Match) -> Match | Diagnostic:
    """Check that each scale is one number, and that broadcasting it does not enlarge the tensor."""
    dtype = str(match.values["scores"].ty.dtype)
    if dtype not in _DTYPES:
        return match.reject("unscaled products may overflow", limit=", ".join(_DTYPES), actual=dtype)
    for scale, operand, product in (("a", "q", "qa"), ("b", "k", "kb")):
        if scale not in match.operands:
            continue
        if uniform_value(match.operands[scale]) is None:
            return match.reject(f"scale of {operand} is not one number")
        if match.values[product].ty != match.operands[operand].ty:
            return match.reject(f"scale of {operand} enlarges the tensor")
    return match


def rewrite(match: Match) -> Expr:
    """Return the scores with one scale, computed in float64 and rounded once."""
    scale = math.prod(float(match.constant(part).flat[0]) for part in ("a", "b") if part in match.operands)
    scores = match.values["scores"]
    product = relax.op.matmul(match.operands["q"], match.operands["k"], scores.attrs.out_dtype)
    value = relax.op.multiply(product, relax.const(scale, str(scores.ty.dtype)))
    if "masked" in match.values:
        value = relax.op.add(value, match.operands["mask"])
    return relax.op.nn.softmax(value, match.values["root"].attrs.axis)


RULE = Rule(
    name="scale_scores",
    pattern=_root,
    parts={
        "q": _q,
        "k": _k,
        "a": _a,
        "b": _b,
        "qa": _qa,
        "kb": _kb,
        "mask": _mask,
        "masked": _masked,
        "scores": _scores,
        "root": _root,
    },
    check=check,
    rewrite=rewrite,
)
