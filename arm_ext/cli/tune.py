# SPDX-License-Identifier: Apache-2.0
"""`arm-ext tune`."""

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, get_args

import click

from arm_ext.cli.console import command, given_shapes
from arm_ext.cli.loading import load_tvm
from arm_ext.cli.minutes import Minutes
from arm_ext.cli.model_options import given_values, model_options
from arm_ext.cli.options import json_option, target_options
from arm_ext.cli.path_type import PATH
from arm_ext.cli.process import interrupt_on_signals
from arm_ext.cli.tune_view import BOUND, amount, percent, table_of_tasks, view
from arm_ext.package.manifest import Method, Precision
from arm_ext.shapes.given import Dim, dims_text

if TYPE_CHECKING:
    from arm_ext.tune.report import TuneReport

_DB = "tuning"


@click.command()
@click.argument("model", type=PATH)
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
    help="virtual[:cpu] estimates cycles; local, host:port and tracker-host:port/key time, the last one on all boards "
    "that the tracker has of the key.",
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
    mattr: str | None,
    shapes: tuple[tuple[str, tuple[Dim, ...]], ...],
    preprocess: Path | None,
    quantize: Path | None,
    trust: bool,
    plugins: tuple[Path, ...],
    values: tuple[tuple[str, str], ...],
    calibration: Method,
    precision: Precision,
    db: Path,
    board: str,
    budget: float | None,
    trials: int | None,
    tasks: str | None,
    seed: int,
    jobs: int | None,
    rerank: str | None,
    top: int,
    as_json: bool,
) -> None:
    """Try other parameters for the kernels of MODEL, and record what is faster than without tuning.

    Ctrl-C ends it and keeps what was found. `compile --tuned DIR` uses it.
    """
    load_tvm()
    # Not above: it loads TVM and what reads models, for which --help need not wait.
    from arm_ext.api.tune import tune_model

    interrupt_on_signals()
    with view() as (on_start, on_progress):
        report = tune_model(
            model,
            target,
            db,
            mattr=mattr,
            shapes=given_shapes(shapes),
            preprocess=preprocess,
            quantize=quantize,
            trust=trust,
            plugins=plugins,
            values=given_values(values),
            calibration=calibration,
            precision=precision,
            board=board,
            jobs=jobs,
            budget=budget,
            trials=trials,
            tasks=tasks.split(",") if tasks else (),
            seed=seed,
            rerank=rerank,
            top=top,
            on_start=on_start,
            on_progress=on_progress,
        )
    if as_json:
        click.echo(report.model_dump_json(indent=2))
        return
    legend = f"\n\n{BOUND}" if report.unit == "cycles" else ""
    click.echo(f"{table_of_tasks(report)}{legend}\n\n{_summary(report)}")
    given = {
        "--mattr=": mattr,
        "--preprocess ": preprocess,
        "--quantize ": quantize,
        "--calibration ": calibration if quantize else None,
        "--precision ": precision if precision != "fp32" else None,
    }
    flags = "".join(f" --shape {quote(f'{name}={dims_text(dims)}')}" for name, dims in shapes)
    flags += "".join(f" --plugin {quote(str(path))}" for path in plugins)
    flags += "".join(f" --value {quote(f'{name}={text}')}" for name, text in values)
    flags += "".join(f" {option}{value}" for option, value in given.items() if value) + " --trust" * trust
    click.echo(f"\nUse it:\n  {command('compile')} {model} --target {target}{flags} --tuned {db}")


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
