# SPDX-License-Identifier: Apache-2.0
"""`arm-ext accuracy`."""

from pathlib import Path

import click

from arm_ext.cli.console import Share, check_outputs, given_shapes, progress, write_views
from arm_ext.cli.loading import load_tvm
from arm_ext.cli.options import all_layers_option, json_option, shape_option, views_option
from arm_ext.cli.path_type import PATH
from arm_ext.errors import ModelError, UsageError
from arm_ext.shapes.given import Dim

WRITTEN = (".html", ".json", ".csv")
"""Endings of --output, which say what is written."""


class _Bound(click.ParamType[tuple[str, float]]):
    """METRIC=VALUE → the metric and its least value."""

    name = "bound"

    def convert(
        self, value: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float]:
        metric, _, bound = value.rpartition("=")
        try:
            return metric or self.fail(f"{value!r} is not of the form top1=0.71", param, ctx), float(bound)
        except ValueError:
            self.fail(f"{value!r} is not of the form top1=0.71", param, ctx)


@click.command()
@click.argument("model", type=PATH)
@click.option(
    "--against",
    type=PATH,
    required=True,
    metavar="REFERENCE",
    help="The float ONNX model that MODEL was made of.",
)
@click.option(
    "--data",
    type=PATH,
    required=True,
    metavar="FILE.npz",
    help="Samples: one array for each input, samples along its first axis, and 'labels' for most metrics.",
)
@click.option(
    "--board",
    help="Board that computes our integers: virtual[:cpu], local, host:port, tracker-host:port/key.  "
    "[default: this machine, through the same phases]",
)
@click.option(
    "--target", help="Profile to compile for, with --board or --bisect.  [default: the board's, or arm]"
)
@click.option(
    "--metric",
    metavar="top1|top5|f1|cosine|iou|map50|wer|cer|perplexity|MODULE:FUNCTION",
    help="Metric of the outputs; a function takes them by name, samples in front, and the data's arrays.  "
    "[default: top1, if there are labels]",
)
@click.option("--min-sqnr", type=float, metavar="DB", help="Fail if an output has less SQNR in our integers.")
@click.option(
    "--min",
    "least",
    type=_Bound(),
    metavar="METRIC=VALUE",
    help="Fail if our integers have less, such as top1=0.71.",
)
@click.option(
    "--max-drop", type=Share(), metavar="SHARE", help="Fail if the metric drops by more, such as 1% or 0.01."
)
@click.option(
    "--bisect",
    is_flag=True,
    help="Find the fewest layers that, in float, make the model hold --min or --max-drop, and what that costs.",
)
@shape_option("Shape of a dynamic input.")
@views_option(
    "Write the report, too, by the file's ending: .html, .json or .csv.",
)
@all_layers_option
@json_option()
def accuracy(
    model: Path,
    against: Path,
    data: Path,
    board: str | None,
    target: str | None,
    metric: str | None,
    min_sqnr: float | None,
    least: tuple[str, float] | None,
    max_drop: float | None,
    bisect: bool,
    shapes: tuple[tuple[str, tuple[Dim, ...]], ...],
    outputs: tuple[Path, ...],
    whole: bool,
    as_json: bool,
) -> None:
    """Tell where MODEL, quantised in QDQ form, loses accuracy against the float model that it was made of.

    For each layer, in the float model's names: its own error, fed with exact values, and that of the whole chain, in
    float and in our integers. Layers to blame come first, with the cause. With --min-sqnr, --min or --max-drop, a model
    that misses the bound exits with 1.
    """
    check_outputs(outputs, WRITTEN, [model, against, data])
    if least is not None and metric not in (None, least[0]):
        raise UsageError(f"--min {least[0]} is of another metric than --metric {metric}; name one")
    if bisect and least is None and max_drop is None:
        raise UsageError("--bisect: what is to hold? Give --max-drop or --min")
    metric = metric or (least[0] if least else None)
    load_tvm()
    # Not above: they load TVM, for which --help need not wait.
    from arm_ext.api.accuracy import STEPS
    from arm_ext.api.accuracy import accuracy as measure
    from arm_ext.report.accuracy.gate import Gate
    from arm_ext.report.accuracy.views import blame, comma_separated, html, text

    gate = Gate(min_sqnr, least, max_drop)
    with progress("comparing", STEPS) as step:
        report = measure(
            model,
            against,
            data,
            board=board,
            target=target,
            metric=metric,
            bisect=gate if bisect else None,
            shapes=given_shapes(shapes),
            progress=step,
        )
    document = report.model_dump_json(indent=2)
    views = {".html": lambda: html(report), ".csv": lambda: comma_separated(report)}
    write_views(outputs, document, views)
    click.echo(document if as_json else text(report, whole=whole))
    if found := gate.missed(report):
        raise ModelError("\n".join(["; ".join(found), *blame(report)]))
