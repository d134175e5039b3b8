# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import relax
from tvm.relax import op

from relay_passes.rules.expand_power import RULE
from tests.relay_passes.graphs import operators, run, tensor
from tests.relay_passes.rules.rewrites import ROUNDOFF, graph, rejection, rewritten


def _power(exponent: object, dtype: str = "float32"):
    value = relax.const(np.asarray(exponent, dtype))
    return graph(lambda net, x: net.emit("y", op.power(x, value)), tensor("x", 31, dtype=dtype))


@pytest.mark.parametrize(
    ("exponent", "form"),
    [
        (2.0, ["multiply"]),
        ([2.0], ["multiply"]),
        (3.0, ["multiply", "multiply"]),
        (0.5, ["sqrt"]),
        (-0.5, ["rsqrt"]),
        (-1.0, ["divide"]),
    ],
)
def test_the_power_is_within_five_roundings(exponent: object, form: list[str]) -> None:
    mod = _power(exponent)
    after = rewritten(mod, RULE)
    assert operators(after["main"]) == form
    x = np.linspace(0.01, 30, 31, dtype="float32")
    expected = run(mod, x)
    assert (np.abs(run(after, x) - expected) <= 5 * ROUNDOFF * np.abs(expected)).all()


def test_odd_powers_keep_the_sign() -> None:
    x = np.linspace(-2, 2, 31, dtype="float32")
    for exponent in (2.0, 3.0, -1.0):
        np.testing.assert_allclose(
            run(rewritten(_power(exponent), RULE), x), run(_power(exponent), x), rtol=5 * ROUNDOFF
        )


@pytest.mark.parametrize(
    ("exponent", "dtype", "reason"),
    [
        (2.5, "float32", "exponent has no shorter form"),
        (np.linspace(1, 2, 31), "float32", "exponent has no shorter form"),
        ([[2.0], [2.0]], "float32", "exponent enlarges the tensor"),
        (2, "int32", "x is no floating-point tensor"),
    ],
)
def test_near_misses_say_why(exponent: object, dtype: str, reason: str) -> None:
    assert rejection(_power(exponent, dtype), RULE).reason == reason


def test_an_exponent_of_run_time_is_kept() -> None:
    mod = graph(lambda net, x: net.emit("y", op.power(relax.const(2.0), x)), tensor("x", 7))
    assert rejection(mod, RULE).reason == "exponent is not a constant"
