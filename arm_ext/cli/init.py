# SPDX-License-Identifier: Apache-2.0
"""`arm-ext init`."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from arm_ext.cli.console import Pair, command, given_shapes
from arm_ext.cli.loading import load_tvm
from arm_ext.cli.model_options import (
    given_states,
    given_values,
    plugin_option,
    trust_option,
    value_option,
)
from arm_ext.cli.options import shape_option
from arm_ext.cli.path_type import PATH
from arm_ext.common.errors import UsageError
from arm_ext.frontends.common.refuse import example_shape
from arm_ext.shapes.given import Dim, dims_text, parse_dims

if TYPE_CHECKING:
    from arm_ext.api.init import OpenPoints


@click.command()
@click.argument("model", type=PATH)
@shape_option("Shape of an input, which is then not asked for.", "NAME=1,3,224,224")
@value_option
@click.option(
    "--state",
    "states",
    type=Pair("IN=OUT"),
    multiple=True,
    metavar="IN=OUT",
    help="Output OUT is the next value of input IN, which is then not asked for.",
)
@trust_option
@plugin_option
@click.option("--force", is_flag=True, help="Replace an earlier description.")
def init(
    model: Path,
    shapes: tuple[tuple[str, tuple[Dim, ...]], ...],
    values: tuple[tuple[str, str], ...],
    states: tuple[tuple[str, str], ...],
    *,
    trust: bool,
    plugins: tuple[Path, ...],
    force: bool,
) -> None:
    """Write a description of MODEL beside it, MODEL.yaml: its shapes, constants and states, for all commands.

    What MODEL does not say is asked for, on a terminal or from a pipe, a line an answer.
    """
    load_tvm()
    from arm_ext.api.init import open_points, refuse_existing, write_description

    refuse_existing(model, force=force)

    def ask(given: Sequence[tuple[str, tuple[Dim, ...]]], pairs: Sequence[tuple[str, str]]) -> "OpenPoints":
        return open_points(model, given_shapes(given), given_values(pairs), trust=trust, plugins=plugins)

    found = ask(shapes, values)
    while found.shapes:
        shapes = (*shapes, *(_asked_shape(name, dims) for name, dims in found.shapes.items()))
        found = ask(shapes, values)
    known_values = values
    for name, described in found.constants.items():
        if answer := _asked(f"{described}: number that it always has (empty: it stays an input)"):
            values = (*values, (name, answer))
    known = given_states(states)
    for name, output in found.states.items():
        if name not in known and _asked(f"is output {output} the next value of input {name}? y or n") == "y":
            states = (*states, (name, output))
    options = {
        "shape": [f"{name}={dims_text(dims)}" for name, dims in shapes],
        "value": [f"{name}={text}" for name, text in values],
        "state": [f"{name}={output}" for name, output in states],
    }
    if not any(options.values()):
        click.echo(f"{model} says all that the commands need: no file is written")
        return
    if values != known_values:
        ask(shapes, values)  # the model is imported once more, to check these answers, too
    path = write_description(model, options)
    click.echo(f"{path} is read by each command that takes {model}, such as `{command('compile')} {model}`")


def _asked(question: str) -> str:
    """Return the answer to a question; empty if nobody answers."""
    try:
        return str(click.prompt(question, default="", show_default=False, err=True)).strip()
    except click.Abort:
        if sys.stdin.isatty():
            raise
        return ""


def _asked_shape(name: str, dims: Sequence[int | str]) -> tuple[str, tuple[Dim, ...]]:
    """Ask for the shape of an input; return the name of the input and the answer.

    Raises:
        UsageError: Nobody answers, or what is answered is no shape.
    """
    said = f"{name}[{','.join(map(str, dims))}]"
    answer = _asked(f"{said}: shape, such as {dims_text(example_shape(dims))}")
    try:
        return name, parse_dims(answer)
    except ValueError:
        raise UsageError(
            f"the shape of {said} is not known: give it by --shape {name}=…, or answer with it"
        ) from None
