# SPDX-License-Identifier: Apache-2.0
"""A transpose of the last two axes between reshapes that flatten and restore the leading axes becomes one transpose.

    reshape(permute_dims(reshape(x, (b, m, n)), (0, 2, 1)), (…, n, m))    →    permute_dims(x, the last two axes)
    where x has the shape (…, m, n)

PyTorch exports attention's keys in this form. Exact: elements are only moved.

Quantised: likewise for integer tensors.
"""

from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_op, wildcard

from relay_passes.ir.shapes import axes_of, shape_of, static_shape
from relay_passes.rewriter.rule import Match, Rule
from schedules.diagnostic import Diagnostic

_LAST_TWO = [0, 2, 1]

_x = wildcard()
_flat = is_op("relax.reshape")(_x, wildcard())
_turned = is_op("relax.permute_dims")(_flat)
_root = is_op("relax.reshape")(_turned, wildcard())


def check(match: Match) -> Match | Diagnostic:
    """Check that the reshapes change leading axes only, and that the second restores the axes that the first merges."""
    x, root = static_shape(match.operands["x"]), static_shape(match.values["root"])
    flat = static_shape(match.values["flat"])
    if x is None or root is None or flat is None:
        return match.reject("shape is not static")
    axes = axes_of(match.values["turned"])
    if axes != _LAST_TWO:
        return match.reject(
            "the permutation does not swap the last two of three axes", limit=_LAST_TWO, actual=axes
        )
    if x[-2:] != flat[-2:]:
        return match.reject("the first reshape changes the matrices", limit=x[-2:], actual=flat[-2:])
    wanted = (*x[:-2], *x[:-3:-1])
    return (
        match if root == wanted else match.reject("the second reshape does not undo the first", wanted, root)
    )


def rewrite(match: Match) -> Expr:
    """Return the transpose without flattened axes."""
    rank = len(shape_of(match.operands["x"]))
    return relax.op.permute_dims(match.operands["x"], [*range(rank - 2), rank - 1, rank - 2])


RULE = Rule(
    name="unflatten_transpose",
    pattern=_root,
    parts={"x": _x, "flat": _flat, "turned": _turned, "root": _root},
    check=check,
    rewrite=rewrite,
)
