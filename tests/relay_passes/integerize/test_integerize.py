# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import relax
from tvm.ir import Call, Expr, Var
from tvm.relax import op

from relay_passes.integerize import integerize
from relay_passes.ir.sources import bindings_of, sources_of
from schedules.numerics.qdq import NUMERICS, multiplier, requantize
from tests.relay_passes.graphs import GRAPHS, Net, operators, tensor
from tests.relay_passes.integerize.qdq import (
    Graph,
    Input,
    computed,
    float_values,
    made_integer,
    qdq,
    run,
)
from tests.schedules.numerics.routines import DECIMAL, ODD_POWER, POWER, UNSIGNED, Per

W = np.random.default_rng(0).integers(-127, 128, (9, 7)).astype(np.int8)
Y = Per(2.0**-3, -5, "int8")


def linear(graph: Graph, x: Var) -> Var:
    return graph.emit("fc", op.matmul(x, graph.weight(W, 2.0**-8)))


def sums(q: np.ndarray, x: Per) -> np.ndarray:
    return np.asarray((q.astype(np.int64) - x.zero_point) @ W.astype(np.int64))


def test_float_module_is_left_as_it_is():
    mod = GRAPHS["conv_bn_relu"]()
    after, left = integerize(mod, NUMERICS)
    assert after.same_as(mod)
    assert left == ()


def test_group_becomes_one_integer_operator_an_offset_and_a_requantize():
    def body(graph: Graph, x: Var) -> Expr:
        return graph.emit("relu", op.nn.relu(linear(graph, x)))

    mod, _ = made_integer(qdq(body, [Input((8, 9), ODD_POWER)], Y))
    assert operators(mod["main"]) == ["matmul", "add", "call_tir"]
    dtypes = [str(b.var.ty.dtype) for b in bindings_of(mod["main"]) if isinstance(b.value, Call)]
    assert dtypes == ["int32", "int32", "int8"]


def test_operands_of_the_product_are_of_8_bits():
    mod, _ = made_integer(qdq(linear, [Input((8, 9), UNSIGNED)], Y))
    product = next(b.value for b in bindings_of(mod["main"]) if isinstance(b.value, Call))
    assert [str(arg.ty.dtype) for arg in product.args] == ["uint8", "int8"]


def test_calls_carry_the_names_of_all_they_come_from():
    def body(graph: Graph, x: Var) -> Expr:
        return graph.emit("relu", op.nn.relu(linear(graph, x)))

    mod, _ = made_integer(qdq(body, [Input((8, 9), ODD_POWER)], Y))
    names = [set(sources_of(b.value)) for b in bindings_of(mod["main"]) if isinstance(b.value, Call)]
    assert names == [{"dq0", "w", "fc"}, {"dq0", "w", "fc", "relu"}, {"dq0", "w", "fc", "relu", "q"}]


def test_float_bias_is_rounded_to_the_accumulators_unit():
    bias = np.random.default_rng(3).uniform(-9, 9, 7).astype(np.float32)

    def body(graph: Graph, x: Var) -> Expr:
        return op.add(linear(graph, x), relax.const(bias))

    actual, (q,) = computed(body, [Input((8, 9), ODD_POWER)], Y)
    units = np.rint(bias.astype(np.float64) / (ODD_POWER.scale * 2.0**-8)).astype(np.int64)
    m = multiplier(ODD_POWER.scale, 2.0**-8, Y.scale)
    np.testing.assert_array_equal(actual, requantize(sums(q, ODD_POWER) + units, m, -5, "int8"))


def test_bias_that_makes_the_sum_leave_int32_widens_it():
    bias = np.full(7, 2**31 - 1, np.int32)
    y = Per(2.0**13, 3, "int8")

    def body(graph: Graph, x: Var) -> Expr:
        return op.add(linear(graph, x), graph.weight(bias, 2.0**-8 * POWER.scale, name="b"))

    mod, left = made_integer(qdq(body, [Input((8, 9), POWER)], y))
    assert left == ()
    q = Input((8, 9), POWER).values(0)
    expected = requantize(sums(q, POWER) + bias, multiplier(POWER.scale, 2.0**-8, y.scale), 3, "int8")
    assert expected.max() > 3
    np.testing.assert_array_equal(run(mod, [q])[0], expected)


