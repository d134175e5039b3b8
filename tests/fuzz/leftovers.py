# SPDX-License-Identifier: Apache-2.0
"""What importers and exporters leave behind: steps that do nothing, cancel, or could be one."""

import numpy as np

from tests.fuzz.builder import Builder, Value
from tests.fuzz.forms import with_number
from tests.fuzz.movement import transpose


def no_effect(b: Builder, x: Value) -> Value:
    """Steps that change nothing."""
    y = b.node("Abs", [x], x.shape)
    kind = b.pick(["mul 1", "add 0", "div 1", "sub 0", "identity", "clip twice", "relu twice"])
    if kind == "clip twice":
        for low, high in ((-0.5, 0.75), (0.0, 1.0)):
            y = b.node("Clip", [y, b.constant(low), b.constant(high)], x.shape)
        return y
    if kind == "relu twice":
        return b.node("Relu", [b.node("Relu", [y], x.shape)], x.shape)
    if kind == "identity":
        return b.node("Identity", [y], x.shape)
    op, number = kind.split()
    return with_number(b, op.title(), y, float(number))


def powers(b: Builder, x: Value) -> Value:
    exponent = b.pick([2.0, 3.0, 0.5, -0.5, -1.0])
    if exponent < 2:
        x = with_number(b, "Add", b.node("Abs", [x], x.shape), 0.5)  # away from a pole
    return with_number(b, "Pow", x, exponent)


def divided(b: Builder, x: Value) -> Value:
    """By powers of two, and by what is none."""
    divisors = b.pick([(0.75, 3.0), (2.0, 4.0), (3.0, 0.75)])
    return b.node("Div", [x, b.constant(np.resize(divisors, b.pick([(), x.shape[-1:]])))], x.shape)


def scales(b: Builder, x: Value) -> Value:
    for number in (0.75, 1.25, 1.5)[: b.pick([2, 3])]:
        x = with_number(b, b.pick(["Mul", "Div"]), x, number)
    return x


def shifts(b: Builder, x: Value) -> Value:
    for number in (0.75, -0.5, 0.25)[: b.pick([2, 3])]:
        x = with_number(b, b.pick(["Add", "Sub"]), x, number)
    return x


def negations(b: Builder, x: Value) -> Value:
    return b.node("Neg", [b.node("Neg", [x], x.shape)], x.shape)


def joined_split(b: Builder, x: Value) -> Value:
    """All parts of a split, joined in order."""
    axis = b.pick([1, x.rank - 1])
    half = x.shape[axis] // 2
    sizes = [half, x.shape[axis] - half]
    shapes = [[n if a == axis else m for a, m in enumerate(x.shape)] for n in sizes]
    return b.node(
        "Concat", b.nodes_outputs("Split", [x, b.integers(*sizes)], shapes, axis=axis), x.shape, axis=axis
    )


def transposes(b: Builder, x: Value) -> Value:
    return transpose(b, transpose(b, x))


def reshapes(b: Builder, x: Value) -> Value:
    flat = b.node("Reshape", [x, b.integers(x.size)], (x.size,))
    shape = b.pick([x.shape, (x.shape[0], x.size // x.shape[0]), (1, x.size)])
    return b.node("Reshape", [flat, b.integers(*shape)], shape)


def split_and_shifted(b: Builder, x: Value) -> Value:
    """The last axis split into heads, a shift or a scale of each element of a head, and the axis as it was."""
    heads = b.pick([n for n in (1, 2, 3, 4) if x.shape[-1] % n == 0])
    parts = (heads, x.shape[-1] // heads)
    split = b.node("Reshape", [x, b.integers(*x.shape[:-1], *parts)], (*x.shape[:-1], *parts))
    numbers = b.uniform(parts, 0.5, 1.5) if b.flag() else b.constant(0.75)
    changed = b.node(b.pick(["Add", "Mul"]), [split, numbers], split.shape)
    return b.node("Reshape", [changed, b.integers(*x.shape)], x.shape)


def concat_of_slices(b: Builder, x: Value) -> Value:
    """All of x, cut and joined again."""
    axis = b.pick([a for a in range(1, x.rank) if x.shape[a] > 1] or [1])
    length = x.shape[axis]
    cut = max(1, length // 2)
    ends = [(0, cut), (cut, length)] if cut < length else [(0, length)]
    parts = [
        b.node(
            "Slice",
            [x, *(b.integers(v) for v in (start, end, axis, 1))],
            [end - start if a == axis else n for a, n in enumerate(x.shape)],
        )
        for start, end in ends
    ]
    return b.node("Concat", parts, x.shape, axis=axis)


def equal_branches(b: Builder, x: Value) -> Value:
    """The same computed twice."""
    op = b.pick(["Tanh", "Relu", "Sigmoid"])
    number = b.constant(0.5)
    twins = [b.node("Mul", [b.node(op, [x], x.shape), number], x.shape) for _ in range(2)]
    return b.node("Add", twins, x.shape)
