# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import relax
from tvm.relax import op

from relay_passes.rules.divide_by_root import RULE
from tests.relay_passes.graphs import operators, tensor
from tests.relay_passes.rules.rewrites import ROUNDOFF, both, graph, rejection, rewritten


def _quotient(rows: int, *shape: int):
    def build(net, x, y):
        positive = net.emit("square", op.multiply(y, y))
        root = net.emit("root", op.sqrt(net.emit("shift", op.add(positive, relax.const(0.1)))))
        return net.emit("quotient", op.divide(x, root))

    return graph(build, tensor("x", rows, 9), tensor("y", *shape))


@pytest.mark.parametrize("shape", [(31, 1), (9,), (1, 1)])
def test_the_product_is_within_three_roundings_of_the_quotient(shape: tuple[int, ...]) -> None:
    mod = _quotient(31, *shape)
    after = rewritten(mod, RULE)
    assert operators(after["main"])[-2:] == ["rsqrt", "multiply"]
    expected, actual = both(mod, after)
    assert (np.abs(actual - expected) <= 3 * ROUNDOFF * np.abs(expected)).all()


def _reciprocal(numerator: np.ndarray):
    def build(net, y):
        root = net.emit("root", op.sqrt(net.emit("square", op.multiply(y, y))))
        return net.emit("quotient", op.divide(relax.const(numerator), root))

    return graph(build, tensor("y", 7, 9))


@pytest.mark.parametrize("one", [np.float32(1), np.ones((7, 1), "float32")], ids=["number", "column"])
def test_a_reciprocal_root_is_that_alone(one: np.ndarray) -> None:
    mod = _reciprocal(one)
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["multiply", "rsqrt"]
    expected, actual = both(mod, after)
    assert (np.abs(actual - expected) <= 3 * ROUNDOFF * np.abs(expected)).all()


def test_other_numerators_need_as_many_divisions() -> None:
    assert rejection(_reciprocal(np.float32(2)), RULE).reason == "there are as many roots as quotients"


def test_a_numerator_that_enlarges_the_tensor_is_multiplied_by() -> None:
    after = rewritten(_reciprocal(np.ones((2, 1, 1), "float32")), RULE)
    assert operators(after["main"]) == ["multiply", "rsqrt", "multiply"]


def test_roots_as_many_as_quotients_are_kept() -> None:
    found = rejection(_quotient(7, 7, 9), RULE)
    assert (found.reason, found.limit, found.actual) == (
        "there are as many roots as quotients",
        "below 63",
        "63",
    )


def test_a_root_that_something_else_needs_is_kept() -> None:
    def build(net, x, y):
        root = net.emit("root", op.sqrt(y))
        return net.emit("sum", op.add(net.emit("quotient", op.divide(x, root)), root))

    found = rejection(graph(build, tensor("x", 7, 9), tensor("y", 7, 1)), RULE)
    assert found.reason == "root is also needed by sum"
