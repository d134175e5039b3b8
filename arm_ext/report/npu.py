# SPDX-License-Identifier: Apache-2.0
"""The NPU's part of the CompileReport: regions, and the reason why each other node stays on the CPU."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal

from pydantic import ConfigDict, Field

from arm_ext.common.json_record import JsonRecord
from arm_ext.common.text import columns, counted
from schedules.diagnostic import Diagnostic

Where = Literal["cpu", "npu", "cpu+npu"]


DRIVEN = (
    "model.so runs its regions on the NPU through Linux's driver accel/ethosu (Linux 6.19 and later) where there is "
    "one, and on the CPU elsewhere, with the same bytes out."
)
UNDRIVEN = (
    "Linux has no driver for it: model.so computes its regions on the CPU. arm-ext export-payload writes them for bare "
    "metal."
)


class _NpuRecord(JsonRecord):
    model_config = ConfigDict(allow_inf_nan=False)


class NpuLayer(_NpuRecord):
    """Vela's estimate for one scheduled operation, under Vela's name."""

    operator: str = Field(description="Vela's name of the operation.")
    sources: tuple[str, ...] = Field(
        description="Source nodes computed in it; empty for copies of Vela's own."
    )
    cycles: int = Field(description="Cycles of the NPU by Vela's estimate, waiting for memory included.")
    npu_cycles: int = Field(description="Cycles of the NPU by Vela's estimate, without waiting for memory.")
    macs: int = Field(description="Multiply-accumulates, as Vela counts them.")
    staging_bytes: int = Field(description="Bytes of fast memory in use meanwhile.")


class NpuMemoryUse(_NpuRecord):
    """Peak bytes of one memory of the system, and cycles that its accesses take."""

    name: str = Field(description="Name of the memory, such as Sram.")
    peak_bytes: int = Field(description="Most bytes in use.")
    access_cycles: int = Field(description="Cycles that its accesses take.")


class NpuBorder(_NpuRecord):
    """A tensor that a region reads from outside, or that is read outside of it."""

    way: Literal["in", "out"] = Field(
        description='"in" if the region reads a tensor from outside, "out" if its tensor is read outside.'
    )
    sources: tuple[str, ...] = Field(
        description="Source nodes on the other side; empty for inputs and outputs of the model."
    )
    reason: str = Field(description="Why these nodes are outside.")


class NpuSparsity(_NpuRecord):
    """Use of 2:4 sparse weights in a region, which run at up to twice the rate."""

    sources: tuple[str, ...] = Field(description="Source nodes whose weights are 2:4.")
    commands: int = Field(description="Convolution commands that take weights in the sparse format.")
    convolutions: int = Field(description="Convolution commands in all.")
    dense_cycles: int = Field(description="Value of `cycles` if these weights were dense.")
    dense_npu_cycles: int = Field(description="Value of `npu_cycles` if these weights were dense.")


class NpuRegion(_NpuRecord):
    """Source nodes that run on the NPU at one go."""

    index: int = Field(description="Number of the region in the package.")
    sources: tuple[str, ...] = Field(description="Source nodes computed in it.")
    operators: tuple[str, ...] = Field(description="Operators of the integer graph in the region.")
    macs: int = Field(description="Multiply-accumulates.")
    cycles: int = Field(description="Cycles of the NPU by Vela's estimate, waiting for memory included.")
    npu_cycles: int = Field(description="Cycles of the NPU by Vela's estimate, without waiting for memory.")
    npu_us: float = Field(
        description="Estimated microseconds of one inference on the NPU, the hand-over included."
    )
    cpu_us: float = Field(description="Estimated microseconds of one inference on the CPU alone.")
    memories: tuple[NpuMemoryUse, ...] = Field(description="Use of each memory of the system.")
    layers: tuple[NpuLayer, ...] = Field(description="Vela's operations in execution order.")
    borders: tuple[NpuBorder, ...] = Field(
        description="Tensors that cross the region's border, and why it ends there."
    )
    sparsity: NpuSparsity | None = Field(
        default=None, description="2:4 sparse weights of the region, on Ethos-U85; null if there are none."
    )
    refused_by_linux: str = Field(
        default="",
        description="Commands of the region that Linux's driver refuses, so that the CPU computes it on Linux; else "
        "empty.",
    )


class Reason(_NpuRecord):
    """A reason, how many source nodes it keeps on the CPU, and their share of the model's MACs."""

    reason: str = Field(description="Why operators stay on the CPU.")
    operators: tuple[str, ...] = Field(
        description="Kinds of the operators that stay on the CPU for this reason."
    )
    nodes: int = Field(description="Number of source nodes.")
    mac_share: float = Field(
        description="Share of the model's multiply-accumulates in these nodes, from 0 to 1."
    )


