# SPDX-License-Identifier: Apache-2.0
"""Recognition of the logistic function.

    1 / (1 + exp(-x))    →    sigmoid(x)

JAX exports it in this form. The roundings of the operator are different: |error| ≤ 3 eps, eps = 2^-23 in float32.

Quantised: if an intermediate result is quantised, the rule does not match, because that rounding is part of the model.
"""

from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_const, is_op, wildcard

from relay_passes.rewriter.rule import Match, Rule
from relay_passes.rules.common.scalars import is_number, uniform_value
from schedules.diagnostic import Diagnostic

_x, _one, _unit = wildcard(), is_const(), is_const()
_exp = is_op("relax.exp")(is_op("relax.negative")(_x))
_root = is_op("relax.divide")(
    _one, is_op("relax.add")(_exp, _unit)
)  # add matches its operands in either order


def check(match: Match) -> Match | Diagnostic:
    """Check that both constants are 1, and that broadcasting them does not enlarge the tensor."""
    for part in ("one", "unit"):
        if not is_number(match.operands[part], 1.0):
            return match.reject(f"{part} is not 1", limit=1.0, actual=uniform_value(match.operands[part]))
    if match.values["root"].ty != match.values["exp"].ty:
        return match.reject("a constant enlarges the tensor")
    return match


def rewrite(match: Match) -> Expr:
    """Return relax.sigmoid of the operand."""
    return relax.op.sigmoid(match.operands["x"])


RULE = Rule(
    name="recognize_sigmoid",
    pattern=_root,
    parts={"x": _x, "one": _one, "unit": _unit, "exp": _exp, "root": _root},
    check=check,
    rewrite=rewrite,
)
