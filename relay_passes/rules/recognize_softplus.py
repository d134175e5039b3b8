# SPDX-License-Identifier: Apache-2.0
"""Recognition of softplus.

    log(1 + exp(x))              →    softplus(x)
    relu(x) + softplus(-|x|)     →    softplus(x)

After the first rewrite, the second matches the stable form relu(x) + log(1 + exp(-|x|)). softplus is x above its
threshold of 20, and log(1 + exp(x)) below: |error| ≤ 4 eps · max(1, |result|), eps = 2^-23 in float32 (log(1 +
exp(-20)) = 2e-9 is less than eps · 20). If exp(x) overflows, the first form is ∞, while the operator is correct.

Quantised: if an intermediate result is quantised, the rule does not match, because that rounding is part of the model.
"""

from tvm import relax
from tvm.ir import Expr
from tvm.relax.dpl import is_const, is_op, wildcard

from relay_passes.rewriter.rule import Match, Rule
from relay_passes.rules.common.scalars import enlarged, is_number, uniform_value
from schedules.diagnostic import Diagnostic

_x, _one = wildcard(), is_const()
_add = is_op("relax.add")
_plain = is_op("relax.log")(_add(is_op("relax.exp")(_x), _one))
_tail = is_op("relax.nn.softplus")(is_op("relax.negative")(is_op("relax.abs")(_x)))
_root = _plain | _add(is_op("relax.nn.relu")(_x), _tail)


def check(match: Match) -> Match | Diagnostic:
    """Check that the constants are 1."""
    if "tail" in match.values:
        attrs = match.values["tail"].attrs
        return match if attrs.beta == 1 else match.reject("beta is not 1", limit=1, actual=attrs.beta)
    if not is_number(match.operands["one"], 1.0):
        return match.reject(
            "the constant that is added is not 1.0", limit=1.0, actual=uniform_value(match.operands["one"])
        )
    return enlarged(match) or match


def rewrite(match: Match) -> Expr:
    """Return relax.nn.softplus of the operand."""
    return relax.op.nn.softplus(match.operands["x"])


RULE = Rule(
    name="recognize_softplus",
    pattern=_root,
    parts={"x": _x, "one": _one, "tail": _tail, "root": _root},
    check=check,
    rewrite=rewrite,
)
