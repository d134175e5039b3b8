# SPDX-License-Identifier: Apache-2.0
"""Options of what a verb does to a model before anything else."""

from typing import Any, get_args

import click

from arm_ext.cli.options import Option, option_group
from arm_ext.cli.path_type import PATH
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


model_options = option_group(
    click.option(
        "--trust",
        is_flag=True,
        help="Let a .pt2 file run code of its own when it is opened; without it, a file that would is refused.",
    ),
    click.option(
        "--plugin",
        "plugins",
        type=PATH,
        multiple=True,
        metavar="FILE.py",
        help="Python file of yours with converters of custom operators, rules and kernels, which runs with your "
        "rights. May be given several times.",
    ),
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
        help="Quantise a float ONNX model to int8 by the calibration samples in this .npz: one array for each input, "
        "samples along its first axis.",
    ),
    calibration_option("How --quantize finds the range of an activation."),
)
"""Decorator that adds --trust, --plugin, --preprocess, --quantize and --calibration: options on the imported model."""
