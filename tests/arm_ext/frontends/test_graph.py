# SPDX-License-Identifier: Apache-2.0
"""Values of a graph: numbers as operands, lazy broadcasting, folding, and the source names of what is bound."""

from collections.abc import Callable

import numpy as np
import pytest
from tvm import relax, tirx
from tvm.ir import Constant
from tvm.relax import op as R  # noqa: N812 (the name that TVMScript has)

from arm_ext.frontends.graph import Graph, Value
from arm_ext.frontends.ops import arithmetic, maths, move


def built(compute: Callable[[Graph, Value], Value], *shape: object, dtype: str = "float32") -> list[str]:
    """Return the Relax operators that a function of one value binds."""
    graph = Graph()
    x = relax.Var("x", relax.TensorType(shape, dtype))
    with graph.builder.function("main", [x]):
        with graph.builder.dataflow():
            result = graph.builder.emit_output(compute(graph, graph.hold(x)).full)
        graph.builder.emit_func_output(result)
    main = graph.builder.get()["main"]
    values = [binding.value for block in main.body.blocks for binding in block.bindings]
    return [call.op.name.removeprefix("relax.") for call in values if isinstance(call, relax.Call)]


def constants(graph: Graph, *arrays: object) -> list[Value]:
    return [graph.hold_constant(np.asarray(array)) for array in arrays]


def test_a_number_has_the_dtype_of_the_other_operand():
    def compute(_: Graph, x: Value) -> Value:
        y = 1 - x * 2
        assert (y.dtype, y.shape) == ("float16", (2, 3))
        return y

    assert built(compute, 2, 3, dtype="float16") == ["multiply", "subtract"]


def test_constants_are_computed_at_once_and_integers_wrap_around():
    graph = Graph()
    x, y = constants(graph, np.array([2**31 - 1, -7], np.int32), np.array([1, 2], np.int32))
    for found, wanted in (
        (x + y, [-(2**31), -5]),
        (arithmetic.floor_divide(x, y), [2**31 - 1, -4]),
        (x / y, [2**31 - 1, -3]),
    ):
        assert isinstance(found.expr, Constant)
        assert (found.constant().tolist(), found.dtype) == (wanted, "int32")
    assert arithmetic.cast(x, "uint8").constant().tolist() == [255, 249]


def test_what_machines_round_differently_is_not_computed_here():
    assert built(lambda graph, x: x * maths.exp(constants(graph, np.float32(1.5))[0]), 3) == [
        "exp",
        "multiply",
    ]


def test_large_constants_are_left_to_the_passes():
    assert built(lambda graph, x: x + constants(graph, np.ones(65, np.float32))[0] * 2, 65) == [
        "multiply",
        "add",
    ]


def test_a_row_is_broadcast_only_where_its_full_shape_is_needed():
    def added(_: Graph, x: Value) -> Value:
        return x.broadcast([1], (4, 3)) + x.broadcast([1], (4, 3))

    # The sum is that of the row; the result alone is broadcast.
    assert built(added, 3) == ["add", "broadcast_to"]


def test_axes_that_a_reduction_keeps_are_dropped_at_the_end():
    def centred(graph: Graph, x: Value) -> Value:
        most = Value(graph, graph.emit(R.max(x.full, [1], keepdims=True)), (2,), (0,))
        shifted = most + most
        assert (shifted.shape, shifted.small, shifted.kept) == ((2,), (2, 1), (0,))
        return x - shifted.broadcast([0], (2, 3))

    assert built(centred, 2, 3) == ["max", "add", "subtract"]


def test_symbolic_sizes_stay():
    n = tirx.Var("n", "int64")

    def compute(_: Graph, x: Value) -> Value:
        y = arithmetic.where(x > 0, x, 0.5)
        assert y.shape[0].same_as(n)
        return y

    assert built(compute, n, 3) == ["greater", "where"]


def test_operands_without_elements_are_left_out_of_a_concatenation():
    def compute(graph: Graph, x: Value) -> Value:
        (empty,) = constants(graph, np.zeros((0, 4), np.float32))
        return move.concatenate([empty, x, empty], 0)

    assert built(compute, 2, 4) == []


def test_equal_elements_are_a_scalar():
    graph = Graph()
    kept = graph.keep(np.full((2, 3), 7.0, np.float32))
    assert (kept.shape, kept.small, kept.scalar()) == ((2, 3), (), 7.0)
    assert graph.hold_constant(np.full((2, 3), 7.0, np.float32)).small == (2, 3)
    assert graph.keep(np.array([np.nan, 1], np.float32)).scalar() is None


def test_what_is_bound_has_the_name_of_its_node():
    graph = Graph()
    x = relax.Var("x", relax.TensorType((2,), "float32"))
    with graph.builder.function("main", [x]):
        with graph.builder.dataflow():
            graph.node = "first"
            y = graph.hold(x) + 1
            graph.node = "second"
            z = y * y
            result = graph.builder.emit_output(z.full)
        graph.builder.emit_func_output(result)
    assert [graph.names[value.expr] for value in (y, z)] == ["first", "second"]


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool"])
def test_the_operators_of_python_are_those_of_the_dtype(dtype: str):
    names = {"bool": "logical", "int8": "bitwise"}.get(dtype)
    if names is not None:
        assert built(lambda _, x: ~(x & x | x ^ x), 3, dtype=dtype) == [
            f"{names}_{operator}" for operator in ("and", "xor", "or", "not")
        ]
    else:
        assert built(lambda _, x: -x, 3) == ["negative"]
