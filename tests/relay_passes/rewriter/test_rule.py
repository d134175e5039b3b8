# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: N812 - TVMScript's R
from collections.abc import Callable

import pytest
import tvm
from tvm import relax
from tvm.ir import Expr
from tvm.relax import op
from tvm.relax.analysis import well_formed
from tvm.relax.dpl import DFPattern, is_op, wildcard
from tvm.script import relax as R

from relay_passes.ir.sources import bindings_of, sources_of, unnamed_calls
from relay_passes.rewriter import engine
from relay_passes.rewriter.engine import apply_rule, apply_rules, explain, find_matches
from relay_passes.rewriter.patterns import maybe
from relay_passes.rewriter.rule import Match, Rule
from schedules.diagnostic import Diagnostic
from tests.relay_passes.graphs import Net, operators, tensor

Check = Callable[[Match], Match | Diagnostic]

_x = wildcard()
_inner = is_op("relax.negative")(_x)
_outer = is_op("relax.negative")(_inner)


def _is_small(match: Match) -> Match | Diagnostic:
    size = int(match.operands["x"].ty.shape[0])
    return match if size <= 9 else match.reject("tensor too long", limit=9, actual=size)


def _rule(
    name: str, pattern: DFPattern, rewrite: Callable[[Expr], Expr], check: Check = lambda match: match
) -> Rule:
    return Rule(name, pattern, {"x": _x}, check, lambda match: rewrite(match.operands["x"]))


# -(-x) → (x + x) - x, a chain of two new calls.
UNDO = _rule("undo", _outer, lambda x: op.subtract(op.add(x, x), x), _is_small)
# sin(x) → sin(cos(x)) never comes to an end.
GROW = _rule("grow", is_op("relax.sin")(_x), lambda x: op.sin(op.cos(x)))
# abs(x) → -(-x) makes work for a rule before it in the list.
ABS = _rule("abs", is_op("relax.abs")(_x), lambda x: op.negative(op.negative(x)))


def _chain(*names: str, size: int = 7, output_inner: bool = False) -> tvm.IRModule:
    """negative calls in a row, named so."""
    net, x = Net(), tensor("x", size)

    def body() -> Expr:
        values = [x]
        for name in names:
            values.append(net.emit(name, op.negative(values[-1])))
        return net.emit("both", op.add(values[1], values[-1])) if output_inner else values[-1]

    return net.module([x], body)


def test_a_match_is_rewritten_and_its_calls_carry_all_names() -> None:
    mod, explanation = apply_rule(_chain("a", "b"), UNDO)
    assert operators(mod["main"]) == ["add", "subtract"]
    assert explanation.applied == (("a", "b"),)
    assert explanation.rejected == ()
    calls = [b.value for b in bindings_of(mod["main"]) if isinstance(b.value, relax.Call)]
    assert [sources_of(c) for c in calls] == [("a", "b"), ("a", "b")]
    assert unnamed_calls(mod) == []
    well_formed(mod)


def test_overlapping_matches_are_rewritten_once() -> None:
    mod, explanation = apply_rule(_chain("a", "b", "c", "d"), UNDO)
    assert explanation.applied == (("a", "b"), ("c", "d"))
    assert "negative" not in operators(mod["main"])


def test_what_a_first_sweep_leaves_is_met_by_the_next() -> None:
    mod, explanation = apply_rule(_chain("a", "b", "c"), UNDO)
    assert explanation.applied == (("a", "b"),)
    assert operators(mod["main"]) == ["add", "subtract", "negative"]


def test_a_value_that_something_else_needs_is_not_taken() -> None:
    mod = _chain("a", "b", output_inner=True)
    after, explanation = apply_rule(mod, UNDO)
    (rejection,) = explanation.rejected
    assert str(rejection) == "a, b: a is also needed by both; 7 elements would be computed twice"
    assert explanation.applied == ()
    tvm.ir.assert_structural_equal(after, mod)


