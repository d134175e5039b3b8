# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import relax
from tvm.relax import op

from relay_passes.rules.merge_scales import RULE
from tests.relay_passes.graphs import operators, tensor
from tests.relay_passes.rules.rewrites import ROUNDOFF, both, graph, names, near_miss, rejection, rewritten

A = np.linspace(0.1, 3, 7, dtype="float32").reshape(7, 1)


def _product(a: np.ndarray, b: np.ndarray, first=op.multiply, second=op.multiply):
    def build(net, x):
        return net.emit("second", second(net.emit("first", first(x, relax.const(a))), relax.const(b)))

    return graph(build, tensor("x", 7, 9))


@pytest.mark.parametrize("first", [op.multiply, op.divide])
@pytest.mark.parametrize("second", [op.multiply, op.divide])
@pytest.mark.parametrize("b", [np.float32(255), A[::-1].copy()], ids=["number", "channel"])
def test_one_scale_is_within_four_roundings(first, second, b: np.ndarray) -> None:
    mod = _product(A, b, first, second)
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["multiply"]
    assert names(after) == [("first", "second")]
    expected, actual = both(mod, after)
    assert (np.abs(actual - expected) <= 4 * ROUNDOFF * np.abs(expected)).all()


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        (A, np.ones(9, "float32"), "the product would be larger than both"),
        (np.float32(1e30), np.float32(1e30), "the product is not a normal number"),
        (np.float32(1e-30), np.float32(1e-10), "the product is not a normal number"),
    ],
)
def test_near_misses_say_why(a: np.ndarray, b: np.ndarray, reason: str) -> None:
    assert rejection(_product(a, b), RULE).reason == reason


def test_integers_are_kept() -> None:
    two = relax.const(2, "int32")
    mod = graph(
        lambda net, x: net.emit("b", op.multiply(net.emit("a", op.multiply(x, two)), two)),
        tensor("x", 7, dtype="int32"),
    )
    assert rejection(mod, RULE).reason == "scales are no floating-point tensors"


def test_a_scale_of_run_time_is_kept() -> None:
    def build(net, x, y):
        return net.emit("second", op.multiply(net.emit("first", op.multiply(x, relax.const(A))), y))

    found = near_miss(graph(build, tensor("x", 7, 9), tensor("y", 7, 9)), RULE)
    assert "constant for b, found input y" in found
