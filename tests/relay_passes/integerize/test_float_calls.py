# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from tvm import relax
from tvm.ir import Expr, Var
from tvm.relax import op

from tests.relay_passes.graphs import Net, tensor
from tests.relay_passes.integerize.qdq import Body, Graph, Input, made_integer, qdq
from tests.relay_passes.rules.rewrites import graph
from tests.schedules.numerics.routines import DECIMAL, WIDE, Per

Y = Per(2.0**-3, -5, "int8")
W = np.ones((9, 7), np.int8)


def test_each_call_has_its_own_reason():
    def body(graph: Graph, x: Var, wide: Var) -> Expr:
        norm = graph.emit("norm", op.nn.log_softmax(x))
        gate = graph.emit("gate", op.tanh(norm))
        unread = graph.emit("unread", op.cos(x))
        table = graph.emit("table", op.tanh(wide))
        return relax.Tuple([graph.quantize("q", gate, Y), unread, graph.quantize("q2", table, Y)])

    _, left = made_integer(qdq(body, [Input((7, 9), DECIMAL), Input((7, 9), WIDE)], None))
    assert {call.nodes[0]: call.reason for call in left} == {
        "norm": "its result is not quantised",
        "gate": "nn.log_softmax before it is not quantised",
        "unread": "its result is not quantised",
        "table": "a table has 256 entries, for int8, uint8 and not for int16",
    }


def test_borders_and_what_the_pass_made_are_not_left():
    def body(graph: Graph, x: Var) -> Expr:
        return graph.emit("turn", op.permute_dims(x, [1, 0]))

    _, left = made_integer(qdq(body, [Input((7, 9), DECIMAL)], None))
    assert left == ()


def test_nothing_is_left_of_a_model_that_quantises_weights_alone():
    def body(net: Net, x: Expr) -> Expr:
        weights = op.dequantize(relax.const(W), relax.const(0.5), relax.const(0, "int8"))
        return net.emit("fc", op.matmul(x, net.emit("w", weights)))

    _, left = made_integer(graph(body, tensor("x", 7, 9)))
    assert left == ()


@pytest.mark.parametrize(
    ("name", "body"),
    [
        (
            "greater",
            lambda g, x: g.emit(
                "at", op.greater(g.emit("fc", op.matmul(x, g.weight(W, 0.5))), relax.const(0.3))
            ),
        ),
        ("astype", lambda g, x: g.emit("at", op.astype(x, "int32"))),
        ("argmax", lambda g, x: g.emit("at", op.argmax(g.emit("fc", op.matmul(x, g.weight(W, 0.5))), 1))),
    ],
)
def test_call_that_reads_floats_is_left_though_its_result_is_none(name: str, body: Body):
    _, left = made_integer(qdq(body, [Input((7, 9), DECIMAL)], None))
    assert [str(call) for call in left] == [
        f"at: {name}: its result is not quantised (expected quantize as its reader, found the model's output)"
    ]
