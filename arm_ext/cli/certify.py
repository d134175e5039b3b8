# SPDX-License-Identifier: Apache-2.0
"""`arm-ext certify`."""

from pathlib import Path
from typing import Any

import click

from arm_ext.cli.config_option import model_argument
from arm_ext.cli.console import NAMES, check_outputs, progress, write_views
from arm_ext.cli.loading import load_tvm
from arm_ext.cli.model_options import given_options, model_options, state_options
from arm_ext.cli.options import json_option, shape_option, views_option
from arm_ext.cli.path_type import PATH
from arm_ext.common.errors import ModelError, UsageError
from arm_ext.package import CERTIFICATE

_WRITTEN = (".json", ".html")


@click.command()
@model_argument()
@click.option(
    "--targets",
    type=NAMES,
    multiple=True,
    default=("all",),
    metavar="all|LEVEL,…",
    help="Levels: armv8-a, dotprod, i8mm, sve-128 to sve-512, sme-128 to sme-512; or profiles of `arm-ext targets`.  "
    "[default: all]",
)
@click.option(
    "--threads",
    default="1,2,4",
    show_default=True,
    metavar="N,…",
    help="Numbers of threads; one is always among them.",
)
@click.option(
    "--data",
    type=PATH,
    metavar="FILE.npz",
    help="Samples beside the self-test's inputs: one array for each input, samples along its first axis.",
)
@shape_option("Shape of an input of a model file.", "NAME=1,3,224,224")
@model_options
@state_options
@click.option(
    "--precision",
    type=click.Choice(["fp32", "fp16", "bf16"]),
    default="fp32",
    show_default=True,
    help="What float operators compute in; levels without the instructions are not run.",
)
@views_option("Write the certificate, too, by the file's ending: .json, which `verify` reads, or .html.")
@click.option(
    "--record",
    is_flag=True,
    help="Keep the certificate in PACKAGE, if all runs are good; `verify PACKAGE` reads it there.",
)
@json_option()
def certify(
    model: Path,
    targets: tuple[tuple[str, ...], ...],
    threads: str,
    data: Path | None,
    outputs: tuple[Path, ...],
    record: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Run MODEL on every instruction-set level and number of threads, and compare the numbers.

    A model file is compiled for each level; a package runs on those that have what it needs. Each level is emulated.
    Exit 1 if outputs differ by more than the bounds of the self-test, or on several threads by a bit; the first layer
    that differs is named.
    """
    if record and not model.is_dir():
        raise UsageError(
            f"--record: {model} is no package, in which a certificate could be kept; use -o FILE.json"
        )
    check_outputs(outputs, _WRITTEN, [model, *([data] if data else [])])
    load_tvm()
    # Not imported above: they load TVM, which --help does not need.
    from arm_ext.api.certify import STEPS
    from arm_ext.api.certify import certify as run

    names = [name for group in targets for name in ((group,) if isinstance(group, str) else group)]
    with progress("certifying", STEPS) as step:
        found = run(
            model, targets=names, threads=_numbers(threads), data=data, progress=step, **given_options(given)
        )
    document = found.model_dump_json(indent=2)
    kept = (model / CERTIFICATE,) if record and found.holds else ()
    write_views((*outputs, *kept), document, {".html": found.html})
    click.echo(document if as_json else found.text())
    if not found.holds:
        raise ModelError(f"{model}: not certified")


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"--threads {text}: expected numbers such as 1,2,4") from None
