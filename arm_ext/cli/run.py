# SPDX-License-Identifier: Apache-2.0
"""`arm-ext run`."""

import dataclasses
import io
import json
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import numpy as np
import numpy.typing as npt

from arm_ext.cli.console import columns
from arm_ext.cli.loading import load_tvm
from arm_ext.cli.options import board_option, json_option, threads_option
from arm_ext.cli.path_type import PATH
from arm_ext.common.distance import ALL_NAN, Distance
from arm_ext.common.errors import ModelError, UsageError
from arm_ext.common.npz import read_npy
from arm_ext.common.output_folder import OutputFolder
from arm_ext.common.outputs import refuse_inside
from arm_ext.package import load_package
from arm_ext.package.manifest import Calibration
from arm_ext.quantization.accuracy import describe

if TYPE_CHECKING:
    from arm_ext.api.run import OutputCheck, RunResult

SCHEMA_VERSION = 2


class _Input(NamedTuple):
    name: str
    path: Path
    value: npt.NDArray[Any]


class _Array(click.ParamType[_Input]):
    """Option type NAME=x.npy → the name, the file and its array."""

    name = "array"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> _Input:
        name, separator, path = value.partition("=")
        if not (separator and name and path):
            self.fail(f"{value!r} is not of the form NAME=x.npy", param, ctx)
        try:
            return _Input(name, Path(path), read_npy(Path(path)))
        except UsageError as err:
            self.fail(str(err), param, ctx)


@click.command()
@click.argument("package", type=PATH)
@board_option("run")
@click.option(
    "--input",
    "inputs",
    type=_Array(),
    multiple=True,
    metavar="NAME=x.npy",
    help="Value of an input, in place of the self-test's.",
)
@click.option(
    "--output",
    type=PATH,
    metavar="DIR",
    help="Write each output as .npy.",
)
@click.option("--force", is_flag=True, help="Replace files of --output even if they were changed.")
@click.option(
    "--check", is_flag=True, help="Compare with the self-test; exit 1 if an output is out of bounds."
)
@click.option(
    "--accuracy",
    type=PATH,
    metavar="FILE.npz",
    help="Classify the 'inputs' of this .npz, and count how many match its 'labels'.",
)
@click.option(
    "--steps",
    type=click.IntRange(1),
    metavar="N",
    help="Run N steps of a package with states; an --input may have one more axis in front, with a value for each "
    "step.",
)
@threads_option("Results are the same on any number.  [default: the runtime's choice]")
@json_option()
def run(
    package: Path,
    board: str,
    inputs: tuple[_Input, ...],
    check: bool,
    accuracy: Path | None,
    steps: int | None,
    threads: int | None,
    as_json: bool,
    **written: Any,
) -> None:
    """Run PACKAGE on a board."""
    load_tvm()
    from arm_ext.api import run

    names = [given.name for given in inputs]
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise UsageError(f"--input {twice[0]} is given twice; an input has one file, with all its steps")
    output: Path | None = written["output"]
    folder = None if output is None else _output(output, package, inputs, written["force"])
    opened = load_package(package, bare=True)
    if accuracy is not None:
        if given := [
            f"--{name}"
            for name, value in (("check", check), ("steps", steps), ("input", inputs), ("threads", threads))
            if value
        ]:
            raise UsageError(f"--accuracy runs on its own inputs; leave {' and '.join(given)} out")
        right, total = run.accuracy(opened, board, accuracy)
        _print_accuracy(right, total, as_json)
        return
    named = {given.name: given.value for given in inputs}
    result = run.run(opened, board, inputs=named, check=check, steps=steps, threads=threads)
    if folder is not None:
        _write(folder, result)
    calibration = opened.manifest.model.calibration
    for warning in result.warnings:
        click.echo(f"warning: {warning}", err=True)
    if as_json:
        click.echo(json.dumps(_document(result), indent=2))
    else:
        click.echo(_table(result, calibration))
        if result.npu is not None:
            click.echo(result.npu.text())
    failed = [check.name for check in result.checks if not check.passed]
    if failed:
        raise ModelError(f"out of bounds: {', '.join(failed)} ({opened.manifest.check.reason})")
    if result.checks and all(check.says_nothing == ALL_NAN for check in result.checks):
        raise ModelError(
            "the self-test compares nothing: for its inputs every output is NaN; compile with samples that make the "
            "model compute, by --inputs FILE.npz"
        )


def _print_accuracy(right: int, total: int, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"schema_version": SCHEMA_VERSION, "right": right, "total": total}))
    else:
        click.echo(f"accuracy {100 * right / total:.2f} % ({right} of {total})")


