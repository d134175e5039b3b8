# SPDX-License-Identifier: Apache-2.0
import math
from collections.abc import Callable

import numpy as np
import pytest
from tvm import relax
from tvm.ir import Expr, Var
from tvm.relax import op

from schedules.numerics.qdq.table import look_up, table
from tests.relay_passes.integerize.qdq import Body, Graph, Input, computed, made_integer, qdq, refused
from tests.schedules.numerics.routines import BELOW_POWER, DECIMAL, ODD_POWER, UNSIGNED, WIDE, Per

Real = Callable[[np.ndarray], np.ndarray]

_erf = np.vectorize(math.erf, otypes=[np.float64])
# Of functions that are defined for positive numbers only.
POSITIVE = Per(float(np.float32(0.05)), -128, "int8")
FINE = Per(2.0**-6, -5, "int8")


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def hard_swish(graph: Graph, x: Var) -> Expr:
    gate = graph.emit("clip", op.clip(graph.emit("add", op.add(x, relax.const(np.float32(3)))), 0, 6))
    return op.divide(graph.emit("mul", op.multiply(x, gate)), relax.const(np.float32(6)))


FUNCTIONS: dict[str, tuple[Body, Real]] = {
    "relu": (lambda _g, x: op.nn.relu(x), lambda x: np.maximum(x, 0)),
    "clip": (lambda _g, x: op.clip(x, -0.3, 1.7), lambda x: x.clip(np.float32(-0.3), np.float32(1.7))),
    "leaky relu": (
        lambda _g, x: op.nn.leakyrelu(x, 0.1),
        lambda x: np.where(x > 0, x, x * float(np.float32(0.1))),
    ),
    "sigmoid": (lambda _g, x: op.sigmoid(x), sigmoid),
    "tanh": (lambda _g, x: op.tanh(x), np.tanh),
    "hard swish": (hard_swish, lambda x: x * (x + 3).clip(0, 6) / 6),
    "gelu": (lambda _g, x: op.nn.gelu(x), lambda x: x / 2 * (1 + _erf(x / 2**0.5))),
    "gelu of tanh": (
        lambda _g, x: op.nn.gelu_tanh(x),
        lambda x: x / 2 * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))),
    ),
    "silu": (lambda _g, x: op.nn.silu(x), lambda x: x * sigmoid(x)),
    "softplus": (
        lambda _g, x: op.nn.softplus(x),
        lambda x: np.where(x > 20, x, np.log1p(np.exp(x.clip(None, 20)))),
    ),
    "selu": (
        lambda _g, x: op.nn.selu(x),
        lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    ),
    "square": (lambda _g, x: op.square(x), np.square),
    "x / 0.3 - 0.1": (
        lambda g, x: op.subtract(
            g.emit("div", op.divide(x, relax.const(np.float32(0.3)))), relax.const(np.float32(0.1))
        ),
        lambda x: x / float(np.float32(0.3)) - float(np.float32(0.1)),
    ),
}


@pytest.mark.each_once
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("x", "y"), [(DECIMAL, FINE), (UNSIGNED, BELOW_POWER)], ids=str)
def test_function_of_one_tensor_is_its_table(name: str, x: Per, y: Per):
    body, function = FUNCTIONS[name]
    actual, (q,) = computed(body, [Input((31, 9), x)], y)
    np.testing.assert_array_equal(actual, look_up(table(function, x, y), q))


@pytest.mark.parametrize(
    ("body", "function"),
    [
        (lambda _g, x: op.sqrt(x), np.sqrt),
        (lambda _g, x: op.exp(x), np.exp),
        (lambda _g, x: op.power(x, relax.const(np.float32(0.5))), np.sqrt),
    ],
)
def test_function_of_positive_numbers(body: Body, function: Real):
    actual, (q,) = computed(body, [Input((7, 8), POSITIVE)], FINE)
    np.testing.assert_array_equal(actual, look_up(table(function, POSITIVE, FINE), q))


def test_relu_keeps_its_inputs_quantisation():
    actual, (q,) = computed(lambda _g, x: op.nn.relu(x), [Input((31,), ODD_POWER)], ODD_POWER)
    np.testing.assert_array_equal(actual, np.maximum(q, ODD_POWER.zero_point))


def test_maximum_with_a_constant_is_a_clamp():
    limit = relax.const(np.float32(0.4))
    actual, (q,) = computed(lambda _g, x: op.maximum(limit, x), [Input((31,), DECIMAL)], FINE)
    expected = table(lambda x: np.maximum(x, float(np.float32(0.4))), DECIMAL, FINE)
    np.testing.assert_array_equal(actual, look_up(expected, q))


def by_channels(graph: Graph, x: Var) -> Expr:
    scaled = graph.emit("mul", op.multiply(x, graph.const(9)))
    return graph.emit("tanh", op.tanh(scaled))


@pytest.mark.parametrize(
    ("body", "x", "reason"),
    [
        (by_channels, DECIMAL, "a constant in it has several elements (expected 1, found 9)"),
        (
            lambda g, x: g.emit("tanh", op.tanh(x)),
            WIDE,
            "a table has 256 entries, for int8, uint8 and not for int16",
        ),
        (
            lambda g, x: g.emit("norm", op.nn.log_softmax(x)),
            DECIMAL,
            "no integer form of nn.log_softmax is defined",
        ),
        (
            lambda g, x: g.emit("tanh", op.tanh(g.emit("softmax", op.nn.softmax(x)))),
            DECIMAL,
            "nn.softmax before it is not quantised",
        ),
    ],
)
def test_refusals_say_why(body: Body, x: Per, reason: str):
    left = refused(body, [Input((7, 9), x)], FINE)
    assert any(str(call).endswith(reason) for call in left), [str(call) for call in left]


def test_function_that_is_not_a_number_somewhere_stays_float():
    # Its integers are whatever the machine makes of not-a-number: only the reason is compared.
    _, left = made_integer(qdq(lambda g, x: g.emit("log", op.log(x)), [Input((7,), DECIMAL)], FINE))
    assert [str(call) for call in left] == ["log: log: the function is NaN for some of the 256 values"]
