# SPDX-License-Identifier: Apache-2.0
"""`arm-ext quantize`."""

from pathlib import Path
from typing import Any, get_args

import click

from arm_ext.cli.config_option import model_argument
from arm_ext.cli.console import NAMES, Share, progress
from arm_ext.cli.loading import load_tvm
from arm_ext.cli.model_options import (
    calibration_option,
    given_options,
    plugin_option,
    sample_state_options,
    trust_option,
    value_option,
)
from arm_ext.cli.npu_options import NpuCommand, npu_options
from arm_ext.cli.options import all_layers_option, data_options, json_option, shape_option, target_option
from arm_ext.cli.path_type import PATH
from arm_ext.cli.process import interrupt_on_signals
from arm_ext.common.errors import InternalError, UsageError
from arm_ext.package.manifest import ActivationType, Correction, Sparsity, WeightType

_LISTS = ("int16", "float16", "keep_float", "only")
"""Options that take lists of nodes and may be given several times."""


@click.command(cls=NpuCommand)
@model_argument()
@data_options("Calibration samples", required=False, note=" --weights needs none.")
@click.option(
    "-o", "--output", type=PATH, required=True, metavar="FILE.onnx", help="File to write the model to."
)
@click.option(
    "--weights",
    type=click.Choice(get_args(WeightType)),
    help="Quantise the weights of matrix products alone, and leave activations in float: int8 with a scale an output "
    "channel, int4 with a scale a --group.",
)
@click.option(
    "--activations",
    type=click.Choice(get_args(ActivationType)),
    default="int8",
    show_default=True,
    help="Type of the activations; weights are int8.",
)
@click.option(
    "--int16",
    type=NAMES,
    multiple=True,
    metavar="NODE,…",
    help="Nodes that read int16, with weights of int8. May be given several times.",
)
@click.option(
    "--float16",
    type=NAMES,
    multiple=True,
    metavar="NODE,…",
    help="Nodes that compute in binary16, between casts. May be given several times.",
)
@click.option(
    "--group", type=int, metavar="N", help="Weights of --weights int4 that share a scale.  [default: 32]"
)
@calibration_option("How the range of an activation follows from the samples.")
@click.option(
    "--correct",
    "corrections",
    type=NAMES,
    multiple=True,
    metavar="equalize|smooth|bias|round,…",
    help="Corrections that lower the loss: bring channels of the float model to like ranges, before a product or "
    "behind a LayerNormalization; make up for shifted means; round weights so that results are nearest. May be "
    "given several times.",
)
@click.option(
    "--keep-float",
    type=NAMES,
    multiple=True,
    metavar="NODE,…",
    help="Nodes that stay in float. May be given several times.",
)
@click.option(
    "--only",
    type=NAMES,
    multiple=True,
    metavar="NODE,…",
    help="Nodes to quantise, where all others stay in float. May be given several times.",
)
@click.option(
    "--sparsity",
    type=click.Choice(get_args(Sparsity)),
    help="Set the two smallest of each four weights along the input channels to 0 first, for an Ethos-U85.",
)
@click.option(
    "--max-drop",
    type=Share(),
    metavar="SHARE",
    help="Raise layers to int16, float16 or float32 so that the metric drops by no more than this, such as 1% or "
    "0.01, in the way that is the fastest for --target, and --npu if it is given.",
)
@target_option("that --max-drop estimates cycles")
@npu_options
@trust_option
@plugin_option
@value_option
@sample_state_options
@shape_option("Shape of a dynamic input.")
@all_layers_option
@json_option("the accuracy report as one JSON document")
def quantize(
    model: Path,
    data: Path | None,
    output: Path,
    corrections: tuple[tuple[Correction, ...], ...],
    whole: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Quantise MODEL, a float model, to int8 in QDQ form, and tell which layers lose accuracy.

    What is written is ONNX, of models of other formats, too.
    With --activations int16 or --int16, activations have 16 bits; with --weights, weights alone are quantised. With
    --npu, the layers that --max-drop takes are those that are the fastest with that NPU.
    The model that is written is compiled like any other.
    """
    load_tvm()
    interrupt_on_signals()  # the best choice that the search has found so far is written
    # Not imported above: they load TVM, which --help does not need.
    from arm_ext.api.quantize import STEPS
    from arm_ext.api.quantize import quantize as make
    from arm_ext.report.accuracy.views import npu_link, text

    correct = [each for names in corrections for each in names]
    given |= {name: [node for nodes in given[name] for node in nodes] for name in _LISTS}
    with progress("quantising", STEPS) as step:
        result = make(model, data, output, correct=correct, progress=step, **given_options(given))
    click.echo(result.accuracy.model_dump_json(indent=2) if as_json else text(result.accuracy, whole=whole))
    if (link := result.accuracy.npu) is not None and not link.equal:
        raise InternalError("\n".join(["the NPU does not compute our integers", *npu_link(link)]))
    if result.accuracy.unmeasured is not None:
        raise UsageError(f"{result.accuracy.unmeasured}; {output} was written")
