# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import relax
from tvm.relax import op

from relay_passes.rules.merge_shifts import RULE
from tests.relay_passes.graphs import inputs_of, operators, run, tensor
from tests.relay_passes.rules.rewrites import ROUNDOFF, graph, names, near_miss, rejection, rewritten

A = np.random.default_rng(5).normal(size=(7, 1)).astype("float32")


def _sum(a: np.ndarray, b: np.ndarray):
    def build(net, x):
        return net.emit("second", op.add(net.emit("first", op.add(relax.const(a), x)), relax.const(b)))

    return graph(build, tensor("x", 7, 9))


@pytest.mark.parametrize(
    "b", [np.float32(0.3), -A, A * 3, A[0]], ids=["number", "opposite", "channel", "row"]
)
def test_one_shift_is_within_the_stated_bound(b: np.ndarray) -> None:
    mod = _sum(A, b)
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["add"]
    assert names(after) == [("first", "second")]
    (x,) = inputs_of(mod)
    expected, actual = run(mod, x), run(after, x)
    bound = ROUNDOFF * (np.abs(x + A) + np.abs(A + b) + 2 * np.abs(expected))
    assert (np.abs(actual - expected) <= bound).all()


def test_a_sum_larger_than_both_is_kept() -> None:
    found = rejection(_sum(A, np.ones(9, "float32")), RULE)
    assert (found.reason, found.limit, found.actual) == (
        "the sum would be larger than both",
        "at most 9",
        "63",
    )


def test_integers_are_kept() -> None:
    one = relax.const(1, "int32")
    mod = graph(
        lambda net, x: net.emit("b", op.add(net.emit("a", op.add(x, one)), one)),
        tensor("x", 7, dtype="int32"),
    )
    assert rejection(mod, RULE).reason == "shifts are no floating-point tensors"


@pytest.mark.parametrize("part", ["a", "b"])
def test_a_shift_of_run_time_is_kept(part: str) -> None:
    def build(net, x, y):
        shifts = (y, relax.const(A)) if part == "a" else (relax.const(A), y)
        return net.emit("second", op.add(net.emit("first", op.add(x, shifts[0])), shifts[1]))

    found = near_miss(graph(build, tensor("x", 7, 9), tensor("y", 7, 9)), RULE)
    assert f"constant for {part}, found input y" in found


def test_a_sum_that_something_else_needs_is_kept() -> None:
    def build(net, x):
        first = net.emit("first", op.add(x, relax.const(A)))
        return net.emit("product", op.multiply(first, net.emit("second", op.add(first, relax.const(A)))))

    assert rejection(graph(build, tensor("x", 7, 9)), RULE).reason == "first is also needed by product"
