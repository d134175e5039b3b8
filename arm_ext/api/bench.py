# SPDX-License-Identifier: Apache-2.0
"""`arm_ext.bench`: measures a package on a board, with the self-test's inputs."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from arm_ext.api.run_library import BareCount
from arm_ext.api.run_library import count as count_library
from arm_ext.board import Board, check_cores, check_threads, conditions, open_board
from arm_ext.board.foreign import warn_of_foreign
from arm_ext.board.spec import parse_spec
from arm_ext.common.errors import UsageError
from arm_ext.common.npu_status import NpuStatus
from arm_ext.common.trace import Trace
from arm_ext.frontends.common.refuse import Shapes, refuse_unknown_inputs
from arm_ext.measure.mca import Mca, find_mca
from arm_ext.measure.profile import CountReport, profile
from arm_ext.measure.threads import ThreadReport, thread_report
from arm_ext.measure.times import REPEATS, WARMUP, TimeReport, time_report
from arm_ext.package import AnyPackage, Package, package_of
from arm_ext.shapes.given import Given, static_shapes
from arm_ext.target.published_times import TimeInterval, time_interval
from schedules.cores import CORES, Core

Report = CountReport | ThreadReport | TimeReport | BareCount


class BucketReport(BaseModel):
    """The measurement of one bucket of a package with several shapes; `inputs` describes the bucket's inputs."""

    model_config = ConfigDict(frozen=True)

    inputs: str
    report: Report


class BucketReports(BaseModel):
    """The measurements of a package with several shapes, one for each bucket."""

    model_config = ConfigDict(frozen=True)

    schema_version: Literal[1] = 1
    kind: Literal["buckets"] = "buckets"
    buckets: tuple[BucketReport, ...]


def bench(
    package: AnyPackage,
    board: str = "virtual",
    *,
    threads: int | None = None,
    cores: Sequence[int] = (),
    shapes: Given | None = None,
) -> Report | BucketReports:
    """Measure one inference: counts and a cycle estimate on a virtual board, times on a real one.

    For a model with states, an inference is one step.

    Args:
        package: Folder, opened package, or what `compile` returned; or a C library for a Cortex-M, whose instructions
            are counted on the emulated board of its core.
        board: Board to measure on, such as "virtual", "local", "ssh://user@host" or "host:port".
        threads: Threads of the runtime, on a board whose server is started here. By default one on a virtual board;
            with several, what is counted there is the share of each.
        cores: Cores that the inference may run on, on a real board whose server is started here, with as many threads;
            by default all.
        shapes: Input name → shape: which of a package's several to measure; all by default, a report each.

    Raises:
        UsageError: No such package, shapes or board name, a package for a core that there is no model of, or a number
            of threads for a board whose server is not started here.
        EnvError: The board is out of reach or lacks a feature; QEMU without plugins; no llvm-mca.
    """
    pkg = package_of(package, bare=True)
    if pkg.manifest.library is not None:
        if threads is not None or cores:
            raise UsageError("--threads and --cores are for packages; a microcontroller has one core")
        return count_library(pkg, board)
    views = views_of(running_on(pkg, board), static_shapes(shapes, "bench"))
    if len(views) == 1:
        return _measure(views[0], board, threads, cores)
    return BucketReports(
        buckets=tuple(
            BucketReport(inputs=view.describe_inputs(), report=_measure(view, board, threads, cores))
            for view in views
        )
    )


def running_on(package: Package, board: str) -> Package:
    """Return a package for a board: of a family, with the core and the report of the level that the board's CPU runs.

    Raises:
        EnvError: The package is of a family, and the board is out of reach.
    """
    if not package.manifest.levels:
        return package
    target = package.manifest.target
    with open_board(board, profile=target.profile, profile_cpu=target.qemu_cpu) as opened:
        return package.on(opened.info.features)


def views_of(package: Package, shapes: Shapes) -> list[Package]:
    """Return the package's buckets that match the given shapes.

    Raises:
        UsageError: The package has no bucket of these shapes.
    """
    views = package.views()
    named = {tensor.name for tensor in package.manifest.inputs}
    refuse_unknown_inputs(shapes, named)
    found = [
        view
        for view in views
        if all(shapes.get(t.name, tuple(t.shape)) == tuple(t.shape) for t in view.manifest.inputs)
    ]
    if not found:
        have = "; ".join(view.describe_inputs() for view in views)
        raise UsageError(f"--shape: the package has no such shapes; it has {have}")
    return found


