# SPDX-License-Identifier: Apache-2.0
"""Interprets a payload: its commands in order, each to its end before the next begins.

The result of a correct stream does not depend on timing, so waits, block dependencies and buffer sizes are ignored. The
model shows that a stream computes what it should if the hardware does what the model does. It cannot show that the
hardware does.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from arm_ext.ethosu.model.convolution import conv, depthwise
from arm_ext.ethosu.model.dma import dma
from arm_ext.ethosu.model.elementwise import elementwise
from arm_ext.ethosu.model.errors import StreamError
from arm_ext.ethosu.model.machine import Executed, Machine
from arm_ext.ethosu.model.memory import PayloadMemory
from arm_ext.ethosu.model.output import ofm_shape
from arm_ext.ethosu.model.pooling import pool
from arm_ext.ethosu.model.resize import resize
from arm_ext.ethosu.model.stream import ParsedCommand, steps, unwrap
from arm_ext.ethosu.payload import Payload, PayloadTensor

Array = NDArray[np.generic]

_NO_EFFECT = frozenset({"op_kernel_wait", "op_dma_wait", "op_pmu_mask", "op_stop", "op_irq"})


_OPERATIONS: dict[str, Callable[[Machine], None]] = {
    "op_conv": conv,
    "op_depthwise": depthwise,
    "op_pool": pool,
    "op_elementwise": elementwise,
    "op_resize": resize,
    "op_dma_start": dma,
}


def step(machine: Machine, command: ParsedCommand) -> bool:
    """Set a register or run an operation; returns whether it was an operation."""
    if not command.name.startswith("op_") or command.name == "op_scalar":
        machine.registers.values[command.name] = command.value
        return False
    if command.name in _NO_EFFECT:
        return False
    if command.name not in _OPERATIONS:
        raise StreamError(f"{command.name} is not modelled")
    machine.registers.read = {}
    machine.running = Executed(command.index, command.name, command.value, machine.registers.read)
    if command.name != "op_dma_start" and math.prod(ofm_shape(machine.registers)) > machine.memory.largest:
        raise StreamError(f"an output of {ofm_shape(machine.registers)} elements exceeds every region")
    _OPERATIONS[command.name](machine)
    return True


def run(payload: Payload, inputs: Sequence[Array], trace: list[Executed] | None = None) -> list[Array]:
    """Compute the outputs of a payload.

    Args:
        payload: The payload; nothing else is used.
        inputs: An array for each of its inputs, of its dtype and shape.
        trace: A list to which each executed operation is appended.

    Returns:
        An array for each of its outputs.

    Raises:
        StreamError: The commands or weights are malformed; the message names the command.
        ValueError: An input does not have the dtype or shape that the payload states.
    """
    machine = Machine(payload)
    if len(inputs) != len(payload.inputs):
        raise ValueError(f"the payload has {len(payload.inputs)} inputs, {len(inputs)} were given")
    for tensor, value in zip(payload.inputs, inputs, strict=True):
        machine.memory.writable(tensor.region, tensor.offset, tensor.size)[...] = _bytes_of(tensor, value)
    stream = unwrap(payload.commands)
    if stream.config != payload.config:
        raise StreamError(
            f"the commands are for configuration {stream.config:#x}, the payload for {payload.config:#x}"
        )
    for command in steps(stream, payload.npu.family):
        try:
            if step(machine, command) and trace is not None:
                trace.append(machine.running)
        except StreamError as error:
            raise StreamError(f"{command.name} at word {command.index}: {error}") from None
    return [_output(machine.memory, tensor) for tensor in payload.outputs]


def _bytes_of(tensor: PayloadTensor, value: Array) -> NDArray[np.uint8]:
    if value.dtype != np.dtype(tensor.dtype) or value.shape != tensor.shape:
        raise ValueError(
            f"input {tensor.name!r} is {value.dtype}{list(value.shape)}, "
            f"the payload wants {tensor.dtype}{list(tensor.shape)}"
        )
    return np.frombuffer(value.tobytes(), np.uint8)


def _output(memory: PayloadMemory, tensor: PayloadTensor) -> Array:
    raw = memory.area(tensor.region, tensor.offset, tensor.size)
    return np.frombuffer(raw.tobytes(), np.dtype(tensor.dtype)).reshape(tensor.shape)
