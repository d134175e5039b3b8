# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import numpy as np
import pytest
from tvm import relax
from tvm.ir import Expr, Var
from tvm.relax import op

from schedules.numerics.qdq import multiplier, requantize
from schedules.numerics.qdq.binary import Op, binary
from schedules.numerics.qdq.softmax import softmax
from schedules.numerics.qdq.table import look_up, table
from schedules.numerics.qdq.values import dequantize, integer_bounds
from tests.relay_passes.integerize.qdq import (
    Body,
    Graph,
    Input,
    computed,
    made_integer,
    qdq,
    refused,
    run,
)
from tests.schedules.numerics.routines import BELOW_POWER, DECIMAL, ODD_POWER, POWER, UNSIGNED, WIDE, Per

BINARY: dict[Op, Callable[[Expr, Expr], Expr]] = {
    "add": op.add,
    "subtract": op.subtract,
    "multiply": op.multiply,
    "maximum": op.maximum,
    "minimum": op.minimum,
}


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize(
    ("a", "b", "y"),
    [(POWER, ODD_POWER, BELOW_POWER), (UNSIGNED, DECIMAL, UNSIGNED), (WIDE, DECIMAL, WIDE)],
    ids=str,
)
def test_function_of_two(name: Op, a: Per, b: Per, y: Per):
    actual, (qa, qb) = computed(
        lambda _g, x, z: BINARY[name](x, z), [Input((2, 9, 31), a), Input((9, 1), b)], y
    )
    np.testing.assert_array_equal(actual, binary(name, dequantize(qa, a), dequantize(qb, b), y))


@pytest.mark.parametrize("first", [True, False])
def test_function_of_one_and_a_constant_a_channel(first: bool):
    c = np.random.default_rng(0).uniform(-2, 2, 9).astype(np.float32)

    def body(_graph: Graph, x: Var) -> Expr:
        operands = (relax.const(c), x) if first else (x, relax.const(c))
        return op.subtract(*operands)

    actual, (q,) = computed(body, [Input((7, 9), DECIMAL)], ODD_POWER)
    real = dequantize(q, DECIMAL)
    expected = binary("subtract", *((c, real) if first else (real, c)), ODD_POWER)
    np.testing.assert_array_equal(actual, expected)


CLAMPS: dict[str, tuple[Callable[[Graph, Var], Expr], tuple[float | None, float | None]]] = {
    "relu": (lambda _g, v: op.nn.relu(v), (0.0, None)),
    "relu6": (lambda _g, v: op.clip(v, 0, 6), (0.0, 6.0)),
    "twice": (lambda g, v: op.clip(g.emit("relu", op.nn.relu(v)), -1, 0.7), (0.0, float(np.float32(0.7)))),
}


@pytest.mark.parametrize("clamp", CLAMPS)
def test_clamp_behind_a_sum_of_two(clamp: str):
    apply, bounds = CLAMPS[clamp]

    def body(graph: Graph, a: Var, b: Var) -> Expr:
        return apply(graph, graph.emit("add", op.add(a, b)))

    y = Per(0.0625, -7, "int8")
    actual, (qa, qb) = computed(body, [Input((31,), POWER), Input((31,), ODD_POWER)], y)
    np.testing.assert_array_equal(
        actual, binary("add", dequantize(qa, POWER), dequantize(qb, ODD_POWER), y, bounds)
    )


@pytest.mark.parametrize("clamp", CLAMPS)
@pytest.mark.parametrize("moved", [False, True])
def test_clamp_behind_accumulators(clamp: str, moved: bool):
    apply, bounds = CLAMPS[clamp]
    w = np.random.default_rng(1).integers(-127, 128, (9, 7)).astype(np.int8)

    def body(graph: Graph, x: Var) -> Expr:
        value = graph.emit("fc", op.matmul(x, graph.weight(w, 2.0**-8)))
        if moved:
            value = graph.emit("turn", op.permute_dims(value, [1, 0]))
        return apply(graph, value)

    y = Per(0.0625, -7, "int8")
    actual, (q,) = computed(body, [Input((8, 9), ODD_POWER)], y)
    acc = (q.astype(np.int64) - 7) @ w.astype(np.int64)
    m = multiplier(ODD_POWER.scale, 2.0**-8, y.scale)
    expected = requantize(acc, m, y.zero_point, "int8", integer_bounds(y, bounds))
    np.testing.assert_array_equal(actual, expected.T if moved else expected)


