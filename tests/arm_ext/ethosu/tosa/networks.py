# SPDX-License-Identifier: Apache-2.0
"""Graphs of several operators, or of one with a composite form."""

import numpy as np

from tests.arm_ext.ethosu.tosa.builders import PROPAGATE
from tests.arm_ext.ethosu.tosa.graphs import BOOL, I8, I32, Graph, conv, requantized, rescale


def softmax(graph: Graph) -> None:
    """Softmax: x - max(x), a table of exponentials, and their sum."""
    shape, rows = (1, 1, 12, 33), (1, 1, 12, 1)
    value = graph.input(shape)
    top = graph.op("REDUCE_MAX", [value], rows, I8, 3, PROPAGATE)
    wide = [rescale(graph, v, I32, 1 << 30, 30) for v in (value, top)]
    less = rescale(graph, graph.op("SUB", wide, shape, I32), I8, 1 << 30, 30, (0, 127))
    table = graph.const(np.round(127 * np.exp((np.arange(256) - 255) / 32)), I8)
    powers = graph.op("TABLE", [less, table], shape, I8)
    total = graph.op("REDUCE_SUM", [rescale(graph, powers, I32, 1 << 30, 30)], rows, I32, 3)
    graph.output(rescale(graph, total, I8, 1 << 30, 36))
    graph.output(powers)


def conv3d(graph: Graph) -> None:
    value = graph.input((1, 4, 6, 7, 8))
    weights = graph.rng.integers(-127, 128, (12, 3, 3, 3, 8))
    operands = [graph.const(weights, I8), graph.const(graph.rng.integers(-500, 500, 12), I32)]
    operands += [graph.const([3], I8), graph.const([0], I8)]
    shape = (1, 2, 4, 5, 12)
    total = graph.op("CONV3D", [value, *operands], shape, I32, [0] * 6, [1] * 3, [1] * 3, False, I32)
    graph.output(requantized(graph, total, I8, 4e-4))


def concat(graph: Graph) -> None:
    a, b = graph.input((1, 4, 5, 7)), graph.input((1, 4, 5, 12))
    graph.output(graph.op("CONCAT", [a, b], (1, 4, 5, 19), I8, 3))


def residual(graph: Graph) -> None:
    """Convolution, depthwise, pointwise, added to the first: several operators that share an arena."""
    value = graph.input((1, 18, 20, 16))
    first = requantized(graph, conv(graph, value, 24, (3, 3), pad=(1, 1, 1, 1)), I8, 0.0004)
    middle = requantized(graph, conv(graph, first, 1, (3, 3), pad=(1, 1, 1, 1), depthwise=True), I8, 0.002)
    last = requantized(graph, conv(graph, middle, 24, (1, 1)), I8, 0.002)
    wide = [rescale(graph, v, I32, m, 11) for v, m in ((first, 1 << 30), (last, 900_000_000))]
    total = graph.op("ADD", wide, first.shape, I32)
    graph.output(rescale(graph, total, I8, 1 << 30, 50))


def cascade(graph: Graph) -> None:
    """Large feature maps between small ones, which Vela computes in stripes to save memory."""
    value = graph.input((1, 48, 48, 4))
    for depth in (32, 32, 4):
        total = conv(graph, value, depth, (3, 3), pad=(1, 1, 1, 1))
        value = requantized(graph, total, I8, 0.5 / 127 / np.sqrt(9 * value.shape[3]))
    graph.output(value)


def flip_target(graph: Graph) -> None:
    """A small graph with every kind of data, and scales at which each weight, bias and table entry matters."""
    value = graph.input((1, 12, 14, 8))
    first = requantized(graph, conv(graph, value, 16, (3, 3), pad=(1, 1, 1, 1)), I8, 0.004)
    middle = requantized(graph, conv(graph, first, 1, (3, 3), pad=(1, 1, 1, 1), depthwise=True), I8, 0.004)
    wide = [rescale(graph, v, I32, m, 11) for v, m in ((first, 1 << 30), (middle, 900_000_000))]
    total = rescale(graph, graph.op("ADD", wide, first.shape, I32), I8, 1 << 30, 49)
    entries = graph.const(graph.rng.permutation(256) - 128, I8)
    graph.output(graph.op("TABLE", [total, entries], total.shape, I8))


def gather(graph: Graph) -> None:
    values, indices = graph.input((1, 20, 16)), graph.input((1, 9), I32)
    graph.output(graph.op("GATHER", [values, indices], (1, 9, 16), I8))


def select(graph: Graph) -> None:
    choice = graph.input((1, 4, 5, 6), BOOL)
    a, b = graph.input((1, 4, 5, 6)), graph.input((1, 4, 5, 6))
    graph.output(graph.op("SELECT", [choice, a, b], (1, 4, 5, 6), I8))


def run_time_conv(graph: Graph) -> None:
    """A convolution whose weights are an input."""
    value, weights = graph.input((1, 6, 7, 16)), graph.input((8, 3, 3, 16))
    operands = [graph.const([0] * 8, I32), graph.const([0], I8), graph.const([0], I8)]
    attributes = ([0] * 4, [1] * 2, [1] * 2, False, I32)
    total = graph.op("CONV2D", [value, weights, *operands], (1, 4, 5, 8), I32, *attributes)
    graph.output(rescale(graph, total, I8, 1 << 30, 42))
