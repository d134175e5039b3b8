# SPDX-License-Identifier: Apache-2.0
"""`arm-ext accuracy`."""

from pathlib import Path
from typing import Any

import click

from arm_ext.cli.config_option import model_argument
from arm_ext.cli.console import Share, check_outputs, progress, write_views
from arm_ext.cli.loading import load_tvm
from arm_ext.cli.model_options import (
    given_options,
    plugin_option,
    sample_state_options,
    trust_option,
    value_option,
)
from arm_ext.cli.npu_options import NpuCommand, npu_options
from arm_ext.cli.options import (
    BOARDS,
    all_layers_option,
    data_options,
    json_option,
    shape_option,
    views_option,
)
from arm_ext.cli.path_type import PATH
from arm_ext.cli.process import interrupt_on_signals
from arm_ext.common.errors import InternalError, ModelError, UsageError

WRITTEN = (".html", ".json", ".csv")
"""Endings of --output, which choose the format."""


class _Bound(click.ParamType[tuple[str, float]]):
    """Option type METRIC=VALUE → the metric and its minimum."""

    name = "bound"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float]:
        metric, _, bound = value.rpartition("=")
        try:
            return metric or self.fail(f"{value!r} is not of the form top1=0.71", param, ctx), float(bound)
        except ValueError:
            self.fail(f"{value!r} is not of the form top1=0.71", param, ctx)


@click.command(cls=NpuCommand)
@model_argument()
@click.option(
    "--against",
    type=PATH,
    metavar="REFERENCE",
    help="The float model that MODEL was made of. TFLite models and PyTorch's programs may go without: they are then "
    "compared with what LiteRT or torch computes of them.",
)
@data_options("Samples")
@click.option(
    "--board",
    help=f"Board that computes our integers: {BOARDS}.  [default: this machine, through the same phases]",
)
@click.option(
    "--target",
    help="Profile to compile for, with --board, --bisect or --npu.  [default: the board's, or arm]",
)
@click.option(
    "--min-sqnr",
    type=float,
    metavar="DB",
    help="Fail if an output of our integers has a lower SQNR than this, in dB.",
)
@click.option(
    "--min",
    "least",
    type=_Bound(),
    metavar="METRIC=VALUE",
    help="Fail if the metric of our integers is lower, such as top1=0.71.",
)
@click.option(
    "--max-drop",
    type=Share(),
    metavar="SHARE",
    help="Fail if the metric drops by more than this, such as 1% or 0.01.",
)
@click.option(
    "--bisect",
    is_flag=True,
    help="Find the fewest layers that, in int16 or float, make the model hold --min or --max-drop, and their cost.",
)
@npu_options
@trust_option
@plugin_option
@value_option
@sample_state_options
@shape_option("Shape of a dynamic input.")
@views_option(
    "Write the report, too, by the file's ending: .html, .json or .csv.",
)
@all_layers_option
@json_option()
def accuracy(
    model: Path,
    against: Path | None,
    data: Path,
    bisect: bool,
    outputs: tuple[Path, ...],
    whole: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Tell where MODEL, quantised, loses accuracy against the float model that it was made of.

    MODEL is ONNX in QDQ form, TFLite, or a program that PyTorch's PT2E quantised.

    For each layer, in the float model's names: its own error, fed with exact values, and that of the whole chain, in
    float and in our integers. Layers to blame come first, with the cause. With --min-sqnr, --min or --max-drop, a model
    that misses the bound exits with 1. With --npu the chain goes on to a functional model of the NPU, region by region.
    """
    read = [model, against, data, given["preprocess"], given["state_init"]]
    check_outputs(outputs, WRITTEN, [path for path in read if path is not None])
    min_sqnr, least, max_drop = (given.pop(name) for name in ("min_sqnr", "least", "max_drop"))
    if least is not None and given["metric"] not in (None, least[0]):
        raise UsageError(
            f"--min {least[0]} names another metric than --metric {given['metric']}; use the same one"
        )
    if bisect and least is None and max_drop is None:
        raise UsageError("--bisect needs a bound: give --max-drop or --min")
    given["metric"] = given["metric"] or (least[0] if least else None)
    load_tvm()
    interrupt_on_signals()  # the samples compared so far are reported
    # Not imported above: they load TVM, which --help does not need.
    from arm_ext.api.accuracy import STEPS
    from arm_ext.api.accuracy import accuracy as measure
    from arm_ext.report.accuracy.gate import Gate
    from arm_ext.report.accuracy.html import html
    from arm_ext.report.accuracy.views import blame, comma_separated, npu_link, text

    gate = Gate(min_sqnr, least, max_drop)
    with progress("comparing", STEPS) as step:
        of_search = gate if bisect else None
        report = measure(
            model, against, data, gate=gate, bisect=of_search, progress=step, **given_options(given)
        )
    document = report.model_dump_json(indent=2)
    views = {".html": lambda: html(report), ".csv": lambda: comma_separated(report)}
    write_views(outputs, document, views)
    click.echo(document if as_json else text(report, whole=whole))
    if report.npu is not None and not report.npu.equal:
        raise InternalError("\n".join(["the NPU does not compute our integers", *npu_link(report.npu)]))
    if report.unmeasured is not None:
        raise UsageError(report.unmeasured)
    if found := gate.missed(report):
        raise ModelError("\n".join(["; ".join(found), *blame(report)]))
