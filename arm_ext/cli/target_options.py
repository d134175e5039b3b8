# SPDX-License-Identifier: Apache-2.0
"""Options of verbs that take a model for a target, or run it on a board."""

from collections.abc import Callable
from typing import Any

import click

from arm_ext.cli.console import Shape

Command = Callable[..., Any]
_SEVERAL = (
    " 'NAME=1,{64,128}', in quotes, has a size to choose at run time; lists of several inputs go together position by "
    "position. NAME=n,3,224,224 takes any number of samples, one by one; 'NAME=1,n<=512' any size up to 512."
)


def board_option(purpose: str) -> Callable[[Command], Command]:
    """Return the decorator that adds --board.

    Args:
        purpose: What is done on the board, as the help says it.
    """
    return click.option(
        "--board",
        default="virtual",
        show_default=True,
        help=f"Board to {purpose} on: virtual[:cpu], local, host:port, tracker-host:port/key.",
    )


def target_options(purpose: str, *, several: bool = True) -> Callable[[Command], Command]:
    """Return the decorator that adds --target, --mattr and --shape.

    Args:
        purpose: What is done for the target, as the help says it.
        several: Whether --shape takes several shapes of an input.
    """
    options = (
        click.option(
            "--target",
            default="arm",
            show_default=True,
            help=f"Profile to {purpose} for; see `arm-ext targets`.",
        ),
        click.option(
            "--mattr", metavar="+x,-y", help="LLVM features to add to and remove from the profile's."
        ),
        click.option(
            "--shape",
            "shapes",
            type=Shape(),
            multiple=True,
            metavar="NAME=1,3,224,224",
            help=f"Shape of an input.{_SEVERAL if several else ''}",
        ),
    )

    def add(function: Command) -> Command:
        for option in reversed(options):
            function = option(function)
        return function

    return add
