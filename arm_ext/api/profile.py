# SPDX-License-Identifier: Apache-2.0
"""`arm_ext.profile`: measures the cost of each kernel call of an inference, by the source model's nodes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from arm_ext.api.arguments import check_type, refuse_compiled
from arm_ext.api.bench import bound_inputs, core_of, running_on, time_of, traced, views_of
from arm_ext.api.compile import compile as compile_model
from arm_ext.api.options import Options, gathered
from arm_ext.board import Board, LoadedModel, check_cores, check_threads, conditions, open_board
from arm_ext.board.call_times import TimedCall, Watch
from arm_ext.board.foreign import warn_of_foreign
from arm_ext.board.spec import default_target, parse_spec
from arm_ext.common.cores import cores_text
from arm_ext.common.errors import ArmExtError, UsageError
from arm_ext.common.npu_status import NpuStatus
from arm_ext.common.scratch import temporary
from arm_ext.common.trace import Trace
from arm_ext.measure.call_costs import CallCost, call_costs, peak_macs_per_cycle
from arm_ext.measure.mca import Mca, find_mca
from arm_ext.measure.times import REPEATS, WARMUP, spread_of
from arm_ext.native.build import call_times_module
from arm_ext.package import AnyPackage, Package, package_of
from arm_ext.report.advice.failure import told
from arm_ext.report.calls import CallRow, KernelCall
from arm_ext.report.npu import NpuReport
from arm_ext.report.profile.record import (
    Around,
    BrokenOff,
    Counts,
    HotLoop,
    KernelOption,
    Limits,
    NpuRegionCost,
    ProfiledCall,
    ProfileReport,
    Roof,
    Times,
    executed_rows,
)
from arm_ext.report.report import CompileReport
from arm_ext.shapes.given import Given, static_shapes
from schedules.cores import Core
from schedules.kernels.common.cost_model import L2_BYTES_PER_CYCLE, MEMORY_BYTES_PER_CYCLE

STEPS = ("compile", "load", "measure")
"""Steps of `profile`, for a progress display."""

NOTE_COUNTS = (
    "Instructions are counted in an emulator and exact. Cycles are of models, llvm-mca and caches with least-recently-"
    "used replacement and no prefetching: they compare layers and builds for one core, and are no time on a "
    "board. A time, where there is one, is an interval by times that others have published of models on that board."
)
NOTE_TIMES = (
    "Times are of the board, of one inference after another; a call's leaves out what reading the clock takes. What is "
    "left of the whole without its calls is the runtime's and that of the clock between calls."
)

# Times are measured again until their spread is below _SPREAD, in at most _ROUNDS rounds.
_SPREAD = 0.03
_ROUNDS = 4
# Number of inferences whose calls are timed in one request to the board; if a request is interrupted, its times are
# lost.
_BATCH = 25
_MICRO = 1e6

Keep = Callable[[ProfileReport], None]
"""Function that takes the profile of what was measured before the measurement broke off."""

Loaded = Callable[[LoadedModel], None]
"""Function that takes the model on the board, before anything is measured."""


_TAKEN = frozenset({"shapes", "values", "trust", "plugins"})


def profile(
    model: AnyPackage,
    board: str = "virtual",
    options: Options | None = None,
    *,
    target: str | None = None,
    cores: Sequence[int] = (),
    threads: int | None = None,
    progress: Callable[[str], None] = lambda step: None,
    keep: Keep = lambda report: None,
    **more: Any,
) -> ProfileReport:
    """Measure each kernel call of one inference, on the self-test's inputs.

    A virtual board gives instructions, estimated cycles and traffic between caches. A real one gives times, and
    hardware counters where its kernel lets a program read them.

    Args:
        model: A package (its folder, opened, or what `compile` returned), or a model file, which is compiled first.
        board: Board to measure on, such as "virtual", "local", "ssh://user@host" or "host:port".
        options: Options in one record.
        target: Profile to compile a model file for; by default the board's, where its name is a profile.
        cores: Cores of a local board, that the inference may run on, with as many threads; by default all.
        threads: Threads of the runtime, on a board whose server is started here. With several on a virtual board, a
            second inference counts what each executes, and the profile says how many cycles of a call stay on its
            critical path.
        progress: Called with each of STEPS as it begins.
        keep: Called with what was measured so far, if anything, where the board goes away in the middle or
            KeyboardInterrupt ends the measurement; the error is raised afterwards.
        more: Options by keyword: `shapes`, those of a model file or which of a package's several to measure; for a
            model file `plugins`, `values` and `trust`, too.

    Raises:
        UsageError: No such package, model, shapes or board; a package with several shapes, none of which is chosen.
        ModelError: The model file cannot be compiled.
        EnvError: The board is out of reach or lacks a feature; no llvm-mca.
    """
    check_type("board", board, str)
    o = gathered("profile", Options, options, more, _TAKEN)
    check_cores(board, cores)
    check_threads(board, threads)
    progress("compile")
    with _compiled(model, board, target, o) as (package, fixed):
        found = profile_package(
            package, board, shapes=fixed, cores=cores, threads=threads, progress=progress, keep=keep
        )
        if threads is None or threads == 1 or found.kind != "counts":
            return found
        trace, _ = traced(_view(package, fixed), board, threads=threads)
        return _on_threads(found, trace, threads)


def profile_package(
    package: Package,
    board: str,
    *,
    shapes: Given | None = None,
    cores: Sequence[int] = (),
    threads: int | None = None,
    progress: Callable[[str], None] = lambda step: None,
    keep: Keep = lambda report: None,
    loaded: Loaded = lambda model: None,
) -> ProfileReport:
    """Measure each kernel call of one inference of a package; see `profile`.

    `loaded` is called with the model on the board, before anything is measured.
    """
    view = _view(running_on(package, board), shapes)
    report = view.report(CompileReport)
    progress("load")
    if parse_spec(board).kind == "virtual":
        return _counted(view, report, board, core_of(view), find_mca(), progress, keep, loaded)
    return _timed(view, report, board, cores, threads, progress, keep, loaded)


def _view(package: Package, shapes: Given | None) -> Package:
    """Return the package's bucket of the given shapes.

    Raises:
        UsageError: There is none, or several.
    """
    views = views_of(package, static_shapes(shapes, "profile"))
    if len(views) > 1:
        have = "; ".join(view.describe_inputs() for view in views)
        raise UsageError(f"--shape: the package has several shapes; name one of {have}")
    return views[0]


def _on_threads(profile: ProfileReport, trace: Trace, threads: int) -> ProfileReport:
    """Return a profile of one thread with the shares of each kernel's busiest thread, of a trace of several threads."""
    busiest = {symbol: max(counts) / sum(counts) for symbol, counts in trace.by_thread.items()}
    calls = [
        call.model_copy(
            update={"counts": call.counts.model_copy(update={"busiest": busiest.get(call.symbol, 1.0)})}
        )
        for call in profile.calls
        if call.counts is not None
    ]
    critical = sum(call.counts.critical_cycles for call in calls if call.counts is not None)
    critical += profile.around.cycles_with_caches or 0
    return profile.model_copy(update={"calls": tuple(calls), "threads": threads, "critical_cycles": critical})