class NpuReport(_NpuRecord):
    """The division of a model between CPU and NPU, and the clocks and hand-over by which regions were weighed."""

    accelerator: str = Field(description="Name of the NPU.")
    linux_driver: bool = Field(
        description="Whether Linux has a driver for it; without, model.so computes everything on the CPU."
    )
    vela: str = Field(description="Version of Vela.")
    system_config: str = Field(description="Vela's system configuration: clock and memories.")
    memory_mode: str = Field(description="Vela's memory mode: what lies in which memory.")
    cpu_mhz: float = Field(description="Clock of the CPU in MHz that regions were weighed by.")
    npu_mhz: float = Field(description="Clock of the NPU in MHz that regions were weighed by.")
    handover_us: float = Field(description="Microseconds of one hand-over between CPU and NPU.")
    regions: tuple[NpuRegion, ...] = Field(description="The parts of the model that the NPU runs.")
    rejections: tuple[Diagnostic, ...] = Field(
        description="Operators that stay on the CPU, and why: the limit is what the NPU allows; `unfit` marks those "
        "that only convert between float and integers at an end of the model."
    )
    reasons: tuple[Reason, ...] = Field(
        description="The reasons of the rejections, those with the greatest share of multiply-accumulates first."
    )

    def where(self, source: str) -> tuple[Where, str]:
        """Return where a source node is computed, and the NPU region or the reason why it is not on the NPU."""
        regions = ", ".join(
            f"NPU region {region.index}" for region in self.regions if source in region.sources
        )
        kept = dict.fromkeys(f.why() for f in self.rejections if source in f.nodes)
        why = f"not {self.accelerator}: {'; '.join(kept)}" if kept else ""
        if regions:
            return ("cpu+npu" if kept else "npu"), "; ".join(filter(None, [regions, why]))
        return "cpu", why or f"not {self.accelerator}: part of no operator that it has"

    def summary(self) -> str:
        """Return "ethos-u55-128: 1 region of 12 operators, 91,288 cycles; 1 operator on the CPU"."""
        operators = sum(len(region.operators) for region in self.regions)
        cycles = sum(region.cycles for region in self.regions)
        left = sum(not rejection.unfit for rejection in self.rejections)
        if not self.regions:
            return f"{self.accelerator}: nothing runs on it; {counted(left, 'operator')} on the CPU"
        regions = f"{counted(len(self.regions), 'region')} of {counted(operators, 'operator')}"
        kept = f"{counted(left, 'operator')} on the CPU"
        return f"{self.accelerator}: {regions}, {cycles:,} cycles by Vela's estimate; {kept}"


def fallback_name(index: int) -> str:
    """Return the name of the function by which the CPU computes a region."""
    return f"fallback_{index}"


def of_all(reports: Sequence[NpuReport], macs: Mapping[str, int]) -> NpuReport:
    """Return one report for all shapes of a package: all regions, and each rejection once.

    Args:
        reports: Reports of the shapes, at least one; regions are numbered across all of them.
        macs: As for `reasons_of`.
    """
    regions = tuple(region for report in reports for region in report.regions)
    rejections = tuple(dict.fromkeys(rejection for report in reports for rejection in report.rejections))
    covered = {node for region in regions for node in region.sources}
    changed = {"regions": regions, "rejections": rejections, "reasons": reasons_of(rejections, macs, covered)}
    return reports[0].model_copy(update=changed)


def mac_share(regions: Iterable[NpuRegion], macs: Mapping[str, int]) -> float:
    """Return the share of a model's MACs that regions compute, from 0 to 1.

    Args:
        regions: The regions; `NpuRegion.macs` is Vela's count, which has those of pools, too.
        macs: Source node → multiply-accumulates of the model.
    """
    covered = {node for region in regions for node in region.sources}
    return sum(macs.get(node, 0) for node in covered) / (sum(macs.values()) or 1)


def reason_table(reasons: Sequence[Reason]) -> list[str]:
    """Render reasons as a table."""
    rows = [(str(r.nodes), f"{100 * r.mac_share:.1f}", ", ".join(r.operators), r.reason) for r in reasons]
    return columns([("nodes", "MAC %", "operators", "reason"), *rows])


def reasons_of(
    rejections: Sequence[Diagnostic], macs: Mapping[str, int], regions: Collection[str]
) -> tuple[Reason, ...]:
    """Return rejections grouped by reason, the reason with the largest share of MACs first.

    Args:
        rejections: Operators that stay on the CPU.
        macs: Source node → multiply-accumulates.
        regions: Source nodes that the NPU computes; of nodes that are on both sides the NPU has the MACs.
    """
    total = sum(macs.values()) or 1
    groups: dict[str, list[Diagnostic]] = {}
    for rejection in rejections:
        groups.setdefault(rejection.reason, []).append(rejection)
    found = []
    for reason, group in groups.items():
        nodes = {node for rejection in group for node in rejection.nodes}
        kept = sum(macs.get(node, 0) for node in nodes if node not in regions)
        operators = tuple(sorted({rejection.operator for rejection in group}))
        found.append(Reason(reason=reason, operators=operators, nodes=len(nodes), mac_share=kept / total))
    return tuple(sorted(found, key=lambda reason: (-reason.mac_share, -reason.nodes, reason.reason)))
