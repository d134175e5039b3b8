# SPDX-License-Identifier: Apache-2.0
"""One ONNX node a step: each function appends one to a graph, its attributes drawn, and returns its result.

Values stay near 1, and no operator has a pole where values come near it: float results can then be compared
relative to their largest.
"""

from typing import Any

from onnx import TensorProto

from tests.fuzz.builder import Builder, Value
from tests.fuzz.movement import (
    concat,
    flatten,
    pad,
    reshape,
    resize,
    slice_,
    split,
    squeeze,
    transpose,
    unsqueeze,
)
from tests.fuzz.step import (
    CHANNELS,
    MAX_SIZE,
    Step,
    any_value,
    can_split,
    filters,
    has_axes,
    is_image,
    is_input,
    is_small_image,
)
from tests.fuzz.windows import average_pool, conv, conv1d, conv_transpose, depthwise, max_pool


def gemm(b: Builder, x: Value) -> Value:
    rows, inner = x.shape
    out, trans = b.pick(CHANNELS), b.flag()
    w = filters(b, (out, inner) if trans else (inner, out), inner)
    bias = [b.uniform(b.pick([(out,), (1, out), (1,)]))] if b.flag() else []
    scale = {"alpha": 0.5, "beta": 2.0} if b.pick([False, False, True]) else {}
    return b.node("Gemm", [x, w, *bias], (rows, out), transB=int(trans), **scale)


def matmul(b: Builder, x: Value) -> Value:
    out = b.pick(CHANNELS)
    return b.node("MatMul", [x, filters(b, (x.shape[-1], out), x.shape[-1])], (*x.shape[:-1], out))


def matmul_self(b: Builder, x: Value) -> Value:
    """Both sides at run time: x · xᵀ over the last two axes, scaled."""
    axes = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
    turned = b.node("Transpose", [x], [x.shape[a] for a in axes], perm=axes)
    shape = (*x.shape[:-1], x.shape[-2])
    product = b.node("MatMul", [x, turned], shape)
    return b.node("Mul", [product, b.constant(1 / x.shape[-1])], shape)


def batch_norm(b: Builder, x: Value) -> Value:
    c = x.shape[1]
    ranges = ((0.5, 1.5), (-1, 1), (-1, 1), (0.5, 2))  # scale, bias, mean, variance
    parts = [b.uniform((c,), low, high) for low, high in ranges]
    return b.node("BatchNormalization", [x, *parts], x.shape, epsilon=b.pick([1e-5, 1e-3]))


def _constant_for(b: Builder, x: Value, low: float, high: float) -> Value:
    """A constant that broadcasts to x: scalar, along the channels, along the last axis, or whole."""
    channels = [(x.shape[1], *([1] * (x.rank - 2)))] if x.rank >= 2 else []
    return b.uniform(b.pick([(), (1,), *channels, x.shape[-1:], x.shape]), low, high)


def arithmetic_constant(b: Builder, x: Value) -> Value:
    op = b.pick(["Add", "Mul", "Sub", "Div"])
    constant = _constant_for(b, x, 0.5, 2.0)
    first = op in ("Add", "Mul", "Sub") and b.flag()
    return b.node(op, [constant, x] if first else [x, constant], x.shape)


def arithmetic_self(b: Builder, x: Value) -> Value:
    """Two values at run time, of one shape or broadcast."""
    other = b.node(b.pick(["Tanh", "Sigmoid", "Relu"]), [x], x.shape)
    if x.rank == 4 and b.flag():
        other = b.node("GlobalAveragePool", [other], (*x.shape[:2], 1, 1))
    op = b.pick(["Add", "Mul", "Sub"])
    return b.node(op, [other, x] if b.flag() else [x, other], x.shape)


UNARY: dict[str, tuple[dict[str, Any], ...]] = {
    "Relu": ({},),
    "LeakyRelu": ({"alpha": 0.1}, {"alpha": 0.25}),
    "HardSwish": ({},),
    "HardSigmoid": ({}, {"alpha": 1 / 6, "beta": 0.5}),
    "Sigmoid": ({},),
    "Tanh": ({},),
    "Elu": ({}, {"alpha": 0.5}),
    "Softplus": ({},),
    "Abs": ({},),
    "Neg": ({},),
    "Erf": ({},),
}