@contextmanager
def _compiled(
    model: AnyPackage,
    board: str,
    target: str | None,
    options: Options,
) -> Iterator[tuple[Package, Given | None]]:
    """Yield the package to measure, and the shapes by which its bucket is chosen."""
    if not isinstance(model, str | Path) or not Path(model).is_file():
        of_files = {"--plugin": options.plugins, "--value": options.values, "--trust": options.trust}
        refuse_compiled({"--target": target, **of_files})
        yield package_of(model), options.shapes
        return
    with temporary() as folder:
        result = compile_model(model, target or default_target(board), folder / "model.armpkg", options)
        yield result.package, None


def _counted(
    package: Package,
    report: CompileReport,
    board: str,
    core: Core,
    mca: Mca,
    progress: Callable[[str], None],
    keep: Keep,
    loaded: Loaded,
) -> ProfileReport:
    reported = partial(_of_counts, package, report, board, core, mca)
    target = package.manifest.target
    with open_board(
        board,
        profile=target.profile,
        profile_cpu=target.qemu_cpu,
        counting=True,
        caches=(core.l1d.size, core.l2.size),
        calls=True,
    ) as opened:
        model = _load(opened, package)
        loaded(model)
        progress("measure")
        try:
            trace = model.count_calls(bound_inputs(package), steps=bool(package.manifest.states))
        except (ArmExtError, KeyboardInterrupt) as error:
            if (part := model.counted_so_far()) is not None:
                calls = sum(bool(section.symbol) for section in part.sections)
                # A loop makes more kernel calls than the report has rows.
                planned = max(calls, len(report.calls))
                keep(reported(part, broken_off=_broken_off(error, calls, planned, "calls")))
            raise
        npu = model.npu_status() if package.has_npu_regions else None
    return reported(trace, npu=npu)


