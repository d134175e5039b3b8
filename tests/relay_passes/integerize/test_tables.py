# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import relax
from tvm.ir import Expr, Var
from tvm.relax import op

from relay_passes.integerize import integerize
from relay_passes.integerize.numerics import Numerics
from relay_passes.ir.sources import bindings_of, global_callees, sources_of
from schedules.numerics import qdq as qdq_numerics
from schedules.numerics import tosa as tosa_numerics
from schedules.numerics.qdq.binary import binary
from schedules.numerics.qdq.table import look_up, table
from schedules.numerics.qdq.values import dequantize
from schedules.numerics.tosa.binary import binary as tosa_binary
from tests.relay_passes.integerize.qdq import Array, Body, Graph, Input, made_integer, qdq, run
from tests.schedules.numerics.routines import BELOW_POWER, DECIMAL, ODD_POWER, UNSIGNED, Per

GATE = Per(2.0**-8, -128, "int8")
ODD_GATE = Per(float(np.float32(0.0039)), 3, "uint8")
FINE = Per(2.0**-6, -5, "int8")


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def gated(graph: Graph, x: Expr, gate: Per) -> Var:
    """The dequantised sigmoid of x, quantised by itself."""
    return graph.dequantize("dq_s", graph.quantize("q_s", graph.emit("s", op.sigmoid(x)), gate), gate)


def silu(graph: Graph, x: Var, gate: Per) -> Expr:
    return graph.emit("mul", op.multiply(x, gated(graph, x, gate)))


def routines(mod: object) -> list[str]:
    """The numerics' routine of each call of `main`."""
    calls = [b.value for b in bindings_of(mod["main"]) if isinstance(b.value, relax.Call)]  # type: ignore[index]
    return [str(mod[name].attrs["numerics"]) for c in calls for name in global_callees(c)]  # type: ignore[index]


def made(body: object, x: Per, y: Per, numerics: Numerics) -> tuple[object, Array]:
    mod, left = integerize(qdq(body, [Input((31, 9), x)], y), numerics)  # type: ignore[arg-type]
    assert left == ()
    return mod, Input((31, 9), x).values(0)


@pytest.mark.parametrize("y", [FINE, BELOW_POWER], ids=str)
@pytest.mark.parametrize("gate", [GATE, ODD_GATE], ids=str)
@pytest.mark.parametrize("x", [DECIMAL, UNSIGNED, ODD_POWER], ids=str)
def test_a_gate_and_its_product_are_one_table_of_the_same_values(x: Per, gate: Per, y: Per):
    mod, q = made(lambda g, real: silu(g, real, gate), x, y, qdq_numerics.NUMERICS)
    assert routines(mod) == ["qdq.table"]
    gates = look_up(table(sigmoid, x, gate), q)
    expected = binary("multiply", dequantize(q, x), dequantize(gates, gate), y)
    (actual,) = run(mod, [q])  # type: ignore[arg-type]
    np.testing.assert_array_equal(actual, expected)
    assert len(np.unique(actual)) > 9


def test_in_the_numerics_of_tosa_it_is_its_product():
    mod, q = made(lambda g, real: silu(g, real, GATE), DECIMAL, FINE, tosa_numerics.NUMERICS)
    assert routines(mod) == ["qdq.table"]
    gates = look_up(table(sigmoid, DECIMAL, GATE), q)
    (actual,) = run(mod, [q])  # type: ignore[arg-type]
    np.testing.assert_array_equal(actual, tosa_binary("multiply", (q, gates), (DECIMAL, GATE), FINE))


def test_the_table_names_all_that_it_computes():
    mod, _ = made_integer(qdq(lambda g, x: silu(g, x, GATE), [Input((7,), DECIMAL)], FINE))
    (call,) = [b.value for b in bindings_of(mod["main"]) if sources_of(b.value)]
    assert {"s", "q_s", "mul", "q"} <= set(sources_of(call))


