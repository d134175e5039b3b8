# SPDX-License-Identifier: Apache-2.0
"""A check that a payload's look-up tables lie within the table memory; nothing is run."""

from arm_ext.ethosu.model.registers import Registers
from arm_ext.ethosu.model.stream import steps, unwrap
from arm_ext.ethosu.payload import Payload


def table_beyond(payload: Payload) -> int | None:
    """Return the end, in bytes, of the first table beyond shared RAM (U85: table RAM); None if all are inside.

    Raises:
        StreamError: The commands are malformed.
    """
    registers = Registers(payload.npu.family)
    for command in steps(unwrap(payload.commands), payload.npu.family):
        registers.values[command.name] = command.value
        if command.name == "op_dma_start" and registers.get("dma0_dst_region", "internal"):
            end = registers.address("dma0_dst") + registers.address("dma0_len")
            if end > payload.npu.shram_kib << 10:
                return end
    return None
