# SPDX-License-Identifier: Apache-2.0
"""A shift or scale after a reshape that splits the last axis is moved before it, where a product's kernel can fuse it.

    reshape(x, (…, h, k)) + c    →    reshape(x + reshape(c, (h · k)), (…, h, k))
    reshape(x, (…, h, k)) · c    →    reshape(x · reshape(c, (h · k)), (…, h, k))
    where x has the shape (…, h · k), and c the shape (h, k) or a single element

JAX's libraries write attention's projections in this form, with heads as an axis. Exact: the operation for each element
does not change.

Quantised: likewise for integer tensors. If the product is quantised before, `quantize` is in between, and the rule does
not match.
"""

import math

from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_const, is_op, wildcard

from relay_passes.ir.calls import tensor_const
from relay_passes.ir.shapes import static_shape
from relay_passes.rewriter.rule import Match, Rule
from schedules.diagnostic import Diagnostic

_x, _constant = wildcard(), is_const()
_split = is_op("relax.reshape")(_x, wildcard())
_sum, _product = is_op("relax.add")(_split, _constant), is_op("relax.multiply")(_split, _constant)
_root = _sum | _product


def check(match: Match) -> Match | Diagnostic:
    """Check that the reshape splits the last axis, and that the constant has one element or the shape of its parts."""
    x, root = static_shape(match.operands["x"]), static_shape(match.values["root"])
    constant = static_shape(match.operands["constant"])
    if x is None or root is None or constant is None:
        return match.reject("shape is not static")
    parts = len(root) - len(x) + 1
    if parts <= 1 or not x or root[:-parts] != x[:-1]:
        return match.reject("the last axis is not split", limit=x, actual=root)
    if constant and (constant[-parts:] != root[-parts:] or math.prod(constant) != x[-1]):
        return match.reject("the constant is not over the parts alone", limit=root[-parts:], actual=constant)
    return match


def rewrite(match: Match) -> Expr:
    """Return the sum or product, then the reshape."""
    x, constant, shape = match.operands["x"], match.operands["constant"], static_shape(match.values["root"])
    value = constant.value.numpy()
    flat = tensor_const(value.reshape(-1) if value.ndim else value)
    operator = relax.op.add if "sum" in match.values else relax.op.multiply
    return relax.op.reshape(operator(x, flat), shape)


RULE = Rule(
    name="affine_before_unflatten",
    pattern=_root,
    parts={"x": _x, "constant": _constant, "sum": _sum, "root": _root},
    check=check,
    rewrite=rewrite,
)
