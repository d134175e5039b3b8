# SPDX-License-Identifier: Apache-2.0
"""`arm_ext.compile`: a model in, a package or a C library out."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy.typing as npt
import onnx

from arm_ext.api.arguments import check_choice, check_type
from arm_ext.api.build_options import BuildOptions
from arm_ext.api.model_source import Source
from arm_ext.api.packing import write_models
from arm_ext.api.plugins import with_plugins
from arm_ext.api.serial import serial
from arm_ext.clibrary.library import Weights
from arm_ext.clibrary.memory import ARENA, MemoryRegion, parse_regions
from arm_ext.common.cache import without_entries
from arm_ext.common.errors import UsageError
from arm_ext.common.known_packages import remember
from arm_ext.common.output_folder import OutputFolder
from arm_ext.common.outputs import refuse_inside
from arm_ext.common.timings import section
from arm_ext.ethosu.options import NpuOptions
from arm_ext.frontends.load import export_module, prepared
from arm_ext.frontends.onnx.random import GivenSizes
from arm_ext.frontends.preprocess.options import Preprocess
from arm_ext.package import Package
from arm_ext.package.manifest import Method, Precision
from arm_ext.package.writing import writing
from arm_ext.pipeline.kernel_cache import KernelCache
from arm_ext.pipeline.phases import PHASES, SCRIPTS
from arm_ext.report.report import CompileReport
from arm_ext.shapes.bounded_length import refuse_with_length
from arm_ext.shapes.given import Bucket, Given, buckets_of
from relay_passes import Rule
from schedules.kernels.common.contract import Kernel

if TYPE_CHECKING:
    from jax.export import Exported
    from torch import nn
    from torch.export import ExportedProgram

Emit = Literal["package", "c-library"]
"""Kind of output that `compile` writes."""

# PHASES and the steps around them, for a progress display.
STEPS = ("import", *(phase.name for phase in PHASES), "kernels", "link", "self-test", "verify", "package")


@dataclass(frozen=True)
class CompileResult:
    """The result of `compile`: the package and its report.

    For a C library, too, `package` gives its folder and manifest.
    """

    package: Package
    report: CompileReport

    def __repr__(self) -> str:
        """Return the path, model and target in one line."""
        manifest = self.package.manifest
        return (
            f"CompileResult({str(self.package.path)!r}: {manifest.model.name} for {manifest.target.profile}, "
            f"{len(self.report.calls)} kernel calls, {manifest.macs / 1e6:.2f} MMAC, "
            f"{manifest.memory.peak_activation_bytes:,} bytes of activations, "
            f"{manifest.memory.weight_bytes:,} of weights)"
        )


@serial
@with_plugins
def compile(
    model: "str | Path | onnx.ModelProto | ExportedProgram | nn.Module | Exported",
    target: str = "arm",
    output: str | Path = "model.armpkg",
    *,
    emit: Emit = "package",
    weights: Weights = "embedded",
    threads: int = 1,
    memory: str | None = None,
    example_inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    trust: bool = False,
    plugins: Sequence[str | Path] = (),
    mattr: str | None = None,
    shapes: Given | None = None,
    values: Mapping[str, npt.ArrayLike] | None = None,
    random: str | None = None,
    preprocess: Preprocess | str | Path | None = None,
    state: Mapping[str, str] | None = None,
    state_init: Mapping[str, npt.NDArray[Any]] | str | Path | None = None,
    quantize: str | Path | None = None,
    calibration: Method = "minmax",
    precision: Precision = "fp32",
    winograd: bool = True,
    without: Sequence[str] = (),
    npu: NpuOptions | str | None = None,
    tuned: str | Path | None = None,
    rules: Sequence[Rule] = (),
    kernels: Sequence[Kernel] = (),
    inputs: Sequence[npt.NDArray[Any]] | str | Path | None = None,
    memory_budget: int | None = None,
    dump_phases: str | Path | None = None,
    cc: str | None = None,
    force: bool = False,
    cache: bool = True,
    progress: Callable[[str], None] = lambda step: None,
) -> CompileResult:
    """Compile a model into a package folder, which is written whole or not at all.

    Args:
        model: An ONNX, TFLite, StableHLO or .pt2 file, a loaded ONNX model, or an exported program of PyTorch or JAX,
            or a torch.nn.Module in eval mode.
        target: Name of a profile.
        output: The package folder; an earlier package there is replaced, if nothing else is there.
        emit: What to write to it: a "package", which TVM's runtime runs, or a "c-library", a static library with a
            header, which needs no runtime.
        weights: Where a C library's weights are: "embedded" in it, or in a "file" beside it, which the program maps.
        threads: How many threads of a pool share a kernel of a C library at most; a package's runtime has its own.
        memory: Regions of memory that a C library's caller gives it, the fastest first, such as "fast=512K,slow=8M";
            by default one arena of whatever size.
        example_inputs: Arguments of a module's forward, by which it is exported: a tuple of positional ones
            or a dict of named ones.
        trust: Whether a .pt2 file may run code of its own when it is opened; without it, one that would is refused.
        plugins: Python files of yours with converters of custom operators, rules and kernels; they run here, with
            your rights. The self-test is computed with their converters, without their rules and kernels.
        mattr: Features to add and remove, such as "+i8mm,-sve".
        shapes: Input name → shape, for inputs with dynamic dimensions. A list in the place of a size is of sizes
            to choose from at run time; lists go together position by position. A name in the place of the first size
            is any number of samples, computed one by one; "n<=512" in the place of any size is each up to 512.
        values: Input name → its numbers, of an ONNX model: the package is for these alone, and has no such input.
        random: What replaces random numbers of an ONNX model: "zeros", "seed=N" for numbers that are the same at each
            run, or "input" for inputs with the names of the nodes' outputs.
        preprocess: Steps before and after the model that the package computes too, or a YAML file of them.
        state: Input name → name of the output that is its value in the next `step`; buffers that a PyTorch program
            changes are such states too.
        state_init: What the first step begins with, input name → array, or an .npz of them; by default the value that
            the model has for it, or zeros.
        quantize: .npz with calibration samples, to quantise a float model to int8.
        calibration: How the range of an activation follows from the samples.
        precision: What float operators compute in; "fp16" and "bf16" are for float models, and keep sums
            in fp32; in "bf16" it is products alone.
        winograd: Whether float convolutions may be computed by Winograd's transforms, whose rounding errors are
            some four times those of a plain sum.
        without: Names of kernels that are not to be used, such as "depthwise_s8"; the next best take their place.
        npu: An Ethos-U for parts of a quantised model, such as "ethos-u65-256", or that and how to divide.
        tuned: A tuning database, whose records for the target decide kernels and their parameters.
        rules: Graph rewrites of your own, applied beside ours; the self-test is computed without them, so that
            `run --check` shows whether they keep the values.
        kernels: Kernels of your own to choose among beside ours, where all sizes are known; the self-test is computed
            without them, too.
        inputs: Inputs of the self-test, in the model's order, or an .npz as for `accuracy`, whose first sample they
            are; seeded random ones by default.
        memory_budget: Largest peak of activation memory allowed, in bytes.
        dump_phases: Folder for each phase's module as TVMScript, beside what else is there.
        cc: Compiler driver to use instead of the pinned ziglang: it links a package, and compiles the C of a C library.
        force: Whether to write to a folder where other files are, too, which stay.
        cache: Whether kernels that were compiled before are taken from the user's cache, and new ones kept there.
        progress: Called with each of STEPS as it begins.

    Raises:
        UsageError: An argument or the model file is wrong.
        ModelError: The model holds what cannot be compiled, or exceeds a budget, or stays on the CPU against a wish.
        EnvError: The linker, or Vela, is missing or fails.
        InternalError: The result fails the compiler's own checks.
    """
    if isinstance(model, list | tuple):
        raise UsageError("model: expected one model; arm_ext.compile_library makes a C library of several")
    check_type("target", target, str)
    check_type("values", {} if values is None else values, Mapping)
    check_type("state", {} if state is None else state, Mapping)
    check_type("memory", "" if memory is None else memory, str)
    check_choice("emit", emit, Emit)
    check_choice("weights", weights, Weights)
    check_choice("precision", precision, Precision)
    check_choice("calibration", calibration, Method)
    if example_inputs is not None:
        model = export_module(model, example_inputs)
    build = BuildOptions.checked(
        target,
        mattr,
        precision,
        without,
        tuned,
        plugins,
        winograd=winograd,
        rules=rules,
        kernels=kernels,
        npu=npu,
        memory_budget=memory_budget,
    )
    buckets = buckets_of(shapes)
    refuse_with_length(buckets, **{"--npu": npu})
    if emit == "c-library":
        refuse_for_library(buckets)
    else:
        _refuse_for_package(weights, threads, memory)
    regions = regions_of(threads, memory)
    vela_config = npu.vela_config if isinstance(npu, NpuOptions) else None
    files = (model, preprocess, state_init, quantize, tuned, vela_config, inputs)
    read = [Path(each) for each in (*files, *plugins) if isinstance(each, str | Path)]
    dump = None if dump_phases is None else _dump(dump_phases, Path(output), read, buckets, force)
    uses = nullcontext() if cache else without_entries()
    with uses, writing(Path(output), read, force=force) as folder:
        progress("import")
        # Of an input of frames, the model's shape is known later.
        sizes = _given_sizes(buckets) if preprocess is None else None
        given = prepared(model, values, trust=trust, random=random, sizes=sizes)
        source = Source(
            given, preprocess, state or {}, state_init, quantize, calibration, inputs, npu is not None
        )
        # What a C library, an NPU's division and a dump read is bodies of kernels.
        kernel_cache = KernelCache() if emit == "package" and npu is None and dump is None else None
        options = build.of_phases(serial=emit == "c-library" and threads == 1, kernel_cache=kernel_cache)
        with section("import"):
            variants, calibrated = source.variants(buckets, options)
        build.refuse_indivisible(variants)
        packing = build.run(variants, calibrated, folder, dump, progress)
        if emit == "package":
            linked = packing.link(cc, progress)
        else:
            (linked,) = write_models([packing], weights, threads, regions, progress, cc=cc)
        progress("package")
        with section("package"):
            manifest, report = packing.write(linked)
    if emit == "package":
        remember(manifest.so_sha256)
    return CompileResult(Package(Path(output), manifest), report)


def regions_of(threads: int, memory: str | None) -> tuple[MemoryRegion, ...]:
    """Return the memory regions of a C library; also check its number of threads."""
    if threads < 1:
        raise UsageError(f"--threads {threads}: 1 or more threads share a kernel")
    return ARENA if memory is None else parse_regions(memory)


def _refuse_for_package(weights: Weights, threads: int, memory: str | None) -> None:
    """Refuse options that only C libraries have."""
    if weights != "embedded":
        raise UsageError("--weights file is for --emit c-library; a package's weights are in model.so")
    if threads != 1:
        raise UsageError("--threads is for --emit c-library; a package takes TVM_NUM_THREADS when it runs")
    if memory is not None:
        raise UsageError("--memory is for --emit c-library; a package's runtime allocates one arena")


def refuse_for_library(buckets: Sequence[Bucket]) -> None:
    """Refuse options and models that C libraries do not support yet."""
    if len(buckets) > 1 and any(bucket.batch for bucket in buckets):
        raise UsageError(
            f"{len(buckets)} shapes, each of any number of samples: a C library's run takes a shape or a number of "
            "samples, not both. Compile a copy of the model for each shape into one library, which stores their "
            "weights once: compile a.onnx b.onnx --emit c-library --shape a:NAME=n,64 --shape b:NAME=n,128 -o DIR"
        )


def _given_sizes(buckets: Sequence[Bucket]) -> GivenSizes:
    """Return the shapes that random numbers may follow from; two where the run decides a size."""
    first = buckets[0]
    if first.length:
        values, text = (first.largest, first.largest - 1), f"{first.length}<={first.largest}"
        shapes = [first.with_length(n) for n in values]
        return GivenSizes(shapes, lambda sizes: text if sizes == values else None, first.length)
    if first.batch:
        counts = (1, 2)
        shapes = [bucket.with_batch(n) for bucket in buckets for n in counts]
        return GivenSizes(shapes, lambda sizes: first.batch if sizes == counts else None, first.batch)
    return GivenSizes([bucket.shapes for bucket in buckets], lambda sizes: f"{{{','.join(map(str, sizes))}}}")


def _dump(
    folder: str | Path, output: Path, read: Sequence[Path], buckets: Sequence[Bucket], force: bool
) -> OutputFolder:
    dump = OutputFolder(folder, "--dump-phases", read, force=force)
    refuse_inside(Path(folder), "--dump-phases", output)
    for bucket in buckets:
        dump.check_like(str(Path(bucket.label, SCRIPTS)))
    return dump
