# SPDX-License-Identifier: Apache-2.0
"""`arm-ext compile`."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import click

from arm_ext.api import digits
from arm_ext.cli.config_option import models_argument
from arm_ext.cli.console import columns, command, given_shapes, progress
from arm_ext.cli.loading import load_tvm
from arm_ext.cli.model_options import given_options, given_states, given_values, model_options, state_options
from arm_ext.cli.npu_options import NpuCommand, npu_options
from arm_ext.cli.options import json_option, library_options, memory_budget_option, target_options
from arm_ext.cli.path_type import PATH
from arm_ext.cli.several_models import by_model, check_several
from arm_ext.common.timings import Section, whole_process
from arm_ext.package.manifest import Manifest, Precision
from arm_ext.quantization.accuracy import describe
from arm_ext.shapes.given import Dim, static_shapes

if TYPE_CHECKING:
    from arm_ext.api.compile import CompileResult
    from arm_ext.api.compile_library import LibraryModel, LibraryResult
    from arm_ext.frontends.onnx.extract import SavedNode

SCHEMA_VERSION = 1
_LEAST_SECONDS = 0.05  # minimum seconds of a row in --timings, whose times have one decimal place


@click.command(cls=NpuCommand)
@models_argument
@target_options("compile")
@click.option(
    "-o",
    "--output",
    type=PATH,
    help="Folder to write; a C library of several models is named after it.  [default: NAME.armpkg, or NAME-c for a C "
    "library of one]",
)
@library_options
@click.option(
    "--memory",
    metavar="NAME=SIZE,…",
    help="Regions of memory that a C library's caller gives it, the fastest first, such as fast=512K,slow=8M; the "
    "compiler decides what lies where.  [default: one arena]",
)
@model_options
@state_options
@click.option(
    "--precision",
    type=click.Choice(get_args(Precision)),
    default="fp32",
    show_default=True,
    help="Type in which float operators compute: fp16 sums at most 32 products before fp32 takes over; bf16 is used "
    "for products only.",
)
@click.option(
    "--winograd/--no-winograd",
    default=True,
    show_default=True,
    help="Compute 3 x 3 float convolutions by Winograd's transforms where that is faster; its weights are larger.",
)
@click.option(
    "--without-kernel",
    "without",
    multiple=True,
    metavar="NAME",
    help="Kernel that is not to be used; the next best computes in its place. May be given several times.",
)
@memory_budget_option
@click.option(
    "--fail-on-unpacked",
    is_flag=True,
    help="Fail if integer weights become float, as no kernel reads them as integers; report.txt names them.",
)
@click.option(
    "--random",
    metavar="seed=N|zeros|input",
    help="What an ONNX model has in the place of random numbers: the same ones at each run, zeros, or inputs.",
)
@click.option(
    "--inputs",
    type=PATH,
    metavar="FILE.npz",
    help="Samples as for `accuracy`, the first of which is the input of the self-test.  [default: random values]",
)
@click.option(
    "--dump-phases",
    type=PATH,
    metavar="DIR",
    help="Write the module after each phase to this folder, as TVMScript.",
)
@click.option(
    "--tuned",
    type=PATH,
    metavar="DIR",
    help="Tuning database whose records for the target decide kernels and their parameters; see `arm-ext tune`.",
)
@click.option(
    "--save-node",
    metavar="NAME",
    help="Compile nothing: write an ONNX model of this node alone, with its weights, to attach to a bug report.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Write the package even if the folder has other files, which stay, and replace files of an earlier "
    "package that were changed.",
)
@npu_options
@click.option(
    "--cc",
    metavar="COMMAND",
    help="Compiler driver to use instead of the pinned ziglang: it links a package, and compiles the C of a C "
    "library.",
)
@click.option(
    "--cache/--no-cache",
    default=True,
    show_default=True,
    help="Take kernels that were compiled before from the cache, and keep new ones there; the package is the same.",
)
@click.option("--timings", is_flag=True, help="Print where the time went: CPU seconds of each step.")
@json_option()
def compile(
    models: tuple[Path, ...],
    target: str,
    output: Path | None,
    save_node: str | None,
    timings: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Compile MODEL (ONNX, TFLite, StableHLO or a .pt2 of torch.export, float or quantised) into a package.

    Without MODEL it compiles the classifier of handwritten digits that ships with arm-ext. Several models become one C
    library, in which weights that they share are stored once; options that name inputs then say of which model, as
    in --shape encoder:audio=1,16000.
    """
    model = models[0] if models else None
    if len(models) > 1:
        check_several(models, given["emit"], output, _of_one(given, save_node))
    load_tvm()
    # Not imported above: they load TVM, onnx and torch, which --help does not need.
    from arm_ext.api.compile import STEPS
    from arm_ext.api.compile import compile as compile_model
    from arm_ext.api.compile_library import compile_library

    source = model or digits.model_path()
    if save_node is not None:
        _save_node(
            source, save_node, output, static_shapes(given_shapes(given["shapes"]), "--save-node"), as_json
        )
        return
    if len(models) > 1:
        parts = _library_models(models, *(given.pop(name) for name in ("shapes", "values", "states")))
        of_all = {name: value for name, value in given_options(given).items() if name not in _NOT_OF_LIBRARY}
        with whole_process("Python modules") as spent, progress("compiling", STEPS) as step:
            library = compile_library(parts, target, output or "", progress=step, **of_all)
        _show_library(library, spent if timings else None, as_json=as_json)
        return
    folder = output or Path(source.stem + ("-c" if given["emit"] == "c-library" else ".armpkg"))
    if not (given["inputs"] or model or given["preprocess"]):
        given["inputs"] = [digits.held_out()[0][:1]]
    with whole_process("Python modules") as spent, progress("compiling", STEPS) as step:
        result = compile_model(source, target, folder, progress=step, **given_options(given))
    _show(result, spent if timings else None, as_json=as_json)
    if model is None and not as_json and given["emit"] == "package":
        click.echo(_accuracy_hint(folder))


