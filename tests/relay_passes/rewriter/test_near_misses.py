# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import tvm
from tvm import relax
from tvm.ir import Expr
from tvm.relax import op
from tvm.relax.dpl import DFPattern, is_const, is_op, is_tuple, is_tuple_get_item, wildcard

from relay_passes.rewriter.engine import explain
from relay_passes.rewriter.near_misses import near_misses
from relay_passes.rewriter.patterns import any_of, constant, maybe, non_consuming, scalar
from relay_passes.rewriter.rule import Rule
from relay_passes.rules import fold_batch_norm
from tests.relay_passes.graphs import Net, tensor
from tests.relay_passes.rules.rewrites import mismatch

_add, _multiply, _relu, _sigmoid = (is_op(f"relax.{n}") for n in ("add", "multiply", "nn.relu", "sigmoid"))


def conv_bias(
    activation: str = "nn.relu", bias: str = "add", weight: bool = True, groups: int = 1, shape: int = 8
) -> tvm.IRModule:
    """conv2d of 8 channels + bias + activation, each variable."""
    net, x, w = Net(), tensor("x", 1, 8, 9, 7), tensor("w", 8, 8 // groups, 3, 3)

    def body() -> Expr:
        kernel = net.const(8, 8 // groups, 3, 3) if weight else w
        y = net.emit("/conv", op.nn.conv2d(x, kernel, padding=1, groups=groups))
        y = net.emit("/bias", getattr(op, bias)(y, net.const(1, shape, 1, 1)))
        return net.emit("/act", _op(activation)(y))

    return net.module([x] if weight else [x, w], body)


def _op(name: str) -> Callable[..., Expr]:
    return getattr(op.nn if name.startswith("nn.") else op, name.removeprefix("nn."))


def norm_after(step: str, gamma: bool = True, shared: bool = False) -> tvm.IRModule:
    """batch_norm after another operator than the one that it folds into, or with a run-time gamma."""
    net, x, g = Net(), tensor("x", 1, 8, 9, 7), tensor("g", 8)

    def body() -> Expr:
        conv = net.emit("/conv", op.nn.conv2d(x, net.const(8, 8, 1, 1)))
        y = net.emit("/step", _op(step)(conv)) if step else conv
        params = [net.const(8) if gamma else g, *(net.const(8, low=0.5) for _ in range(3))]
        y = net.emit("/bn", op.nn.batch_norm(y, *params, axis=1, training=False))
        y = net.bb.emit(relax.TupleGetItem(y, 0))
        return net.emit("/sum", op.add(y, conv)) if shared else y

    return net.module([x] if gamma else [x, g], body)


def gate(half: float = 0.5, other: bool = False) -> tvm.IRModule:
    """x · 0.5 · sigmoid(x), or of another value."""
    net, x, y = Net(), tensor("x", 31), tensor("y", 31)

    def body() -> Expr:
        gate = net.emit("/gate", op.sigmoid(y if other else x))
        scaled = net.emit("/half", op.multiply(gate, relax.const(half)))
        return net.emit("/product", op.multiply(x, scaled))

    return net.module([x, y], body)


def _rule(pattern: DFPattern, **parts: DFPattern) -> Rule:
    return Rule("rule", pattern, parts, lambda match: match, lambda match: match.operands["x"])


def conv_rule(weight: DFPattern | None = None, **attrs: object) -> Rule:
    x, bias = wildcard(), is_const()
    weight = is_const() if weight is None else weight
    conv = is_op("relax.nn.conv2d")(x, weight)
    conv = conv.has_attr(attrs) if attrs else conv
    return _rule(_relu(_add(conv, bias)), x=x, weight=weight, bias=bias)


def gate_rule() -> Rule:
    x = wildcard()
    return _rule(_multiply(x, _multiply(_sigmoid(x), scalar(0.5))), x=x)


def dtype_rule(dtype: str) -> Rule:
    x = wildcard().has_dtype(dtype)
    return _rule(_relu(_add(is_op("relax.nn.conv2d")(x, wildcard()), wildcard())), x=x)


def negated_rule() -> Rule:
    x = wildcard()
    bias = constant() & ~constant(shape=(1, 1, 1, 1))
    return _rule(_relu(_add(is_op("relax.nn.conv2d")(x, wildcard()), bias)), x=x)


CASES: dict[str, tuple[tvm.IRModule, Rule]] = {
    "another activation": (conv_bias(activation="tanh"), conv_rule()),
    "another operator in the middle": (conv_bias(bias="subtract"), conv_rule()),
    "an operator in between": (norm_after("nn.relu"), fold_batch_norm.RULE),
    "a run-time weight": (conv_bias(weight=False), conv_rule()),
    "a run-time weight, by the check": (norm_after("", gamma=False), fold_batch_norm.RULE),
    "another attribute": (conv_bias(groups=8), conv_rule(groups=1)),
    "another dtype": (conv_bias(), dtype_rule("int8")),
    "another shape": (conv_bias(), conv_rule(constant(shape=(8, 8, 1, 1)))),
    "another number": (gate(half=0.25), gate_rule()),
    "another value": (gate(other=True), gate_rule()),
    "what must not be": (conv_bias(shape=1), negated_rule()),
    "another consumer": (norm_after("", shared=True), fold_batch_norm.RULE),
}


def test_why_not(golden: Callable[[str, str], None]) -> None:
    lines = []
    for name, (mod, rule) in CASES.items():
        explanation = explain(mod, rule)
        assert explanation.applied == (), name
        lines += [f"{name}:", *(f"    {why}" for why in (*explanation.rejected, *explanation.near_misses))]
    golden("near_misses.txt", "\n".join(lines) + "\n")


def _reasons(mod: tvm.IRModule, pattern: DFPattern) -> list[str]:
    return [mismatch(near) for near in near_misses(mod, pattern)]


def test_what_matches_is_no_near_miss() -> None:
    assert _reasons(conv_bias(), conv_rule().pattern) == []


def test_what_shares_no_more_than_its_root_is_no_near_miss() -> None:
    net, x = Net(), tensor("x", 1, 8, 9, 7)
    mod = net.module([x], lambda: net.emit("act", op.nn.relu(net.emit("sum", op.add(x, net.const(8, 1, 1))))))
    assert _reasons(mod, _relu(_sigmoid(wildcard()))) == []
    assert _reasons(mod, _relu(is_const())) == []
    # Two operators of four.
    assert _reasons(mod, _relu(_add(_sigmoid(_multiply(wildcard(), wildcard())), wildcard()))) == []


def test_what_differs_in_three_places_is_another_computation() -> None:
    conv = is_op("relax.nn.conv2d")(is_const(), is_const())
    two, three = _relu(_add(conv, wildcard())), _relu(_add(conv, constant(shape=(7,))))
    assert _reasons(conv_bias(weight=False), two) == [
        "/conv, /bias, /act: expected a constant, and a constant, found input x at /conv, and input w at /conv"
    ]
    assert _reasons(conv_bias(weight=False), three) == []


def test_of_alternatives_the_best_fit_is_told() -> None:
    conv = is_op("relax.nn.conv2d")(wildcard(), wildcard())
    pattern = any_of(_sigmoid(_sigmoid(conv)), _sigmoid(_add(conv, wildcard())))
    assert _reasons(conv_bias(), pattern) == [
        "/conv, /bias: expected relax.sigmoid, found relax.nn.relu at /act"
    ]


def test_an_optional_step_is_no_near_miss_of_the_whole() -> None:
    conv = is_op("relax.nn.conv2d")(wildcard(), wildcard())
    pattern = maybe(conv, lambda y: _add(y, wildcard()), lambda y: _sigmoid(y))
    assert all("/act" in reason for reason in _reasons(conv_bias(), pattern))


def test_operands_are_tried_in_both_orders() -> None:
    x, y = wildcard(), wildcard()
    pattern = _multiply(_multiply(y, _sigmoid(x).has_dtype("int8")), x)
    assert _reasons(gate(), pattern) == [
        "/gate, /half, /product: expected int8, found float32 at /gate",
    ]


def test_the_number_of_operands_is_told() -> None:
    pattern = _relu(_add(is_op("relax.nn.conv2d")(wildcard()), wildcard()))
    assert _reasons(conv_bias(), pattern) == [
        "/bias, /act: expected 1 operands of relax.nn.conv2d, found 2 at /conv"
    ]
    any_operands = _relu(_add(is_op("relax.nn.conv2d")(is_const(), varg_default_wildcard=True), wildcard()))
    assert _reasons(conv_bias(), any_operands) == [
        "/conv, /bias, /act: expected a constant, found input x at /conv"
    ]


def test_tuples_and_their_items() -> None:
    net, x = Net(), tensor("x", 1, 8, 9, 7)

    def body() -> Expr:
        parts = net.emit("split", op.split(x, 2, axis=1))
        left, right = (net.bb.emit(relax.TupleGetItem(parts, i)) for i in (0, 1))
        return net.emit("join", op.concat([right, net.emit("act", op.nn.relu(left))], axis=1))

    mod = net.module([x], body)
    split = is_op("relax.split")(wildcard())
    join = is_op("relax.concat")
    swapped = join(is_tuple([is_tuple_get_item(split, 0), _relu(is_tuple_get_item(split, 0))]))
    (reason,) = _reasons(mod, swapped)
    assert reason == "split, act, join: expected item 0 of relax.split, found item 1 of a tuple at join"
    three = join(is_tuple([wildcard(), wildcard(), wildcard()]))
    assert _reasons(mod, _relu(three)) == []
    assert _reasons(mod, join(is_tuple([wildcard(), _sigmoid(is_tuple_get_item(split, 0))]))) == [
        "split, join: expected relax.sigmoid, found relax.nn.relu at act"
    ]


def test_a_pattern_that_only_looks_is_walked_too() -> None:
    pattern = _relu(_add(non_consuming(is_op("relax.nn.conv2d")(wildcard(), is_const())), wildcard()))
    assert _reasons(conv_bias(weight=False), pattern) == [
        "/conv, /bias, /act: expected a constant, found input w at /conv"
    ]
