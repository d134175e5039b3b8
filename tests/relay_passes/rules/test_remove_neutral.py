# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import relax
from tvm.relax import op

from relay_passes.rules.remove_neutral import RULE
from tests.relay_passes.graphs import operators, tensor
from tests.relay_passes.rules.rewrites import assert_equal, graph, rejection, rewritten

X = tensor("x", 7, 9)


def _ones(*shape: int) -> relax.Expr:
    return relax.const(np.ones(shape, "float32"))


def _zeros(*shape: int) -> relax.Expr:
    return relax.const(np.zeros(shape, "float32"))


NEUTRAL = {
    "x * 1": lambda x: op.multiply(x, _ones()),
    "1 * x": lambda x: op.multiply(_ones(9), x),
    "x / 1": lambda x: op.divide(x, _ones(7, 1)),
    "x + 0": lambda x: op.add(x, _zeros()),
    "0 + x": lambda x: op.add(_zeros(7, 9), x),
    "x - 0": lambda x: op.subtract(x, _zeros(1, 9)),
    "x ^ 1": lambda x: op.power(x, _ones()),
    "true ? x : 0": lambda x: op.where(relax.const(np.ones((7, 1), bool)), x, _zeros()),
}


@pytest.mark.parametrize("form", NEUTRAL)
def test_neutral_arithmetic_goes_and_values_stay(form: str) -> None:
    mod = graph(lambda net, x: net.emit("act", op.exp(net.emit("y", NEUTRAL[form](x)))), X)
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["exp"]
    assert_equal(mod, after)


def test_integers_too() -> None:
    mod = graph(
        lambda net, x: net.emit("n", op.negative(net.emit("y", op.add(x, relax.const(0, "int32"))))),
        tensor("x", 7, dtype="int32"),
    )
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["negative"]
    assert_equal(mod, after)


def test_what_is_returned_may_be_the_input() -> None:
    mod = graph(lambda net, x: net.emit("y", op.multiply(x, _ones())), X)
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == []
    assert_equal(mod, after)


@pytest.mark.parametrize(
    ("build", "reason", "limit", "actual"),
    [
        (lambda x: op.multiply(x, relax.const(2.0)), "constant is not neutral", "1", "2.0"),
        (lambda x: op.add(x, relax.const(np.float32([0, 3, 0] * 3))), "constant is not neutral", "0", "3.0"),
    ],
)
def test_near_misses_say_why(build, reason: str, limit: str, actual: str) -> None:
    found = rejection(graph(lambda net, x: net.emit("y", build(x)), X), RULE)
    assert (found.reason, found.limit, found.actual) == (reason, limit, actual)


def test_division_and_subtraction_have_an_order() -> None:
    for build in (lambda x: op.divide(_ones(), x), lambda x: op.subtract(_zeros(), x)):
        rewritten(graph(lambda net, x, build=build: net.emit("y", build(x)), X), RULE, times=0)


def test_a_constant_that_enlarges_the_tensor_is_kept() -> None:
    found = rejection(graph(lambda net, x: net.emit("y", op.multiply(x, _ones(3, 1, 1))), X), RULE)
    assert found.reason == "constant enlarges the tensor"
