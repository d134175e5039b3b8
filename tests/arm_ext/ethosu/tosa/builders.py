# SPDX-License-Identifier: Apache-2.0
"""Builders of the graphs of TOSA cases, one function per operator."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tosa_serializer as ts

from tests.arm_ext.ethosu.tosa.graphs import (
    I8,
    I16,
    I32,
    I48,
    Graph,
    Tensor,
    conv,
    requantized,
    rescale,
)

ALL = ("u55", "u65", "u85")
U85 = ("u85",)
PROPAGATE = ts.NanPropagationMode.PROPAGATE


@dataclass(frozen=True)
class Case:
    build: Callable[[Graph], None]
    families: tuple[str, ...] = ALL


def conv_case(
    height: int, width: int, channels: int, depth: int, kernel: tuple[int, int], **options: object
) -> Case:
    dtype = options.pop("dtype", I8)
    families = options.pop("families", ALL)

    def build(graph: Graph) -> None:
        value = graph.input([1, height, width, channels], dtype)
        zero_point = 0 if dtype == I16 else -7
        total = conv(graph, value, depth, kernel, zero_point=zero_point, **options)  # type: ignore[arg-type]
        out = requantized(
            graph,
            total,
            dtype,
            0.5 / 127 / np.sqrt(channels * kernel[0] * kernel[1]),
            0 if dtype == I16 else 5,
        )
        graph.output(out)

    return Case(build, families)  # type: ignore[arg-type]


def pool_case(
    kind: str,
    size: tuple[int, int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    pad: tuple[int, int, int, int] = (0, 0, 0, 0),
    dtype: ts.DType = I8,
    families: tuple[str, ...] = ALL,
) -> Case:
    def build(graph: Graph) -> None:
        value = graph.input([1, *size], dtype)
        rows = (size[0] + pad[0] + pad[1] - kernel[0]) // stride[0] + 1
        columns = (size[1] + pad[2] + pad[3] - kernel[1]) // stride[1] + 1
        shape = (1, rows, columns, size[2])
        lists = list(kernel), list(stride), list(pad)
        if kind == "MAX":
            graph.output(graph.op("MAX_POOL2D", [value], shape, dtype, *lists, PROPAGATE))
        else:
            zero = graph.const([0 if dtype == I16 else -3], dtype)
            graph.output(graph.op("AVG_POOL2D", [value, zero, zero], shape, dtype, *lists, I32))

    return Case(build, families)


def add_case(
    kind: str,
    first: tuple[int, ...],
    second: tuple[int, ...],
    dtype: ts.DType = I8,
    multipliers: tuple[int, int] = (1 << 30, 3 << 28),
) -> Case:
    """Both operands to 2^20 (2^15) fold, one of them exactly half of it as U55 wants it, and back."""
    headroom = 20 if dtype == I8 else 15

    def build(graph: Graph) -> None:
        points = (3, -5, 2) if dtype == I8 else (0, 0, 0)
        parts = []
        for shape, multiplier, point in zip((first, second), multipliers, points, strict=False):
            value = graph.input(shape, dtype)
            parts.append(rescale(graph, value, I32, multiplier, 31 - headroom, (point, 0)))
        shape = np.broadcast_shapes(first, second)
        total = graph.op(kind, parts, shape, I32)
        graph.output(rescale(graph, total, dtype, 1_500_000_000, 31 + headroom - 1, (0, points[2])))

    return Case(build)


def mul_case(first: tuple[int, ...], second: tuple[int, ...], dtype: ts.DType = I8) -> Case:
    def build(graph: Graph) -> None:
        points = (4, -9) if dtype == I8 else (0, 0)
        parts = [
            rescale(graph, graph.input(shape, dtype), I32, 1 << 30, 30, (point, 0))
            for shape, point in zip((first, second), points, strict=True)
        ]
        shape = np.broadcast_shapes(first, second)
        product = graph.op("MUL", [*parts, graph.const([0], I8)], shape, I32)
        shift = 37 if dtype == I8 else 45
        graph.output(rescale(graph, product, dtype, 1_234_567_890, shift, (0, 0)))

    return Case(build)


def binary(
    kind: str,
    dtype: ts.DType,
    *attributes: object,
    families: tuple[str, ...] = ALL,
    result: ts.DType | None = None,
) -> Case:
    def build(graph: Graph) -> None:
        shape = (1, 5, 7, 9)
        parts = [graph.input(shape, dtype), graph.input(shape, dtype)]
        graph.output(graph.op(kind, parts, shape, result or dtype, *attributes))

    return Case(build, families)


def unary(
    kind: str,
    dtype: ts.DType,
    shape: tuple[int, ...],
    out: tuple[int, ...],
    *attributes: object,
    families: tuple[str, ...] = ALL,
    extra: Callable[[Graph], list[Tensor]] | None = None,
    result: ts.DType | None = None,
) -> Case:
    def build(graph: Graph) -> None:
        value = graph.input(shape, dtype)
        operands = extra(graph) if extra else []
        graph.output(graph.op(kind, [value, *operands], out, result or dtype, *attributes))

    return Case(build, families)


def table(dtype: ts.DType, families: tuple[str, ...] = ALL) -> Case:
    def build(graph: Graph) -> None:
        value = graph.input((1, 6, 5, 17), dtype)
        if dtype == I8:
            table = graph.const(graph.rng.integers(-128, 128, 256), I8)
            graph.output(graph.op("TABLE", [value, table], value.shape, I8))
            return
        entries = np.round(20000 * np.tanh(np.linspace(-3, 3, 513)))
        wide = graph.op("TABLE", [value, graph.const(entries, I16)], value.shape, I32)
        graph.output(rescale(graph, wide, I16, 1 << 30, 37))

    return Case(build, families)


def matmul(batch: int, rows: int, inner: int, columns: int, dtype: ts.DType) -> Case:
    def build(graph: Graph) -> None:
        a = graph.input((batch, rows, inner), dtype)
        b = graph.input((batch, inner, columns), dtype)
        zero = graph.const([0 if dtype == I16 else 2], dtype)
        total = I48 if dtype == I16 else I32
        product = graph.op("MATMUL", [a, b, zero, zero], (batch, rows, columns), total)
        if dtype == I16:
            graph.output(rescale(graph, product, I16, 20000, 34))
        else:
            graph.output(rescale(graph, product, I8, 1_500_000_000, 41, (0, -4)))

    return Case(build, ALL if dtype == I8 else U85)


def resize(
    mode: ts.ResizeMode,
    size: tuple[int, int, int],
    scale: tuple[int, int, int, int],
    offset: tuple[int, int],
    border: tuple[int, int],
    families: tuple[str, ...] = U85,
) -> Case:
    def build(graph: Graph) -> None:
        value = graph.input((1, *size))
        rows = ((size[0] - 1) * scale[0] - offset[0] + border[0]) // scale[1] + 1
        columns = ((size[1] - 1) * scale[2] - offset[1] + border[1]) // scale[3] + 1
        operands = [graph.shape(v) for v in (scale, offset, border)]
        shape = (1, rows, columns, size[2])
        nearest = mode == ts.ResizeMode.NEAREST
        out = graph.op("RESIZE", [value, *operands], shape, I8 if nearest else I32, mode)
        if not nearest:
            bits = int(np.log2(scale[0] * scale[2]))
            out = rescale(graph, out, I8, 1 << 30, 30 + bits)
        graph.output(out)

    return Case(build, families)


def transpose_conv(kernel: tuple[int, int], stride: tuple[int, int], depth: int) -> Case:
    def build(graph: Graph) -> None:
        value = graph.input((1, 5, 6, 8))
        weights = graph.rng.integers(-127, 128, (depth, *kernel, 8))
        operands = [graph.const(weights, I8), graph.const(graph.rng.integers(-500, 500, depth), I32)]
        operands += [graph.const([1], I8), graph.const([0], I8)]
        shape = (1, 4 * stride[0] + kernel[0], 5 * stride[1] + kernel[1], depth)
        total = graph.op(
            "TRANSPOSE_CONV2D", [value, *operands], shape, I32, [0, 0, 0, 0], list(stride), False, I32
        )
        graph.output(requantized(graph, total, I8, 1e-3))

    return Case(build)


def clamp_bounds(low: int, high: int) -> list[object]:
    pad = [0] * 7
    return [[low & 0xFF, *pad], [high & 0xFF, *pad], PROPAGATE]


def requantize(
    dtype: ts.DType, result: ts.DType, multiplier: int, shift: int, rounding: ts.RoundingMode
) -> Case:
    def build(graph: Graph) -> None:
        value = graph.input((1, 4, 9, 11), dtype)
        points = (6 if dtype == I8 else 0, -2 if result == I8 else 0)
        graph.output(rescale(graph, value, result, multiplier, shift, points, rounding))

    return Case(build)