def _measure(pkg: Package, board: str, threads: int | None, cores: Sequence[int]) -> Report:
    check_cores(board, cores)
    check_threads(board, threads)
    virtual = parse_spec(board).kind == "virtual"
    if virtual and threads is not None and threads > 1:
        trace, npu = traced(pkg, board, threads=threads)
        return thread_report(trace, threads).model_copy(update={"npu": npu})
    if virtual:
        # Look for llvm-mca before the board is started, because it may not be installed.
        return _count(pkg, board, core_of(pkg), find_mca())
    return _time(pkg, board, cores, threads)


def core_of(package: Package) -> Core:
    """Return the core that a package was compiled for.

    Raises:
        UsageError: There is no cycle model of that core.
    """
    name = package.manifest.target.core
    if name not in CORES:
        raise UsageError(
            f"{package.path} was compiled for this machine's {name}, for which there is no model to estimate "
            "cycles with; compile for a profile that `arm-ext targets` lists, or measure on --board local"
        )
    return CORES[name]


def _count(package: Package, board: str, core: Core, mca: Mca) -> CountReport:
    manifest = package.manifest
    trace, npu = traced(package, board, caches=(core.l1d.size, core.l2.size))
    counts = profile(trace, core, mca, macs=manifest.macs)
    return counts.model_copy(update={"npu": npu, "time": time_of(package, core, counts.cycles_with_caches)})


def time_of(package: Package, core: Core, cycles: float) -> TimeInterval | None:
    """Return the time on the package's board for counted cycles with caches; None for a package with NPU regions."""
    if package.has_npu_regions:
        return None
    return time_interval(package.manifest.target.profile, core.name, cycles, by_formula=False)


def traced(
    package: Package, board: str, *, threads: int = 1, caches: tuple[int, int] | None = None
) -> tuple[Trace, NpuStatus | None]:
    """Return the counts of one inference on a virtual board, and where the NPU's regions were computed.

    Args:
        package: Package with one set of shapes; its self-test's inputs are computed.
        board: A virtual board.
        threads: Threads of the runtime; with several, each is counted by itself.
        caches: Bytes of an L1 and L2 whose misses are counted, too, on one thread.
    """
    target = package.manifest.target
    with open_board(
        board,
        profile=target.profile,
        profile_cpu=target.qemu_cpu,
        counting=True,
        threads=threads,
        caches=caches,
    ) as opened:
        opened.require(target.features, so=package.so)
        warn_of_foreign(package.path, package.manifest.so_sha256, opened)
        model = opened.load(package.so, package.manifest.so_sha256)
        trace = model.count(bound_inputs(package), steps=bool(package.manifest.states))
        return trace, model.npu_status() if package.has_npu_regions else None


def _time(package: Package, board: str, cores: Sequence[int], threads: int | None) -> TimeReport:
    with open_board(board, cores=cores, threads=threads) as opened:
        opened.require(package.manifest.target.features, so=package.so)
        used, governor = _conditions(opened)
        warn_of_foreign(package.path, package.manifest.so_sha256, opened)
        model = opened.load(package.so, package.manifest.so_sha256)
        steps = bool(package.manifest.states)
        seconds = model.time(bound_inputs(package), repeats=REPEATS, warmup=WARMUP, steps=steps)
        npu = model.npu_status() if package.has_npu_regions else None
    report = time_report(seconds, warmup=WARMUP, threads=used, governor=governor)
    return report.model_copy(update={"npu": npu})


def bound_inputs(package: Package) -> list[npt.NDArray[Any]]:
    """Return the self-test's inputs without the states, which come last."""
    inputs = package.selftest().inputs
    return inputs[: len(inputs) - len(package.manifest.states)]


def _conditions(board: Board) -> tuple[int, str]:
    """Return the number of threads in the runtime's pool, and the governor of cpu0 or "unknown"."""
    session = board.connect()
    try:
        return conditions.threads(session), conditions.governor(session)
    finally:
        session.close()
