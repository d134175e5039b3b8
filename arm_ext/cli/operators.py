# SPDX-License-Identifier: Apache-2.0
"""`arm-ext operators`."""

import json

import click

from arm_ext.cli.console import prose
from arm_ext.cli.loading import load_tvm
from arm_ext.cli.options import json_option
from arm_ext.common.text import counted

SCHEMA_VERSION = 1
FORMATS = ("onnx", "pytorch", "tflite", "stablehlo")


@click.command()
@click.argument("formats", metavar="[FORMAT]...", nargs=-1, type=click.Choice(FORMATS))
@json_option()
def operators(formats: tuple[str, ...], as_json: bool) -> None:
    """List the operators that models of each FORMAT may have: onnx, pytorch, tflite, stablehlo."""
    load_tvm()
    from arm_ext.frontends.supported import SUPPORTED

    found = {name: SUPPORTED[name]() for name in formats or FORMATS}
    if as_json:
        click.echo(json.dumps({"schema_version": SCHEMA_VERSION, "operators": found}, indent=2))
        return
    blocks = [
        f"{name}, {counted(len(names), 'operator')}\n{prose(', '.join(names))}"
        for name, names in found.items()
    ]
    click.echo("\n\n".join(blocks))
