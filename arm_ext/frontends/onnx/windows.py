# SPDX-License-Identifier: Apache-2.0
"""Slices and ranges of constant size with a start computed at run time, as gathers.

    x[s : s + k], x[s : min(s + k, m)]    →    Gather(x, s + [0, …, k - 1])
    Range(s, min(s + k, m))               →    s + [0, …, k - 1]

A compiled model has static shapes, so the size is that of a slice inside its bounds, k. At run time, a start below 0,
or above that of the last slice of size k, is reported as an index out of bounds; ONNX gives a shorter slice there, or
counts a negative start from the end.

Paddle2ONNX writes x[i] = v so, as the rows from i to min(i + 1, rows), and computes i + 1 in float32.
"""

import math

import numpy as np
from onnx import NodeProto, TensorProto

from arm_ext.frontends.onnx.expansion import Expansion, domain_of
from arm_ext.frontends.onnx.opset_forms import reshape, up_to

_MOST_ROWS = 1 << 16
"""Largest limit of a slice's end: `up_to` makes a table of so many, and float32 has each of them exactly."""

_KINDS = (TensorProto.INT32, TensorProto.INT64, TensorProto.FLOAT, TensorProto.DOUBLE)
"""Types that have each integer up to `_MOST_ROWS`."""

_SAME = ("Cast", "Concat", "Identity", "Reshape", "Squeeze", "Unsqueeze")
"""Operators that pass on an element: a Cast to one of `_KINDS`, a Concat of one input."""

_WITH_CONSTANT = ("Add", "Min", "Mul", "Sub")
"""Operators of an element and a constant."""


def slice_of_run(e: Expansion) -> None:
    """Replace a Slice along one axis with constant size and run-time start; leave other Slices unchanged."""
    x, start, end, axes, step = e.inputs("data starts ends axes? steps?")
    size, limit = _window(e, start, end, step)
    if not size or e.dims(start) != [1]:
        return
    axis = int(e.known(axes).item()) if axes else 0
    if index := _indices(e, start, size, min(limit, e.dims(x)[axis])):
        e.emit("Gather", [x, index], e.node.output[0], axis=axis)


def range_of_run(e: Expansion) -> None:
    """Replace a Range with constant size and run-time start; leave other Ranges unchanged."""
    start, end, step = e.inputs("start limit delta")
    _indices(e, start, *_window(e, start, end, step), e.node.output[0])


def _indices(e: Expansion, start: str, size: int, limit: float, output: str = "") -> str:
    """Emit `size` consecutive indices below `limit`.

    Return "" if the size is 0 or below, or `limit` too small or large.
    """
    if not 0 < size <= limit <= _MOST_ROWS:
        return ""
    first = up_to(e, reshape(e, start, 1), int(limit) - size)
    return e.emit("Add", [first, e.constant(np.arange(size, dtype=e.dtype(start)))], output)


def _window(e: Expansion, start: str, end: str, step: str) -> tuple[int, float]:
    """Return the size of a slice, and an upper bound of its end; size 0 if its size is not constant or its start is."""
    if e.value(start) is not None:
        return 0, math.inf
    (first, skipped, least), (last, offset, limit) = (_bound(e, name) for name in (start, end))
    is_window = first == last and least == math.inf and (not step or _integer(e, step) == 1)
    return (offset - skipped if is_window and e.dtype(first).kind in "iu" else 0), limit


def _bound(e: Expansion, name: str) -> tuple[str, int, float]:
    """Return (value, offset, limit) with the named value equal to min(value + offset, limit)."""
    offset, limit = 0, math.inf
    while (node := e.producer(name)) is not None and (inner := _bound_of(e, node)) is not None:
        name, more, least = inner
        offset, limit = offset + more, min(limit, least + offset)
    return name, offset, limit


def _bound_of(e: Expansion, node: NodeProto) -> tuple[str, int, float] | None:
    """Return (input, offset, limit) of a node that computes min(input + offset, limit); None for other nodes."""
    if domain_of(node) or node.op_type not in (*_SAME, *_WITH_CONSTANT):
        return None
    if node.op_type in _SAME:
        is_exact = all(a.i in _KINDS for a in node.attribute if a.name == "to")
        is_alone = node.op_type != "Concat" or len(node.input) == 1
        return (node.input[0], 0, math.inf) if is_exact and is_alone else None
    match node.op_type, [_integer(e, name) for name in node.input]:
        case "Mul", [_, 1]:
            return node.input[0], 0, math.inf
        case "Sub", [_, int(number)]:
            return node.input[0], -number, math.inf
        case "Add", [_, int(number)]:
            return node.input[0], number, math.inf
        case "Add", [int(number), _]:
            return node.input[1], number, math.inf
        case "Min", [_, int(number)]:
            return node.input[0], 0, number
        case "Min", [int(number), _]:
            return node.input[1], 0, number
    return None


def _integer(e: Expansion, name: str) -> int | None:
    """Return the integer in a constant of one element; None for other values."""
    value = e.value(name)
    if (
        value is None
        or value.size != 1
        or value.dtype.kind not in "iuf"
        or not float(value.item()).is_integer()
    ):
        return None
    return int(value.item())