_OF_ONE = ("preprocess", "state_init", "quantize", "inputs", "dump_phases", "random")
"""Options of one model, which a library of several refuses."""

_NOT_OF_LIBRARY = (*_OF_ONE, "calibration", "emit")
"""Options that `compile_library` does not take; the last two have defaults, so they cannot be refused."""


def _of_one(given: Mapping[str, Any], save_node: str | None) -> dict[str, object]:
    """Return the options that support only one model, with their values."""
    chosen = {f"--{name.replace('_', '-')}": given[name] for name in _OF_ONE}
    return {**chosen, "--save-node": save_node}


def _library_models(
    models: Sequence[Path],
    shapes: Sequence[tuple[str, tuple[Dim, ...]]],
    values: Sequence[tuple[str, str]],
    states: Sequence[tuple[str, str]],
) -> "list[LibraryModel]":
    """Return the models of a library, each with the options that refer to its inputs."""
    from arm_ext.api.compile_library import LibraryModel

    options = {"shape": shapes, "value": values, "state": states}
    said = (by_model(f"--{option}", pairs, models) for option, pairs in options.items())
    return [
        LibraryModel(path, shapes=given_shapes(a), values=given_values(b), state=given_states(c))
        for path, a, b, c in zip(models, *said, strict=True)
    ]


def _show(result: "CompileResult", spent: Section | None, *, as_json: bool) -> None:
    """Print the result for a model, and the next command."""
    _warn(result)
    if as_json:
        _print_json(_document(result), spent)
        return
    click.echo(_table(result))
    if spent is not None:
        click.echo(f"\n{_timings(spent)}")
    package = result.package
    here = package.manifest.target.profile == "host"
    if package.manifest.library is not None:
        click.echo(_build_hint(package.path, here=here))
        return
    click.echo(
        f"\nRun it{'' if here else ', on an emulated board if there is none'}:\n"
        f"  {command('run')} {shlex.quote(str(package.path))} --board {'local' if here else 'virtual'} --check"
    )


def _show_library(result: "LibraryResult", spent: Section | None, *, as_json: bool) -> None:
    """Print the results for the models of a library."""
    for model in result.models:
        _warn(model)
    if as_json:
        models = [_document(model) for model in result.models]
        manifest = result.manifest.model_dump(mode="json")
        document = {"schema_version": SCHEMA_VERSION, "manifest": manifest, "models": models}
        _print_json(document, spent)
        return
    click.echo("\n\n".join(map(_table, result.models)))
    if spent is not None:
        click.echo(f"\n{_timings(spent)}")
    here = result.models[0].package.manifest.target.profile == "host"
    click.echo(_build_hint(result.path, here=here))


def _warn(result: "CompileResult") -> None:
    for warning in result.report.warnings:
        click.echo(f"warning: {warning}", err=True)


def _print_json(document: dict[str, object], spent: Section | None) -> None:
    timings = {} if spent is None else {"timings": spent.document()}
    click.echo(json.dumps(document | timings, indent=2))


def _build_hint(folder: Path, *, here: bool) -> str:
    example = shlex.quote(str(folder / "example"))
    cross, where = (
        ("", "") if here else (" --toolchain FILE", " on the board, FILE being your CMake toolchain file")
    )
    return (
        f"\nBuild and run its self-test{where}:\n"
        f"  cmake -S {example} -B build{cross} && cmake --build build && ./build/selftest"
    )


