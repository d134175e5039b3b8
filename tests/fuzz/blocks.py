# SPDX-License-Identifier: Apache-2.0
"""Blocks of networks: convolutions and products with what stands around them."""

import math

import numpy as np

from tests.fuzz.builder import Builder, Value
from tests.fuzz.forms import commuted, with_number
from tests.fuzz.operators import batch_norm, gemm, matmul
from tests.fuzz.step import CHANNELS, MAX_SIZE, filters, is_small_image
from tests.fuzz.windows import conv, conv_transpose, depthwise


def _any_conv(b: Builder, x: Value) -> Value:
    return b.pick([conv, depthwise, conv_transpose] if is_small_image(x) else [conv, depthwise])(b, x)


def _per_channel(b: Builder, x: Value, low: float, high: float) -> Value:
    return b.uniform((1, x.shape[1], *([1] * (x.rank - 2))), low, high)


def conv_batch_norm(b: Builder, x: Value) -> Value:
    return batch_norm(b, _any_conv(b, x))


def conv_scale_shift(b: Builder, x: Value) -> Value:
    y = _any_conv(b, x)
    y = b.node(b.pick(["Mul", "Div"]), [y, _per_channel(b, y, 0.5, 2)], y.shape)
    return b.node(b.pick(["Add", "Sub"]), [y, _per_channel(b, y, -1, 1)], y.shape)


def batch_norm_conv(b: Builder, x: Value) -> Value:
    return b.pick([conv, depthwise])(b, batch_norm(b, x))


def normalised_input_conv(b: Builder, x: Value) -> Value:
    """x / 255, x - mean, or both, before a convolution."""
    form = b.pick(["shift", "shift", "scale", "one number a channel"])
    if form == "shift":
        x = with_number(b, b.pick(["Sub", "Add"]), x, 0.5)
    elif form == "scale":
        x = with_number(b, b.pick(["Div", "Mul"]), x, b.pick([2.0, 0.5, 0.75]))
    else:
        x = b.node(b.pick(["Sub", "Add"]), [x, _per_channel(b, x, -1, 1)], x.shape)
        x = b.node(b.pick(["Div", "Mul"]), [x, _per_channel(b, x, 0.5, 2)], x.shape)
    return conv(b, x)


def linear_scale_shift(b: Builder, x: Value) -> Value:
    if b.flag():
        x = with_number(b, b.pick(["Sub", "Add"]), x, 0.5)
    y = b.pick([gemm, matmul] if x.rank == 2 else [matmul])(b, x)
    if b.flag():
        y = b.node(b.pick(["Mul", "Div"]), [y, b.uniform(y.shape[-1:], 0.5, 2)], y.shape)
    return commuted(b, "Add", y, b.uniform(y.shape[-1:]))


def linear_batch_norm(b: Builder, x: Value) -> Value:
    return batch_norm(b, b.pick([gemm, matmul])(b, x))


def pad_window(b: Builder, x: Value) -> Value:
    """A pad of zeros before a convolution or pooling."""
    edges = [b.pick([0, 1, 2]) for _ in range(4)]
    pads = b.integers(0, 0, edges[0], edges[1], 0, 0, edges[2], edges[3])
    shape = (*x.shape[:2], x.shape[2] + edges[0] + edges[2], x.shape[3] + edges[1] + edges[3])
    fill = [b.constant(0.0)] if b.flag() else []
    padded = b.node("Pad", [x, pads, *fill], shape, mode="constant")
    kind = b.pick(["conv", "depthwise", "pool"])
    if kind == "pool" and min(shape[2:]) > 1:
        out = (*shape[:2], shape[2] - 1, shape[3] - 1)
        return b.node("AveragePool", [padded], out, kernel_shape=[2, 2], count_include_pad=1)
    return (depthwise if kind == "depthwise" else conv)(b, padded)