def test_sum_that_a_float_operator_needs_too_is_computed_from_integers_as_well():
    def body(graph: Graph, x: Var) -> Expr:
        value = linear(graph, x)
        return relax.Tuple([graph.quantize("q", value, Y), graph.emit("sin", op.sin(value))])

    mod, left = made_integer(qdq(body, [Input((8, 9), DECIMAL)], None))
    assert [str(call) for call in left] == [
        "sin: sin: its result is not quantised (expected quantize as its reader, found the model's output)"
    ]
    q = Input((8, 9), DECIMAL).values(0)
    acc, m = sums(q, DECIMAL), multiplier(DECIMAL.scale, 2.0**-8, Y.scale)
    quantised, sine = run(mod, [q])
    np.testing.assert_array_equal(quantised, requantize(acc, m, -5, "int8"))
    # float32 sine of arguments up to 60.
    np.testing.assert_allclose(sine, np.sin(acc * DECIMAL.scale * 2.0**-8), rtol=0, atol=1e-5)


def test_output_that_nothing_quantises_is_dequantised_accumulators():
    mod, left = made_integer(qdq(linear, [Input((8, 9), DECIMAL)], None))
    assert left == ()
    q = Input((8, 9), DECIMAL).values(0)
    scale = np.float32(DECIMAL.scale) * np.float32(2.0**-8)
    np.testing.assert_array_equal(run(mod, [q])[0], sums(q, DECIMAL).astype(np.float32) * scale)


def test_accumulators_of_the_source_are_requantised():
    # What the integer operators of a source give: int32, dequantised, then quantised.
    graph, acc = Graph(), tensor("acc", 7, 9, dtype="int32")
    scale = np.array([0.5, 0.25, 0.01, 1, 2, 0.5, 0.125, 0.1, 0.3], np.float32) / 1000

    def body() -> Expr:
        s, z = relax.const(scale), relax.const(np.zeros(9, np.int32))
        real = graph.emit("dq", op.dequantize(acc, s, z, axis=1))
        return graph.quantize("q", real, Y)

    mod, left = made_integer(graph.module([acc], body))
    assert left == ()
    assert float_values(mod) == []
    values = np.random.default_rng(0).integers(-99999, 99999, (7, 9)).astype(np.int32)
    expected = requantize(values, multiplier(1.0, scale, Y.scale), -5, "int8")
    np.testing.assert_array_equal(run(mod, [values])[0], expected)


@pytest.mark.parametrize("find", [op.argmax, op.argmin])
def test_index_of_the_greatest_is_that_of_the_integers(find: object):
    actual, (q,) = computed(lambda _g, x: find(x, 1), [Input((7, 31), UNSIGNED)], None)
    expected = np.argmax(q, 1) if find is op.argmax else np.argmin(q, 1)
    np.testing.assert_array_equal(actual, expected)


def test_values_from_float_are_quantised_at_the_border():
    net, x = Graph(), tensor("x", 8, 9)

    def body() -> Expr:
        q = net.quantize("in", x, ODD_POWER)
        return net.quantize("out", linear(net, net.dequantize("dq", q, ODD_POWER)), Y)

    mod, left = made_integer(net.module([x], body))
    assert left == ()
    assert operators(mod["main"]) == ["quantize", "matmul", "add", "call_tir"]


def test_scale_that_is_computed_is_refused():
    net = Net()
    x, s = tensor("x", 8, 9, dtype="int8"), tensor("s")

    def body() -> Expr:
        real = net.emit("dq", op.dequantize(x, s, relax.const(np.int8(0)), axis=0))
        return net.emit("tanh", op.tanh(real))

    _, left = made_integer(net.module([x, s], body))
    assert [call.operator for call in left] == ["tanh"]
