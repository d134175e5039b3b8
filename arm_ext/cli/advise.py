# SPDX-License-Identifier: Apache-2.0
"""`arm-ext advise`."""

from pathlib import Path

import click

from arm_ext.cli.console import given_shapes, progress
from arm_ext.cli.loading import load_tvm
from arm_ext.cli.minutes import Minutes
from arm_ext.cli.model_options import model_options
from arm_ext.cli.path_type import PATH
from arm_ext.cli.target_options import board_option, target_options
from arm_ext.common.outputs import checked_file, refuse_inputs, write_file
from arm_ext.errors import EnvError, InternalError
from arm_ext.package.manifest import Method
from arm_ext.shapes.given import Dim


@click.command()
@click.argument("model", type=PATH)
@target_options("compile", several=False)
@board_option("measure")
@model_options
@click.option("--tuned", type=PATH, metavar="DIR", help="Try the records of this tuning database, too.")
@click.option(
    "--max-error",
    type=click.FloatRange(min=0),
    default=0.05,
    show_default=True,
    metavar="X",
    help="Recommend nothing that changes an output by more than this, over the largest |output|.",
)
@click.option("--budget", type=Minutes(), metavar="30m", help="When to build nothing more: 30m, 2h, 90s.")
@click.option(
    "--apply",
    "applied",
    type=PATH,
    metavar="FILE.yaml",
    help="Write the recommended options, for `compile --config`.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def advise(
    model: Path,
    target: str,
    mattr: str | None,
    shapes: tuple[tuple[str, tuple[Dim, ...]], ...],
    board: str,
    trust: bool,
    preprocess: Path | None,
    quantize: Path | None,
    calibration: Method,
    tuned: Path | None,
    max_error: float,
    budget: float | None,
    applied: Path | None,
    as_json: bool,
) -> None:
    """Find what makes MODEL faster: build and measure other options of compile, and changes of the model.

    A virtual board compares estimated cycles, a real one times. What cannot be built is told in its row. --quantize
    gives the samples to try int8 with; outputs are then compared on the first one.
    """
    if applied is not None:
        read = [path for path in (model, preprocess, quantize, tuned) if path is not None]
        refuse_inputs(checked_file(applied, "--apply"), "--apply", read)
    load_tvm()
    # Not above: they load TVM, for which --help need not wait.
    from arm_ext.advice.text import config, text
    from arm_ext.api.advise import STEPS
    from arm_ext.api.advise import advise as find

    with progress("advising", STEPS) as step:
        report = find(
            model,
            target,
            board,
            trust=trust,
            mattr=mattr,
            shapes=given_shapes(shapes),
            preprocess=preprocess,
            quantize=quantize,
            calibration=calibration,
            tuned=tuned,
            max_error=max_error,
            budget=budget,
            progress=step,
        )
    if applied is not None:
        write_file(applied, config(report).encode(), "--apply")
    click.echo(report.model_dump_json(indent=2) if as_json else text(report))
    if "defect" in report.failures():
        raise InternalError("a defect of arm-ext kept some of it from being measured; its rows say which")
    if "environment" in report.failures():
        raise EnvError("some of it could not be measured here; its rows say why, and the others hold")
