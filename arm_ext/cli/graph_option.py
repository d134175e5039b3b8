# SPDX-License-Identifier: Apache-2.0
"""`--export-graph FILE`: the calls of a program as a graph for viewers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from arm_ext.cli.console import check_outputs
from arm_ext.cli.path_type import PATH
from arm_ext.common.outputs import write_file

if TYPE_CHECKING:
    from arm_ext.report.calls import CallRow
    from arm_ext.report.profile.record import ProfiledCall

graph_option = click.option(
    "--export-graph",
    "graph",
    type=PATH,
    metavar="FILE",
    help="Write the kernel calls as a graph, too: .onnx for Netron, or .json for Model Explorer, with their cycles as "
    "node data beside it.",
)


def check_graph(graph: Path | None, inputs: Sequence[Path]) -> None:
    """Check the file of --export-graph, before any work.

    Raises:
        UsageError: It has another ending, cannot be written, or is an input.
    """
    if graph is not None:
        check_outputs([graph], (".onnx", ".json"), inputs)


def write_graph(
    graph: Path | None,
    model: str,
    calls: "Sequence[CallRow] | Sequence[ProfiledCall]",
    operators: Mapping[str, str],
) -> None:
    """Write the file of --export-graph, if it is given."""
    if graph is None:
        return
    from arm_ext.report.graph import graph_calls, model_explorer, node_data, onnx_graph

    nodes = graph_calls(calls, operators)
    if graph.suffix == ".onnx":
        write_file(graph, onnx_graph(model, nodes).SerializeToString(), "--export-graph")
        return
    write_file(graph, model_explorer(model, nodes).encode(), "--export-graph")
    data = graph.with_suffix(".cycles.json")
    write_file(data, node_data(model, nodes, "cycles_with_caches").encode(), "--export-graph")
