# SPDX-License-Identifier: Apache-2.0
"""`arm-ext profile`."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from arm_ext.cli.config_option import model_argument
from arm_ext.cli.console import check_outputs, progress, write_views
from arm_ext.cli.graph_option import check_graph, graph_option, write_graph
from arm_ext.cli.loading import load_tvm
from arm_ext.cli.model_options import given_options, plugin_option, trust_option, value_option
from arm_ext.cli.options import (
    board_option,
    cores_option,
    json_option,
    shape_option,
    threads_option,
    views_option,
)
from arm_ext.cli.path_type import PATH
from arm_ext.cli.process import interrupt_on_signals
from arm_ext.common.cores import parse_cores
from arm_ext.common.errors import UsageError
from arm_ext.common.json_record import parsed
from arm_ext.common.outputs import refuse_inside
from arm_ext.common.regular_file import UnreadableError, read_regular
from arm_ext.package import read_report

if TYPE_CHECKING:
    from arm_ext.report.profile.record import ProfileReport

WRITTEN = (".html", ".json", ".csv", ".trace")
"""Endings of --output, which choose the format: a trace is for Perfetto and Chrome's tracing."""

_PROFILE_BYTES = 1 << 27  # maximum bytes of a profile, far above the usual size


@click.command()
@model_argument()
@board_option("measure")
@click.option("--target", help="Profile to compile a model file for.  [default: the board's, or arm]")
@trust_option
@plugin_option
@value_option
@shape_option(
    "Which shape of a package with several to measure, or the shape of an input of a model file.",
)
@cores_option
@threads_option(
    "With several, a virtual board tells the cycles of each call's busiest thread.  [default: 1 on a virtual board]"
)
@views_option(
    "Write the profile, too, by the file's ending: .html (one page with all views), .json, .csv, or .trace (for "
    "Perfetto).",
)
@graph_option
@click.option(
    "--compare",
    type=PATH,
    metavar="FILE.json",
    help="Earlier profile that the page in HTML compares with.",
)
@click.option(
    "--all", "whole", is_flag=True, help="List all kernel calls in execution order, not the ten costliest."
)
@json_option()
def profile(
    model: Path,
    cores: str | None,
    outputs: tuple[Path, ...],
    compare: Path | None,
    graph: Path | None,
    whole: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Show what each kernel call of MODEL costs, and what bounds it.

    MODEL is a package, or a model file, which is compiled first. A virtual board gives instruction counts, estimated
    cycles and the traffic between caches. A real one gives times, and hardware counters where it has them.
    """
    of_package = [*model.rglob("*")] if model.is_dir() else []
    check_outputs(outputs, WRITTEN, [model, *of_package, *([compare] if compare else [])])
    check_graph(graph, model, [*outputs, *([compare] if compare else [])])
    for output in outputs if of_package else ():
        refuse_inside(output, "--output", model)
    if compare is not None and not any(output.suffix == ".html" for output in outputs):
        raise UsageError("--compare is for a page in HTML: name one by -o FILE.html")
    pinned = parse_cores(cores) if cores is not None else ()
    load_tvm()
    # Not imported above: they load TVM, which --help does not need.
    from arm_ext.api.profile import STEPS
    from arm_ext.api.profile import profile as measure
    from arm_ext.report.profile.html import html
    from arm_ext.report.profile.views import comma_separated, text, trace
    from arm_ext.report.report import CompileReport

    before = None if compare is None else _read(compare)
    operators = (
        {node.source: node.op for node in read_report(model, CompileReport).nodes}
        if of_package and graph
        else {}
    )

    def show(report: "ProfileReport") -> None:
        if before is not None and before.kind != report.kind:
            raise UsageError(
                f"{compare} has {before.kind}, but this board gives {report.kind}, which cannot be compared; "
                "use a profile of the same kind"
            )
        document = report.model_dump_json(indent=2)
        views = {
            ".html": lambda: html(report, before),
            ".csv": lambda: comma_separated(report),
            ".trace": lambda: trace(report),
        }
        write_views(outputs, document, views)
        write_graph(graph, report.model, report.calls, operators)
        click.echo(document if as_json else text(report, whole=whole))

    with progress("profiling", STEPS) as step:

        def begin(name: str) -> None:
            step(name)
            if name == "measure":  # what is measured is kept
                interrupt_on_signals()

        report = measure(model, cores=pinned, progress=begin, keep=show, **given_options(given))
    show(report)


def _read(file: Path) -> "ProfileReport":
    from arm_ext.report.profile.record import ProfileReport

    try:
        data = read_regular(file, most=_PROFILE_BYTES)
    except UnreadableError as error:
        raise UsageError(f"--compare: {error}") from error
    advice = "it is no profile that --output FILE.json wrote; write it again"
    try:
        return parsed(ProfileReport, data, file, advice)
    except UsageError as error:
        raise UsageError(f"--compare: {error}") from error
