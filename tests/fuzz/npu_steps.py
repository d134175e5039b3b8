# SPDX-License-Identifier: Apache-2.0
"""Steps of one ONNX node whose attributes go over all that Ethos-U's operators have, and beyond their limits.

Sizes lie around those of the hardware: bricks of 16 channels, micro-blocks of 4 and 8, kernels of 8 by 8.
"""

import math

import numpy as np

from tests.fuzz.builder import Builder, Value
from tests.fuzz.operators import arithmetic_constant, clip, gemm, matmul, matmul_self, unary
from tests.fuzz.step import MAX_SIZE, Step, any_value, has_axes, is_image, is_small_image
from tests.fuzz.windows import Window

BATCHES, CHANNELS, SIDES = (1, 1, 2, 3), (1, 3, 8, 15, 16, 17, 33, 48), (1, 2, 5, 8, 9, 16, 21)
KERNELS, STRIDES, DILATIONS = (1, 2, 3, 4, 5, 7, 9), (1, 1, 2, 3, 4), (1, 1, 2, 3)
MOST_PRODUCTS = 1 << 20
"""Of one operator: more only take longer."""


def shape(b: Builder, _first: Step | None) -> tuple[int, ...]:
    """Of a graph's input."""
    batch, channels = b.pick(BATCHES), b.pick(CHANNELS)
    found = [batch, channels, *(b.pick(SIDES) for _ in range(b.pick((2, 2, 2, 1, 0))))]
    for axis in range(2, len(found)):
        found[axis] = max(1, min(found[axis], MAX_SIZE // math.prod(found[:axis])))
    return tuple(found)


def _weights(b: Builder, shape: tuple[int, ...], terms: int) -> Value:
    """Kinds of weights that have codes of their own: any, mostly zeros in runs, few values, all one value."""
    bound = 2 / math.sqrt(terms)
    rng, kind = b.rng(), b.pick(("any", "any", "runs of zeros", "few values", "two of four", "one value"))
    values = rng.uniform(-bound, bound, shape)
    if kind == "runs of zeros":
        values *= np.repeat(rng.random(-(-values.size // 9)) < 0.2, 9)[: values.size].reshape(shape)
    elif kind == "few values":
        values = rng.choice([-bound, 0, bound / 4, bound], shape)
    elif kind == "two of four":
        values *= np.resize([1, 0, 0, 1], shape[1])[:, None, None] if len(shape) == 4 else 1
    elif kind == "one value":
        values = np.full(shape, bound / 2)
    return b.constant(values if values.any() else values + bound)


def _window(b: Builder, spatial: tuple[int, ...], kernels: tuple[int, ...], *, dilate: bool) -> Window:
    """A window that fits, its padding of any number below the kernel's reach at each side."""
    parts = []
    for n in spatial:
        k, d = b.pick([k for k in kernels if k <= n + 2]), b.pick(DILATIONS) if dilate else 1
        reach = d * (k - 1) + 1
        before, after = b.pick(((0, 0), (k // 2, k // 2), (b.pick(range(k)), b.pick(range(k)))))
        if n + before + after < reach:
            d, reach = 1, k
            before = max(before, k - n - after)
        parts.append((k, b.pick(STRIDES), d, before, after))
    (kh, sh, dh, top, bottom), (kw, sw, dw, left, right) = parts
    return Window((kh, kw), (sh, sw), (dh, dw), (top, left, bottom, right))


def conv(b: Builder, x: Value) -> Value:
    """A convolution, of any groups."""
    n, c, *spatial = x.shape
    window = _window(b, tuple(spatial), KERNELS, dilate=True)
    out_spatial = window.output(tuple(spatial))
    groups = b.pick([1, 1, c, *(g for g in (2, 3, 4, 8) if c % g == 0 and g < c)])
    cost = n * math.prod(out_spatial) * math.prod(window.kernel) * (c // groups)
    most = max(1, MOST_PRODUCTS // cost)
    out = groups * b.pick((1, 1, 2)) if groups > 1 else b.pick([c for c in CHANNELS if c <= most] or [1])
    w = _weights(b, (out, c // groups, *window.kernel), c // groups * math.prod(window.kernel))
    bias = [b.uniform((out,))] if b.flag() else []
    return b.node("Conv", [x, w, *bias], (n, out, *out_spatial), group=groups, **window.attributes())


def conv_transpose(b: Builder, x: Value) -> Value:
    n, c, *spatial = x.shape
    kernel = [b.pick((1, 2, 3, 4, 5)) for _ in spatial]
    strides = b.pick(([1, 1], [2, 2], [2, 2], [1, 2], [2, 1], [3, 3]))
    edges = [[b.pick(range(min(k, 3))), b.pick(range(min(k, 3)))] for k in kernel]
    sizes = [s * (d - 1) + k - sum(e) for d, k, s, e in zip(spatial, kernel, strides, edges, strict=True)]
    extra = [b.pick((0, s - 1)) for s in strides]
    for axis, size in enumerate(sizes):
        if size < 1:
            edges[axis], sizes[axis] = [0, 0], size + sum(edges[axis])
    groups, dilations = b.pick([1, 1, 1, 1, 1, c]), [1, 1]
    out = b.pick((1, 3, 8, 17)) if groups == 1 else groups
    weight = _weights(b, (c, out // groups, *kernel), c // groups * math.prod(kernel))
    bias = [b.uniform((out,))] if b.flag() else []
    pads = [edges[0][0], edges[1][0], edges[0][1], edges[1][1]]
    shape = (n, out, *(size + more for size, more in zip(sizes, extra, strict=True)))
    return b.node(
        "ConvTranspose", [x, weight, *bias], shape, group=groups, strides=strides, pads=pads,
        dilations=dilations, output_padding=extra, kernel_shape=kernel,
    )  # fmt: skip


def pool(b: Builder, x: Value) -> Value:
    window = _window(b, x.shape[2:], KERNELS, dilate=False)
    shape = (*x.shape[:2], *window.output(x.shape[2:]))
    if b.flag():
        return b.node("MaxPool", [x], shape, **window.attributes())
    counted = int(b.pick((False, False, True)))
    return b.node("AveragePool", [x], shape, count_include_pad=counted, **window.attributes(dilated=False))


def reduce(b: Builder, x: Value) -> Value:
    """A mean, sum or extremum over any axes."""
    chosen = b.pick([(a,) for a in range(x.rank)] + [tuple(range(a, x.rank)) for a in range(1, x.rank - 1)])
    keep, op = b.flag(), b.pick(("ReduceMean", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceSum"))
    keep = keep or x.rank - len(chosen) < 2
    shape = [1 if a in chosen else n for a, n in enumerate(x.shape) if keep or a not in chosen]
    if op != "ReduceSum":
        return b.node(op, [x], shape, axes=list(chosen), keepdims=int(keep))
    less = b.node("Mul", [x, b.constant(1 / math.prod(x.shape[a] for a in chosen))], x.shape)
    return b.node("ReduceSum", [less, b.integers(*chosen)], shape, keepdims=int(keep))


def softmax(b: Builder, x: Value) -> Value:
    return b.node("Softmax", [x], x.shape, axis=b.pick(range(x.rank)))


def binary(b: Builder, x: Value) -> Value:
    """Of two values at run time, of which one may be broadcast along any axes, scaled alike or not."""
    other = b.node(b.pick(("Relu", "Neg", "Tanh")), [x], x.shape)
    op = b.pick(("Add", "Sub", "Mul", "Max", "Min", "Add"))
    axes = b.pick([(), (), *((a,) for a in range(x.rank)), tuple(range(1, x.rank))])
    if axes:
        thin = [1 if a in axes else n for a, n in enumerate(x.shape)]
        other = b.node("ReduceMax", [other], thin, axes=list(axes), keepdims=1)
    return b.node(op, [other, x] if b.flag() else [x, other], x.shape)


def transpose(b: Builder, x: Value) -> Value:
    """Any order of the axes."""
    perm = b.rng().permutation(x.rank).tolist()
    return b.node("Transpose", [x], [x.shape[a] for a in perm], perm=perm)


def slice_(b: Builder, x: Value) -> Value:
    """Along up to two axes, from any element to any."""
    axes = sorted({b.pick(range(x.rank)), b.pick(range(x.rank))})
    spans = []
    for axis in axes:
        start = b.pick(range(min(x.shape[axis], 3)))
        end = b.pick(range(start + 1, x.shape[axis] + 1))
        spans.append((start, end, b.pick((1, 1, 1, 1, 1, 1, 1, 2))))
    shape = list(x.shape)
    for axis, span in zip(axes, spans, strict=True):
        shape[axis] = len(range(*span))
    starts, ends, steps = zip(*spans, strict=True)
    return b.node("Slice", [x, *(b.integers(*v) for v in (starts, ends, axes, steps))], shape)


def split(b: Builder, x: Value) -> Value:
    """Into parts of several sizes along any axis, which are joined along any other or the same."""
    axis = b.pick([a for a in range(x.rank) if x.shape[a] > 1])
    first = b.pick(range(1, x.shape[axis]))
    rest = x.shape[axis] - first
    sizes = [first, *([1, rest - 1] if rest > 1 and b.flag() else [rest])]
    shapes = [[n if a == axis else m for a, m in enumerate(x.shape)] for n in sizes]
    parts = b.nodes_outputs("Split", [x, b.integers(*sizes)], shapes, axis=axis)
    return b.node("Concat", parts[::-1], x.shape, axis=axis)


def concat(b: Builder, x: Value) -> Value:
    """Of x and a function of it, along any axis."""
    axis = b.pick(range(x.rank))
    others = [b.node(b.pick(("Relu", "Tanh", "Neg")), [x], x.shape) for _ in range(b.pick((1, 2)))]
    shape = [n * (len(others) + 1) if a == axis else n for a, n in enumerate(x.shape)]
    return b.node("Concat", [x, *others] if b.flag() else [*others, x], shape, axis=axis)


def pad(b: Builder, x: Value) -> Value:
    """Of a constant, along any axes."""
    before, after = ([b.pick((0, 0, 1, 2)) for _ in x.shape] for _ in range(2))
    fill = [b.constant(b.pick((0.0, 0.75, -0.5)))] if b.flag() else []
    shape = [n + p + q for n, p, q in zip(x.shape, before, after, strict=True)]
    return b.node("Pad", [x, b.integers(*before, *after), *fill], shape, mode="constant")


def resize(b: Builder, x: Value) -> Value:
    """To the nearest or between pixels, by one whole factor or two."""
    room = max(1, math.isqrt(MAX_SIZE // x.size))
    factor = b.pick([f for f in (2, 2, 4, 8, 3) if f <= room] or [1])
    factors = b.pick(((factor, factor), (factor, factor), (factor, 1), (1, factor)))
    shape = (*x.shape[:2], x.shape[2] * factors[0], x.shape[3] * factors[1])
    scales = b.constant(np.array([1, 1, *factors], np.float32))
    way, rounding = b.pick(
        (
            ("asymmetric", "floor"),
            ("half_pixel", "round_prefer_floor"),
            ("align_corners", None),
            ("half_pixel", None),
        )
    )
    kind = {"mode": "nearest", "nearest_mode": rounding} if rounding else {"mode": "linear"}
    return b.node("Resize", [x, None, scales], shape, coordinate_transformation_mode=way, **kind)


def global_pool(b: Builder, x: Value) -> Value:
    op = b.pick(("GlobalAveragePool", "GlobalMaxPool"))
    return b.node(op, [x], (*x.shape[:2], *[1] * (x.rank - 2)))


def expand(b: Builder, x: Value) -> Value:
    """Along axes of one element."""
    shape = [b.pick((1, 2, 5)) if n == 1 and x.size <= MAX_SIZE // 25 else n for n in x.shape]
    return b.node("Expand", [x, b.integers(*shape)], shape)


NPU_STEPS: tuple[Step, ...] = (
    Step(conv, is_image, weight=8),
    Step(conv_transpose, is_small_image, weight=4),
    Step(pool, is_image, weight=5),
    Step(global_pool, is_image, weight=2),
    Step(reduce, has_axes, weight=4),
    Step(softmax, has_axes, weight=3),
    Step(binary, has_axes, weight=4),
    Step(arithmetic_constant, any_value, weight=2),
    Step(unary, any_value, weight=2),
    Step(clip, any_value),
    Step(gemm, lambda x: x.rank == 2, weight=3),
    Step(matmul, lambda x: has_axes(x) and x.size <= MAX_SIZE, weight=3),
    Step(matmul_self, lambda x: has_axes(x) and x.size * x.shape[-2] <= MOST_PRODUCTS, weight=3),
    Step(transpose, has_axes, weight=3),
    Step(slice_, has_axes, weight=3),
    Step(split, lambda x: has_axes(x) and x.size > 1, weight=3),
    Step(concat, lambda x: has_axes(x) and x.size <= MAX_SIZE // 3, weight=3),
    Step(pad, lambda x: has_axes(x) and x.size <= MAX_SIZE // 4, weight=3),
    Step(resize, is_image, weight=4),
    Step(expand, lambda x: has_axes(x) and 1 in x.shape, weight=2),
)