def _broken_off(
    error: BaseException, measured: int, planned: int, unit: Literal["calls", "inferences"]
) -> BrokenOff:
    why = told(error)[1] if isinstance(error, Exception) else "it was interrupted"
    return BrokenOff(why=why, measured=measured, planned=planned, unit=unit)


def _of_counts(
    package: Package,
    report: CompileReport,
    board: str,
    core: Core,
    mca: Mca,
    trace: Trace,
    *,
    npu: NpuStatus | None = None,
    broken_off: BrokenOff | None = None,
) -> ProfileReport:
    costs = call_costs(trace.sections, core, mca)
    whole = sum(cost.cycles for cost in costs)
    own = [cost for cost in costs if cost.symbol]
    rows = executed_rows([cost.symbol for cost in own], report.calls)
    kernels = {kernel.symbol: kernel for kernel in report.kernels}
    around = [cost for cost in costs if not cost.symbol]
    around_cycles = sum(cost.cycles for cost in around)
    time = time_of(package, core, whole)
    return ProfileReport(
        kind="counts",
        **_of_package(package, report, board),
        core=core.name,
        instructions=trace.instructions,
        cycles_with_caches=round(whole),
        calls=tuple(
            _call(index, row, kernels.get(row.symbol), cost.cycles / whole, counts=_counts(cost))
            for index, (row, cost) in enumerate(zip(rows, own, strict=True))
        ),
        around=Around(
            instructions=sum(cost.instructions for cost in around),
            cycles_with_caches=round(around_cycles),
            share=around_cycles / whole,
        ),
        limits=_limits(own, core),
        conditions={
            **({} if time is None else {"time": time.text()}),
            "cycle model": f"{core.mca_cpu} of llvm-mca {mca.version}",
        },
        npu=npu,
        broken_off=broken_off,
        note=NOTE_COUNTS,
    )


def _load(board: Board, package: Package) -> LoadedModel:
    board.require(package.manifest.target.features, so=package.so)
    warn_of_foreign(package.path, package.manifest.so_sha256, board)
    return board.load(package.so, package.manifest.so_sha256)


def _of_package(package: Package, report: CompileReport, board: str) -> dict[str, Any]:
    """Return the fields of a profile that are taken from the package."""
    manifest = package.manifest
    return {
        "model": manifest.model.name,
        "target": manifest.target.profile,
        "board": board,
        "macs": manifest.macs,
        "peak_bytes": manifest.memory.peak_activation_bytes,
        "weight_bytes": manifest.memory.weight_bytes,
        "npu_regions": () if report.npu is None else tuple(_regions(report.npu)),
    }


def _regions(npu: NpuReport) -> Iterator[NpuRegionCost]:
    for region in npu.regions:
        yield NpuRegionCost(
            index=region.index,
            sources=region.sources,
            cycles=region.cycles,
            us=region.npu_us,
            cpu_us=region.cpu_us,
            cpu_clock_cycles=round(npu.cpu_mhz * region.npu_us),
        )