def parallel_linear(b: Builder, x: Value) -> Value:
    """Several products of one input, as query, key and value are, and one value of them.

    The input is made as wide as a block's: small products are not worth one split.
    """
    rows = x.size // x.shape[-1]
    if rows <= MAX_SIZE // 2 // x.shape[-1]:
        wide = min(512, MAX_SIZE // 2 // rows)
        x = b.node("MatMul", [x, filters(b, (x.shape[-1], wide), x.shape[-1])], (*x.shape[:-1], wide))
    out, biased = b.pick((*CHANNELS, 1, 7, 9)), b.flag()
    total: Value | None = None
    for _ in range(3):
        y = b.node("MatMul", [x, filters(b, (x.shape[-1], out), x.shape[-1])], (*x.shape[:-1], out))
        y = b.node("Add", [y, b.uniform((out,))], y.shape) if biased else y
        total = y if total is None else b.node("Mul", [total, b.node("HardSigmoid", [y], y.shape)], y.shape)
    assert total is not None
    return total


def weight_only_linear(b: Builder, x: Value) -> Value:
    """A product of floats with int8 weights, which have a scale for all or one an output."""
    out, inner = b.pick(CHANNELS), x.shape[-1]
    trans = b.flag()
    q = b.constant(b.rng().integers(-127, 128, (out, inner) if trans else (inner, out)).astype(np.int8))
    each = b.flag()
    scale = b.uniform((out,) if each else (), 0.5 / 127 / inner, 2 / 127 / inner)
    zero = b.constant(np.zeros((out,) if each else (), np.int8))
    w = b.node("DequantizeLinear", [q, scale, zero], q.shape, axis=0 if trans else 1)
    w = b.node("Transpose", [w], (inner, out), perm=[1, 0]) if trans else w
    return b.node("MatMul", [x, w], (*x.shape[:-1], out))


def attention(b: Builder, x: Value) -> Value:
    """softmax(q·kᵀ·scale + mask)·v of one head or more, from one input [batch, length, width]."""
    x = _as_sequence(b, x)
    batch, length, _width = x.shape
    heads, size = b.pick([1, 2]), b.pick([7, 8])
    q, k, v = (_projected(b, x, heads, size) for _ in range(3))
    mixed = b.node("MatMul", [_attended(b, q, k), v], q.shape)
    mixed = b.node("Transpose", [mixed], (batch, length, heads, size), perm=[0, 2, 1, 3])
    return b.node("Reshape", [mixed, b.integers(batch, length, heads * size)], (batch, length, heads * size))


def attended(b: Builder, x: Value) -> Value:
    """Attention's first half, of a sequence on itself: cheaper to compile than the whole."""
    x = _as_sequence(b, x)
    heads = 2 if x.shape[2] % 2 == 0 else 1
    q, k = (_parted(b, x, heads, x.shape[2] // heads) for _ in range(2))
    return _attended(b, q, k)


def _attended(b: Builder, q: Value, k: Value) -> Value:
    """softmax(q·kᵀ·scale + mask)."""
    batch, heads, length, size = q.shape
    rooted = b.flag()  # torch puts a root of the scale on each factor
    if rooted:
        q, k = (with_number(b, "Mul", factor, size**-0.25) for factor in (q, k))
    score = b.node("MatMul", [q, _turned(b, k)], (batch, heads, length, length))
    if not rooted:
        op, scale = b.pick([("Div", math.sqrt(size)), ("Mul", size**-0.5)])
        score = with_number(b, op, score, scale)
    if b.flag():
        score = b.node("Add", [score, b.uniform((1, 1, length, length), -2, 0)], score.shape)
    return b.node("Softmax", [score], score.shape, axis=-1)


def _as_sequence(b: Builder, x: Value) -> Value:
    if x.rank == 3:
        return x
    shape = (1, *x.shape) if x.rank == 2 else (*x.shape[:2], math.prod(x.shape[2:]))
    return b.node("Reshape", [x, b.integers(*shape)], shape)


def _projected(b: Builder, x: Value, heads: int, size: int) -> Value:
    batch, length, width = x.shape
    y = b.node("MatMul", [x, filters(b, (width, heads * size), width)], (batch, length, heads * size))
    return _parted(b, y, heads, size)


def _parted(b: Builder, x: Value, heads: int, size: int) -> Value:
    batch, length, _width = x.shape
    y = b.node("Reshape", [x, b.integers(batch, length, heads, size)], (batch, length, heads, size))
    return b.node("Transpose", [y], (batch, heads, length, size), perm=[0, 2, 1, 3])


def _turned(b: Builder, k: Value) -> Value:
    """The last two axes exchanged, at once or, as torch writes it, as one batch of matrices."""
    batch, heads, length, size = k.shape
    turned = (batch, heads, size, length)
    if b.pick(["at once", "as one batch", "as one batch"]) == "at once":
        return b.node("Transpose", [k], turned, perm=[0, 1, 3, 2])
    k = b.node("Reshape", [k, b.integers(-1, length, size)], (batch * heads, length, size))
    k = b.node("Transpose", [k], (batch * heads, size, length), perm=[0, 2, 1])
    return b.node("Reshape", [k, b.integers(*turned)], turned)


def squeeze_excite(b: Builder, x: Value) -> Value:
    pooled = b.node("GlobalAveragePool", [x], (*x.shape[:2], 1, 1))
    c, small = x.shape[1], b.pick([1, 7])
    y = b.node("Conv", [pooled, filters(b, (small, c, 1, 1), c)], (x.shape[0], small, 1, 1))
    y = b.node("Relu", [y], y.shape)
    y = b.node("Conv", [y, filters(b, (c, small, 1, 1), small)], pooled.shape)
    gate = b.node(b.pick(["Sigmoid", "HardSigmoid"]), [y], y.shape)
    return b.node("Mul", [x, gate], x.shape)


def channel_shuffle(b: Builder, x: Value) -> Value:
    n, c, h, w = x.shape
    groups = next((g for g in (2, 3, 7) if c % g == 0), 1)
    y = b.node("Reshape", [x, b.integers(n, groups, c // groups, h, w)], (n, groups, c // groups, h, w))
    y = b.node("Transpose", [y], (n, c // groups, groups, h, w), perm=[0, 2, 1, 3, 4])
    return b.node("Reshape", [y, b.integers(n, c, h, w)], x.shape)


def residual(b: Builder, x: Value) -> Value:
    c = x.shape[1]
    weight, bias = filters(b, (c, c, 3, 3), 9 * c), b.uniform((c,))
    y = b.node("Conv", [x, weight, bias], x.shape, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    return b.node("Relu", [commuted(b, "Add", x, y)], x.shape)


def pooled_linear(b: Builder, x: Value) -> Value:
    """The end of a classifier: global pool, flatten, linear."""
    pooled = b.node("GlobalAveragePool", [x], (*x.shape[:2], 1, 1))
    return gemm(b, b.node("Flatten", [pooled], x.shape[:2], axis=1))


def flat_linear(b: Builder, x: Value) -> Value:
    """Flatten of a feature map, then linear: a layout change has to permute the weights."""
    flat = (x.shape[0], x.size // x.shape[0])
    return gemm(b, b.node("Flatten", [x], flat, axis=1))
