# SPDX-License-Identifier: Apache-2.0
"""`arm-ext bench`."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from arm_ext.cli.config_option import model_argument
from arm_ext.cli.console import columns, given_shapes, progress, prose
from arm_ext.cli.loading import load_tvm
from arm_ext.cli.model_options import given_options, plugin_option, value_option
from arm_ext.cli.options import board_option, cores_option, json_option, shape_option, threads_option
from arm_ext.cli.path_type import PATH
from arm_ext.common.cores import parse_cores
from arm_ext.common.errors import EnvError, UsageError
from arm_ext.measure.classify import MAC_CLASSES, InsnClass
from arm_ext.measure.peers.comparison import Comparison
from arm_ext.measure.threads import ThreadReport
from arm_ext.measure.times import TimeReport

if TYPE_CHECKING:
    from arm_ext.api.bench import Report
    from arm_ext.api.run_library import BareCount
    from arm_ext.measure.profile import CountReport


@click.command()
@model_argument("package")
@board_option("measure")
@click.option(
    "--against",
    metavar="NAME,NAME",
    help="Count other runtimes on the same model too: onnxruntime, litert. PACKAGE may then be a model file. "
    "The first time it downloads them.",
)
@click.option("--target", help="With --against: profile to compile a model file for.  [default: the board's]")
@click.option("--mattr", metavar="+x,-y", help="With --against: LLVM features to add and remove.")
@plugin_option
@value_option
@click.option(
    "--onnxruntime-model",
    type=PATH,
    metavar="FILE.onnx",
    help="With --against: the same network for onnxruntime, where PACKAGE is no ONNX file.",
)
@click.option(
    "--litert-model",
    type=PATH,
    metavar="FILE.tflite",
    help="With --against: the same network for LiteRT, where PACKAGE is no TFLite file.",
)
@threads_option(
    "With several, a virtual board counts the share of each, and with --against other runtimes, too.  [default: 1 on a "
    "virtual board]"
)
@cores_option
@shape_option(
    "Which shape of a package with several to measure.  [default: each]  With --against: the shape of an "
    "input of a model file.",
)
@json_option()
def bench(
    package: Path,
    board: str,
    against: str | None,
    onnxruntime_model: Path | None,
    litert_model: Path | None,
    threads: int | None,
    cores: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Measure PACKAGE on a board.

    A real board gives times. A virtual one gives instruction counts, and cycles that a model estimates; of a C library
    for a Cortex-M, instruction counts.
    """
    load_tvm()
    # Not imported above: they load TVM and the front ends, which --help does not need.
    from arm_ext.api.bench import BucketReports
    from arm_ext.api.bench import bench as measure

    files = {"onnxruntime": onnxruntime_model, "litert": litert_model}
    models = {name: file for name, file in files.items() if file is not None}
    report: Report | BucketReports | Comparison
    pinned = parse_cores(cores) if cores is not None else ()
    if against is not None and pinned:
        raise UsageError("--against compares on a virtual board; leave out --cores")
    if against is not None:
        from arm_ext.api.compare import compare, steps

        with progress("counting", steps(against)) as step:
            more = given_options(given)
            report = compare(
                package, against, board, models=models, threads=threads or 1, progress=step, **more
            )
    elif models or any(given[name] for name in ("target", "mattr", "plugins", "values")):
        raise UsageError(
            "--target, --mattr, --plugin, --value and a model for another runtime are for --against, which compiles a "
            "model file; a package is compiled"
        )
    else:
        report = measure(package, board, threads=threads, cores=pinned, shapes=given_shapes(given["shapes"]))
    if as_json:
        click.echo(report.model_dump_json(indent=2))
    elif isinstance(report, Comparison):
        click.echo(_comparison(report))
    elif isinstance(report, BucketReports):
        click.echo("\n\n".join(f"{each.inputs}\n\n{_text(each.report)}" for each in report.buckets))
    else:
        click.echo(_text(report))
    if isinstance(report, Comparison) and len(report.rows) == 1:
        names = ", ".join(each.runtime for each in report.absent)
        raise EnvError(f"nothing was compared with: {names} gave no counts")


def _text(report: "Report") -> str:
    if isinstance(report, TimeReport):
        text = _times(report)
    elif isinstance(report, ThreadReport):
        text = _threads(report)
    elif report.kind == "microcontroller":
        text = _bare(report)
    else:
        text = f"{_totals(report)}\n\n{_symbols(report)}\n\n{prose(report.note)}"
    return text if report.npu is None else f"{text}\n\n{report.npu.text()}"


def _bare(report: "BareCount") -> str:
    per_mac = f", {report.instructions / report.macs:.2f} per MAC" if report.macs else ""
    stands_in = f", by {report.stands_in}" if report.stands_in else ""
    totals = {
        "instructions": f"{_millions(report.instructions)} per inference{per_mac}",
        "board": f"{report.board} (emulated), {report.core}{stands_in}",
        "memory": f"{report.arena_bytes:,} bytes of arena, {report.stack_bytes:,} of stack",
    }
    rows = [("instructions", "share", "kernel or routine")]
    rows += [(f"{row.instructions:,}", _percent(row.share), row.symbol) for row in report.functions]
    return "\n".join([_lines(totals), "", columns(rows, ">><"), "", prose(report.note)])


