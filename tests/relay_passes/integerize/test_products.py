# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from tvm.ir import Expr, Var
from tvm.relax import op

from schedules.numerics.qdq import multiplier, requantize
from tests.fuzz import integer_ops
from tests.relay_passes.integerize.qdq import (
    Array,
    Body,
    Graph,
    Input,
    centred,
    computed,
    made_integer,
    qdq,
    refused,
    run,
)
from tests.schedules.numerics.routines import DECIMAL, ODD_POWER, POWER, UNSIGNED, WIDE, Per

# Sums of products of powers of two end in ties.
INPUTS = [POWER, ODD_POWER, DECIMAL, UNSIGNED, WIDE]
WEIGHT_ZERO = 131


def weights(shape: tuple[int, ...], dtype: str = "int8", seed: int = 5) -> Array:
    low, high = (-127, 128) if dtype == "int8" else (0, 256)
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def scales(channels: int, base: float = 2.0**-7) -> Array:
    """A scale a channel: powers of two, and others."""
    return (base * np.array([1, 0.5, 1.1, 2])[np.arange(channels) % 4]).astype(np.float32)


def every(cases: Iterable[str], thorough: str) -> list[Any]:
    """Each case with one kind of input, and one of them with all."""
    pairs = [*((case, ODD_POWER) for case in cases if case != thorough), *((thorough, x) for x in INPUTS)]
    return [pytest.param(case, x, id=f"{case}, {x}") for case, x in pairs]


def fitting(acc: Array, x: Per, ws: Array, zero_point: int, dtype: str) -> Per:
    """An output quantisation, its scale a power of two, that most of the accumulators fit in."""
    largest = np.abs(acc * x.scale * ws).max()
    return Per(2.0 ** np.ceil(np.log2(largest / 160)), zero_point, dtype)


