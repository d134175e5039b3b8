# SPDX-License-Identifier: Apache-2.0
"""Limits of the Linux driver accel/ethosu that the runtime cannot work around.

Source: ethosu_gem_cmdstream_copy_and_validate in drivers/accel/ethosu/ethosu_gem.c, Linux 6.19.
"""

from arm_ext.ethosu.model.stream import steps, unwrap
from arm_ext.ethosu.payload import Payload

_STRIDES = {f"{feature_map}_stride_{axis}" for feature_map in ("ifm", "ifm2", "ofm") for axis in "xyc"}
_REGION = 0b111
_SIGN = 1 << 7  # 40-bit addresses, whose upper 8 bits are in the command's parameter


def refused_by_linux(payload: Payload) -> str:
    """Return why the driver rejects a payload's commands; "" if it accepts them."""
    used, indices = set(), set()
    for command in steps(unwrap(payload.commands), payload.npu.family):
        if command.name == "op_resize":
            return "RESIZE"
        if command.name in _STRIDES and command.value & _SIGN:
            return "a negative stride, as of a reversed axis"
        if command.name == "dma0_idx_region":
            indices.add(command.value & _REGION)
        elif command.name.endswith("_region"):
            used.add(command.value & _REGION)
    # The driver ignores the region of a gather's indices, and then rejects the buffer of a region that no other
    # command uses.
    return "" if indices <= used else "a gather or scatter whose indices lie in a region of their own"
