# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import relax
from tvm.relax import op

from relay_passes.rules.subtract_to_add import RULE
from tests.relay_passes.graphs import operators, tensor
from tests.relay_passes.rules.rewrites import assert_equal, graph, rejection, rewritten


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("shape", [(), (9,), (7, 1)])
def test_the_sum_is_the_difference_bit_for_bit(dtype: str, shape: tuple[int, ...]) -> None:
    constant = np.random.default_rng(3).normal(size=shape).astype(dtype)
    mod = graph(
        lambda net, x: net.emit("y", op.subtract(x, relax.const(constant))), tensor("x", 7, 9, dtype=dtype)
    )
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["add"]
    assert_equal(mod, after)


def test_a_constant_minuend_is_kept() -> None:
    mod = graph(lambda net, x: net.emit("y", op.subtract(relax.const(1.0), x)), tensor("x", 7))
    assert rejection(mod, RULE).reason == "the second operand is not a constant"


def test_integers_are_kept() -> None:
    mod = graph(
        lambda net, x: net.emit("y", op.subtract(x, relax.const(-128, "int8"))), tensor("x", 7, dtype="int8")
    )
    found = rejection(mod, RULE)
    assert (found.reason, found.limit, found.actual) == (
        "the constant is no floating-point tensor",
        "float",
        "int8",
    )
