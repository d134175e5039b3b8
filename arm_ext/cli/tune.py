# SPDX-License-Identifier: Apache-2.0
"""`arm-ext tune`."""

from collections.abc import Mapping
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, get_args

import click

from arm_ext.cli.config_option import model_argument
from arm_ext.cli.console import command
from arm_ext.cli.loading import load_tvm
from arm_ext.cli.minutes import Minutes
from arm_ext.cli.model_options import given_options, model_options
from arm_ext.cli.options import BOARDS, json_option, target_options
from arm_ext.cli.path_type import PATH
from arm_ext.cli.process import interrupt_on_signals
from arm_ext.cli.tune_view import BOUND, amount, percent, table_of_tasks, view
from arm_ext.package.manifest import Precision
from arm_ext.shapes.given import dims_text

if TYPE_CHECKING:
    from arm_ext.tune.report import TuneReport

_DB = "tuning"


@click.command()
@model_argument()
@target_options("tune")
@model_options
@click.option(
    "--precision",
    type=click.Choice(get_args(Precision)),
    default="fp32",
    show_default=True,
    help="Type in which float operators compute.",
)
@click.option(
    "--db",
    type=PATH,
    default=Path(_DB),
    show_default=True,
    metavar="DIR",
    help="Tuning database to read and to extend. What it holds is not measured again, so that a run that was "
    "interrupted goes on.",
)
@click.option(
    "--board",
    default="virtual",
    show_default=True,
    help=f"{BOARDS}: a virtual one estimates cycles, the others time; a tracker's are used all at once.",
)
@click.option(
    "--budget", type=Minutes(), metavar="30m", help="Time after which the search ends: 30m, 2h, 90s."
)
@click.option("--trials", type=click.IntRange(1), metavar="N", help="Number of candidates to try at most.")
@click.option("--tasks", metavar="NAME,NAME", help="Tune only these tasks, such as 'conv2d_s8.*'.")
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    help="Seed of the search; the same seed makes the same trials.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    metavar="N",
    help="Processes on this machine.  [default: one for each core]",
)
@click.option(
    "--rerank", metavar="BOARD", help="Time the best of each task on this board, instead of a search."
)
@click.option(
    "--top",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    metavar="K",
    help="With --rerank: number of candidates of each task to time.",
)
@json_option()
def tune(
    model: Path,
    target: str,
    db: Path,
    tasks: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Try other parameters for the kernels of MODEL, and record what is faster than without tuning.

    Ctrl-C ends it and keeps what was found. `compile --tuned DIR` uses it.
    """
    load_tvm()
    # Not imported above: it loads TVM and the front ends, which --help does not need.
    from arm_ext.api.tune import tune_model

    interrupt_on_signals()
    with view() as (on_start, on_progress):
        report = tune_model(
            model,
            target,
            db,
            tasks=tasks.split(",") if tasks else (),
            on_start=on_start,
            on_progress=on_progress,
            **given_options(given),
        )
    if as_json:
        click.echo(report.model_dump_json(indent=2))
        return
    legend = f"\n\n{BOUND}" if report.unit == "cycles" else ""
    click.echo(f"{table_of_tasks(report)}{legend}\n\n{_summary(report)}")
    click.echo(f"\nUse it:\n  {command('compile')} {model} --target {target}{_flags(given)} --tuned {db}")


def _summary(report: "TuneReport") -> str:
    assert report.before is not None
    assert report.after is not None
    ends = {"done": "all trials", "budget": "the budget was used up", "interrupted": "interrupted"}
    failures = ", ".join(f"{count} {kind}" for kind, count in report.failures.items()) or "none"
    gain = percent(1 - report.after / report.before)
    rows = {
        "tasks together": f"{amount(report.before, report.unit)} → {amount(report.after, report.unit)} ({gain} less)",
        **({} if report.bound is None else {"bound": f"{percent(report.bound)} of what is left"}),
        "measured": report.where,
        "trials": f"{report.trials}, {report.reused} of them known, in {report.seconds:.0f} s ({ends[report.stopped]})",
        "failures": failures,
        "records in": str(Path(report.db).resolve()) + ("; --db names another folder" * (report.db == _DB)),
    }
    return "\n".join(f"{name:<18}{value}" for name, value in rows.items())


def _flags(given: Mapping[str, Any]) -> str:
    """Return the options with which `compile` reads the model as `tune` did."""
    texts = {
        "--mattr=": given["mattr"],
        "--preprocess ": given["preprocess"],
        "--quantize ": given["quantize"],
        "--calibration ": given["calibration"] if given["quantize"] else None,
        "--precision ": given["precision"] if given["precision"] != "fp32" else None,
    }
    flags = "".join(f" --shape {quote(f'{name}={dims_text(dims)}')}" for name, dims in given["shapes"])
    flags += "".join(f" --plugin {quote(str(path))}" for path in given["plugins"])
    flags += "".join(f" --value {quote(f'{name}={text}')}" for name, text in given["values"])
    flags += "".join(f" {option}{value}" for option, value in texts.items() if value)
    return f"{flags} --trust" if given["trust"] else flags