@pytest.mark.parametrize(("x", "y"), [(DECIMAL, ODD_POWER), (UNSIGNED, DECIMAL), (ODD_POWER, WIDE)], ids=str)
def test_requantisation(x: Per, y: Per):
    actual, (q,) = computed(lambda _g, real: real, [Input((7, 9), x)], y)
    np.testing.assert_array_equal(actual, look_up(table(lambda v: v, x, y), q))


def test_equal_quantisations_need_no_call():
    mod, left = made_integer(
        qdq(lambda g, x: g.emit("turn", op.permute_dims(x, [1, 0])), [Input((7, 9), DECIMAL)], DECIMAL)
    )
    assert left == ()
    assert [str(block.bindings[0].value.op.name) for block in mod["main"].body.blocks] == [
        "relax.permute_dims"
    ]


def test_concatenation_requantises_each_part():
    y = ODD_POWER
    inputs = [Input((2, 7), DECIMAL), Input((2, 1), ODD_POWER), Input((2, 9), BELOW_POWER)]
    actual, parts = computed(lambda _g, *reals: op.concat(list(reals), 1), inputs, y)
    expected = [look_up(table(lambda v: v, i.per, y), q) for i, q in zip(inputs, parts, strict=True)]
    np.testing.assert_array_equal(actual, np.concatenate(expected, 1))


@pytest.mark.parametrize("axis", [-1, 1, 0])
@pytest.mark.parametrize("x", [ODD_POWER, UNSIGNED], ids=str)
def test_softmax(axis: int, x: Per):
    y = Per(1 / 256, -128, "int8")
    actual, (q,) = computed(lambda _g, real: op.nn.softmax(real, axis), [Input((7, 9, 31), x)], y)
    np.testing.assert_array_equal(actual, softmax(q, axis, x, y))


def test_one_value_for_two_scales():
    w = np.random.default_rng(1).integers(-127, 128, (9, 7)).astype(np.int8)

    def body(graph: Graph, x: Var) -> Expr:
        value = graph.emit("fc", op.matmul(x, graph.weight(w, 2.0**-8)))
        return relax.Tuple([graph.quantize("q1", value, POWER), graph.quantize("q2", value, DECIMAL)])

    mod, left = made_integer(qdq(body, [Input((8, 9), ODD_POWER)], None))
    assert left == ()
    q = Input((8, 9), ODD_POWER).values(0)
    acc = (q.astype(np.int64) - 7) @ w.astype(np.int64)
    for actual, y in zip(run(mod, [q]), (POWER, DECIMAL), strict=True):
        m = multiplier(ODD_POWER.scale, 2.0**-8, y.scale)
        np.testing.assert_array_equal(actual, requantize(acc, m, y.zero_point, "int8"))


def half_float_concat(graph: Graph, x: Var, z: Var) -> Expr:
    norm = graph.emit("norm", op.nn.log_softmax(x))
    return graph.emit("concat", op.concat([norm, z], 0))


def test_concatenation_takes_what_is_integer_and_quantises_the_rest():
    left = refused(half_float_concat, [Input((7, 9), DECIMAL), Input((2, 9), UNSIGNED)], ODD_POWER)
    assert [call.operator for call in left] == ["nn.log_softmax"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            lambda g, x, z: g.emit("add", op.add(x, g.emit("norm", op.nn.log_softmax(z)))),
            "an operand of add is not quantised per tensor",
        ),
        (
            lambda g, x, z: g.emit("relu", op.nn.relu(g.emit("softmax", op.nn.softmax(x)))),
            "a clamp follows softmax",
        ),
    ],
)
def test_refusals_say_why(body: Body, reason: str):
    left = refused(body, [Input((7, 9), DECIMAL), Input((7, 9), UNSIGNED)], ODD_POWER)
    assert any(str(call).endswith(reason) for call in left), [str(call) for call in left]


def test_division_by_a_computed_value_is_refused():
    # It may be 0, and what the float form makes of that differs between machines.
    _, left = made_integer(
        qdq(
            lambda g, x, z: g.emit("div", op.divide(x, z)),
            [Input((7,), DECIMAL), Input((7,), UNSIGNED)],
            ODD_POWER,
        )
    )
    assert [call.reason for call in left] == ["its divisor is computed at run time and may be 0"]