def _output(path: Path, package: Path, inputs: Sequence[_Input], force: bool) -> OutputFolder:
    folder = OutputFolder(path, "--output", [given.path for given in inputs], force=force)
    refuse_inside(path, "--output", package)
    folder.check_like("[0-9]*_*.npy")
    return folder


def _write(folder: OutputFolder, result: "RunResult") -> None:
    contents = {}
    for index, (name, value) in enumerate(result.outputs.items()):
        # A name of an output may contain characters that file names may not; the number distinguishes equal
        # results.
        safe = "".join(c if c.isalnum() or c in "._-" else "_" for c in name)
        file = io.BytesIO()
        np.save(file, value)
        contents[f"{index}_{safe}.npy"] = file.getvalue()
    folder.write_all(contents)


def _table(result: "RunResult", calibration: Calibration | None) -> str:
    if not result.checks:
        outputs = [(name, f"{value.dtype}{list(value.shape)}") for name, value in result.outputs.items()]
        return columns([("output", "type"), *outputs])
    rows = [("output", "compared with", "difference", "differ", "top-1", "")]
    for (cells, _), several in groupby(result.checks, lambda c: (_cells_of(c), c.name.partition(" of ")[2])):
        checks = list(several)
        names = [f"{check.name} {check.type}" for check in checks]
        if len(checks) > _SHOWN and all(check.expected.exact for check in checks):
            names = [f"{checks[0].name.partition(' of ')[0]} … {checks[-1].name}: {len(checks)} outputs"]
        for name in names:
            rows += [(name if at == 0 else "", *row) for at, row in enumerate(cells)]
    return "\n".join([columns(rows), "", _legend(result, calibration)])


_SHOWN = 3
"""Most outputs in sequence with the same results that have rows of their own; a language model has 60 caches."""


def _cells_of(check: "OutputCheck") -> list[tuple[str, str, str, str, str]]:
    """Return the cells of the rows of an output, without its name."""
    others = (("source", check.source), ("float model", check.float_model))
    return [
        ("self-test", *_cells(check.expected, check.type), _verdict(check)),
        *((name, *_cells(found, check.type), "") for name, found in others if found is not None),
    ]


def _cells(found: Distance, type_: str) -> tuple[str, str, str]:
    top1 = "same" if found.top1 else "differs"
    if found.exact:
        return "equal", "", top1
    size = f"{found.relative:.2e}" if type_.startswith("float") else f"{found.relative:g}"
    return size, f"{100 * found.differing:.3g} %", top1


def _verdict(check: "OutputCheck") -> str:
    bound = f"bound {check.bound:g}" if check.bound else "must be equal"
    if check.differing and not check.expected.exact:
        bound = f"{100 * check.differing:g} % may differ"
    if check.passed and check.says_nothing:
        return f"SAYS NOTHING: {check.says_nothing}, as expected ({bound})"
    if not check.passed:
        return f"OUT OF BOUNDS ({bound})"
    return f"{'ok' if check.source or check.float_model else 'as compiled'} ({bound})"


def _legend(result: "RunResult", calibration: Calibration | None) -> str:
    rows = [
        ("difference", "max |difference| / max |reference| of floats, max |difference| of integers"),
        ("self-test", "our own numbers, computed on the machine that compiled"),
        ("source", result.source_runtime),
    ]
    if any(check.source is None and check.float_model is None for check in result.checks):
        rows.append(("as compiled", "the model's own runtime computed nothing to compare with"))
    if any(
        found.top1 is False for check in result.checks for found in (check.source, check.float_model) if found
    ):
        said = "the greatest value stands elsewhere; of random inputs, whose scores are near each other, that is usual"
        rows.append(("top-1 differs", said))
    if calibration is not None:
        rows += [
            ("float model", "before --quantize, by onnxruntime, on the self-test's inputs, which may leave"),
            ("", f"the calibrated range; {describe(calibration)}"),
        ]
    return columns(rows)


def _document(result: "RunResult") -> dict[str, object]:
    return {
        "schema_version": SCHEMA_VERSION,
        "outputs": [
            {"name": name, "shape": list(value.shape), "dtype": value.dtype.name}
            for name, value in result.outputs.items()
        ],
        "source_runtime": result.source_runtime,
        "checks": [{**dataclasses.asdict(check), "passed": check.passed} for check in result.checks],
        "warnings": list(result.warnings),
        "npu": None if result.npu is None else result.npu.model_dump(),
    }
