# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import relax
from tvm.relax import op

from relay_passes.rules.divide_by_power_of_two import RULE
from tests.relay_passes.graphs import operators, tensor
from tests.relay_passes.rules.rewrites import assert_equal, graph, rejection, rewritten


def _quotient(divisor: object, dtype: str = "float32"):
    value = relax.const(np.asarray(divisor, dtype))
    return graph(lambda net, x: net.emit("y", op.divide(x, value)), tensor("x", 31, 3, dtype=dtype))


@pytest.mark.parametrize("divisor", [8.0, -0.25, 2.0**126, 2.0**-126, [2.0, 1.0, -4.0]])
def test_the_product_is_the_quotient_bit_for_bit(divisor: object) -> None:
    mod = _quotient(divisor)
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == ["multiply"]
    assert_equal(mod, after)


@pytest.mark.parametrize("divisor", [8.0, 2.0**126])
def test_bfloat16_has_the_range_of_float32(divisor: float) -> None:
    assert operators(rewritten(_quotient(divisor, "bfloat16"), RULE)["main"]) == ["multiply"]


@pytest.mark.parametrize(
    ("divisor", "dtype", "reason"),
    [
        (6.0, "float32", "divisor is no power of two"),
        ([2.0, 3.0, 4.0], "float32", "divisor is no power of two"),
        (0.0, "float32", "divisor is no power of two"),
        (2.0**127, "float32", "the reciprocal is not a normal number"),
        (2.0**-140, "float32", "the reciprocal is not a normal number"),
        (2.0**15, "float16", "the reciprocal is not a normal number"),
        (4, "int32", "divisor is no floating-point tensor"),
    ],
)
def test_near_misses_say_why(divisor: object, dtype: str, reason: str) -> None:
    assert rejection(_quotient(divisor, dtype), RULE).reason == reason


def test_a_divisor_of_run_time_is_kept() -> None:
    mod = graph(lambda net, x: net.emit("y", op.divide(relax.const(8.0), x)), tensor("x", 7))
    assert rejection(mod, RULE).reason == "divisor is not a constant"
