# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import numpy as np
import pytest
from tvm.ir import Expr, Var
from tvm.relax import op

from relay_passes.integerize import integerize
from schedules.diagnostic import Diagnostic
from schedules.numerics.qdq.table import look_up, table
from schedules.numerics.tosa import NUMERICS
from schedules.numerics.tosa.resize import axis_of, resize
from tests.relay_passes.integerize.qdq import Array, Body, Graph, Input, float_values, qdq, refused, run
from tests.schedules.numerics.routines import BELOW_POWER, ODD_POWER, UNSIGNED, WIDE, Per

SHAPE, OUT = (2, 3, 7, 9), (14, 13)


def up(**options: object) -> Body:
    given = {"layout": "NCHW", "method": "linear", **options}
    return lambda graph, x: graph.emit("up", op.image.resize2d(x, OUT, **given))


def of_tosa(body: Body, x: Per, y: Per | None) -> tuple[Array, Array]:
    """What a resize computes, and on what, where nothing is float."""
    inputs = [Input(SHAPE, x)]
    mod, left = integerize(qdq(body, inputs, y), NUMERICS)
    assert (left, float_values(mod)) == ((), [])
    q = inputs[0].values(0)
    return run(mod, [q])[0], q


def bilinear(q: Array) -> Array:
    rows, columns = (axis_of("half_pixel", *pair) for pair in zip(SHAPE[2:], OUT, strict=True))
    return resize(q.transpose(0, 2, 3, 1), rows, columns).transpose(0, 3, 1, 2)


@pytest.mark.parametrize("x", [ODD_POWER, UNSIGNED], ids=str)
def test_it_keeps_its_scale(x: Per):
    actual, q = of_tosa(up(), x, x)
    np.testing.assert_array_equal(actual, bilinear(q))


@pytest.mark.parametrize(
    ("body", "function"),
    [(up(), lambda x: x), (lambda g, x: op.nn.relu(up()(g, x)), lambda x: np.maximum(x, 0))],
    ids=["another scale", "relu"],
)
def test_what_follows_is_of_its_result(body: Body, function: Callable[[Array], Array]):
    actual, q = of_tosa(body, ODD_POWER, BELOW_POWER)
    np.testing.assert_array_equal(actual, look_up(table(function, ODD_POWER, BELOW_POWER), bilinear(q)))


def test_moves_pass_the_quantize_on():
    def body(graph: Graph, x: Var) -> Expr:
        return graph.emit("turn", op.permute_dims(up()(graph, x), [0, 2, 3, 1]))

    actual, q = of_tosa(body, ODD_POWER, ODD_POWER)
    np.testing.assert_array_equal(actual, bilinear(q).transpose(0, 2, 3, 1))


def left_of_tosa(body: Body, x: Per) -> tuple[Diagnostic, ...]:
    return integerize(qdq(body, [Input(SHAPE, x)], x), NUMERICS)[1]


def test_why_one_stays_in_float():
    (left,) = refused(up(), [Input(SHAPE, ODD_POWER)], ODD_POWER)  # the numerics qdq
    assert str(left) == "up: image.resize2d: a resize that interpolates computes in float"
    (left,) = left_of_tosa(up(), WIDE)
    assert left.reason == "bilinear resize is defined for int8, uint8 and not for int16"
    (left,) = left_of_tosa(up(method="cubic"), ODD_POWER)
    assert str(left).endswith("it interpolates otherwise than by neighbours (expected linear, found cubic)")

    def unquantised(graph: Graph, x: Var) -> Expr:
        return up()(graph, graph.emit("sin", op.sin(x)))

    assert "its input is not quantised per tensor" in {
        left.reason for left in left_of_tosa(unquantised, ODD_POWER)
    }