def test_a_value_that_is_an_output_is_not_taken() -> None:
    net, x = Net(), tensor("x", 7)

    def body() -> Expr:
        inner = net.emit("a", op.negative(x))
        return relax.Tuple([inner, net.emit("b", op.negative(inner))])

    (rejection,) = explain(net.module([x], body), UNDO).rejected
    assert rejection.nodes == ("a", "b")
    assert rejection.reason.startswith("a is also needed by")


def test_a_value_that_is_returned_is_not_taken() -> None:
    @R.function
    def main(x: R.Tensor((7,), "float32")):
        with R.dataflow():
            a = R.negative(x)
            b = R.negative(a)
            R.output(a, b)
        return (a, b)

    (rejection,) = explain(tvm.IRModule({"main": main}), UNDO).rejected
    assert rejection.reason == "a is also needed by the output"


def test_a_rejection_names_limit_and_actual_value() -> None:
    (rejection,) = explain(_chain("a", "b", size=31), UNDO).rejected
    assert rejection == Diagnostic("tensor too long", "9", "31", ("a", "b"))
    assert str(rejection) == "a, b: tensor too long (expected 9, found 31)"


def test_rules_run_in_order_until_none_applies() -> None:
    net, x = Net(), tensor("x", 7)
    mod = net.module([x], lambda: net.emit("abs", op.abs(x)))
    after = apply_rules(mod, (UNDO, ABS))
    assert operators(after["main"]) == ["add", "subtract"]
    tvm.ir.assert_structural_equal(apply_rules(after, (UNDO, ABS)), after)


def test_a_rule_that_never_ends_is_a_defect() -> None:
    net, x = Net(), tensor("x", 7)
    mod = net.module([x], lambda: net.emit("act", op.sin(x)))
    with pytest.raises(ValueError, match=r"rule grow still applies after \d+ sweeps, last at \('act',\)"):
        apply_rule(mod, GROW)


def test_rules_that_undo_each_other_are_a_defect() -> None:
    net, x = Net(), tensor("x", 7)
    mod = net.module([x], lambda: net.emit("act", op.sin(x)))
    there = _rule("there", is_op("relax.sin")(_x), op.cos)
    back = _rule("back", is_op("relax.cos")(_x), op.sin)
    with pytest.raises(ValueError, match="rules there, back undo each other"):
        apply_rules(mod, (there, back))


def test_explain_changes_nothing() -> None:
    mod = _chain("a", "b")
    text = mod.script()
    explain(mod, UNDO)
    assert mod.script() == text


def test_the_longest_match_is_taken() -> None:
    once = is_op("relax.negative")(_x)
    rule = _rule("shorten", maybe(once, is_op("relax.negative")), op.abs)
    mod, explanation = apply_rule(_chain("a", "b"), rule)
    assert explanation.applied == (("a", "b"),)
    assert operators(mod["main"]) == ["abs"]


FLATTEN = _rule("flatten", is_op("relax.negative")(_x), lambda x: op.reshape(x, (1, 7)))


def test_a_rule_keeps_shape_and_dtype() -> None:
    integers = _rule("integers", is_op("relax.negative")(_x), lambda x: op.astype(x, "int32"))
    for rule in (FLATTEN, integers):
        with pytest.raises(ValueError, match=rf"rule {rule.name} gives .* in place of"):
            apply_rules(_chain("a"), (rule,))


def test_in_debug_mode_the_rule_that_broke_the_module_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_check_types", lambda *_: None)
    mod = _chain("a", "b")
    apply_rules(mod, (UNDO,), debug=True)
    with pytest.raises(ValueError, match="rule flatten left a module that is not well-formed"):
        apply_rules(mod, (FLATTEN, UNDO), debug=True)


def test_a_longer_match_hides_those_inside_it() -> None:
    pattern = maybe(_inner, is_op("relax.negative"))
    assert find_matches(_chain("a", "b", "c"), pattern) == [("a", "b"), ("b", "c")]
    assert find_matches(_chain("a"), pattern) == [("a",)]
