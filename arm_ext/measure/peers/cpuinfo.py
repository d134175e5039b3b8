# SPDX-License-Identifier: Apache-2.0
"""The /proc/cpuinfo that a peer reads on the emulator, by which it picks its kernels.

qemu-user shows the host's. onnxruntime crashes at import on one without Arm's fields, and XNNPACK has kernels of its
own for single cores. What instructions there are both ask the emulator (AT_HWCAP).
"""

from arm_ext.board.info import ARM, ARM_PARTS

# One processor is enough: the peers run on one thread, and then read no further processors.
_TEXT = """\
processor\t: 0
Features\t: fp asimd
CPU implementer\t: {implementer:#x}
CPU architecture: 8
CPU variant\t: {variant:#x}
CPU part\t: {part:#x}
CPU revision\t: 0
"""
# Revision r0 of the Cortex-A55 is another core to XNNPACK's cpuinfo, one without dotprod; r2 is in the boards sold.
_VARIANTS = {"cortex-a55": 2}
# "generic-dotprod" is no real core; the peers see the core that QEMU emulates for it.
_STAND_INS = {"generic-dotprod": "cortex-a76"}


def cpuinfo(core: str) -> str:
    """Return the contents of /proc/cpuinfo for a core of `schedules.cores.CORES`."""
    name = _STAND_INS.get(core, core)
    part = next(part for part, known in ARM_PARTS.items() if known == name)
    return _TEXT.format(implementer=ARM, variant=_VARIANTS.get(name, 0), part=part)
