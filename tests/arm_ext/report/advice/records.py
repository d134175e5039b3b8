# SPDX-License-Identifier: Apache-2.0
"""Profiles and reports of a few calls, written by hand."""

from arm_ext.measure.call_costs import Bound
from arm_ext.report.calls import CallRow, KernelCall, OtherChoice
from arm_ext.report.profile.record import Around, Counts, ProfiledCall, ProfileReport
from arm_ext.report.report import CompileReport
from schedules.diagnostic import Diagnostic

CYCLES = 1000


def call(
    index: int,
    anchor: str,
    kernel: str,
    share: float,
    *,
    macs: int = 0,
    bound: Bound = "vector pipes",
    reads: tuple[int, ...] = (0,),
    of_limit: float = 1.0,
) -> ProfiledCall:
    """Return a call whose least cycles are `of_limit` of its cycles."""
    cycles = round(share * CYCLES)
    counts = Counts(
        instructions=cycles,
        estimated_cycles=cycles,
        cycles_with_caches=cycles,
        limit_cycles=round(of_limit * cycles),
        bound=bound,
        parts={bound: cycles},
        moved_bytes=0,
        l2_bytes=0,
        memory_bytes=0,
        classes={},
        hot=None,
    )
    return ProfiledCall(
        index=index,
        symbol=anchor,
        anchor=anchor,
        sources=(anchor,),
        operators=(),
        output="1x4 float32",
        kernel=kernel,
        macs=macs,
        bytes=0,
        written=0,
        reads=reads,
        share=share,
        counts=counts,
    )


def profile_of(*calls: ProfiledCall) -> ProfileReport:
    return ProfileReport(
        kind="counts",
        model="m",
        target="cortex-a76",
        board="virtual",
        core="cortex-a76",
        cycles_with_caches=CYCLES,
        macs=1,
        peak_bytes=1,
        weight_bytes=1,
        calls=calls,
        around=Around(share=0),
        note="",
    )


def kernel_of(
    found: ProfiledCall, numerics: str, cost: int | None = None, other: tuple[str, int] | None = None
) -> KernelCall:
    others = () if other is None else (OtherChoice(kernel=other[0], params={}, selection_cost=other[1]),)
    return KernelCall(
        symbol=found.symbol,
        sources=found.sources,
        kernel=found.kernel,
        numerics=numerics,
        reason="",
        selection_cost=cost,
        others=others,
    )


def report_of(
    *kernels: KernelCall, moves: tuple[str, ...] = (), left_float: tuple[Diagnostic, ...] = ()
) -> CompileReport:
    rows = tuple(
        CallRow(
            symbol=kernel.symbol,
            anchor=kernel.symbol,
            sources=kernel.sources,
            operators=(),
            output="",
            kernel=kernel.kernel,
            macs=0,
            selection_cost=0,
            cycles_with_caches=0,
            bytes=0,
            moves=kernel.symbol in moves,
        )
        for kernel in kernels
    )
    return CompileReport(
        model="m", target="cortex-a76", macs=1, nodes=(), kernels=kernels, calls=rows, left_float=left_float
    )