def check(
    body: Body, inputs: Sequence[Input], sums: Any, ws: Array, *, zero_point: int = -3, dtype: str = "int8"
) -> None:
    """The group equals the definition applied to sums of centred integers, which are taken in int64."""
    x = inputs[0].per
    acc = sums(*(centred(i.values(seed), i.per.zero_point) for seed, i in enumerate(inputs)))
    y = fitting(acc, x, ws, zero_point, dtype)
    actual, _ = computed(body, inputs, y)
    expected = requantize(acc, multiplier(x.scale, ws, y.scale), y.zero_point, dtype)
    np.testing.assert_array_equal(actual, expected)
    assert len(np.unique(expected)) > min(9, expected.size // 2)


CONVOLUTIONS = {
    "pointwise": ((1, 7, 8, 9), (31, 7, 1, 1), {}),
    "padded, strided": ((2, 3, 9, 8), (9, 3, 3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    "uneven, dilated": ((1, 2, 9, 9), (7, 2, 3, 2), {"pads": [0, 2, 3, 1], "dilations": [2, 1]}),
    "depthwise": ((1, 31, 7, 7), (31, 1, 3, 3), {"pads": [1, 1, 1, 1], "group": 31}),
    "groups": ((1, 8, 7, 1), (6, 4, 3, 1), {"pads": [1, 0, 1, 0], "group": 2}),
    "one": ((1, 1, 1, 1), (1, 1, 1, 1), {}),
}


def convolve(x: Expr, w: Expr, a: dict[str, Any], layout: str = "NCHW") -> Expr:
    return op.nn.conv2d(
        x,
        w,
        strides=a.get("strides", [1, 1]),
        padding=a.get("pads", [0, 0, 0, 0]),
        dilation=a.get("dilations", [1, 1]),
        groups=a.get("group", 1),
        data_layout=layout,
        kernel_layout={"NCHW": "OIHW", "NHWC": "OHWI"}[layout],
    )


@pytest.mark.parametrize(("case", "x"), every(CONVOLUTIONS, "padded, strided"))
def test_convolution(case: str, x: Per):
    shape, kernel, a = CONVOLUTIONS[case]
    q, ws = weights(kernel), scales(kernel[0])

    def body(graph: Graph, real: Var) -> Expr:
        return convolve(real, graph.weight(q, ws), a)

    check(
        body, [Input(shape, x)], lambda v: integer_ops.conv(v, q.astype(np.int64), a), ws.reshape(1, -1, 1, 1)
    )


@pytest.mark.parametrize("x", [ODD_POWER, UNSIGNED], ids=str)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_convolution_per_tensor_with_a_weight_zero_point_and_bias(x: Per, dtype: str):
    zero = WEIGHT_ZERO if dtype == "uint8" else -7
    q, ws = weights((9, 3, 3, 3), dtype), np.float32(2.0**-6)
    a = {"pads": [1, 1, 1, 1]}
    bias = np.random.default_rng(6).integers(-9000, 9000, 9).astype(np.int32)

    def body(graph: Graph, real: Var) -> Expr:
        acc = graph.emit("conv", convolve(real, graph.weight(q, ws, zero), a))
        b = graph.weight(bias.reshape(1, 9, 1, 1), float(np.float32(x.scale) * ws), name="b")
        return op.add(b, acc)

    check(
        body,
        [Input((1, 3, 8, 7), x)],
        lambda v: integer_ops.conv(v, centred(q, zero), a) + bias.reshape(1, 9, 1, 1),
        np.full((1, 1, 1, 1), ws),
    )


def test_convolution_with_a_weight_zero_point_a_channel():
    q, ws = weights((7, 3, 1, 1), "uint8"), scales(7)
    zeros = np.array([128, 0, 255, 131, 7, 120, 100])

    def body(graph: Graph, real: Var) -> Expr:
        return convolve(real, graph.weight(q, ws, zeros), {})

    check(
        body,
        [Input((1, 3, 5, 7), UNSIGNED)],
        lambda v: integer_ops.conv(v, centred(q, zeros.reshape(-1, 1, 1, 1)), {}),
        ws.reshape(1, -1, 1, 1),
        dtype="uint8",
        zero_point=131,
    )


def test_convolution_whose_weights_are_all_minus_128_and_whose_bias_leaves_32_bits():
    """The absolute value of -128 has no place in int8."""
    q, ws, zero = np.zeros((3, 2, 1, 1), np.uint8), np.float32(2.0**-6), 128
    bias = np.array([2**31 - 1, 0, 2**30], np.int32).reshape(1, 3, 1, 1)

    def body(graph: Graph, real: Var) -> Expr:
        acc = graph.emit("conv", convolve(real, graph.weight(q, ws, zero), {}))
        return op.add(acc, graph.weight(bias, float(np.float32(POWER.scale) * ws), name="b"))

    values = Input((1, 2, 5, 7), POWER).values(0).astype(np.int64)
    acc = integer_ops.conv(values, centred(q, zero), {}) + bias.astype(np.int64)
    assert acc.max() > 2**31
    y = Per(POWER.scale * 2**19, -3, "int8")
    actual, _ = computed(body, [Input((1, 2, 5, 7), POWER)], y)
    np.testing.assert_array_equal(actual, requantize(acc, multiplier(POWER.scale, ws, y.scale), -3, "int8"))


@pytest.mark.parametrize("case", ["padded, strided", "depthwise", "groups"])
@pytest.mark.parametrize("x", [ODD_POWER, UNSIGNED], ids=str)
def test_convolution_of_nhwc(case: str, x: Per):
    shape, kernel, a = CONVOLUTIONS[case]
    q, ws = weights(kernel), scales(kernel[0])

    def body(graph: Graph, real: Var) -> Expr:
        return convolve(real, graph.weight(q.transpose(0, 2, 3, 1).copy(), ws), a, "NHWC")

    def sums(v: Array) -> Array:
        return integer_ops.conv(v.transpose(0, 3, 1, 2), q.astype(np.int64), a).transpose(0, 2, 3, 1)

    n, c, h, w = shape
    check(body, [Input((n, h, w, c), x)], sums, ws.reshape(1, 1, 1, -1))


def test_convolution_of_one_dimension_and_of_three():
    q, ws = weights((7, 4, 3)), scales(7)

    def line(graph: Graph, real: Var) -> Expr:
        return op.nn.conv1d(real, graph.weight(q, ws), padding=1, strides=2)

    def line_sums(v: Array) -> Array:
        a = {"pads": [0, 1, 0, 1], "strides": [1, 2]}
        return integer_ops.conv(v[:, :, None], q[:, :, None].astype(np.int64), a)[:, :, 0]

    check(line, [Input((1, 4, 31), ODD_POWER)], line_sums, ws.reshape(1, -1, 1))

    def cube(graph: Graph, real: Var) -> Expr:
        return op.nn.conv3d(real, graph.weight(q[..., None, None].copy(), ws), padding=[0, 0, 1, 0, 0, 1])

    def cube_sums(v: Array) -> Array:
        # The kernel reaches along the first of three axes alone: the others lie flat, padded by hand.
        padded = np.pad(v, ((0, 0), (0, 0), (0, 0), (0, 0), (1, 1)))
        flat = padded.reshape(*padded.shape[:3], -1)
        sums = integer_ops.conv(flat, q[..., None].astype(np.int64), {})
        return sums.reshape(1, 7, sums.shape[2], *padded.shape[3:])

    check(cube, [Input((1, 4, 5, 3, 2), UNSIGNED)], cube_sums, ws.reshape(1, -1, 1, 1, 1))


TRANSPOSED = {
    "strided": (
        (1, 4, 5, 7),
        (4, 3, 3, 3),
        {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
    ),
    "groups": ((1, 6, 4, 3), (6, 2, 2, 2), {"strides": [2, 2], "group": 3}),
    "one": ((1, 1, 1, 1), (1, 1, 1, 1), {}),
}


@pytest.mark.each_once
@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize(("case", "x"), every(TRANSPOSED, "strided"))
def test_transposed_convolution(case: str, x: Per, channels_last: bool):
    shape, kernel, a = TRANSPOSED[case]
    groups = a.get("group", 1)
    q, ws = weights(kernel), scales(kernel[1])
    data, filters = ("NHWC", "OHWI") if channels_last else ("NCHW", "IOHW")

    def moved(values: Array, layout: str, like: str) -> Array:
        return values.transpose([like.index(axis) for axis in layout])

    def body(graph: Graph, real: Var) -> Expr:
        return op.nn.conv2d_transpose(
            real,
            graph.weight(moved(q, filters, "IOHW"), ws, axis=filters.index("O")),
            strides=a.get("strides", [1, 1]),
            padding=a.get("pads", [0, 0, 0, 0]),
            output_padding=a.get("output_padding", [0, 0]),
            groups=groups,
            data_layout=data,
            kernel_layout=filters,
        )

    def sums(values: Array) -> Array:
        acc = integer_ops.conv_transpose(moved(values, "NCHW", data), q.astype(np.int64), a)
        return moved(acc, data, "NCHW")

    check(
        body,
        [Input(tuple(shape["NCHW".index(axis)] for axis in data), x)],
        sums,
        moved(np.tile(ws, groups).reshape(1, -1, 1, 1), data, "NCHW"),
    )


@pytest.mark.parametrize(
    ("case", "x", "w"),
    [
        *((case, ODD_POWER, DECIMAL) for case in CONVOLUTIONS),
        ("one", WIDE, ODD_POWER),
        ("groups", POWER, UNSIGNED),
    ],
    ids=str,
)
def test_convolution_of_two_computed_tensors(case: str, x: Per, w: Per):
    shape, kernel, a = CONVOLUTIONS[case]
    check(
        lambda _graph, real, weight: convolve(real, weight, a),
        [Input(shape, x), Input(kernel, w)],
        lambda v, q: integer_ops.conv(v, q, a),
        np.full((1, 1, 1, 1), np.float32(w.scale)),
    )


LINEAR = {"row": (1, 7), "matrix": (9, 31), "batch": (2, 1, 8, 31)}


@pytest.mark.parametrize(("case", "x"), every(LINEAR, "matrix"))
@pytest.mark.parametrize("per_channel", [True, False])
def test_linear(case: str, x: Per, per_channel: bool):
    shape = LINEAR[case]
    q, ws = weights((shape[-1], 9)), scales(9) if per_channel else np.float32(2.0**-7)
    bias = np.random.default_rng(6).integers(-2000, 2000, 9).astype(np.int32)
    unit = np.asarray(np.float32(x.scale) * ws)

    def body(graph: Graph, real: Var) -> Expr:
        acc = graph.emit("fc", op.matmul(real, graph.weight(q, ws, axis=1)))
        return op.add(acc, graph.weight(bias, unit, name="b"))

    check(body, [Input(shape, x)], lambda v: v @ q.astype(np.int64) + bias, ws)


PRODUCTS = {"one": ((1, 1), (1, 7)), "matrices": ((9, 31), (31, 8)), "batches": ((2, 3, 7, 8), (3, 8, 9))}


@pytest.mark.parametrize(("case", "a"), every(PRODUCTS, "matrices"))
@pytest.mark.parametrize("b", [POWER, UNSIGNED, WIDE], ids=str)
def test_product_of_two_computed_matrices(case: str, a: Per, b: Per):
    left, right = PRODUCTS[case]
    check(
        lambda _graph, x, y: op.matmul(x, y),
        [Input(left, a), Input(right, b)],
        lambda x, y: x @ y,
        np.full((1,) * max(len(left), len(right)), np.float32(b.scale)),
        zero_point=7,
    )


def test_sums_of_16_bits_beyond_int32():
    # 511 products of 2**15 * 127 are the most that int32 holds.
    q = np.full((600, 7), 127, np.int8)
    x = Input((2, 600), Per(2.0**-10, 0, "int16"))
    y = Per(2.0**6, 0, "int16")
    values = np.full(x.shape, 2**15 - 1, np.int16)
    mod, left = made_integer(qdq(lambda graph, real: op.matmul(real, graph.weight(q, 1.0)), [x], y))
    assert left == ()
    acc = values.astype(np.int64) @ q.astype(np.int64)
    assert acc.max() > 2**31
    expected = requantize(acc, multiplier(x.per.scale, 1.0, y.scale), 0, "int16")
    np.testing.assert_array_equal(run(mod, [values])[0], expected)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            lambda graph, x, y: op.nn.conv2d_transpose(x, y),
            "its weight is not a constant",
        ),
        (
            lambda graph, x, y: op.nn.conv2d(x, graph.weight(weights((7, 7, 1, 1)), scales(7), axis=1)),
            "its weight's scale varies along another axis than the output channels",
        ),
        (
            lambda graph, x, y: op.nn.conv2d(
                graph.emit("sin", op.sin(x)), graph.weight(weights((7, 7, 1, 1)), 0.5)
            ),
            "its input is not quantised",
        ),
        (
            lambda graph, x, y: op.nn.conv2d(x, graph.const(7, 7, 1, 1)),
            "its weight is not quantised",
        ),
        (
            lambda graph, x, y: op.matmul(x, graph.weight(weights((7, 9)), scales(7), axis=0)),
            "its second operand's scale varies along the axis of the sum",
        ),
        (
            lambda graph, x, y: op.matmul(x, graph.const(7, 9)),
            "an operand is not quantised",
        ),
    ],
)
def test_refusals_say_why(body: Body, reason: str):
    x, y = Input((1, 7, 7, 7), DECIMAL), Input((7, 7, 1, 1), DECIMAL)
    assert reason in {left.reason for left in refused(body, [x, y], None)}
