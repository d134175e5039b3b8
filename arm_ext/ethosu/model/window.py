# SPDX-License-Identifier: Apache-2.0
"""Windows of a kernel over an input: upscaling, padding and strides."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arm_ext.ethosu.model.errors import StreamError
from arm_ext.ethosu.model.machine import Machine
from arm_ext.ethosu.model.memory import FeatureMap, Integers, element
from arm_ext.ethosu.model.output import ofm_shape
from arm_ext.ethosu.model.registers import Input, Registers
from arm_ext.ethosu.model.weights import KernelGeometry

_NEAREST, _ZEROS = 1, 2
_CHAINED = 2


@dataclass(frozen=True)
class SlidingWindow:
    """An upscaled input without padding, with the kernel that moves over it.

    Attributes:
        values: Input values minus the zero point; height x width x channels.
        kernel: The kernel's size, strides and dilation.
        padding: Rows of padding above, and columns of padding to the left.
        steps: Height and width of the output.
    """

    values: Integers
    kernel: KernelGeometry
    padding: tuple[int, int]
    steps: tuple[int, int]

    def padded(self, fill: int = 0) -> Integers:
        """Return the input padded with `fill`, as far as the kernel reaches."""
        height, width, depth = self.values.shape
        reach = [
            (n - 1) * s + e
            for n, s, e in zip(self.steps, self.kernel.stride, self.kernel.extent, strict=True)
        ]
        out = np.full((*reach, depth), fill, self.values.dtype)
        top, left = self.padding
        out[top : top + height, left : left + width] = self.values
        return out

    def taps(self, padded: NDArray[Any]) -> Iterator[tuple[int, int, NDArray[Any]]]:
        """Yield (y, x, the inputs that kernel element reads for each output), height x width x channels."""
        (rows, columns), (sy, sx) = self.steps, self.kernel.stride
        for y in range(self.kernel.size[0]):
            for x in range(self.kernel.size[1]):
                top, left = y * self.kernel.dilation[0], x * self.kernel.dilation[1]
                yield (
                    y,
                    x,
                    padded[top : top + (rows - 1) * sy + 1 : sy, left : left + (columns - 1) * sx + 1 : sx],
                )

    def coverage(self) -> Integers:
        """Return the number of kernel elements that read input and not padding, height x width x 1."""
        ones = SlidingWindow(
            np.ones((*self.values.shape[:2], 1), np.int64), self.kernel, self.padding, self.steps
        )
        return functools.reduce(np.add, (tap for *_, tap in ones.taps(ones.padded())))


def read_window(machine: Machine, depth: int) -> SlidingWindow:
    """Return the input of a convolution or pooling, with the window that moves over it.

    The registers give no height and width of an input; they follow from the output's, the kernel's and the padding.

    Args:
        machine: Registers and memory.
        depth: Channels of the input.
    """
    registers = machine.registers
    kernel = KernelGeometry.of(registers)
    rows, columns, _ = ofm_shape(registers)
    pad = [registers.get(f"ifm_pad_{side}") for side in ("top", "left", "bottom", "right")]
    height = (rows - 1) * kernel.stride[0] + kernel.extent[0] - pad[0] - pad[2]
    width = (columns - 1) * kernel.stride[1] + kernel.extent[1] - pad[1] - pad[3]
    if height < 1 or width < 1:
        raise StreamError(f"the input of an operation has {height} x {width} elements without its padding")
    upscale = registers.get("ifm_upscale")
    if upscale > _ZEROS:
        raise StreamError(f"up-scaling mode {upscale} is unknown")
    factor = 2 if upscale else 1
    values = read_input(machine, "ifm", (-(-height // factor), -(-width // factor), depth))
    if upscale == _NEAREST:
        values = values.repeat(factor, 0).repeat(factor, 1)[:height, :width]
    elif upscale == _ZEROS:
        spread = np.zeros((height, width, depth), np.int64)
        spread[::factor, ::factor] = values
        values = spread
    return SlidingWindow(values, kernel, (pad[0], pad[1]), (rows, columns))


def read_input(machine: Machine, name: Input, shape: tuple[int, int, int]) -> Integers:
    """Read an input minus its zero point, from memory or from the chain buffer of an earlier operation."""
    registers = machine.registers
    if registers.family == "u85" and registers.get(f"{name}_precision", "storage") == _CHAINED:
        return _chained(machine, registers, name, shape)
    feature_map = FeatureMap.of(registers, name, shape)
    return feature_map.read(machine.memory) - feature_map.zero_point


def _chained(machine: Machine, registers: Registers, name: Input, shape: tuple[int, int, int]) -> Integers:
    buffer = registers.get(f"{name}_region")
    if buffer not in machine.chained:
        raise StreamError(f"chain buffer {buffer} is read, and no operation has filled it")
    values = machine.chained[buffer]
    if values.shape != shape:
        raise StreamError(f"chain buffer {buffer} holds {values.shape}, an operation reads {shape}")
    return values - element(registers, name)[1]
