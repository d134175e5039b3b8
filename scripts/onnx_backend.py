#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run the ONNX package's own node tests through import, compile and a run on this machine.

    python scripts/onnx_backend.py --jobs 2
    python scripts/onnx_backend.py --only Resize --verbose
    python scripts/onnx_backend.py --as-they-are --log cases.jsonl

Left out are the expanded twins, which test onnx's function bodies, and training. Inputs that decide a shape (axes,
sizes, repeats, ...) are bound to the test's values, as weights of a model are: a compiled model has static shapes.
A case passes if every output is within the case's own tolerance; integers, booleans and shapes are exact.
With --as-they-are a case is what a user has: `arm_ext.compile` of the model with all its inputs, and its package run
here. Those cases are all of onnx's, and one may be refused, but not fail in another way.
Exit codes: 1 if fewer cases pass than --at-least.
"""

import json
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TextIO

import click
import numpy as np
import numpy.typing as npt
import onnx
import tvm
from onnx import numpy_helper
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from tvm import relax

from arm_ext.api.compile import compile
from arm_ext.common.errors import ArmExtError, ModelError, UsageError
from arm_ext.common.workers import Lost, Workers
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.package import Package
from arm_ext.pipeline.selftest import run_on_host

# What operators call the inputs that sizes follow from, in onnx's own schemas.
# fmt: off
DECIDE_SHAPES = frozenset({
    "axes", "axis", "block_shape", "delta", "depth", "dft_length", "ends", "frame_length", "frame_step",
    "image_shape", "k", "limit", "lower_edge_hertz", "max_output_boxes_per_class", "num_mel_bins",
    "num_samples", "output_shape", "pads", "repeats", "roi", "sample_rate", "scales", "shape", "size",
    "sizes", "split", "start", "starts", "steps", "target_shape", "upper_edge_hertz",
})
# fmt: on

DECIDE_SHAPES_OF = frozenset({("Compress", "condition"), ("ConstantOfShape", "input"), ("TopK", "K")})

_SHOWN_WIDTH = 100

# A case takes a second; what takes this long hangs.
TIMEOUT_SECONDS = 120


Run = Callable[[ImportedModel, Sequence[npt.NDArray[Any]]], list[npt.NDArray[Any]]]


@dataclass(frozen=True)
class Outcome:
    """Result of a case: passed, or the stage at which it failed, with the reason."""

    case: str
    operator: str
    stage: str
    why: str = ""


@cache
def cases() -> dict[str, Any]:
    """Return onnx's node tests by name, without expanded and training ones."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # onnx computes overflows and divisions by zero on purpose
        found = collect_testcases(None)
    return {case.name: case for case in found if "_expanded" not in case.name and "training" not in case.name}


@cache
def every_case() -> dict[str, Any]:
    """Return all of onnx's node tests by name."""
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as above
        return {case.name: case for case in collect_testcases(None)}


def operator_of(case: Any) -> str:
    """Return the operator that a case is about."""
    return str(case.model.graph.node[-1].op_type)


