# SPDX-License-Identifier: Apache-2.0
"""Copies inside kernels: contiguous runs, and tensors with padded borders."""

from collections.abc import Callable, Sequence

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.tir.emit import converted, i64, load, store

REGISTER = 16
"""Bytes of a vector register."""

UNROLL = 4
"""Vectors of one iteration of a copy's loop: two LDP and two STP."""


Plane = Callable[[ir.Expr], ir.Expr]
"""Function from elements of the source, a vector or a scalar, to those of a copy: the same, or their high bytes."""

WHOLE: tuple[Plane, ...] = (lambda value: value,)
"""The planes of a plain copy: one, which holds the elements unchanged."""


def pieces(count: int, largest: int) -> list[tuple[int, int]]:
    """Split `count` elements into vectors of `largest` lanes, then half as many, and so on: (first element, lanes)."""
    found, at, lanes = [], 0, largest
    while at < count:
        while count - at < lanes:
            lanes //= 2
        found.append((at, lanes))
        at += lanes
    return found


def copy(
    source: tirx.Buffer,
    start: ir.Expr,
    target: tirx.Buffer,
    to: ir.Expr,
    count: int,
    plane: Plane = WHOLE[0],
) -> None:
    """Emit a copy of `count` contiguous elements, `plane` applied and cast to the dtype of the flat buffer `target`."""
    dtype = str(target.dtype)
    _run(target, to, count, lambda at, lanes: converted(plane(load(source, start + at, lanes)), dtype))


def fill(target: tirx.Buffer, to: ir.Expr, count: int, value: float | ir.Expr) -> None:
    """Emit stores of `value` to `count` contiguous elements of a flat buffer."""
    scalar = value if isinstance(value, ir.Expr) else tirx.const(value, str(target.dtype))
    _run(target, to, count, lambda _, lanes: scalar if lanes == 1 else tirx.Broadcast(scalar, lanes))


def padded(
    source: tirx.Buffer,
    shape: Sequence[int],
    widths: Sequence[tuple[int, int]],
    value: float | ir.Expr,
    planes: Sequence[Plane] = WHOLE,
) -> tirx.Buffer:
    """Emit a padded copy of a tensor into the workspace; return its flat buffer.

    Args:
        source: Flat buffer of the tensor.
        shape: Shape of the tensor, [N, H, W, C].
        widths: Number of elements before and after each axis; 0 for N and C.
        value: Value of the border; an expression must have the dtype of the tensor.
        planes: Functions of the elements; the padded tensor of each follows that of the one before, with one dtype.
    """
    images, height, width, channels = shape
    _, (top, bottom), (left, right), _ = widths
    tall, line = height + top + bottom, (width + left + right) * channels
    scalar = value if isinstance(value, ir.Expr) else tirx.const(value, str(source.dtype))
    borders = [plane(scalar) for plane in planes]
    dtype = str(borders[0].ty.dtype)
    # Allocate one register more, so that a vector load that starts inside the copy does not reach past its end.
    size, slack = images * tall * line, REGISTER // np.dtype(dtype).itemsize
    target = T.alloc_buffer((len(planes) * size + slack,), dtype, scope="global", layout=None)
    for number, (plane, border) in enumerate(zip(planes, borders, strict=True)):
        with T.serial(i64(0), i64(images)) as image:
            first = T.Bind(image * (tall * line) + number * size)
            fill(target, first, top * line, border)
            with T.serial(i64(0), i64(height)) as y:
                row = T.Bind(first + (y + top) * line)
                fill(target, row, left * channels, border)
                copy(
                    source,
                    (image * height + y) * (width * channels),
                    target,
                    row + left * channels,
                    width * channels,
                    plane,
                )
                fill(target, row + (left + width) * channels, right * channels, border)
            fill(target, first + (top + height) * line, bottom * line, border)
    return target


def _run(target: tirx.Buffer, to: ir.Expr, count: int, value: Callable[[ir.Expr, int], ir.Expr]) -> None:
    lanes = REGISTER // np.dtype(str(target.dtype)).itemsize
    block = UNROLL * lanes
    whole = count // block
    if whole > 1:
        with T.serial(i64(0), i64(whole)) as outer:
            values = [value(outer * block + lanes * u, lanes) for u in range(UNROLL)]
            for u, vector in enumerate(values):
                store(target, vector, to + (outer * block + lanes * u), lanes)
    done = whole * block if whole > 1 else 0
    for at, size in pieces(count - done, lanes):
        store(target, value(i64(done + at), size), to + (done + at), size)
