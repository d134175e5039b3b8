# SPDX-License-Identifier: Apache-2.0
"""`--export-graph FILE`: the calls of a program as a graph for viewers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from arm_ext.cli.path_type import PATH
from arm_ext.common.errors import UsageError
from arm_ext.common.outputs import checked_file, refuse_inputs, refuse_inside, write_file

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


_ENDINGS = (".onnx", ".json")


def check_graph(graph: Path | None, package: Path, others: Sequence[Path] = ()) -> None:
    """Check the files of --export-graph, before any work.

    Args:
        graph: Value of the option.
        package: The package or model that is read.
        others: Other files that are read or written.

    Raises:
        UsageError: It has another ending, cannot be written, is in the package, or is one of the others.
    """
    if graph is None:
        return
    if graph.suffix not in _ENDINGS:
        raise UsageError(f"{graph}: --export-graph writes files that end with {', '.join(_ENDINGS)}")
    for file in (graph, *([_data_of(graph)] if graph.suffix == ".json" else [])):
        refuse_inputs(checked_file(file, "--export-graph"), "--export-graph", [package, *others])
        if package.is_dir():
            refuse_inside(file, "--export-graph", package)


def _data_of(graph: Path) -> Path:
    """Return the path of the node data beside a graph."""
    return graph.with_suffix(".cycles.json")


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
    figure = (
        "cycles_with_caches"
        if any("cycles_with_caches" in node.figures for node in nodes)
        else "microseconds"
    )
    write_file(_data_of(graph), node_data(model, nodes, figure).encode(), "--export-graph")
