# SPDX-License-Identifier: Apache-2.0
import tvm
from tvm.ir import Expr
from tvm.relax import op
from tvm.relax.dpl import DFPattern, is_op, wildcard

from relay_passes.rewriter.engine import apply_rule
from relay_passes.rewriter.patterns import including, non_consuming
from relay_passes.rewriter.rule import Rule
from tests.relay_passes.graphs import Net, operators, tensor

_inner = is_op("relax.negative")(wildcard())


def _rule(inner: DFPattern) -> Rule:
    """-(-x) → x."""

    def rewrite(match):
        return op.abs(match.values["inner"].args[0])

    pattern = is_op("relax.negative")(inner)
    return Rule("rule", pattern, {"inner": inner}, lambda match: including(match, "inner"), rewrite)


def _shared() -> tvm.IRModule:
    net, x = Net(), tensor("x", 7)

    def body() -> Expr:
        inner = net.emit("a", op.negative(x))
        return net.emit("c", op.add(inner, net.emit("b", op.negative(inner))))

    return net.module([x], body)


def test_what_is_peeked_at_may_have_other_consumers() -> None:
    mod, explanation = apply_rule(_shared(), _rule(non_consuming(_inner)))
    assert explanation.applied == (("a", "b"),)
    assert operators(mod["main"]) == ["negative", "abs", "add"]


def test_what_is_taken_in_may_not() -> None:
    _, explanation = apply_rule(_shared(), _rule(_inner))
    assert explanation.applied == ()
    assert [r.nodes for r in explanation.rejected] == [("a", "b")]


def test_what_does_not_fit_is_no_match() -> None:
    net, x = Net(), tensor("x", 7)
    mod = net.module([x], lambda: net.emit("b", op.negative(net.emit("a", op.abs(x)))))
    _, explanation = apply_rule(mod, _rule(non_consuming(_inner)))
    assert (explanation.applied, explanation.rejected) == ((), ())
