# SPDX-License-Identifier: Apache-2.0
"""`arm-ext advise`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from arm_ext.cli.config_option import model_argument
from arm_ext.cli.console import NAMES, Number, check_outputs, progress, write_views
from arm_ext.cli.loading import load_tvm
from arm_ext.cli.minutes import Minutes
from arm_ext.cli.model_options import given_options, model_options
from arm_ext.cli.npu_options import CPU_MHZ
from arm_ext.cli.options import board_option, json_option, target_options, views_option
from arm_ext.cli.path_type import PATH
from arm_ext.cli.process import interrupt_on_signals
from arm_ext.common.errors import EnvError, InternalError, UsageError
from arm_ext.common.outputs import checked_file, refuse_inputs, write_file
from arm_ext.ethosu.options import HANDOVER_US, NpuOptions
from arm_ext.frontends.onnx.external_files import with_external_files

if TYPE_CHECKING:
    from arm_ext.report.advice.failure import Failure
    from arm_ext.report.advice.npu.record import NpuAdvice
    from arm_ext.report.advice.record import AdviceReport

WRITTEN = (".html", ".json", ".csv")
"""Endings of --output, which choose the format."""

_ALL = "all"
_ENDINGS = (".yaml", ".yml")
# Options only for measured builds, and options only for NPU estimates.
_MEASURED = {"board": "--board", "tuned": "--tuned", "max_error": "--max-error", "applied": "--apply"}
_PRICED = {"cpu_mhz": "--cpu-mhz", "handover_us": "--handover-us", "outputs": "--output"}


_OF_MEASURE = ("board", "tuned", "max_error")
"""Options of what is measured; estimates for NPUs have no use for them."""


@click.command()
@model_argument()
@target_options("compile", several=False)
@board_option("measure")
@model_options
@click.option("--tuned", type=PATH, metavar="DIR", help="Try the records of this tuning database, too.")
@click.option(
    "--max-error",
    type=Number(min=0),
    default=0.05,
    show_default=True,
    metavar="X",
    help="Recommend nothing that changes an output by more than this, over the largest |output|.",
)
@click.option(
    "--budget",
    type=Minutes(),
    metavar="30m",
    help="Time after which no further build is begun: 30m, 2h, 90s.",
)
@click.option(
    "--apply",
    "applied",
    type=PATH,
    metavar="FILE.yaml",
    help="Write the recommended options, for `compile --config`.",
)
@click.option(
    "--npu",
    "npus",
    type=NAMES,
    metavar="all|NAME,…",
    help="Build and measure nothing; estimate what a quantised MODEL would take on all Ethos-U, or on these, with each "
    "clock and memory that Vela has for them.",
)
@click.option(
    "--measure",
    "measured",
    is_flag=True,
    help="With --npu NAME: build and measure as without --npu, and compare the regions that this Ethos-U would take, "
    "by Vela's estimate, with the CPU.",
)
@click.option(
    "--cpu-mhz",
    type=Number(min=0, min_open=True),
    metavar="MHZ",
    help=f"With --npu: clock of the CPU beside it.  [default: {CPU_MHZ}]",
)
@click.option(
    "--handover-us",
    type=Number(min=0),
    default=HANDOVER_US,
    show_default=True,
    metavar="US",
    help="With --npu: microseconds of handing a region over, an assumption.",
)
@views_option("With --npu: write it, too, by the file's ending: .html (a plot and the table), .json or .csv.")
@json_option()
def advise(
    model: Path,
    applied: Path | None,
    npus: tuple[str, ...] | None,
    measured: bool,
    cpu_mhz: float | None,
    handover_us: float,
    outputs: tuple[Path, ...],
    as_json: bool,
    **given: Any,
) -> None:
    """Find what makes MODEL faster: build and measure other options of compile, and changes of the model.

    A virtual board compares estimated cycles, a real one times. If an option cannot be built, its row says why.
    --quantize gives the samples to try int8 with; outputs are then compared on the first one.

    --npu NAME --measure compares an Ethos-U with the CPU, too. --npu all estimates what each Ethos-U would make of it
    instead; Ctrl-C ends that and keeps what was found.
    """
    if npus == ():
        raise UsageError(f"--npu names no accelerator; name at least one, or all: --npu {_ALL}")
    npu = _accelerator(npus, cpu_mhz, handover_us) if measured else None
    _refuse_options_of_other(npus is not None, measured)
    read = [
        path
        for path in (model, *(given[name] for name in ("preprocess", "quantize", "tuned")))
        if path is not None
    ]
    options = given_options(given)
    if npus is not None and npu is None:
        check_outputs(outputs, WRITTEN, read)
        both = {name: value for name, value in options.items() if name not in _OF_MEASURE}
        prices = _price(model, () if npus == (_ALL,) else npus, cpu_mhz, handover_us, both)
        _show_prices(prices, outputs, as_json=as_json)
        return
    if applied is not None:
        if applied.suffix not in _ENDINGS:
            raise UsageError(f"{applied}: --apply writes options in YAML; name a file that ends with .yaml")
        refuse_inputs(checked_file(applied, "--apply"), "--apply", with_external_files(read))
    report = _measure(model, npu, options)
    _show(report, applied, as_json=as_json)


def _accelerator(npus: tuple[str, ...] | None, cpu_mhz: float | None, handover_us: float) -> NpuOptions:
    """Return the accelerator to compare with the CPU."""
    if npus is None or len(npus) != 1 or npus == (_ALL,):
        raise UsageError(
            "--measure compares one accelerator with the CPU; name it: --npu ethos-u55-128 --measure"
        )
    return NpuOptions(npus[0], cpu_mhz=cpu_mhz, handover_us=handover_us)


def _refuse_options_of_other(npu: bool, measured: bool) -> None:
    """Refuse options for measured builds with --npu, and options of --npu without it.

    With --measure, which allows both kinds, refuse only --output.
    """
    context = click.get_current_context()
    priced = npu and not measured
    others = _MEASURED if priced else _PRICED
    for parameter, option in others.items():
        if measured and parameter != "outputs":
            continue
        if context.get_parameter_source(parameter) == ParameterSource.COMMANDLINE:
            raise UsageError(
                f"{option} is for measured builds, but --npu only estimates; leave out one of them"
                if priced
                else f"{option} needs --npu; name accelerators, or all: --npu {_ALL}"
            )


def _measure(model: Path, npu: NpuOptions | None, options: Mapping[str, Any]) -> "AdviceReport":
    """Build and measure alternatives."""
    load_tvm()
    # Imported here, since it loads TVM, which --help does not need.
    from arm_ext.api.advise import STEPS
    from arm_ext.api.advise import advise as find

    with progress("advising", STEPS) as step:
        return find(model, npu=npu, progress=step, **options)


def _show(report: "AdviceReport", applied: Path | None, *, as_json: bool) -> None:
    from arm_ext.report.advice.text import config, text

    if applied is not None:
        write_file(applied, config(report).encode(), "--apply")
    click.echo(report.model_dump_json(indent=2) if as_json else text(report))
    _raise_for(report.failures())


def _price(
    model: Path, names: Sequence[str], cpu_mhz: float | None, handover_us: float, both: Mapping[str, Any]
) -> "NpuAdvice":
    """Estimate inference times with NPUs; `both` are the arguments shared with `_measure`."""
    load_tvm()
    # Imported here, since it loads TVM, which --help does not need.
    from arm_ext.api.advise_npu import advise_npu, configurations

    steps = ("import", *(each.name for each in configurations(names)))
    interrupt_on_signals()
    with progress("estimating", steps) as step:
        return advise_npu(model, npus=names, cpu_mhz=cpu_mhz, handover_us=handover_us, progress=step, **both)


def _show_prices(prices: "NpuAdvice", outputs: Sequence[Path], *, as_json: bool) -> None:
    from arm_ext.report.advice.npu.views import csv, html, text

    document = prices.model_dump_json(indent=2)
    write_views(outputs, document, {".html": lambda: html(prices), ".csv": lambda: csv(prices)})
    click.echo(document if as_json else text(prices))
    _raise_for(prices.failures())


def _raise_for(failures: "set[Failure]") -> None:
    if "defect" in failures:
        raise InternalError("a defect of arm-ext kept some of it from being measured; its rows say which")
    if "environment" in failures:
        raise EnvError("some of it could not be measured here; its rows say why; all other rows are valid")
