# SPDX-License-Identifier: Apache-2.0
"""`ProfileReport`: what each kernel call of one inference costs, by the source model's nodes."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from typing import Literal

from pydantic import Field

from arm_ext.common.json_record import ClosedJsonRecord
from arm_ext.common.npu_status import NpuStatus
from arm_ext.measure.call_costs import Bound
from arm_ext.report.calls import CallRow


class HotLoop(ClosedJsonRecord):
    """The block of instructions in a call that takes most cycles."""

    executions: int = Field(description="Number of executions in one call.")
    estimated_cycles: int = Field(description="Estimated cycles of all executions.")
    instructions: tuple[str, ...] = Field(description="Disassembled instructions in order.")


class Counts(ClosedJsonRecord):
    """Cost of a call on a virtual board: counts of an emulator, and cycles of a model."""

    instructions: int = Field(description="Executed instructions, exact.")
    estimated_cycles: int = Field(
        description="Estimated cycles: those of the executed blocks by llvm-mca, as if all loads hit L1."
    )
    cycles_with_caches: int = Field(
        description="Estimated cycles plus the cycles that transfer cache lines from L2 and memory."
    )
    limit_cycles: int = Field(
        description="Least cycles for these instructions and lines in any order: the busiest of dispatch, vector pipes "
        "and the buses to L2 and memory."
    )
    bound: Bound = Field(description="What takes most of the cycles, the first of `parts`.")
    parts: dict[Bound, int] = Field(
        description="Cycles by what takes them, most first, `cycles_with_caches` in all; see docs/guides/profiling.md."
    )
    moved_bytes: int = Field(description="Bytes that loads and stores read and wrote.")
    l2_bytes: int = Field(description="Bytes of the cache lines that L1 fetched.")
    memory_bytes: int = Field(description="Bytes of the cache lines that L2 fetched.")
    classes: dict[str, int] = Field(description="Executed instructions by class, most first.")
    hot: HotLoop | None = Field(description="The block that takes most of the cycles.")
    busiest: float | None = Field(
        default=None,
        description="Share of the kernel's instructions that its busiest thread executes, of a profile on several.",
    )

    @property
    def critical_cycles(self) -> int:
        """`cycles_with_caches` of the busiest thread: with its share of the instructions, and so of the cycles."""
        return round(self.cycles_with_caches * (1 if self.busiest is None else self.busiest))


class Times(ClosedJsonRecord):
    """Times of a call on a real board."""

    median_us: float = Field(
        description="Microseconds, the median of all runs, without the time of the clock itself."
    )
    spread: float = Field(description="Interquartile range of the runs over their median.")
    counters: dict[str, int] = Field(
        default={}, description="Hardware counters by name, the median of runs of their own."
    )


class KernelOption(ClosedJsonRecord):
    """Another kernel that could compute a call, or the same kernel with other parameters."""

    kernel: str = Field(description="Name of the kernel.")
    params: str = Field(default="", description="Parameters that differ, if it is the same kernel.")
    selection_cost: int = Field(description="Cycles of one call by the formula that kernels are chosen by.")
    ratio: float = Field(description="`selection_cost` over the chosen kernel's.")


class ProfiledCall(ClosedJsonRecord):
    """A kernel call, in execution order."""

    index: int = Field(description="Position in the order of execution, from 0.")
    symbol: str = Field(description="Function of model.so.")
    anchor: str = Field(description="Source node that names the call.")
    sources: tuple[str, ...] = Field(description="Every source node computed in the call.")
    operators: tuple[str, ...] = Field(description="Operators fused into the call, besides the anchor's.")
    output: str = Field(description="Shape and element type of the result.")
    kernel: str = Field(description="Kernel or family of loops.")
    macs: int = Field(description="Multiply-accumulates.")
    bytes: int = Field(description="Bytes of operands and results, each once.")
    written: int = Field(description="Bytes of the results.")
    reads: tuple[int, ...] = Field(description="Calls whose results it reads, by index.")
    function: str = Field(
        default="", description="Part of the model, such as a branch; empty is the main part."
    )
    why: tuple[tuple[str, str], ...] = Field(
        default=(),
        description="Explanations of the choice of kernel: its reason, and which kernels declined, and why.",
    )
    alternatives: tuple[KernelOption, ...] = Field(
        default=(), description="Kernels that could compute the call instead, best first."
    )
    share: float = Field(
        description="Share of the whole inference: of cycles with caches on a virtual board, of time on a real one."
    )
    counts: Counts | None = Field(default=None, description="Cost on a virtual board.")
    times: Times | None = Field(default=None, description="Cost on a real board.")


class Around(ClosedJsonRecord):
    """Cost between kernel calls: `main` and the runtime functions that it calls."""

    instructions: int | None = Field(default=None, description="Executed instructions, on a virtual board.")
    cycles_with_caches: int | None = Field(
        default=None, description="Estimated cycles, on a virtual board; caches are counted in calls alone."
    )
    us: float | None = Field(
        default=None, description="Microseconds of the whole inference without its calls, on a real board."
    )
    share: float = Field(description="Share of the whole inference.")


class Roof(ClosedJsonRecord):
    """Peak performance of a core."""

    name: str = Field(description='Multiply-accumulate instruction, such as "sdot".')
    macs_per_cycle: float = Field(
        description="Multiply-accumulates per cycle with all vector pipes busy with the instruction."
    )


class Limits(ClosedJsonRecord):
    """The roofline of the core that cycles are estimated for."""

    roofs: tuple[Roof, ...] = Field(
        description="One roof for each multiply-accumulate instruction that the model uses."
    )
    l2_bytes_per_cycle: float = Field(description="Bytes per cycle from L2 to L1.")
    memory_bytes_per_cycle: float = Field(description="Bytes per cycle from memory to L2.")
    l1d_bytes: int = Field(description="Size of the L1 data cache.")
    l2_bytes: int = Field(description="Size of L2.")


class NpuRegionCost(ClosedJsonRecord):
    """A region for an NPU, by Vela's estimate."""

    index: int = Field(description="Number of the region.")
    sources: tuple[str, ...] = Field(description="Source nodes computed in the region.")
    cycles: int = Field(description="Cycles of the NPU, including those that wait for memory.")
    us: float = Field(
        description="Microseconds at the clock that the package was compiled for, with the hand-over."
    )
    cpu_us: float = Field(description="Microseconds of the CPU's fallback at its clock, by estimate.")
    cpu_clock_cycles: int = Field(description="`us` in cycles of the CPU's clock.")


