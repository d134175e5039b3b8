# SPDX-License-Identifier: Apache-2.0
"""Steps of one ONNX node that moves values and computes nothing."""

import math
from itertools import accumulate

import numpy as np

from tests.fuzz.builder import Builder, Value


def pad(b: Builder, x: Value) -> Value:
    spatial = range(x.rank - min(2, x.rank - 1), x.rank)
    mode = b.pick(["constant", "reflect", "edge"])
    before, after = [0] * x.rank, [0] * x.rank
    for axis in spatial:
        most = min(3, x.shape[axis])  # a reflection stays inside
        before[axis], after[axis] = b.pick(range(most)), b.pick(range(most))
    fill = [b.constant(b.pick([0.0, 0.75]))] if mode == "constant" and b.flag() else []
    shape = [n + p + q for n, p, q in zip(x.shape, before, after, strict=True)]
    return b.node("Pad", [x, b.integers(*before, *after), *fill], shape, mode=mode)


def resize(b: Builder, x: Value) -> Value:
    factors = (b.pick([1, 2]), b.pick([2, 3]))
    scales = b.constant(np.array([1, 1, *factors], np.float32))
    shape = (*x.shape[:2], x.shape[2] * factors[0], x.shape[3] * factors[1])
    mode, way = b.pick(["nearest", "linear"]), b.pick(["asymmetric", "half_pixel"])
    if mode == "linear":
        attributes = {"mode": mode, "coordinate_transformation_mode": way}
        return b.node("Resize", [x, None, scales], shape, **attributes)
    rounding = "floor" if way == "asymmetric" else "round_prefer_floor"
    attributes = {"mode": mode, "nearest_mode": rounding, "coordinate_transformation_mode": way}
    return b.node("Resize", [x, None, scales], shape, **attributes)


def concat(b: Builder, x: Value) -> Value:
    """Of x and values of its shape."""
    axis = b.pick([1, x.rank - 1])
    others = [b.node(b.pick(["Relu", "Tanh", "Neg"]), [x], x.shape) for _ in range(b.pick([1, 2]))]
    shape = [n * (len(others) + 1) if a == axis else n for a, n in enumerate(x.shape)]
    return b.node("Concat", [x, *others] if b.flag() else [*others, x], shape, axis=axis)


def slice_(b: Builder, x: Value) -> Value:
    axis = b.pick([a for a in range(1, x.rank) if x.shape[a] > 1] or [1])
    length = x.shape[axis]
    step = b.pick([1, 2])
    start = b.pick(range((length + 1) // 2))
    end = b.pick([length, max(start + 1, length - 1)])
    shape = [len(range(start, end, step)) if a == axis else n for a, n in enumerate(x.shape)]
    return b.node("Slice", [x, *(b.integers(v) for v in (start, end, axis, step))], shape)


def split(b: Builder, x: Value) -> Value:
    """Into two or three parts, of which all are used: they are added up, or joined the other way round."""
    axis = b.pick([1, x.rank - 1])
    length = x.shape[axis]
    ends = b.pick([c for c in ((length // 2,), (1,), (length // 3, 2 * (length // 3))) if 0 < c[0] < length])
    sizes = [end - start for start, end in zip((0, *ends), (*ends, length), strict=True)]
    shapes = [[n if a == axis else m for a, m in enumerate(x.shape)] for n in sizes]
    parts = b.nodes_outputs("Split", [x, b.integers(*sizes)], shapes, axis=axis)
    if len(set(sizes)) == 1 and b.flag():
        return list(accumulate(parts, lambda p, q: b.node("Add", [p, q], shapes[0])))[-1]
    return b.node("Concat", parts[::-1], x.shape, axis=axis)


def transpose(b: Builder, x: Value) -> Value:
    orders: dict[int, list[tuple[int, ...]]] = {
        2: [(1, 0)],
        3: [(0, 2, 1), (1, 0, 2)],
        4: [(0, 2, 3, 1), (0, 3, 1, 2), (0, 1, 3, 2)],
    }
    perm = b.pick(orders[x.rank])
    return b.node("Transpose", [x], [x.shape[a] for a in perm], perm=list(perm))


def reshape(b: Builder, x: Value) -> Value:
    n, c, *rest = x.shape
    shape = b.pick([(n, c, math.prod(rest)), (n * c, math.prod(rest)), (n, c, 1, math.prod(rest))])
    return b.node("Reshape", [x, b.integers(*shape)], shape)


def flatten(b: Builder, x: Value) -> Value:
    axis = b.pick([1, x.rank - 1])
    return b.node("Flatten", [x], (math.prod(x.shape[:axis]), math.prod(x.shape[axis:])), axis=axis)


def squeeze(b: Builder, x: Value) -> Value:
    axis = x.shape.index(1)
    return b.node("Squeeze", [x, b.integers(axis)], x.shape[:axis] + x.shape[axis + 1 :])


def unsqueeze(b: Builder, x: Value) -> Value:
    axis = b.pick(range(x.rank + 1))
    return b.node("Unsqueeze", [x, b.integers(axis)], (*x.shape[:axis], 1, *x.shape[axis:]))
