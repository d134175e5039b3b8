# SPDX-License-Identifier: Apache-2.0
from collections.abc import Callable

import numpy as np
import pytest
from tvm import relax
from tvm.ir import Expr, Var
from tvm.relax import op

from schedules.numerics.qdq.table import look_up, table
from tests.relay_passes.integerize.qdq import (
    Array,
    Body,
    Graph,
    Input,
    computed,
    made_integer,
    qdq,
    run,
)
from tests.schedules.numerics.routines import BELOW_POWER, ODD_POWER, UNSIGNED, WIDE, Per

SHAPE = (2, 7, 9, 8)

MOVES: dict[str, tuple[Body, Callable[[Array], Array]]] = {
    "reshape": (lambda _g, x: op.reshape(x, (2, 63, 8)), lambda q: q.reshape(2, 63, 8)),
    "flatten": (lambda _g, x: op.flatten(x), np.ravel),
    "permute_dims": (lambda _g, x: op.permute_dims(x, [0, 2, 3, 1]), lambda q: q.transpose(0, 2, 3, 1)),
    "slice": (
        lambda _g, x: op.strided_slice(x, [1, 3], [1, 0], [6, 8], [2, 3]),
        lambda q: q[:, 1:6:2, :, 0:8:3],
    ),
    "expand, squeeze": (lambda g, x: op.squeeze(g.emit("e", op.expand_dims(x, 1)), [1]), lambda q: q),
    "flip": (lambda _g, x: op.flip(x, 2), lambda q: np.flip(q, 2)),
    "take": (
        lambda _g, x: op.take(x, relax.const(np.array([6, 0, 0])), 1),
        lambda q: q.take([6, 0, 0], 1),
    ),
    "repeat": (lambda _g, x: op.repeat(x, 2, 3), lambda q: q.repeat(2, 3)),
    "max_pool": (
        lambda _g, x: op.nn.max_pool2d(x, (3, 3), (1, 1), (0, 0)),
        lambda q: np.lib.stride_tricks.sliding_window_view(q, (3, 3), (2, 3)).max((4, 5)),
    ),
    "max": (lambda _g, x: op.max(x, [2], keepdims=True), lambda q: q.max(2, keepdims=True)),
    "resize": (
        lambda _g, x: op.image.resize2d(
            x,
            (18, 16),
            layout="NCHW",
            method="nearest_neighbor",
            coordinate_transformation_mode="asymmetric",
            rounding_method="floor",
        ),
        lambda q: q.repeat(2, 2).repeat(2, 3),
    ),
    "split": (
        lambda g, x: g.emit("item", relax.TupleGetItem(g.bb.emit(op.split(x, [3], 1)), 1)),
        lambda q: q[:, 3:],
    ),
}


@pytest.mark.each_once
@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("per", [ODD_POWER, UNSIGNED], ids=str)
def test_move_takes_integers_as_they_are(move: str, per: Per):
    body, expected = MOVES[move]
    actual, (q,) = computed(body, [Input(SHAPE, per)], per)
    np.testing.assert_array_equal(actual, expected(q))


def test_move_of_sixteen_bits():
    body, expected = MOVES["permute_dims"]
    actual, (q,) = computed(body, [Input(SHAPE, WIDE)], WIDE)
    np.testing.assert_array_equal(actual, expected(q))


@pytest.mark.parametrize("move", ["permute_dims", "max_pool", "split"])
def test_move_and_another_scale(move: str):
    body, expected = MOVES[move]
    actual, (q,) = computed(body, [Input(SHAPE, UNSIGNED)], BELOW_POWER)
    entries = table(lambda x: x, UNSIGNED, BELOW_POWER)
    np.testing.assert_array_equal(actual, look_up(entries, expected(q)))


def test_max_pool_pads_with_the_least_value():
    x = Input((1, 3, 7, 7), UNSIGNED)
    actual, (q,) = computed(lambda _g, v: op.nn.max_pool2d(v, (2, 2), (2, 2), (0, 0, 1, 1)), [x], UNSIGNED)
    padded = np.pad(q, ((0, 0), (0, 0), (0, 1), (0, 1)))
    expected = padded.reshape(1, 3, 4, 2, 4, 2).max((3, 5))
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize(
    ("value", "y"), [(0.0, ODD_POWER), (-1.25, ODD_POWER), (0.3, ODD_POWER), (0.3, UNSIGNED)]
)
def test_pad_writes_the_quantised_value(value: float, y: Per):
    x = Input((1, 2, 3, 7), ODD_POWER)

    def body(_graph: Graph, v: Var) -> Expr:
        return op.nn.pad(v, [0, 0, 0, 0, 1, 2, 0, 3], pad_value=value)

    actual, (q,) = computed(body, [x], y)
    inside = look_up(table(lambda v: v, x.per, y), q)
    border = int(np.clip(np.rint(np.float32(value) / np.float32(y.scale)) + y.zero_point, -128, 255))
    expected = np.pad(inside, ((0, 0), (0, 0), (1, 2), (0, 3)), constant_values=border)
    np.testing.assert_array_equal(actual, expected)


def test_concatenation_of_one_scale_stays_integer_without_a_quantize():
    def body(graph: Graph, a: Var, b: Var) -> Expr:
        joined = graph.emit("concat", op.concat([a, b], 1))
        return graph.quantize("q", graph.emit("turn", op.permute_dims(joined, [1, 0])), ODD_POWER)

    inputs = [Input((7, 2), ODD_POWER), Input((7, 9), ODD_POWER)]
    actual, (a, b) = computed(body, inputs, None)
    np.testing.assert_array_equal(actual, np.concatenate([a, b], 1).T)


def test_weight_moves_with_its_scales():
    q = np.random.default_rng(0).integers(-127, 128, (9, 7)).astype(np.int8)
    scale = np.array([0.5, 0.25, 0.125, 1, 0.5, 0.25, 2, 1, 0.5], np.float32)

    def body(graph: Graph, x: Var) -> Expr:
        w = graph.emit("turn", op.permute_dims(graph.weight(q, scale, axis=0), [1, 0]))
        return op.matmul(x, w)

    y = Per(2.0**7, 3, "int8")
    actual, (x,) = computed(body, [Input((8, 7), ODD_POWER)], y)
    acc = (x.astype(np.int64) - 7) @ q.T.astype(np.int64)
    expected = np.clip(np.rint(acc * 0.125 * scale / 2**7) + 3, -128, 127)  # powers of two: exact
    np.testing.assert_array_equal(actual, expected)


def test_moved_integers_serve_float_readers_too():
    def body(graph: Graph, x: Var) -> Expr:
        moved = graph.emit("turn", op.permute_dims(x, [1, 0]))
        return relax.Tuple([graph.quantize("q", moved, ODD_POWER), graph.emit("sin", op.sin(moved))])

    before = qdq(body, [Input((7, 9), ODD_POWER)], None)
    after, left = made_integer(before)
    assert [call.operator for call in left] == ["sin"]
    q = Input((7, 9), ODD_POWER).values(0)
    for ours, theirs in zip(run(after, [q]), run(before, [q]), strict=True):
        np.testing.assert_array_equal(ours, theirs)
