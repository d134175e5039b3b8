# SPDX-License-Identifier: Apache-2.0
"""`arm-ext report`."""

from pathlib import Path

import click

from arm_ext.cli.graph_option import check_graph, graph_option, write_graph
from arm_ext.cli.options import json_option
from arm_ext.cli.path_type import PATH
from arm_ext.package import read_report
from arm_ext.report.page import render, render_all
from arm_ext.report.report import CompileReport


@click.command()
@click.argument("package", type=PATH)
@click.option(
    "--all", "everything", is_flag=True, help="Every layer in execution order, and every section of findings."
)
@graph_option
@json_option()
def report(package: Path, everything: bool, graph: Path | None, as_json: bool) -> None:
    """Show where each layer of PACKAGE runs, what it costs by estimate, and what would help.

    PACKAGE is a package or a C library. Without --all this is its report.txt.
    """
    check_graph(graph, package)
    found = read_report(package, CompileReport)
    write_graph(graph, found.model, found.calls, {row.source: row.op for row in found.nodes})
    if as_json:
        click.echo(found.model_dump_json(indent=2))
    else:
        click.echo((render_all if everything else render)(found), nl=False)
