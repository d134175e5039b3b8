# SPDX-License-Identifier: Apache-2.0
"""The strategy: a random small graph, in float or quantised, with inputs for it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import onnx
from hypothesis import strategies as st

from tests.fuzz.builder import Builder, Draw, Unit, Value
from tests.fuzz.operators import OPERATORS
from tests.fuzz.step import CHANNELS, Step
from tests.fuzz.templates import FLOAT_TEMPLATES, TEMPLATES

MOST_NODES = 40
Kinds = tuple[tuple[Step, ...], ...]
Shape = Callable[[Builder, Step | None], tuple[int, ...]]

RANKS, BATCHES, SIDES = (4, 4, 2, 3), (1, 2, 3), (1, 5, 7, 8, 9)


@dataclass(frozen=True)
class Case:
    """One graph.

    Attributes:
        model: ONNX.
        inputs: Values in the model's order.
        steps: Names of the steps that it is made of.
        units: Which nodes each step made.
        quantized: Whether its tensors are.
        runs: Whether to run what an NPU takes of it; else it is only divided.
    """

    model: onnx.ModelProto
    inputs: tuple[np.ndarray, ...]
    steps: tuple[str, ...]
    units: tuple[Unit, ...]
    quantized: bool = False
    runs: bool = True


FLOAT = (OPERATORS, *[FLOAT_TEMPLATES] * 9)
"""Of float graphs what counts is what rewrites make of them."""
QUANTIZED = (OPERATORS, TEMPLATES)
"""Of quantised ones it is the operators: what stands between two quantised tensors is hardly rewritten."""


def any_shape(b: Builder, first: Step | None) -> tuple[int, ...]:
    """A shape of a rank that the first step takes; of any, if it asks for more than a rank (an axis of size 1)."""
    fits = [r for r in RANKS if first is None or first.accepts(Value("", (2, 8, 7, 7)[:r]))] or RANKS
    rank = b.pick(fits)
    batch, channels = b.pick(BATCHES), b.pick(CHANNELS)
    return (batch, channels, *(b.pick(SIDES) for _ in range(rank - 2)))


@st.composite
def float_cases(
    draw: Draw,
    kinds: Kinds = FLOAT,
    most_steps: int = 10,
    first: Step | None = None,
    shape: Shape = any_shape,
) -> Case:
    """A graph in float32 of steps of these kinds, mostly with the given first one, from an input of such a shape."""
    b = Builder(draw)
    if b.pick([None, *[first] * 9]) is None:  # a graph shrinks to steps of any kind
        first = None
    values = [b.input(shape(b, first))]
    used: list[Step] = []
    for others in reversed(range(most_steps)):
        # The newest value first: a graph shrinks to a chain.
        x = b.pick(values[::-1])
        if used or first is None or not first.accepts(x):
            step = b.pick([step for step in b.pick(kinds) for _ in range(step.weight) if step.accepts(x)])
        else:
            step = first
        before = len(b.nodes)
        values.append(step.build(b, x))
        b.units.append(Unit(step.name, tuple(node.name for node in b.nodes[before:])))
        used.append(step)
        # Asked after each step, with equal shares of all lengths: what shrinks a graph can leave out any one step.
        if len(b.nodes) >= MOST_NODES or draw(st.integers(0, others)) == 0:
            break
    model = b.model(_unread(b, values))
    rng = b.rng()
    inputs = tuple(rng.standard_normal(x.shape).astype(np.float32) for x in b.inputs)
    return Case(model, inputs, tuple(step.name for step in used), tuple(b.units))


def _unread(b: Builder, values: list[Value]) -> list[Value]:
    """The results that no node reads: the graph's outputs."""
    read = {name for node in b.nodes for name in node.input}
    return [value for value in values[1:] if value.name not in read]