class BrokenOff(ClosedJsonRecord):
    """The reason why a measurement ended early, such as a lost board, and how much of it was done."""

    why: str = Field(description="What ended it.")
    measured: int = Field(description="How many were measured.")
    planned: int = Field(description="How many would have been.")
    unit: Literal["calls", "inferences"] = Field(
        description="What is counted: calls of one inference on a virtual board, inferences on a real one."
    )

    def text(self) -> str:
        """Return a text for the table: how much was measured, and why measuring ended."""
        return f"{self.measured} of {self.planned} {self.unit} measured: {self.why}"


class ProfileReport(ClosedJsonRecord):
    """One warm inference on one thread of a virtual board, or the median of several on a real one."""

    schema_version: Literal[2] = Field(default=2, description="Version of this schema.")
    kind: Literal["counts", "times"] = Field(
        description='"counts" from a virtual board, "times" from a real one.'
    )
    model: str = Field(description="Name of the model.")
    target: str = Field(description="Profile that it was compiled for.")
    board: str = Field(description="Board as the user named it.")
    core: str = Field(description="Core of the board, or the one that cycles are estimated for.")
    instructions: int | None = Field(
        default=None, description="Executed instructions of the whole inference."
    )
    cycles_with_caches: int | None = Field(
        default=None, description="Cycles with caches of the whole inference, on a virtual board."
    )
    threads: int = Field(
        default=1, description="Threads that `busiest` of the calls is of, on a virtual board."
    )
    critical_cycles: int | None = Field(
        default=None,
        description="Cycles with caches of each call's busiest thread and those between calls, of a profile on several "
        "threads; what it takes to wake threads is not in them.",
    )
    median_us: float | None = Field(
        default=None, description="Microseconds of the whole inference when calls are not timed."
    )
    runs: int = Field(default=1, description="Inferences that each figure is the median of.")
    macs: int = Field(description="Multiply-accumulates of one inference.")
    peak_bytes: int = Field(description="Most bytes of activations at a time.")
    weight_bytes: int = Field(description="Bytes of all constants.")
    calls: tuple[ProfiledCall, ...] = Field(description="Kernel calls in execution order.")
    around: Around = Field(description="Cost between the kernel calls.")
    limits: Limits | None = Field(default=None, description="Peak rates of the core, on a virtual board.")
    conditions: dict[str, str] = Field(
        default={}, description="Conditions that times depend on: governor, temperature, threads, counters."
    )
    npu: NpuStatus | None = Field(default=None, description="Where the NPU's regions were computed.")
    npu_regions: tuple[NpuRegionCost, ...] = Field(
        default=(), description="Estimated costs of the NPU's regions."
    )
    broken_off: BrokenOff | None = Field(
        default=None, description="Why only a part was measured; totals and shares are then of this part."
    )
    note: str = Field(description="What the figures mean, and what they do not mean.")

    def costliest(self) -> list[ProfiledCall]:
        """Return the calls sorted by their share, largest first."""
        return sorted(self.calls, key=lambda call: (-call.share, call.index))


def executed_rows(symbols: Sequence[str], rows: Sequence[CallRow]) -> Iterator[CallRow]:
    """Yield the row of each executed call; a kernel's rows are repeated in order for each iteration of a loop.

    Args:
        symbols: Symbols of the calls, as executed.
        rows: Rows of the report, in the order of the program.
    """
    of_symbol: Mapping[str, list[CallRow]] = defaultdict(list)
    for row in rows:
        of_symbol[row.symbol].append(row)
    turns = {symbol: cycle(found) for symbol, found in of_symbol.items()}
    for symbol in symbols:
        yield next(turns[symbol]) if symbol in turns else _unknown(symbol)


def _unknown(symbol: str) -> CallRow:
    """Return a row for a call without a row in the report, such as a check of indices."""
    return CallRow(
        symbol=symbol,
        anchor=symbol,
        sources=(),
        operators=(),
        output="",
        kernel="-",
        macs=0,
        selection_cost=0,
        cycles_with_caches=0,
        bytes=0,
    )