def on_host(model: ImportedModel, inputs: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    """Compile a model for this machine and return the outputs of a run."""
    return run_on_host(model.mod, inputs)


def run_case(name: str, run: Run = on_host) -> Outcome:
    """Import, compile and run one case."""
    case = cases()[name]
    operator = operator_of(case)
    inputs, wanted = ([_array(value) for value in values] for values in case.data_sets[0])
    if not all(isinstance(value, np.ndarray) for value in (*inputs, *wanted)):
        return Outcome(name, operator, "type", "sequences and optional values")
    if any(value.dtype.kind in "OUS" for value in (*inputs, *wanted)):
        return Outcome(name, operator, "type", "strings")
    model, fed = bound(case.model, inputs)
    try:
        imported = import_onnx(model, {v.name: value.shape for v, value in fed})
    except ArmExtError as err:
        return Outcome(name, operator, "import", str(err))
    except Exception as err:
        return Outcome(name, operator, "import defect", f"{type(err).__name__}: {err}")
    try:
        got = run(imported, [value for _, value in fed])
    except Exception as err:
        return Outcome(name, operator, "compile", f"{type(err).__name__}: {err}")
    fault = difference(got, wanted, case)
    return Outcome(name, operator, "passed") if fault is None else Outcome(name, operator, "values", fault)


def compile_case(name: str) -> Outcome:
    """Compile one case into a package, its inputs as they are, and run that."""
    case = every_case()[name]
    operator = operator_of(case)
    inputs, wanted = ([_array(value) for value in values] for values in case.data_sets[0])
    plain = all(isinstance(value, np.ndarray) for value in (*inputs, *wanted))
    with TemporaryDirectory() as folder:
        try:
            made = compile(case.model, "host", Path(folder, "case"), inputs=inputs if plain else None)
            got = _run_here(made.package, inputs)
        except (ModelError, UsageError) as err:
            return Outcome(name, operator, "refused", str(err))
        except Exception as err:
            return Outcome(name, operator, "defect", f"{type(err).__name__}: {err}")
        fault = difference(got, wanted, case)
        if fault is None:
            return Outcome(name, operator, "passed")
        source = made.package.selftest().source
    agrees = source is not None and difference(got, source, case) is None
    return Outcome(name, operator, "as onnxruntime" if agrees else "values", fault)


def _run_here(package: Package, inputs: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    device = tvm.cpu()
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(package.so)), device)
    result = machine["main"](*(tvm.runtime.tensor(value, device) for value in inputs))
    outputs = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
    return [output.numpy() for output in outputs]


def _array(value: Any) -> Any:
    """Return a value of a case as an array, if it is one; other values unchanged."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.generic | int | float | bool) else value


def bound(
    model: onnx.ModelProto, inputs: Sequence[npt.NDArray[Any]]
) -> tuple[onnx.ModelProto, list[tuple[onnx.ValueInfoProto, npt.NDArray[Any]]]]:
    """Make initialisers of the inputs that decide shapes; return the model and the other inputs."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    deciding = set(_deciding(model))
    fed = []
    for value, array in zip(list(model.graph.input), inputs, strict=True):
        if value.name in deciding:
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), value.name))
            model.graph.input.remove(value)
        else:
            fed.append((value, np.asarray(array)))
    return model, fed


def _deciding(model: onnx.ModelProto) -> Iterator[str]:
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    for node in model.graph.node:
        schema = onnx.defs.get_schema(node.op_type, opsets.get(node.domain, 1), node.domain)
        for formal, actual in zip(schema.inputs, node.input, strict=False):
            if actual and (formal.name in DECIDE_SHAPES or (node.op_type, formal.name) in DECIDE_SHAPES_OF):
                yield actual


def difference(got: Sequence[npt.NDArray[Any]], wanted: Sequence[npt.NDArray[Any]], case: Any) -> str | None:
    """Return how outputs differ from those expected, or None."""
    if len(got) != len(wanted):
        return f"{len(got)} outputs, not {len(wanted)}"
    for ours, theirs in zip(got, wanted, strict=True):
        if ours.shape != theirs.shape:
            return f"shape {list(ours.shape)}, not {list(theirs.shape)}"
        if ours.dtype != theirs.dtype:
            return f"dtype {ours.dtype}, not {theirs.dtype}"
        if theirs.dtype.kind in "biu":
            if not np.array_equal(ours, theirs):
                return f"{np.count_nonzero(ours != theirs)} of {theirs.size} integers differ"
        elif not np.allclose(
            ours.astype(np.float64), theirs.astype(np.float64), case.rtol, case.atol, equal_nan=True
        ):
            worst = np.nanmax(np.abs(ours.astype(np.float64) - theirs.astype(np.float64)))
            return f"floats differ by up to {worst:.3g}"
    return None


class Runner:
    """Runs cases in a process of its own, whose libraries may print what they like."""

    def __init__(self, run: Callable[[str], Outcome]) -> None:
        self._run = run
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        warnings.simplefilter("ignore")

    def __call__(self, job: str, /) -> Outcome:
        """Run the case of this name."""
        return self._run(job)

    def close(self) -> None:
        """Do nothing, since there is nothing to end."""


