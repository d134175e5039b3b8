# SPDX-License-Identifier: Apache-2.0
"""The report of one inference on a virtual board: instruction counts and modelled cycles, but no times."""

from collections.abc import Sequence
from typing import Literal

from arm_ext.common.json_record import ClosedRecord
from arm_ext.common.npu_status import NpuStatus
from arm_ext.common.trace import Trace
from arm_ext.measure.classify import MAC_CLASSES, InsnClass
from arm_ext.measure.cycles import LINE_BYTES, BlockCost, block_costs, instructions_by_class, line_cycles
from arm_ext.measure.mca import Mca
from arm_ext.target.published_times import TimeInterval
from schedules.cores import Core

NOTE = (
    "Counts are of an emulator, exact. Cycles are of models (llvm-mca with all branches predicted, and caches without "
    "prefetching): they compare builds for one core, and are no time on a board. A time, where there is one, is an "
    "interval by times that others have published of other models on that board."
)


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
        cycles_with_caches: Estimated cycles per inference, those in which caches fetch included.
        estimated_cycles: The same as if all loads hit L1.
        unmodelled_share: Share of instructions that the model has no data for.
        l2_bytes: Bytes of the lines that L1 fetched from L2 or beyond, per inference.
        memory_bytes: Bytes of those among them that L2 fetched from memory.
        symbols: Kernels and libraries, those with the most instructions first.
        npu: Where the NPU's regions were computed.
        time: Time on the board that the package was compiled for, by estimate; None for a core without a board.
        note: Caveat of the figures.
    """

    schema_version: Literal[2] = 2
    kind: Literal["counts"] = "counts"
    threads: Literal[1] = 1
    instructions: int
    macs: int
    macs_per_instruction: float
    classes: dict[InsnClass, float]
    mac_share: float
    core: str
    model: str
    cycles_with_caches: int
    estimated_cycles: int
    unmodelled_share: float
    l2_bytes: int
    memory_bytes: int
    symbols: list[SymbolRow]
    npu: NpuStatus | None = None
    time: TimeInterval | None = None
    note: str = NOTE


def profile(trace: Trace, core: Core, mca: Mca, *, macs: int) -> CountReport:
    """Count the instructions of one inference, and estimate its cycles on the core.

    Args:
        trace: Trace of one inference on a board with the core's caches.
        core: Core to estimate cycles for.
        mca: The llvm-mca that estimates cycles.
        macs: Multiply-accumulates of the model.
    """
    costs = block_costs(trace.blocks, core, mca)
    total = trace.instructions
    cycles = sum(cost.cycles for cost in costs)
    classes = instructions_by_class(costs)
    l1_misses, l2_misses = trace.misses or (0, 0)
    return CountReport(
        instructions=total,
        macs=macs,
        macs_per_instruction=macs / total,
        classes={kind: count / total for kind, count in classes.most_common()},
        mac_share=sum(classes[kind] for kind in MAC_CLASSES) / total,
        core=core.name,
        model=f"{core.mca_cpu} of llvm-mca {mca.version}",
        cycles_with_caches=round(cycles + line_cycles(l1_misses, l2_misses)),
        estimated_cycles=round(cycles),
        unmodelled_share=sum(cost.unmodelled for cost in costs) / total,
        l2_bytes=l1_misses * LINE_BYTES,
        memory_bytes=l2_misses * LINE_BYTES,
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
