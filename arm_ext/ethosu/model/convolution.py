# SPDX-License-Identifier: Apache-2.0
"""NPU_OP_CONV and NPU_OP_DEPTHWISE."""

import numpy as np
from numpy.typing import NDArray

from arm_ext.ethosu.model.errors import StreamError
from arm_ext.ethosu.model.machine import Machine
from arm_ext.ethosu.model.memory import Integers, element
from arm_ext.ethosu.model.output import ofm_shape, per_channel, scale_output, store
from arm_ext.ethosu.model.registers import Registers
from arm_ext.ethosu.model.weights import read_scales, read_weights
from arm_ext.ethosu.model.window import SlidingWindow, read_input, read_window

_RESET, _KEEP, _IFM2 = 0, 1, 2  # initial value of U85's accumulators
_U55_BITS = (32, 40)  # accumulator widths by NPU_SET_ACC_FORMAT
_U85_BITS = (32, 48)
_WIDEST = 2  # maximum bytes of an element that the MAC engine reads


def conv(machine: Machine) -> None:
    """Run NPU_OP_CONV: a convolution, or on U85 a matrix product whose weights are the second input."""
    registers = machine.registers
    depth = registers.size("ifm_depth")
    window = _input(machine, depth)
    if registers.family == "u85" and machine.running.operand:
        if window.kernel.size != (1, 1):
            raise StreamError(f"weights that are an input have a kernel of {window.kernel.size}, not 1 x 1")
        weights = _run_time_weights(machine, depth)
    else:
        machine.running.weights = read_weights(machine.memory, registers, machine.npu, "conv", depth)
        weights = machine.running.weights.astype(np.int64)
    # Sums of up to 2^40 are exact in binary64, whose matrix product is numpy's fastest.
    taps = weights.astype(np.float64).transpose(1, 2, 3, 0)
    rows, columns, channels = ofm_shape(registers)
    total: NDArray[np.float64] = np.zeros((rows * columns, channels))
    padded = window.padded().astype(np.float64)
    for y, x, tap in window.taps(padded):
        total += tap.reshape(-1, depth) @ taps[y, x]
    accumulate(machine, total.reshape(rows, columns, channels).astype(np.int64))


def depthwise(machine: Machine) -> None:
    """Run NPU_OP_DEPTHWISE, in which output channel i reads input channel i."""
    registers = machine.registers
    depth = registers.size("ofm_depth")
    window = _input(machine, depth)
    machine.running.weights = read_weights(machine.memory, registers, machine.npu, "depthwise", depth)
    total = _depthwise_sum(window, machine.running.weights[..., 0].astype(np.int64).transpose(1, 2, 0))
    accumulate(machine, total)


def _input(machine: Machine, depth: int) -> SlidingWindow:
    dtype, _ = element(machine.registers, "ifm")
    if dtype.itemsize > _WIDEST:
        raise StreamError(f"a convolution's input is {dtype}")
    return read_window(machine, depth)


def _depthwise_sum(window: SlidingWindow, taps: Integers) -> Integers:
    total = np.zeros((*window.steps, taps.shape[2]), np.int64)
    for y, x, tap in window.taps(window.padded()):
        total += tap * taps[y, x]
    return total


def _run_time_weights(machine: Machine, depth: int) -> Integers:
    """Read the second input as weights: rows are output channels, columns input channels."""
    values = read_input(machine, "ifm2", (1, machine.registers.size("ofm_depth"), depth))
    return values.reshape(-1, 1, 1, depth)


def accumulate(machine: Machine, total: Integers, joined: np.ufunc = np.add) -> None:
    """Combine a result with U85's accumulators; write it out unless it is kept for the next operation.

    Args:
        machine: Registers, memory and accumulators.
        total: Sums of this operation alone.
        joined: A sum, or the maximum or minimum of those.
    """
    registers = machine.registers
    if registers.family == "u85":
        source = registers.get("acc_format", "input")
        if source == _KEEP:
            if machine.accumulators is None or machine.accumulators.shape != total.shape:
                raise StreamError(
                    "an operation adds to accumulators, but no previous operation of its shape has kept any"
                )
            total = joined(total, machine.accumulators)
        elif source == _IFM2:
            total = total + read_input(machine, "ifm2", total.shape)
        elif source != _RESET:
            raise StreamError(f"source {source} of the accumulators is unknown")
    if joined is np.add:
        total = _wrapped(total, registers)
    machine.accumulators = total
    if registers.family == "u85" and registers.get("acc_format", "no_output"):
        return
    if per_channel(registers):
        machine.running.scales = read_scales(machine.memory, registers, machine.npu)
    store(machine, scale_output(registers, total, machine.running.scales))


def _wrapped(total: Integers, registers: Registers) -> Integers:
    """Wrap sums to the width of the accumulators."""
    widths = _U85_BITS if registers.family == "u85" else _U55_BITS
    code = registers.get("acc_format", "bits")
    if code >= len(widths):
        raise StreamError(f"accumulator format {code} is not modelled")
    drop = 64 - widths[code]
    return total << drop >> drop