def _counts(cost: CallCost) -> Counts:
    hot = cost.hot
    return Counts(
        instructions=cost.instructions,
        estimated_cycles=round(cost.core_cycles),
        cycles_with_caches=round(cost.cycles),
        limit_cycles=round(cost.limit_cycles),
        bound=cost.bound,
        parts={name: round(cycles) for name, cycles in cost.parts.items()},
        moved_bytes=cost.moved_bytes,
        l2_bytes=cost.l2_bytes,
        memory_bytes=cost.memory_bytes,
        classes={str(kind): count for kind, count in cost.classes.most_common()},
        hot=None
        if hot is None
        else HotLoop(executions=hot.count, estimated_cycles=hot.cycles, instructions=hot.lines),
    )


def _call(
    index: int,
    row: CallRow,
    kernel: KernelCall | None,
    share: float,
    *,
    counts: Counts | None = None,
    times: Times | None = None,
) -> ProfiledCall:
    return ProfiledCall(
        index=index,
        symbol=row.symbol,
        anchor=row.anchor,
        sources=row.sources,
        operators=row.operators,
        output=row.output,
        kernel=row.kernel,
        macs=row.macs,
        bytes=row.bytes,
        written=row.written,
        reads=row.reads,
        function=row.function,
        why=() if kernel is None else _why(kernel),
        alternatives=() if kernel is None else _alternatives(kernel),
        share=share,
        counts=counts,
        times=times,
    )


def _why(kernel: KernelCall) -> tuple[tuple[str, str], ...]:
    chosen = [("chosen", kernel.reason)] if kernel.reason else []
    return (*chosen, *((f"{other.asked} declined", other.why()) for other in kernel.rejected))


def _alternatives(kernel: KernelCall) -> tuple[KernelOption, ...]:
    """Return the other kernels that support the workload.

    If there are none, the best other parameters of the same kernel.
    """
    cost = kernel.selection_cost
    return tuple(
        KernelOption(
            kernel=other.kernel,
            params=other.describe_params() if other.kernel == kernel.kernel else "",
            selection_cost=other.selection_cost,
            ratio=other.selection_cost / cost,
        )
        for other in kernel.other_kernels or kernel.others[:1]
        if cost
    )


def _limits(costs: Sequence[CallCost], core: Core) -> Limits:
    roofs = peak_macs_per_cycle(costs, core)
    return Limits(
        roofs=tuple(Roof(name=str(kind), macs_per_cycle=macs) for kind, macs in roofs.items()),
        l2_bytes_per_cycle=L2_BYTES_PER_CYCLE,
        memory_bytes_per_cycle=MEMORY_BYTES_PER_CYCLE,
        l1d_bytes=core.l1d.size,
        l2_bytes=core.l2.size,
    )


def _timed(
    package: Package,
    report: CompileReport,
    board: str,
    cores: Sequence[int],
    threads: int | None,
    progress: Callable[[str], None],
    keep: Keep,
    loaded: Loaded,
) -> ProfileReport:
    steps = bool(package.manifest.states)
    kernels = {kernel.symbol: kernel for kernel in report.kernels}
    whole: list[float] = []
    batches: list[list[TimedCall]] = []
    with open_board(board, cores=cores, threads=threads) as opened:
        model = _load(opened, package)
        loaded(model)
        reported = partial(_of_times, package, report, board, opened.info.cpu)
        progress("measure")
        inputs, module = bound_inputs(package), call_times_module(opened.info.machine)
        planned = 0
        try:
            while planned < _ROUNDS * REPEATS and (not planned or spread_of(whole) > _SPREAD):
                planned += REPEATS
                whole += model.time(inputs, repeats=REPEATS, warmup=WARMUP, steps=steps)
                while len(batches) * _BATCH < planned:
                    watch, calls = model.time_calls(inputs, module, list(kernels), runs=_BATCH, steps=steps)
                    batches.append(calls)
            counting, counted = model.time_calls(
                inputs, module, list(kernels), runs=WARMUP, counters=True, steps=steps
            )
            found = _conditions(model, watch, counting, cores)
            npu = model.npu_status() if package.has_npu_regions else None
        except (ArmExtError, KeyboardInterrupt) as error:
            if batches:
                measured = len(batches) * _BATCH
                broken_off = _broken_off(error, measured, planned, "inferences")
                keep(reported(_Timed(whole, batches, broken_off=broken_off)))
            raise
    return reported(_Timed(whole, batches, counted, found, npu))


