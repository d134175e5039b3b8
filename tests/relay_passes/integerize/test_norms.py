# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import relax
from tvm.ir import Expr, Var
from tvm.relax import op

from schedules.numerics.qdq.norm import Norm, factors, norm
from tests.relay_passes.integerize.qdq import Body, Graph, Input, computed, refused
from tests.schedules.numerics.norm_cases import real_factors
from tests.schedules.numerics.routines import DECIMAL, ODD_POWER, UNSIGNED, WIDE, Per

Y = Per(2.0**-5, -7, "int8")


def layer_norm(_graph: Graph, x: Var) -> Expr:
    gamma, beta = (f.astype(np.float32) for f in real_factors((9,), Norm(1, 1e-3, centred=True)))
    return op.nn.layer_norm(x, relax.const(gamma), relax.const(beta), -1, 1e-3)


@pytest.mark.parametrize("x", [DECIMAL, UNSIGNED], ids=str)
@pytest.mark.parametrize("axes", [[-1], [1, 2]])
@pytest.mark.parametrize("centred", [True, False])
def test_norm_over_the_last_axes(x: Per, axes: list[int], centred: bool):
    shape = (3, 7, 9)
    what = Norm(len(axes), 1e-3, centred)
    gamma, beta = (f.astype(np.float32) for f in real_factors(shape[3 - len(axes) :], what))

    def body(_graph: Graph, real: Var) -> Expr:
        if centred:
            return op.nn.layer_norm(real, relax.const(gamma), relax.const(beta), axes, 1e-3)
        return op.nn.rms_norm(real, relax.const(gamma), axes, 1e-3)

    actual, (q,) = computed(body, [Input(shape, x)], Y)
    g, h = factors(gamma.astype(np.float64), beta.astype(np.float64), Y)
    np.testing.assert_array_equal(actual, norm(q, what, g, h, x, Y))


def test_gamma_that_two_layers_share_with_two_scales_is_constant():
    # A quantiser gives each reader of a shared weight a scale of its own: dequantize, quantize, dequantize.
    gamma = np.arange(-4, 5, dtype=np.int8)

    def body(graph: Graph, x: Var) -> Expr:
        shared = graph.weight(gamma, 2.0**-2, name="shared")
        again = graph.quantize("again", shared, Y)
        own = graph.dequantize("own", again, Y)
        return op.nn.layer_norm(x, own, shared, -1, 1e-3)

    actual, (q,) = computed(body, [Input((7, 9), DECIMAL)], ODD_POWER)
    real = gamma * 0.25
    g, h = factors(real, real, ODD_POWER)
    expected = norm(q, Norm(1, 1e-3, centred=True), g, h, DECIMAL, ODD_POWER)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    ("body", "x", "reason"),
    [
        (layer_norm, WIDE, "a norm is defined for int8, uint8 and not for int16"),
        (lambda g, x: op.nn.relu(g.emit("norm", layer_norm(g, x))), DECIMAL, "a clamp follows nn.layer_norm"),
        (
            lambda g, x: op.nn.layer_norm(x, g.const(9), g.const(9), 0),
            DECIMAL,
            "its axes are not the last ones (expected [1], found [0])",
        ),
        (
            lambda g, x: op.nn.rms_norm(x, g.emit("slice", op.take(x, relax.const(0), 0)), -1),
            DECIMAL,
            "gamma or beta are not constants",
        ),
        (
            lambda g, x: op.nn.layer_norm(x, g.const(9), g.const(9), -1, scale=False),
            DECIMAL,
            "it leaves out gamma or beta",
        ),
        (
            lambda g, x: op.nn.rms_norm(g.emit("softmax", op.nn.softmax(x)), g.const(9), -1),
            DECIMAL,
            "its input is not quantised per tensor",
        ),
    ],
)
def test_refusals_say_why(body: Body, x: Per, reason: str):
    left = refused(body, [Input((9, 9), x)], ODD_POWER)
    assert any(str(call).endswith(reason) for call in left), [str(call) for call in left]
