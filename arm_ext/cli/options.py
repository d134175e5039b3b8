# SPDX-License-Identifier: Apache-2.0
"""Options that are shared by several commands and need no import of TVM."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from arm_ext.cli.console import ShapeOption
from arm_ext.cli.path_type import PATH

Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Command], Command]

_SEVERAL = (
    " 'NAME=1,{64,128}', in quotes, has a size to choose at run time; lists of several inputs go together position by "
    "position. NAME=n,3,224,224 takes any number of samples, one by one; 'NAME=1,n<=512' any size up to 512."
)


def option_group(*options: Option[Any]) -> Option[Any]:
    """Return a decorator that adds several options, which --help lists in this order."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


BOARDS = "virtual[:cpu], local, ssh://user@host, adb[:serial], host:port, tracker-host:port/key"
"""Forms of a board's name in --help."""


def board_option(purpose: str) -> Option[Any]:
    """Return a decorator that adds --board.

    Args:
        purpose: Verb in --help for the use of the board, such as "run".
    """
    return click.option(
        "--board",
        default="virtual",
        show_default=True,
        help=f"Board to {purpose} on: {BOARDS}.",
    )


cores_option = click.option(
    "--cores",
    metavar="4-7",
    help="With --board local, ssh:// or adb: run on these cores alone, with as many threads, such as the big ones "
    "of a big.LITTLE system.",
)


MAX_THREADS = 64
"""Most threads that the counting plugin has counters for."""


def threads_option(effect: str) -> Option[Any]:
    """Return a decorator that adds --threads.

    Args:
        effect: What --help says of several threads, and of the default.
    """
    return click.option(
        "--threads",
        type=click.IntRange(1, MAX_THREADS),
        metavar="N",
        help=f"Threads of the runtime, on a virtual board, local, ssh:// or adb. {effect}",
    )


def target_option(purpose: str) -> Option[Any]:
    """Return a decorator that adds --target.

    Args:
        purpose: Words in --help between "Profile" and "for", such as "to compile".
    """
    return click.option(
        "--target",
        default="arm",
        show_default=True,
        help=f"Profile {purpose} for; see `arm-ext targets`.",
    )


def shape_option(purpose: str, example: str = "NAME=1,64") -> Option[Any]:
    """Return a decorator that adds --shape.

    Args:
        purpose: Description in --help.
        example: Example in --help.
    """
    return click.option("--shape", "shapes", type=ShapeOption(), multiple=True, metavar=example, help=purpose)


def target_options(purpose: str, *, several: bool = True) -> Option[Any]:
    """Return a decorator that adds --target, --mattr and --shape.

    Args:
        purpose: Verb in --help for the use of the target, such as "compile".
        several: Whether --shape takes several shapes of an input.
    """
    return option_group(
        target_option(f"to {purpose}"),
        click.option(
            "--mattr", metavar="+x,-y", help="LLVM features to add to and remove from the profile's."
        ),
        shape_option(f"Shape of an input.{_SEVERAL if several else ''}", "NAME=1,3,224,224"),
    )


def views_option(purpose: str) -> Option[Any]:
    """Return a decorator that adds -o for files whose extensions select the format of a report.

    Args:
        purpose: Description in --help, with the extensions.
    """
    return click.option(
        "-o",
        "--output",
        "outputs",
        type=PATH,
        multiple=True,
        metavar="FILE",
        help=f"{purpose} May be given several times.",
    )


def data_options(purpose: str, *, required: bool = True, note: str = "") -> Option[Any]:
    """Return the decorator that adds --data, --preprocess and --metric: samples, and the metric to measure on them.

    Args:
        purpose: Description of the samples in --help.
        required: Whether --data is required.
        note: Further text of the help of --data.
    """
    return option_group(
        click.option(
            "--data",
            type=PATH,
            required=required,
            metavar="FILE.npz|DIR",
            help=f"{purpose}: an .npz with one array for each input, samples along its first axis, and 'labels' for "
            f"most metrics; or a folder of images, with a sub-folder for each class or a labels.csv.{note}",
        ),
        click.option(
            "--preprocess",
            type=PATH,
            metavar="FILE.yaml",
            help="Steps from an image of --data DIR to the model's input, as for compile.  [default: to the input's "
            "size, as 0 to 1]",
        ),
        click.option(
            "--metric",
            metavar="top1|top5|f1|cosine|iou|map50|wer|cer|perplexity|MODULE:FUNCTION",
            help="Metric of the outputs; a function takes them by name, samples in front, and the data's arrays.  "
            "[default: top1, if there are labels]",
        ),
    )


all_layers_option = click.option(
    "--all", "whole", is_flag=True, help="List all layers in execution order, not the ten worst."
)


def json_option(what: str = "one JSON document") -> Option[Any]:
    """Return a decorator that adds --json.

    Args:
        what: The printed document, in --help.
    """
    return click.option("--json", "as_json", is_flag=True, help=f"Print {what}.")


library_options = option_group(
    click.option(
        "--emit",
        type=click.Choice(["package", "c-library"]),
        default="package",
        show_default=True,
        help="What to write: a package, which TVM's runtime runs, or a static library with a C header, which needs "
        "none.",
    ),
    click.option(
        "--weights",
        type=click.Choice(["embedded", "file"]),
        default="embedded",
        show_default=True,
        help="Where a C library's weights are: in it, or in a file beside it, which the program maps or has in flash.",
    ),
    click.option(
        "--threads",
        type=click.IntRange(1, 256),
        default=1,
        show_default=True,
        help="Most threads of a pool that share a kernel of a C library; a pool of POSIX threads comes with it.",
    ),
)

memory_budget_option = click.option(
    "--memory-budget",
    type=click.IntRange(min=0),
    metavar="BYTES",
    help="Fail if activations, states and, in a package, weights need more memory than this.",
)