def test_pieces_of_a_hard_swish_are_one_table():
    wide = Per(float(np.float32(0.07)), -60, "int8")

    def body(graph: Graph, x: Var) -> Expr:
        shifted = graph.emit("add", op.add(x, relax.const(np.float32(3))))
        shifted = graph.dequantize("dq_a", graph.quantize("q_a", shifted, wide), wide)
        clipped = graph.emit("clip", op.clip(shifted, 0, 6))
        clipped = graph.dequantize("dq_c", graph.quantize("q_c", clipped, GATE), GATE)
        return graph.emit("mul", op.multiply(x, clipped))

    mod, q = made(body, DECIMAL, FINE, qdq_numerics.NUMERICS)
    assert routines(mod) == ["qdq.table"]
    shifted = look_up(table(lambda real: real + 3, DECIMAL, wide), q)
    clipped = look_up(table(lambda real: real.clip(0, 6), wide, GATE), shifted)
    expected = binary("multiply", dequantize(q, DECIMAL), dequantize(clipped, GATE), FINE)
    (actual,) = run(mod, [q])  # type: ignore[arg-type]
    np.testing.assert_array_equal(actual, expected)


def test_a_product_of_tables_of_two_tensors_stays_a_product():
    body = lambda g, x, z: g.emit("mul", op.multiply(x, gated(g, z, GATE)))  # noqa: E731
    mod, _ = made_integer(qdq(body, [Input((7, 9), DECIMAL), Input((7, 9), DECIMAL)], FINE))
    assert sorted(routines(mod)) == ["qdq.multiply", "qdq.table"]


def test_a_gate_with_other_readers_stays_beside_the_table():
    def body(graph: Graph, x: Var) -> Expr:
        gates = gated(graph, x, GATE)
        product = graph.quantize("q_m", graph.emit("mul", op.multiply(x, gates)), FINE)
        return relax.Tuple([product, graph.quantize("q_t", graph.emit("t", op.tanh(gates)), FINE)])

    mod, _ = made_integer(qdq(body, [Input((7, 9), DECIMAL)], None))
    assert routines(mod) == ["qdq.table"] * 3


def test_a_moved_gate_stays_a_product():
    body = lambda g, x: g.emit(  # noqa: E731
        "mul", op.multiply(x, g.emit("t", op.permute_dims(gated(g, x, GATE), [1, 0])))
    )
    mod, _ = made_integer(qdq(body, [Input((9, 9), DECIMAL)], FINE))
    assert "qdq.multiply" in routines(mod)


def chained(graph: Graph, x: Var) -> Var:
    """tanh of the sigmoid of x, each quantised."""
    return graph.quantize("q_t", graph.emit("t", op.tanh(gated(graph, x, ODD_GATE))), FINE)


def test_a_table_that_one_table_reads_becomes_part_of_it():
    mod, left = made_integer(qdq(chained, [Input((31, 9), DECIMAL)], None))
    assert left == ()
    assert routines(mod) == ["qdq.table"]
    (call,) = [b.value for b in bindings_of(mod["main"]) if sources_of(b.value)]
    assert {"s", "q_s", "t", "q_t"} <= set(sources_of(call))
    q = Input((31, 9), DECIMAL).values(0)
    gates = look_up(table(sigmoid, DECIMAL, ODD_GATE), q)
    (actual,) = run(mod, [q])
    np.testing.assert_array_equal(actual, look_up(table(np.tanh, ODD_GATE, FINE), gates))


def reads_the_gates(body: Body) -> bool:
    """Whether the tanh is a table of the gates, and not of what these are a table of."""
    mod, _ = made_integer(qdq(body, [Input((7, 9), DECIMAL)], None))
    assert routines(mod) == ["qdq.table"] * 2
    calls = [b.value for b in bindings_of(mod["main"]) if isinstance(b.value, relax.Call)]
    (second,) = [call for call in calls if "t" in sources_of(call)]
    return "s" not in sources_of(second)


def test_a_table_with_other_readers_stays():
    def body(graph: Graph, x: Var) -> Expr:
        gates = graph.quantize("q_s", graph.emit("s", op.sigmoid(x)), GATE)
        real = graph.dequantize("dq_s", gates, GATE)
        return relax.Tuple([gates, graph.quantize("q_t", graph.emit("t", op.tanh(real)), FINE)])

    assert reads_the_gates(body)


def test_a_table_whose_float_value_is_read_stays():
    def body(graph: Graph, x: Var) -> Expr:
        gates = gated(graph, x, GATE)
        return relax.Tuple([gates, graph.quantize("q_t", graph.emit("t", op.tanh(gates)), FINE)])

    assert reads_the_gates(body)