_STAGES: dict[Lost, str] = {"died": "crash", "timeout": "hang"}


def run_all(
    names: Sequence[str],
    run: Callable[[str], Outcome],
    operator: Callable[[str], str],
    jobs: int,
    console: Console,
    log: TextIO | None,
) -> list[Outcome]:
    """Run cases in several processes, and return what became of them in their order; crashes and hangs are outcomes.

    Args:
        names: The cases.
        run: Runs a case; can be pickled.
        operator: Returns the operator that a case is about, for cases that crashed.
        jobs: Number of processes.
        console: Where progress is shown.
        log: File that gets a line of JSON for each case.
    """
    outcomes: dict[int, Outcome] = {}
    workers: Workers[str, Outcome] = Workers(partial(Runner, run), jobs, TIMEOUT_SECONDS)
    with Progress(console=console) as progress:
        shown = progress.add_task("cases", total=len(names))

        def note(index: int, answer: Outcome | Lost) -> None:
            if not isinstance(answer, Outcome):
                answer = Outcome(names[index], operator(names[index]), _STAGES[answer])
            outcomes[index] = answer
            if log is not None:
                print(json.dumps(asdict(answer)), file=log, flush=True)
            progress.advance(shown)

        try:
            workers.run(names, note)
        finally:
            workers.close()
    return [outcomes[index] for index in range(len(names))]


def _line_of(why: str) -> str:
    """Return the line of a message that tells most: the first of a list of operators or of remedies, else the last."""
    lines = why.strip().splitlines() or [""]
    if "depends on the data" in lines[0]:
        return lines[0]
    return lines[1].strip() if "cannot be compiled:" in lines[0] else lines[-1]


def report(outcomes: Sequence[Outcome], verbose: bool) -> int:
    """Print why cases do not pass, and how many do; return the number of those that pass."""
    failed = [o for o in outcomes if o.stage != "passed"]
    counts = Counter((o.operator, o.stage) for o in failed)
    table = Table("operator", "fails at", "cases", "first reason")
    for (operator, stage), times in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        why = next(o.why for o in failed if (o.operator, o.stage) == (operator, stage))
        table.add_row(operator, stage, str(times), _line_of(why)[:_SHOWN_WIDTH])
    Console(width=180).print(table)
    if verbose:
        for outcome in failed:
            click.echo(f"{outcome.case}: {outcome.stage}: {outcome.why}")
    passed = len(outcomes) - len(failed)
    click.echo(f"{passed} of {len(outcomes)} cases pass")
    return passed


@click.command(help=(__doc__ or "").splitlines()[0])
@click.option("--jobs", type=click.IntRange(min=1), default=len(os.sched_getaffinity(0)))
@click.option("--only", help="Operators, separated by commas.")
@click.option("--verbose", is_flag=True, help="List each case that fails.")
@click.option("--at-least", type=int, default=0, help="Fail below this number of cases passed.")
@click.option("--as-they-are", is_flag=True, help="Compile all cases as a user does.")
@click.option("--log", type=click.File("a"), help="Write a line of JSON for each case as it is done.")
@click.argument("names", nargs=-1)
def main(
    jobs: int,
    only: str | None,
    verbose: bool,
    at_least: int,
    as_they_are: bool,
    log: TextIO | None,
    names: tuple[str, ...],
) -> None:
    """Run cases, all or those named, and print how many pass and why the others do not."""
    wanted = None if only is None else set(only.split(","))
    chosen = [
        n
        for n, case in (every_case() if as_they_are else cases()).items()
        if (wanted is None or operator_of(case) in wanted) and (not names or n in names)
    ]
    run = compile_case if as_they_are else run_case
    outcomes = run_all(
        chosen, run, lambda name: operator_of(every_case()[name]), jobs, Console(stderr=True), log
    )
    sys.exit(report(outcomes, verbose) < at_least)


if __name__ == "__main__":
    main()
