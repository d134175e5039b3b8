# SPDX-License-Identifier: Apache-2.0
"""`arm_ext.compile`: compiles a model into a package or a C library."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from arm_ext.api.arguments import check_type
from arm_ext.api.build_options import BuildOptions
from arm_ext.api.model_source import Source
from arm_ext.api.mutual_exclusion import serial
from arm_ext.api.options import Options, gathered
from arm_ext.api.packing import write_models
from arm_ext.api.plugins import with_plugins
from arm_ext.api.sample_shapes import shaped_by
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
from arm_ext.package import Package
from arm_ext.package.writing import writing
from arm_ext.pipeline.kernel_cache import KernelCache
from arm_ext.pipeline.phases import PHASES, SCRIPTS
from arm_ext.report.report import CompileReport
from arm_ext.shapes.bounded_length import refuse_with_length
from arm_ext.shapes.given import Bucket, buckets_of

if TYPE_CHECKING:
    from jax.export import Exported
    from torch import nn
    from torch.export import ExportedProgram

# Steps for a progress display: the phases, and the steps before and after them.
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
@shaped_by("inputs", "quantize")
def compile(
    model: "str | Path | onnx.ModelProto | ExportedProgram | nn.Module | Exported",
    target: str = "arm",
    output: str | Path = "model.armpkg",
    options: Options | None = None,
    *,
    progress: Callable[[str], None] = lambda step: None,
    **more: Any,
) -> CompileResult:
    """Compile a model into a package folder; on an error, nothing is written.

    Args:
        model: An ONNX, TFLite, StableHLO or .pt2 file, a loaded ONNX model, or an exported program of PyTorch or JAX,
            or a torch.nn.Module in eval mode.
        target: Name of a profile.
        output: The package folder; an earlier package there is replaced, if nothing else is there.
        options: Options in one record.
        progress: Called with each of STEPS as it begins.
        more: Options by keyword, such as `shapes` or `precision`: the attributes of `Options`.

    Raises:
        UsageError: An argument or the model file is wrong.
        ModelError: The model holds what cannot be compiled, or exceeds a budget, or stays on the CPU against a wish.
        EnvError: The linker, or Vela, is missing or fails.
        InternalError: The result fails the compiler's own checks.
    """
    if isinstance(model, list | tuple):
        raise UsageError(
            "model: expected one model; use arm_ext.compile_library for a C library of several models"
        )
    check_type("target", target, str)
    o = gathered("compile", Options, options, more)
    if o.example_inputs is not None:
        model = export_module(model, o.example_inputs)
    build = BuildOptions.checked(target, o, families=True)
    buckets = buckets_of(o.shapes)
    refuse_with_length(buckets, **{"--npu": o.npu})
    if o.emit == "c-library":
        refuse_for_library(buckets)
    else:
        _refuse_for_package(o)
    regions = regions_of(o.threads, o.memory)
    read = [*([Path(model)] if isinstance(model, str | Path) else []), *o.files]
    dump = None if o.dump_phases is None else _dump(o.dump_phases, Path(output), read, buckets, o.force)
    uses = nullcontext() if o.cache else without_entries()
    with uses, writing(Path(output), read, force=o.force) as folder:
        progress("import")
        # With preprocessing, the shape of the model's input is known only later.
        sizes = _given_sizes(buckets) if o.preprocess is None else None
        given = prepared(model, o.values, trust=o.trust, random=o.random, sizes=sizes)
        # C libraries, NPU divisions and dumps need the kernels' bodies, which cached kernels lack.
        kernel_cache = KernelCache() if o.emit == "package" and o.npu is None and dump is None else None
        phases = build.of_phases(serial=o.emit == "c-library" and o.threads == 1, kernel_cache=kernel_cache)
        with section("import"):
            variants, calibrated = Source(given, o, o.npu is not None).variants(buckets, phases)
        build.refuse_indivisible(variants)
        packing = build.run(variants, calibrated, folder, dump, progress)
        if o.emit == "package":
            linked = packing.link(o.cc, progress)
        else:
            (linked,) = write_models([packing], o.weights, o.threads, regions, progress, cc=o.cc)
        progress("package")
        with section("package"):
            manifest, report = packing.write(linked)
    if o.emit == "package":
        remember(manifest.so_sha256)
    return CompileResult(Package(Path(output), manifest), report)


def regions_of(threads: int, memory: str | None) -> tuple[MemoryRegion, ...]:
    """Return the memory regions of a C library, and check the number of threads."""
    if threads < 1:
        raise UsageError(f"--threads {threads}: the number of threads must be at least 1")
    return ARENA if memory is None else parse_regions(memory)


def _refuse_for_package(options: Options) -> None:
    """Refuse options that only C libraries support."""
    if options.weights != "embedded":
        raise UsageError("--weights file is for --emit c-library; a package's weights are in model.so")
    if options.threads != 1:
        raise UsageError("--threads is for --emit c-library; a package takes TVM_NUM_THREADS when it runs")
    if options.memory is not None:
        raise UsageError("--memory is for --emit c-library; a package's runtime allocates one arena")
    if isinstance(options.npu, NpuOptions) and options.npu.npu_fallback != "cpu":
        raise UsageError("--npu-fallback none is for --emit c-library; a package always has the CPU's code")


def refuse_for_library(buckets: Sequence[Bucket]) -> None:
    """Refuse options and models that C libraries do not support yet."""
    if len(buckets) > 1 and any(bucket.batch for bucket in buckets):
        raise UsageError(
            f"{len(buckets)} shapes, each of any number of samples: a C library's run takes a shape or a number of "
            "samples, not both. Compile a copy of the model for each shape into one library, which stores their "
            "weights once: compile a.onnx b.onnx --emit c-library --shape a:NAME=n,64 --shape b:NAME=n,128 -o DIR"
        )


def _given_sizes(buckets: Sequence[Bucket]) -> GivenSizes:
    """Return the shapes on which the number of random numbers depends.

    Two for a size that is known only at run time.
    """
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
