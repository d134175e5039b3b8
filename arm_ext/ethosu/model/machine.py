# SPDX-License-Identifier: Apache-2.0
"""The state of an Ethos-U between two commands."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from arm_ext.ethosu.model.memory import Integers, PayloadMemory
from arm_ext.ethosu.model.registers import Registers
from arm_ext.ethosu.model.weights import Scales
from arm_ext.ethosu.payload import Payload
from arm_ext.target.npu import Accelerator


@dataclass
class Executed:
    """An executed operation, with the registers, weights and scales that it used.

    Attributes:
        index: Index of its command's first word.
        name: Name of its command.
        operand: Operand of its command.
        fields: Register fields that it read, "register.field" → value.
        weights: Decoded weights: output channels x height x width x input channels.
        scales: Decoded scales.
    """

    index: int
    name: str
    operand: int
    fields: dict[str, int] = field(default_factory=dict)
    weights: NDArray[np.int16] | None = None
    scales: Scales | None = None


class Machine:
    """The state of an Ethos-U between two commands.

    Attributes:
        npu: The accelerator.
        memory: Regions and table memory.
        registers: Values of the registers.
        running: The operation that is being executed.
        accumulators: Accumulators after the last operation.
        chained: Contents of the chain buffers (U85).
    """

    def __init__(self, payload: Payload) -> None:
        """Set the state after a reset, with the weights loaded."""
        self.npu: Accelerator = payload.npu
        self.memory = PayloadMemory(payload)
        self.registers = Registers(payload.npu.family)
        self.running = Executed(0, "", 0)
        self.accumulators: Integers | None = None
        self.chained: dict[int, Integers] = {}
