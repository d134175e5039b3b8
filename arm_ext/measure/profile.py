# SPDX-License-Identifier: Apache-2.0
"""The report of one inference on a virtual board: instruction counts and modelled cycles, but no times."""

from collections.abc import Sequence
from typing import Literal

from arm_ext.common.json_record import ClosedRecord
from arm_ext.common.npu_status import NpuStatus
from arm_ext.common.trace import Trace
from arm_ext.measure.classify import MAC_CLASSES, InsnClass
from arm_ext.measure.cycles import BlockCost, block_costs, instructions_by_class
from arm_ext.measure.mca import Mca
from schedules.cores import Core

NOTE = (
    "Counts are of an emulator, exact. Cycles are of a model (llvm-mca, all loads hit L1, all branches "
    "predicted): they compare builds for one core, and are no time on a board."
)
# The read data channel between a core and its interconnect is at most 256 bits wide (AMBA CHI, as in Neoverse
# N1 and the DynamIQ shared unit). A core gets a fraction of it from DRAM, so that the bound is a floor.
BUS_BYTES_PER_CYCLE = 32


class SymbolRow(ClosedRecord):
    """A row of the report: a kernel of model.so, or a library.

    Attributes:
        symbol: The kernel's or the library's name.
        image: "model.so", or the library.
        instructions: Executed instructions per inference.
        share: Share of all instructions.
        mac_share: Share of multiply-accumulate instructions among those of this row.
        estimated_cycles: Estimated cycles per inference.
    """

    symbol: str
    image: str
    instructions: int
    share: float
    mac_share: float
    estimated_cycles: int


class Bandwidth(ClosedRecord):
    """Memory traffic, which the cycle estimate leaves out.

    Attributes:
        bytes: Bytes of weights and activations from beyond L2 per inference; 0 if L2 holds them all.
        bound_cycles: `bytes` at BUS_BYTES_PER_CYCLE; no inference takes less.
        needed_bytes_per_cycle: Memory bandwidth for which the cycle estimate holds.
    """

    bytes: int
    bound_cycles: int
    needed_bytes_per_cycle: float


class CountReport(ClosedRecord):
    """Counts of one warm inference on one thread.

    Attributes:
        instructions: Executed instructions between the call of the model and its return.
        macs: Multiply-accumulates of the model, from its manifest.
        macs_per_instruction: `macs` divided by `instructions`.
        classes: Share of each instruction class that occurs, largest first.
        mac_share: Share of all multiply-accumulate classes together.
        core: The core that the cycles are estimated for.
        model: The scheduling model that stands for the core, and its source ("neoverse-n1 of llvm-mca
            19.1.7").
        estimated_cycles: Estimated cycles per inference.
        unmodelled_share: Share of instructions that the model has no data for.
        bandwidth: Memory traffic, a bound beside the estimated cycles.
        symbols: Kernels and libraries, those with the most instructions first.
        npu: Where the NPU's regions were computed.
        note: Caveat of the figures.
    """

    schema_version: Literal[1] = 1
    kind: Literal["counts"] = "counts"
    threads: Literal[1] = 1
    instructions: int
    macs: int
    macs_per_instruction: float
    classes: dict[InsnClass, float]
    mac_share: float
    core: str
    model: str
    estimated_cycles: int
    unmodelled_share: float
    bandwidth: Bandwidth
    symbols: list[SymbolRow]
    npu: NpuStatus | None = None
    note: str = NOTE


def profile(trace: Trace, core: Core, mca: Mca, *, macs: int, working_set: int) -> CountReport:
    """Count the instructions of one inference, and estimate its cycles on the core.

    Args:
        trace: Trace of one inference.
        core: Core to estimate cycles for.
        mca: The llvm-mca that estimates cycles.
        macs: Multiply-accumulates of the model.
        working_set: Bytes of weights and peak activations.
    """
    costs = block_costs(trace.blocks, core, mca)
    total = trace.instructions
    cycles = sum(cost.cycles for cost in costs)
    classes = instructions_by_class(costs)
    streamed = working_set if working_set > core.l2.size else 0
    return CountReport(
        instructions=total,
        macs=macs,
        macs_per_instruction=macs / total,
        classes={kind: count / total for kind, count in classes.most_common()},
        mac_share=sum(classes[kind] for kind in MAC_CLASSES) / total,
        core=core.name,
        model=f"{core.mca_cpu} of llvm-mca {mca.version}",
        estimated_cycles=round(cycles),
        unmodelled_share=sum(cost.unmodelled for cost in costs) / total,
        bandwidth=Bandwidth(
            bytes=streamed,
            bound_cycles=round(streamed / BUS_BYTES_PER_CYCLE),
            needed_bytes_per_cycle=streamed / cycles,
        ),
        symbols=_rows(costs, total),
    )


def _rows(costs: Sequence[BlockCost], total: int) -> list[SymbolRow]:
    groups: dict[tuple[str, str], list[BlockCost]] = {}
    for cost in costs:
        groups.setdefault((cost.block.symbol, cost.block.image), []).append(cost)
    rows = []
    for (symbol, image), group in groups.items():
        instructions = sum(cost.block.instructions for cost in group)
        classes = instructions_by_class(group)
        rows.append(
            SymbolRow(
                symbol=symbol,
                image=image,
                instructions=instructions,
                share=instructions / total,
                mac_share=sum(classes[kind] for kind in MAC_CLASSES) / instructions,
                estimated_cycles=round(sum(cost.cycles for cost in group)),
            )
        )
    return sorted(rows, key=lambda row: (-row.instructions, row.symbol))
