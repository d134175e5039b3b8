# SPDX-License-Identifier: Apache-2.0
import math

import tvm
from tvm import relax
from tvm.ir import Expr
from tvm.relax import op
from tvm.relax.dpl import is_const, is_op, wildcard

from relay_passes.rewriter.engine import apply_rule, apply_rules
from relay_passes.rewriter.record import RewriteRecord
from relay_passes.rewriter.rule import Match, Rule
from schedules.diagnostic import Diagnostic
from tests.relay_passes.graphs import Net, tensor

_x, _number = wildcard(), is_const()


def _only_small(match: Match) -> Match | Diagnostic:
    value = float(match.constant("number"))
    return match if value < 2 else match.reject("number is too large", limit=2, actual=value)


# abs(x · c) → abs(x) · c
PULL = Rule(
    "pull",
    is_op("relax.abs")(is_op("relax.multiply")(_x, _number)),
    {"x": _x, "number": _number},
    _only_small,
    lambda match: op.multiply(op.abs(match.operands["x"]), match.operands["number"]),
)
# x / c → x · (1 / c)
DIVIDE = Rule(
    "divide",
    is_op("relax.divide")(_x, _number),
    {"x": _x, "number": _number},
    lambda match: match,
    lambda match: op.multiply(match.operands["x"], relax.const(1 / float(match.constant("number")))),
)
# cos(x) → sin(x)
TURN = Rule("turn", is_op("relax.cos")(_x), {"x": _x}, lambda m: m, lambda m: op.sin(m.operands["x"]))
# abs(cos(x + c)) → abs(x)
SUM = Rule(
    "sum",
    is_op("relax.abs")(is_op("relax.cos")(is_op("relax.add")(_x, _number))),
    {"x": _x},
    lambda match: match,
    lambda match: op.abs(match.operands["x"]),
)


def _abs_of(scale: str, value: float) -> tvm.IRModule:
    net, x = Net(), tensor("x", 7)

    def body() -> Expr:
        y = net.emit("scale", getattr(op, scale)(x, relax.const(value)))
        return net.emit("abs", op.abs(y))

    return net.module([x], body)


def _record(mod: tvm.IRModule, *rules: Rule) -> RewriteRecord:
    record = RewriteRecord()
    apply_rules(mod, rules, record=record)
    return record


def test_hits_count_every_run_of_a_rule() -> None:
    record = _record(_abs_of("divide", 2.0), PULL, DIVIDE, TURN)
    assert record.hits() == {"pull": 1, "divide": 1, "turn": 0}
    assert list(record.hits()) == ["pull", "divide", "turn"]


def test_a_rule_that_never_ran_has_no_explanation() -> None:
    assert _record(_abs_of("divide", 2.0), DIVIDE).explanation("pull") is None


def test_what_was_rejected_is_told_once() -> None:
    explanation = _record(_abs_of("divide", 0.25), PULL, DIVIDE).explanation("pull")
    assert explanation is not None
    assert [str(r) for r in explanation.rejected] == [
        "scale, abs: number is too large (expected 2, found 4.0)"
    ]
    assert explanation.near_misses == ()


def test_what_applied_in_the_end_is_not_rejected() -> None:
    """The first run refuses what a later one takes."""
    shift = Rule("lower", is_op("relax.multiply")(_x, _number), {"x": _x, "number": _number}, _large, _halved)
    explanation = _record(_abs_of("multiply", 3.0), PULL, shift).explanation("pull")
    assert explanation is not None
    assert explanation.applied == (("scale", "abs"),)
    assert explanation.rejected == ()


def _large(match: Match) -> Match | Diagnostic:
    value = float(match.constant("number"))
    return match if value > 2 else match.reject("number is small")


def _halved(match: Match) -> Expr:
    return op.multiply(match.operands["x"], relax.const(float(match.constant("number")) / 2))


def test_what_other_rules_consume_is_seen_as_the_model_wrote_it() -> None:
    net, x = Net(), tensor("x", 7)

    def body() -> Expr:
        y = net.emit("sum", op.subtract(x, relax.const(math.pi)))
        return net.emit("abs", op.abs(net.emit("cos", op.cos(y))))

    mod = net.module([x], body)
    explanation = _record(mod, SUM, TURN).explanation("sum")
    assert explanation is not None
    (near,) = explanation.near_misses
    assert (near.nodes, near.limit, near.actual) == (("cos", "abs"), "relax.add", "relax.subtract at sum")
    after, _ = apply_rule(mod, TURN)
    last = _record(after, SUM).explanation("sum")
    assert last is not None
    assert last.near_misses == ()
