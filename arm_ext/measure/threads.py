# SPDX-License-Identifier: Apache-2.0
"""Instructions of each thread in one inference on a virtual board, by kernel."""

from collections.abc import Sequence
from typing import Literal

from arm_ext.common.json_record import ClosedRecord
from arm_ext.common.npu_status import NpuStatus
from arm_ext.common.trace import Trace

NOTE = (
    "Counts are of an emulator, exact, of code in model.so alone: the runtime's threads wait in loops of the "
    "runtime. A kernel on one thread is one that is too small to gain from more."
)


class ThreadRow(ClosedRecord):
    """Distribution of a kernel's instructions over threads.

    Attributes:
        symbol: Symbol of the kernel.
        by_thread: Instructions of each thread, the caller's first.
        share: Share of all instructions in model.so.
        spread: Instructions by which the least busy thread is below the busiest, as a share of the busiest's; None if
            the kernel runs on one thread.
    """

    symbol: str
    by_thread: list[int]
    share: float
    spread: float | None


class ThreadReport(ClosedRecord):
    """Instructions of one warm inference, by thread and kernel.

    Attributes:
        threads: Number of threads that the runtime has.
        instructions: Instructions of model.so, of all threads.
        critical_instructions: Those of the busiest thread of each kernel: what has to run one after the other. What it
            takes to wake threads is not in it.
        by_thread: Instructions of model.so by thread.
        elapsed_instructions: Instructions of the calling thread from begin to end of the inference, those of the
            runtime and those while the thread waits for others among them.
        parallel_share: Share of the instructions that belong to kernels which ran on several threads.
        kernels: Kernels, those with the most instructions first.
        npu: Where the NPU's regions were computed.
        note: Caveat of the figures.
    """

    schema_version: Literal[3] = 3
    kind: Literal["threads"] = "threads"
    threads: int
    instructions: int
    critical_instructions: int
    by_thread: list[int]
    elapsed_instructions: int
    parallel_share: float
    kernels: list[ThreadRow]
    npu: NpuStatus | None = None
    note: str = NOTE


def thread_report(trace: Trace, threads: int) -> ThreadReport:
    """Attribute the instructions of a trace to threads and kernels.

    Args:
        trace: Trace of a board that counts threads apart.
        threads: Number of threads that the runtime has.
    """
    assert trace.elapsed is not None, "threads were not counted apart"
    total = sum(map(sum, trace.by_thread.values()))
    rows = [
        ThreadRow(
            symbol=symbol, by_thread=[*counts], share=sum(counts) / total, spread=_spread(counts, threads)
        )
        for symbol, counts in trace.by_thread.items()
    ]
    return ThreadReport(
        threads=threads,
        instructions=total,
        critical_instructions=sum(max(counts) for counts in trace.by_thread.values()),
        by_thread=[sum(column) for column in zip(*trace.by_thread.values(), strict=True)],
        elapsed_instructions=trace.elapsed,
        parallel_share=sum(row.share for row in rows if row.spread is not None),
        kernels=sorted(rows, key=lambda row: (-row.share, row.symbol)),
    )


def _spread(counts: Sequence[int], threads: int) -> float | None:
    if sum(map(bool, counts)) == 1:
        return None
    # A thread without work has run no code of the model, and so has no entry in `counts`.
    least = min(counts) if len(counts) == threads else 0
    return 1 - least / max(counts)