def _times(report: TimeReport) -> str:
    return _lines(
        {
            "median": f"{report.median_ms:.3f} ms",
            "p90, p99": f"{report.p90_ms:.3f} ms, {report.p99_ms:.3f} ms",
            "spread": f"{_percent(report.spread)} (interquartile range over the median)",
            "inferences": f"{report.repeats}, after {report.warmup} to warm up",
            "threads": str(report.threads),
            "governor": report.governor,
        }
    )


def _threads(report: ThreadReport) -> str:
    totals = {
        "instructions": f"{_millions(report.instructions)} of model.so per inference (emulated)",
        "critical path": f"{_millions(report.critical_instructions)}: "
        f"{report.instructions / report.critical_instructions:.2f} times faster than one thread at most",
        "elapsed": f"{_millions(report.elapsed_instructions)} on the calling thread from begin to end, the runtime "
        "and its waits included",
        "by thread": ", ".join(map(_millions, report.by_thread)),
        "on several": f"{_percent(report.parallel_share)} of instructions",
    }
    rows = [("instructions", "least", "most", "spread", "kernel")]
    for row in report.kernels:
        total = sum(row.by_thread)
        shares = _percent(min(row.by_thread) / total), _percent(max(row.by_thread) / total)
        cells = ("", "", "one thread") if row.spread is None else (*shares, _percent(row.spread))
        rows.append((f"{total:,}", *cells, row.symbol))
    return "\n".join([_lines(totals), "", columns(rows, ">>>><"), "", prose(report.note)])


def _totals(report: "CountReport") -> str:
    macs = {kind: share for kind, share in report.classes.items() if kind in MAC_CLASSES}
    others = {kind: share for kind, share in report.classes.items() if kind not in MAC_CLASSES}
    time = {} if report.time is None else {"time": report.time.text()}
    return _lines(
        {
            **time,
            "cycles with caches": f"{_millions(report.cycles_with_caches)} on {report.core}, estimated (model "
            f"{report.model}); {_millions(report.estimated_cycles)} of them in the core",
            "fetched": f"{report.l2_bytes:,} bytes by L1, {report.memory_bytes:,} of them from memory",
            "instructions": f"{_millions(report.instructions)} per inference (emulated, {report.threads} thread)",
            "MAC": f"{_millions(report.macs)}, {report.macs_per_instruction:.2f} per instruction",
            "MAC instructions": f"{_percent(report.mac_share)}: {_shares(macs) or 'none'}",
            "others": _shares(others),
            "not modelled": f"{_percent(report.unmodelled_share)} of instructions",
        }
    )


def _symbols(report: "CountReport") -> str:
    # Names of kernels are long and must not be cut in a pipe, so they are the last column, and no table wraps them.
    rows = [("instructions", "share", "MAC insn", "estimated cycles", "kernel or library")]
    for row in report.symbols:
        shares = _percent(row.share), _percent(row.mac_share)
        rows.append((f"{row.instructions:,}", *shares, f"{row.estimated_cycles:,}", row.symbol))
    return columns(rows, ">>>><")


def _comparison(report: Comparison) -> str:
    title = (
        f"{report.model}, {_millions(report.macs)}MAC, {report.target} (emulated as {report.cpu}; cycles of "
        f"{report.cycle_model})"
    )
    counted = [("runtime", "instructions", "ratio", "MAC/insn", "cycles with caches", "ratio")]
    sizes = [("runtime", "empty", "binary bytes", "weight bytes")]
    for row in report.rows:
        name = f"{row.runtime} {row.version}"
        empty = "" if row.empty_instructions is None else f"{row.empty_instructions:,}"
        counted.append(
            (
                name,
                f"{row.instructions:,}",
                f"{row.instruction_ratio:.2f}",
                f"{row.macs_per_instruction:.2f}",
                f"{row.cycles_with_caches:,}",
                f"{row.cycle_ratio:.2f}",
            )
        )
        sizes.append((name, empty, f"{row.binary_bytes:,}", f"{row.weight_bytes:,}"))
    absent = [prose(f"{each.runtime}: {each.reason}") for each in report.absent]
    tables = [columns(counted, "<>>>>>"), "", *_scaling(report), columns(sizes, "<>>>")]
    tables += [*([""] * bool(absent)), *absent]
    return "\n".join([prose(title), "", *tables, "", prose(report.note)])


def _scaling(report: Comparison) -> list[str]:
    found = [(row, row.scaling) for row in report.rows if row.scaling is not None]
    if not found:
        return []
    rows = [("runtime", f"elapsed on {report.threads} threads", "faster", "ratio")]
    for row, scaling in found:
        figures = f"{scaling.elapsed_instructions:,}", f"{scaling.speedup:.2f} x", f"{scaling.ratio:.2f}"
        rows.append((f"{row.runtime} {row.version}", *figures))
    return [columns(rows, "<>>>"), ""]


def _lines(rows: dict[str, str]) -> str:
    return "\n".join(prose(f"{name:<20}{value}", indent=20) for name, value in rows.items())


def _shares(shares: Mapping[InsnClass, float]) -> str:
    return ", ".join(f"{kind} {_percent(share)}" for kind, share in shares.items())


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _millions(count: int) -> str:
    return f"{count / 1e6:.3f} M"
