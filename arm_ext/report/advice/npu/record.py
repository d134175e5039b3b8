# SPDX-License-Identifier: Apache-2.0
"""`NpuAdvice`: estimated cost of a model on each Ethos-U, compared with the CPU alone."""

from typing import Literal

from pydantic import Field

from arm_ext.common.json_record import ClosedRecord
from arm_ext.report.advice.failure import Failure

Stopped = Literal["done", "budget", "interrupted"]


class Price(ClosedRecord):
    """Estimated cost of one inference, divided between NPU and CPU."""

    regions: int = Field(description="Parts of the model that the NPU runs.")
    operators: int = Field(description="Operators of the integer graph in them.")
    mac_share: float = Field(description="Share of the model's multiply-accumulates in them.")
    npu_cycles: int = Field(
        description="Cycles of the NPU by Vela's estimate, including those that wait for memory."
    )
    cpu_cycles: int = Field(
        description="Cycles of the CPU for the operators that stay there, by the kernels' formulas."
    )
    npu_us: float = Field(description="Microseconds of the NPU.")
    handover_us: float = Field(
        description="Microseconds of handing all regions over, and of copying their inputs and outputs."
    )
    cpu_us: float = Field(description="Microseconds of the CPU.")
    us: float = Field(description="Microseconds of the whole inference: the sum of the three above.")
    gain: float = Field(description="Share of the time on the CPU alone that is saved.")
    memories: dict[str, int] = Field(
        description="Memory → most bytes of it that the NPU has in use; several regions use the same bytes."
    )
    kept: str = Field(
        description="The reason that keeps the most multiply-accumulates on the CPU, or the most nodes if none has "
        "any."
    )

    @property
    def sram_bytes(self) -> int:
        """Bytes of SRAM."""
        return self.memories.get("Sram", 0)


class NpuPrice(ClosedRecord):
    """An accelerator with a clock and memories, and the estimated cost of the model on it."""

    accelerator: str = Field(description="Accelerator, as for --npu.")
    macs_per_cycle: int = Field(description="8-bit multiply-accumulates a cycle.")
    system_config: str = Field(description="Clock and memories, as for --system-config.")
    memory_mode: str = Field(description="Which data lies in which memory, as for --memory-mode.")
    npu_mhz: float = Field(description="Clock of the NPU.")
    cpu_mhz: float = Field(description="Clock of the CPU beside it.")
    price: Price | None = Field(default=None, description="Estimated cost; null if it is not known.")
    failure: Failure = Field(default="", description="Cause of the failure, if the cost is not known.")
    note: str = Field(default="", description="Why the cost is not known.")

    @property
    def family(self) -> str:
        """Return the family of the accelerator, such as "ethos-u55"."""
        return self.accelerator.rsplit("-", 1)[0]


class NpuAdvice(ClosedRecord):
    """Estimates of a model on each Ethos-U with each of Vela's system configurations and memory modes."""

    schema_version: Literal[1] = 1
    model: str = Field(description="Name of the model.")
    target: str = Field(description="Profile of the CPU.")
    core: str = Field(description="Core that the CPU's cycles are estimated for.")
    macs: int = Field(description="Multiply-accumulates of one inference.")
    cpu_cycles: int = Field(description="Cycles of one inference on the CPU alone, by the kernels' formulas.")
    handover_us: float = Field(
        description="Microseconds of one region's submission and completion, without copies."
    )
    vela: str = Field(description="Version of Vela.")
    stopped: Stopped = Field(description="Why it ended; what was not reached has no price.")
    prices: tuple[NpuPrice, ...] = Field(
        description="Prices in the order of accelerator, system configuration, memory mode."
    )
    note: str = Field(description="What the figures mean, and what they do not mean.")

    def fastest(self) -> list[NpuPrice]:
        """Return the fastest configuration of each family, among those whose NPU runs a part of the model."""
        best: dict[str, NpuPrice] = {}
        for each in self.prices:
            if each.price is not None and each.price.regions:
                other = best.get(each.family)
                if other is None or other.price is None or each.price.us < other.price.us:
                    best[each.family] = each
        return list(best.values())

    def failures(self) -> set[Failure]:
        """Return the causes for which costs of configurations are not known."""
        return {each.failure for each in self.prices} - {""}
