# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import relax
from tvm.relax import op

from relay_passes.rules.divide_to_multiply import RULE
from tests.relay_passes.graphs import operators, tensor
from tests.relay_passes.rules.rewrites import ROUNDOFF, both, graph, rejection, rewritten


def _quotient(divisor: object, dtype: str = "float32"):
    value = relax.const(np.asarray(divisor, dtype))
    return graph(lambda net, x: net.emit("y", op.divide(x, value)), tensor("x", 31, 31, dtype=dtype))


@pytest.mark.parametrize("divisor", [255.0, -0.229, np.linspace(0.1, 3, 31)])
def test_the_product_is_within_three_roundings_of_the_quotient(divisor: object) -> None:
    mod = _quotient(divisor)
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["multiply"]
    expected, actual = both(mod, after)
    assert (np.abs(actual - expected) <= 3 * ROUNDOFF * np.abs(expected)).all()


@pytest.mark.parametrize(
    ("divisor", "dtype", "reason"),
    [
        (0.0, "float32", "the reciprocal is not a normal number"),
        (1e-39, "float32", "the reciprocal is not a normal number"),
        (3e38, "float32", "the reciprocal is not a normal number"),
        (3, "int32", "divisor is no floating-point tensor"),
    ],
)
def test_near_misses_say_why(divisor: object, dtype: str, reason: str) -> None:
    assert rejection(_quotient(divisor, dtype), RULE).reason == reason


def test_binary64_stays() -> None:
    divisor = relax.const(255.0, "float64")
    mod = graph(lambda net, x: net.emit("y", op.divide(x, divisor)), tensor("x", 7, dtype="float64"))
    assert str(rewritten(mod, RULE)["main"].ret_ty.dtype) == "float64"


def test_a_divisor_of_run_time_is_kept() -> None:
    mod = graph(lambda net, x: net.emit("y", op.divide(relax.const(3.0), x)), tensor("x", 7))
    assert rejection(mod, RULE).reason == "divisor is not a constant"
