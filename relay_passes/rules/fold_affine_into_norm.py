# SPDX-License-Identifier: Apache-2.0
"""A scale or a shift after a norm is folded into the norm's constants.

    layer_norm(x, gamma, beta) · s    →    layer_norm(x, gamma · s, beta · s)
    layer_norm(x, gamma, beta) + t    →    layer_norm(x, gamma, beta + t)
    rms_norm(x, weight) · s           →    rms_norm(x, weight · s)

Exact for the norms that rules recognise (gamma = 1, beta = 0). For others a product or sum is rounded once instead of
twice: error ≤ 2 eps · max(|gamma · s| · |normalised|, |beta + t|).

Quantised: a `dequantize` of a constant is no constant in this pattern, so that the rule does not match.
"""

import numpy as np
from tvm.ir import Call, Expr
from tvm.relax.dpl import is_const, is_op, wildcard

from relay_passes.ir.calls import tensor_const
from relay_passes.rewriter.rule import Match, Rule
from schedules.diagnostic import Diagnostic

_x, _gamma, _beta, _factor, _shift = wildcard(), is_const(), is_const(), is_const(), is_const()
_layer_norm = is_op("relax.nn.layer_norm")(_x, _gamma, _beta)
_rms_norm = is_op("relax.nn.rms_norm")(_x, _gamma)
_norm = _layer_norm | _rms_norm
_root = is_op("relax.multiply")(_norm, _factor) | is_op("relax.add")(_norm, _shift)


def check(match: Match) -> Match | Diagnostic:
    """Check that the constant has one element, or one per element of the normalised axes."""
    if "shift" in match.operands and "beta" not in match.operands:
        return match.reject("the norm has no shift of its own")
    shape, affine = match.constant("gamma").shape, match.constant(_affine(match)).shape
    outer = affine[: max(len(affine) - len(shape), 0)]
    if any(n != 1 for n in outer) or match.values["root"].ty != match.operands["x"].ty:
        reason = f"{_affine(match)} is not one number an element of the normalised axes"
        return match.reject(reason, limit=list(shape), actual=list(affine))
    return match


def rewrite(match: Match) -> Expr:
    """Return the norm with the new constants, computed in float64 and rounded once."""
    norm, gamma = match.values["norm"], match.constant("gamma")
    affine = match.constant(_affine(match)).astype(np.float64)
    affine = affine.reshape(affine.shape[max(affine.ndim - gamma.ndim, 0) :])
    constants = [gamma, match.constant("beta")] if "beta" in match.values else [gamma]
    if "factor" in match.values:
        constants = [constant * affine for constant in constants]
    else:
        constants[1] = constants[1] + affine
    new = (tensor_const(constant.astype(gamma.dtype)) for constant in constants)
    return Call(norm.op, [match.operands["x"], *new], norm.attrs, norm.ty_args)


def _affine(match: Match) -> str:
    return "factor" if "factor" in match.values else "shift"


RULE = Rule(
    name="fold_affine_into_norm",
    pattern=_root,
    parts={
        "x": _x,
        "gamma": _gamma,
        "beta": _beta,
        "factor": _factor,
        "shift": _shift,
        "norm": _norm,
        "root": _root,
    },
    check=check,
    rewrite=rewrite,
)