@dataclass(frozen=True)
class _Timed:
    """Times of a package's calls, measured on a real board.

    Attributes:
        whole: Seconds of inferences whose calls were not timed.
        batches: Calls of one inference in each batch of others.
        counted: These calls with counters; none if counters were not reached.
        conditions: Conditions of the measurement.
        npu: Where NPU regions were computed.
        broken_off: Why only a part was measured.
    """

    whole: Sequence[float]
    batches: Sequence[Sequence[TimedCall]]
    counted: Sequence[TimedCall] = ()
    conditions: Mapping[str, str] | None = None
    npu: NpuStatus | None = None
    broken_off: BrokenOff | None = None


def _of_times(package: Package, report: CompileReport, board: str, core: str, timed: _Timed) -> ProfileReport:
    """Return the profile made of timed calls on a core of a board."""
    kernels = {kernel.symbol: kernel for kernel in report.kernels}
    times = [
        _times(same, counts)
        for *same, counts in zip(*timed.batches, timed.counted or timed.batches[-1], strict=True)
    ]
    median = float(np.median(timed.whole)) * _MICRO
    around = max(0.0, median - sum(time.median_us for time in times))
    rows = executed_rows([call.symbol for call in timed.batches[0]], report.calls)
    return ProfileReport(
        kind="times",
        **_of_package(package, report, board),
        core=core,
        median_us=median,
        runs=len(timed.whole),
        calls=tuple(
            _call(index, row, kernels.get(row.symbol), time.median_us / median, times=time)
            for index, (row, time) in enumerate(zip(rows, times, strict=True))
        ),
        around=Around(us=around, share=around / median),
        conditions={**(timed.conditions or {}), "spread": f"{100 * spread_of(timed.whole):.1f} %"},
        npu=timed.npu,
        broken_off=timed.broken_off,
        note=NOTE_TIMES,
    )


def _times(same: Sequence[TimedCall], counted: TimedCall) -> Times:
    seconds = [value for call in same for value in call.seconds]
    return Times(
        median_us=float(np.median(seconds)) * _MICRO,
        spread=spread_of(seconds),
        counters={name: int(np.median(values)) for name, values in counted.counters.items()},
    )


def _conditions(model: LoadedModel, watch: Watch, counting: Watch, cores: Sequence[int]) -> dict[str, str]:
    """Return the conditions that times depend on, as far as the board reports them, and the names of missing ones."""
    session = model.session
    of_cores = cores or conditions.online(session) or (0,)
    told = {
        "core types": _by_core(of_cores, partial(conditions.core_type, session)),
        "governor": _by_core(of_cores, partial(conditions.governor, session)),
        "clock": _by_core(of_cores, partial(conditions.clock, session)),
        "temperature": conditions.temperature(session),
    }
    absent = [name for name, value in told.items() if value == conditions.UNKNOWN]
    return {
        "threads": str(conditions.threads(session)),
        "cores": f"pinned to {cores_text(cores)}" if cores else "not pinned",
        **{name: value for name, value in told.items() if name not in absent},
        **({"absent in sysfs": ", ".join(absent)} if absent else {}),
        "reading the clock": f"{watch.overhead_seconds * 1e9:.0f} ns a call, subtracted",
        "counters": ", ".join(counting.counters) or f"none: {counting.without_counters}",
    }


def _by_core(cores: Sequence[int], ask: Callable[[int], str]) -> str:
    """Return the answer that all cores give; if they differ, each answer with its cores."""
    found: dict[str, list[int]] = {}
    for core in cores:
        found.setdefault(ask(core), []).append(core)
    if len(found) == 1:
        return next(iter(found))
    return "; ".join(f"{cores_text(same)}: {answer}" for answer, same in found.items())
