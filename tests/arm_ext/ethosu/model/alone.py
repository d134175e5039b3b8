# SPDX-License-Identifier: Apache-2.0
"""One operation of a payload by itself, on feature maps that are made up for it.

Deep in a network, and at one value of thousands, a bit may tell where no input that is tried leads. The operation as
the payload runs it, with the weights, scales and tables that it then has, can be given any feature map of its type.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np

from arm_ext.ethosu.model import convolution, interpreter, run, window
from arm_ext.ethosu.model.machine import Executed, Machine
from arm_ext.ethosu.model.memory import FeatureMap, Integers, PayloadMemory, element
from arm_ext.ethosu.model.registers import Registers
from arm_ext.ethosu.model.window import SlidingWindow
from arm_ext.ethosu.payload import Payload
from tests.arm_ext.ethosu.tosa.graphs import Array

Maker = Callable[[tuple[int, ...], np.dtype[Any]], Integers]
"""Of a feature map's shape and type, its elements."""


class _ReachedError(Exception):
    """Before the operation."""

    def __init__(self, at: Machine) -> None:
        super().__init__()
        self.at = at


def before(payload: Payload, values: Sequence[Array], number: int) -> Machine:
    """The machine when it comes to an operation; `number` is the operation's, in the order in which they run."""
    left = iter(range(number, -1, -1))

    def counted(real: Callable[[Machine], None]) -> Callable[[Machine], None]:
        def call(at: Machine) -> None:
            if next(left) == 0:
                raise _ReachedError(at)
            real(at)

        return call

    operations = {name: counted(real) for name, real in interpreter._OPERATIONS.items()}
    with patch.dict(interpreter._OPERATIONS, operations):
        try:
            run(payload, values)
        except _ReachedError as reached:
            return reached.at
    raise ValueError(f"the payload has no operation {number}")


def computed(at: Machine, payload: Payload, made: Maker) -> list[Integers]:
    """What the operation computes from feature maps that are made up; the machine stays as it is."""
    constant = {region.number for region in payload.regions if region.kind == "weights"}
    kept, written = (at.accumulators, dict(at.chained)), list[Integers]()

    def read(self: FeatureMap, memory: PayloadMemory) -> Integers:
        return real(self, memory) if self.region in constant else made(self.shape, self.dtype)

    def chained(at: Machine, registers: Registers, name: Any, shape: tuple[int, int, int]) -> Integers:
        dtype, zero_point = element(registers, name)
        return made(shape, dtype) - zero_point

    def write(self: FeatureMap, memory: PayloadMemory, values: Integers) -> None:
        written.append(values.astype(self.dtype))

    real = FeatureMap.read
    at.registers.read = {}
    at.running = Executed(at.running.index, at.running.name, at.running.operand, at.registers.read)
    with (
        patch.object(FeatureMap, "read", read),
        patch.object(FeatureMap, "write", write),
        patch.object(window, "_chained", chained),
    ):
        interpreter._OPERATIONS[at.running.name](at)
    written += [values for buffer, values in at.chained.items() if values is not kept[1].get(buffer)]
    if not written and at.accumulators is not None:
        written.append(at.accumulators)
    at.accumulators, at.chained = kept
    return written


def window_of(at: Machine, payload: Payload) -> SlidingWindow:
    """What the kernel of a convolution sees."""
    seen: list[SlidingWindow] = []

    def noted(*args: Any) -> SlidingWindow:
        seen.append(real(*args))
        return seen[-1]

    real = convolution._input
    with patch.object(convolution, "_input", noted):
        computed(at, payload, drawn(0))
    return seen[0]


def drawn(number: int) -> Maker:
    """Elements around a value, of one of six contrasts; the first of six are uniform."""
    rng = np.random.default_rng(number)

    def made(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Integers:
        info = np.iinfo(dtype)
        uniform = rng.integers(info.min, info.max, shape, endpoint=True)
        if number % 6 == 0:
            return uniform
        centre = rng.integers(info.min, info.max, endpoint=True)
        return np.asarray(centre + (uniform - centre) // 2 ** (number % 6), np.int64)

    return made


@dataclass(frozen=True)
class Place:
    """Where a kernel stands on the input, one of those at which the same of its elements see padding.

    Attributes:
        taps: Of a channel's weights, flat, those that see the input.
        elements: Of the input, which each of them sees: row, column, channel.
        shape: Of the input.
        zero_point: Of the input.
    """

    taps: Integers
    elements: Integers
    shape: tuple[int, ...]
    zero_point: int

    def maker(self, values: Integers) -> Maker:
        """An input of these values, less the zero point, where the taps see it, and else of zeros."""

        def made(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Integers:
            out = np.full(shape, self.zero_point, np.int64)
            if shape == self.shape:
                out[tuple(self.elements.T)] += values
            return out

        return made


def places(at: SlidingWindow, zero_point: int, lanes: Sequence[int]) -> Iterator[Place]:
    """The places of a kernel, one of each kind.

    Args:
        at: What the kernel sees.
        zero_point: Of the input.
        lanes: The input channels that it sees there.
    """
    height, width, _ = at.values.shape
    told: set[bytes] = set()
    for corner in np.ndindex(at.steps):
        rows, columns = (
            start * stride - pad + np.arange(size) * dilation
            for start, stride, pad, size, dilation in zip(
                corner, at.kernel.stride, at.padding, at.kernel.size, at.kernel.dilation, strict=True
            )
        )
        inside = ((rows >= 0) & (rows < height))[:, None] & ((columns >= 0) & (columns < width))
        if inside.tobytes() in told:
            continue
        told.add(inside.tobytes())
        seen = np.stack(np.broadcast_arrays(*np.ix_(rows, columns, np.asarray(lanes))), axis=-1)
        each = np.repeat(inside.reshape(-1), len(lanes))
        yield Place(np.flatnonzero(each), seen.reshape(-1, 3)[each], at.values.shape, zero_point)