def unary(b: Builder, x: Value) -> Value:
    op = b.pick(list(UNARY))
    return b.node(op, [x], x.shape, **b.pick(UNARY[op]))


def clip(b: Builder, x: Value) -> Value:
    low, high = b.pick([(0.0, 6.0), (None, 1.0), (-0.5, None), (-1.0, 1.0), (0.0, None)])
    bounds = [None if limit is None else b.constant(limit) for limit in (low, high)]
    return b.node("Clip", [x, *(bounds if high is not None else bounds[:1])], x.shape)


def prelu(b: Builder, x: Value) -> Value:
    channels = (x.shape[1], *([1] * (x.rank - 2)))
    return b.node("PRelu", [x, b.uniform(b.pick([(1,), channels]), 0.05, 0.5)], x.shape)


def where(b: Builder, x: Value) -> Value:
    """Chosen by a constant, from two values at run time."""
    mask = b.constant(b.rng().random(b.pick([x.shape, x.shape[-1:]])) < 0.5)
    return b.node("Where", [mask, x, b.node("HardSigmoid", [x], x.shape)], x.shape)


def global_pool(b: Builder, x: Value) -> Value:
    return b.node(b.pick(["GlobalAveragePool", "GlobalMaxPool"]), [x], (*x.shape[:2], 1, 1))


def softmax(b: Builder, x: Value) -> Value:
    return b.node("Softmax", [x], x.shape, axis=b.pick([-1, 1]))


def layer_normalization(b: Builder, x: Value) -> Value:
    last = x.shape[-1:]
    parts = [b.uniform(last, 0.5, 1.5), b.uniform(last)]
    return b.node("LayerNormalization", [x, *parts], x.shape, axis=-1, epsilon=1e-3)


def arg_extremum(b: Builder, x: Value) -> Value:
    """The index of an extremum, as a float near 1. Of a graph's input: where floats were rounded, a tie is none."""
    axis = b.pick([-1, 1])
    keep = b.flag() or x.rank <= 2
    shape = [1 if a == axis % x.rank else n for a, n in enumerate(x.shape) if keep or a != axis % x.rank]
    index = b.node(b.pick(["ArgMax", "ArgMin"]), [x], shape, axis=axis, keepdims=int(keep))
    real = b.node("Cast", [index], shape, to=TensorProto.FLOAT)
    return b.node("Mul", [real, b.constant(1 / x.shape[axis])], shape)


def mean(b: Builder, x: Value) -> Value:
    axes = b.pick([[-1], [1]] + ([[2, 3]] if x.rank == 4 else []))
    keep = b.flag() or x.rank - len(axes) < 2
    gone = {axis % x.rank for axis in axes}
    shape = [1 if a in gone else n for a, n in enumerate(x.shape) if keep or a not in gone]
    return b.node("ReduceMean", [x], shape, axes=axes, keepdims=int(keep))


OPERATORS: tuple[Step, ...] = (
    Step(unary, any_value),
    Step(clip, any_value),
    Step(arithmetic_constant, any_value),
    Step(arithmetic_self, any_value),
    Step(conv, is_image, weight=4),
    Step(conv1d, lambda x: x.rank == 3, weight=4),
    Step(depthwise, is_image, weight=3),
    Step(conv_transpose, is_small_image, weight=2),
    Step(gemm, lambda x: x.rank == 2, weight=3),
    Step(matmul, has_axes, weight=2),
    Step(matmul_self, has_axes),
    Step(batch_norm, is_image),
    Step(prelu, has_axes),
    Step(where, any_value),
    Step(max_pool, is_image, weight=3),
    Step(average_pool, is_image, weight=3),
    Step(global_pool, is_image, weight=3),
    Step(softmax, has_axes, weight=2),
    Step(layer_normalization, has_axes),
    Step(mean, has_axes),
    Step(arg_extremum, is_input, weight=2),
    Step(pad, has_axes),
    Step(resize, is_small_image, weight=2),
    Step(concat, lambda x: has_axes(x) and x.size <= MAX_SIZE // 3, weight=2),
    Step(slice_, has_axes, weight=2),
    Step(split, can_split),
    Step(transpose, lambda x: 2 <= x.rank <= 4),
    Step(reshape, has_axes),
    Step(flatten, has_axes),
    Step(squeeze, lambda x: x.rank > 2 and 1 in x.shape, weight=3),
    Step(unsqueeze, lambda x: x.rank < 4),
)
