# SPDX-License-Identifier: Apache-2.0
"""The Ethos-U accelerators that --npu supports, as data.

Micro-block shapes, shared-RAM sizes and weight streams: Vela 5.2, regor/architecture/{ethosu55,ethosu65,ethosu85}.
"""

from dataclasses import dataclass
from typing import Literal

from arm_ext.common.errors import UsageError
from arm_ext.common.names import near

Family = Literal["u55", "u65", "u85"]

# Defaults of ExecuTorch's Arm backend, by family: system configuration and memory mode of Vela's
# own vela.ini.
DEFAULT_SYSTEM = {
    "u55": ("Ethos_U55_High_End_Embedded", "Shared_Sram"),
    "u65": ("Ethos_U65_High_End", "Dedicated_Sram_384KB"),
    "u85": ("Ethos_U85_SYS_DRAM_Mid", "Sram_Only"),
}

_PRODUCTS: dict[Family, int] = {"u55": 0, "u65": 1, "u85": 2}


@dataclass(frozen=True)
class Accelerator:
    """One configuration of an Ethos-U.

    Attributes:
        name: Name for --npu, such as "ethos-u65-512".
        family: Family, which has one instruction set and numerics, such as "ethos-u65".
        macs: 8-bit multiply-accumulates a cycle, over all cores.
        cores: MAC engines that share the output channels (2 on U65-512 alone).
        weight_streams: Compressed streams that an operation's weights are split into (at most).
        ofm_ublock_depth: Output channels of a micro-block; 0 on U85, where an operation chooses its micro-block.
        shram_kib: KiB of shared RAM a core, whose last 2 KiB hold look-up tables; on U85 the 2 KiB of table RAM.
    """

    name: str
    family: Family
    macs: int
    cores: int
    weight_streams: int
    ofm_ublock_depth: int
    shram_kib: int

    @property
    def vela_name(self) -> str:
        """Name of the family in Vela's in-process compiler."""
        return f"Ethos{self.family.upper()}"

    @property
    def system_config(self) -> str:
        """Vela's default system configuration."""
        return DEFAULT_SYSTEM[self.family][0]

    @property
    def memory_mode(self) -> str:
        """Vela's default memory mode."""
        return DEFAULT_SYSTEM[self.family][1]

    @property
    def has_linux_driver(self) -> bool:
        """Whether mainline Linux has a driver for it (drivers/accel/ethosu, from 6.19 on): for U65 and U85."""
        return self.family != "u55"

    def matches_config(self, word: int) -> bool:
        """Whether a CONFIG register value (as in a command stream's header) belongs to this accelerator.

        Bits 0-3 hold log2 of the MACs a cycle, bits 28-31 the product.
        """
        return 1 << (word & 0xF) == self.macs and word >> 28 == _PRODUCTS[self.family]


ACCELERATORS: dict[str, Accelerator] = {
    a.name: a
    for a in (
        Accelerator("ethos-u55-32", "u55", 32, 1, 1, 4, 16),
        Accelerator("ethos-u55-64", "u55", 64, 1, 1, 8, 16),
        Accelerator("ethos-u55-128", "u55", 128, 1, 1, 8, 24),
        Accelerator("ethos-u55-256", "u55", 256, 1, 1, 8, 48),
        Accelerator("ethos-u65-256", "u65", 256, 1, 1, 8, 48),
        Accelerator("ethos-u65-512", "u65", 512, 2, 2, 8, 48),
        Accelerator("ethos-u85-128", "u85", 128, 1, 1, 0, 2),
        Accelerator("ethos-u85-256", "u85", 256, 1, 1, 0, 2),
        Accelerator("ethos-u85-512", "u85", 512, 1, 2, 0, 2),
        Accelerator("ethos-u85-1024", "u85", 1024, 1, 4, 0, 2),
        Accelerator("ethos-u85-2048", "u85", 2048, 1, 4, 0, 2),
    )
}


def resolve_npu(name: str) -> Accelerator:
    """Return the accelerator with a name.

    Raises:
        UsageError: No accelerator has this name; the message lists near ones.
    """
    if name not in ACCELERATORS:
        raise UsageError(f"unknown accelerator {name!r}; {near(name, ACCELERATORS)}")
    return ACCELERATORS[name]