def _document(result: "CompileResult") -> dict[str, object]:
    return {
        "schema_version": SCHEMA_VERSION,
        "package": str(result.package.path),
        "manifest": result.package.manifest.model_dump(mode="json"),
        "report": result.report.model_dump(mode="json"),
    }


def _table(result: "CompileResult") -> str:
    manifest = result.package.manifest
    calibration = manifest.model.calibration
    states = ", ".join(f"{state.input} = {state.output}" for state in manifest.states)
    rows = {
        "package" if manifest.library is None else "folder": str(result.package.path),
        "model": f"{manifest.model.name} ({manifest.model.format}), {manifest.macs / 1e6:.2f} MMAC",
        "inputs": ", ".join(tensor.spec().describe() for tensor in manifest.inputs),
        "outputs": ", ".join(tensor.spec().describe() for tensor in manifest.outputs),
        **({"states": states} if states else {}),
        "target": f"{manifest.target.profile}: {_cores(manifest)}",
        "kernels": result.report.summary(),
        **({"tuned": _tuned(result)} if manifest.tuned else {}),
        **({} if calibration is None else {"quantised": describe(calibration)}),
        **({} if result.report.npu is None else {"npu": result.report.npu.summary()}),
        **_memory(manifest),
    }
    return columns(list(rows.items()))


def _cores(manifest: Manifest) -> str:
    """Return the target's core and features, or a family's levels and cores, as a cell of the table."""
    if manifest.levels:
        return ", ".join(f"{level.name} for {level.core}" for level in manifest.levels)
    return f"{manifest.target.cpu}, {' '.join(manifest.target.features)}"


def _memory(manifest: Manifest) -> dict[str, str]:
    """Return the memory that a package or library needs on the board."""
    library = manifest.library
    if library is None:
        memory = manifest.memory
        return {
            "memory": f"{memory.peak_activation_bytes:,} bytes of activations, {memory.weight_bytes:,} of weights"
        }
    stack = "" if library.stack_bytes is None else f", at most {library.stack_bytes:,} of stack"
    shared = f" (and {library.shared_weight_bytes:,} shared)" if library.shared_weight_bytes else ""
    regions = ", ".join(f"{name} {size:,}" for name, size in library.regions.items())
    return {
        "memory": f"{regions} bytes{stack}, {library.weight_bytes:,} of weights{shared}",
        "library": f"{library.file}, which calls {', '.join(library.requires) or 'nothing'}",
    }


def _timings(whole: Section) -> str:
    rows = [("CPU seconds", f"{whole.seconds:.1f}", "")]
    for depth, name, part in whole.rows():
        counts = ", ".join(f"{count} {what}" for what, count in part.counts.items())
        if counts or part.seconds >= _LEAST_SECONDS:
            rows.append(("  " * (depth + 1) + name, f"{part.seconds:.1f}", counts))
    return columns(rows, "<><")


def _tuned(result: "CompileResult") -> str:
    ours = [kernel for kernel in result.report.kernels if kernel.params]
    return f"{sum(bool(kernel.tuned) for kernel in ours)} of {len(ours)} kernels by records of the database"


def _accuracy_hint(folder: Path) -> str:
    images, _ = digits.held_out()
    return (
        f"Its accuracy on {len(images)} held-out images, {100 * digits.ACCURACY['int8']:.2f} % in onnxruntime, "
        f"on that board:\n  {command('run')} {folder} --board virtual --accuracy {digits.HELD_OUT}"
    )


def _save_node(
    model: Path, node: str, output: Path | None, shapes: Mapping[str, tuple[int, ...]], as_json: bool
) -> None:
    """Write a model of one node instead of compiling, and print what the file holds."""
    from arm_ext.frontends.onnx.extract import save_node

    path = output or Path(f"{model.stem}-{re.sub(r'[^A-Za-z0-9.-]+', '_', node).strip('_')}.onnx")
    saved = save_node(model, node, path, dict(shapes))
    if as_json:
        click.echo(json.dumps({"schema_version": SCHEMA_VERSION, **saved.document()}, indent=2))
        return
    click.echo("\n".join(_saved_table(saved)))


def _saved_table(saved: "SavedNode") -> list[str]:
    weights = f"{saved.weight_bytes:,} bytes, the model's own: look at them before you pass the file on"
    if not saved.weight_bytes:
        weights = "none"
    return [
        f"wrote    {saved.path}",
        f"nodes    {', '.join(f'{name} ({operator})' for name, operator in saved.nodes.items())}",
        f"inputs   {', '.join(saved.inputs) or 'none'}",
        f"weights  {weights}",
        "",
        f"Compile it alone:\n  {command('compile')} {saved.path}",
    ]
