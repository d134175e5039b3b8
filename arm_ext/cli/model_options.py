# SPDX-License-Identifier: Apache-2.0
"""Options for changes that a command makes to a model before it is compiled."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import click

from arm_ext.cli.console import Pair, given_shapes
from arm_ext.cli.npu_options import NPU_OPTIONS, read_npu_options
from arm_ext.cli.options import Option, option_group
from arm_ext.cli.path_type import PATH
from arm_ext.common.errors import UsageError
from arm_ext.package.manifest import Method


def calibration_option(purpose: str) -> Option[Any]:
    """Return the decorator that adds --calibration.

    Args:
        purpose: Description in --help.
    """
    return click.option(
        "--calibration",
        type=click.Choice(get_args(Method)),
        default="minmax",
        show_default=True,
        help=purpose,
    )


plugin_option = click.option(
    "--plugin",
    "plugins",
    type=PATH,
    multiple=True,
    metavar="FILE.py",
    help="Python file of yours with converters of custom operators, rules and kernels, which runs with your "
    "rights. May be given several times.",
)

value_option = click.option(
    "--value",
    "values",
    type=Pair("NAME=NUMBER,…"),
    multiple=True,
    metavar="NAME=NUMBER,…",
    help="Make this input of an ONNX model a constant, such as sr=16000: what depends on it alone is computed when the "
    "model is compiled, and the package has no such input.",
)


def given_values(pairs: Sequence[tuple[str, str]]) -> dict[str, list[int | float | bool]]:
    """Return the numbers of --value: name of the input → numbers.

    Raises:
        UsageError: A value is no number.
    """
    values = {}
    for name, text in pairs:
        try:
            values[name] = json.loads(f"[{text}]")
        except ValueError:
            raise UsageError(
                f"--value {name}: {text!r} is neither a number nor a list such as 1,2,3"
            ) from None
    return values


trust_option = click.option(
    "--trust",
    is_flag=True,
    help="Let a .pt2 file run code of its own when it is opened; without it, a file that would is refused.",
)

model_options = option_group(
    trust_option,
    plugin_option,
    value_option,
    click.option(
        "--preprocess",
        type=PATH,
        metavar="FILE.yaml",
        help="Steps before and after the model that the package computes too: from a camera's frame to labels.",
    ),
    click.option(
        "--quantize",
        type=PATH,
        metavar="FILE.npz",
        help="Quantise a float model to int8 by the calibration samples in this .npz: one array for each input, "
        "samples along its first axis.",
    ),
    calibration_option("How --quantize finds the range of an activation."),
)
"""Decorator that adds --trust, --plugin, --value, --preprocess, --quantize and --calibration."""


def _state_options(state: str, initial: str) -> Option[Any]:
    """Return the decorator that adds --state and --state-init, with their descriptions in --help."""
    return option_group(
        click.option("--state", "states", type=Pair("IN=OUT"), multiple=True, metavar="IN=OUT", help=state),
        click.option(
            "--state-init",
            type=PATH,
            metavar="FILE.npz",
            help=f".npz with {initial}, by input name.  [default: the model's own value, or zeros]",
        ),
    )


state_options = _state_options(
    "Keep output OUT as the next value of input IN: the package's `step` takes the other inputs alone.",
    "the initial value of each state",
)
"""Decorator that adds the options for a model's states."""

sample_state_options = _state_options(
    "Output OUT is the next value of input IN: samples are consecutive steps, and need no array of IN.",
    "the value of each state in the first step",
)
"""Decorator that adds the options for a model's states to a command that takes samples."""


def given_states(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Return the outputs of --state: name of the input → name of the output.

    Raises:
        UsageError: An input is named twice.
    """
    states = dict(pairs)
    if len(states) < len(pairs):
        raise UsageError("--state names an input twice; an input has only one next value")
    return states


def given_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of a command line as arguments for the API's functions.

    Args:
        given: Name of the option's value → the value, as click has it. Others than --shape, --value, --state and those
            of an NPU are returned as they are.

    Raises:
        UsageError: A shape, a value or a state is wrong, or options of an NPU do not go together.
    """
    found = dict(given)
    if "accelerator" in found:
        npu = {name: found.pop(name) for name in NPU_OPTIONS if name in found}
        found["npu"] = read_npu_options(npu)
    for name, option, read in (
        ("shapes", "shapes", given_shapes),
        ("values", "values", given_values),
        ("states", "state", given_states),
    ):
        if name in found:
            found[option] = read(found.pop(name))
    return found
