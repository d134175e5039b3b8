# SPDX-License-Identifier: Apache-2.0
"""`arm_ext.compile`: a model in, a package out."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt
import onnx
import tvm

from arm_ext import package
from arm_ext.errors import ModelError, UsageError
from arm_ext.ethosu.options import NpuOptions, require_packages
from arm_ext.frontends.imported import ImportedModel
from arm_ext.frontends.load import import_model
from arm_ext.frontends.preprocess import Preprocess
from arm_ext.frontends.wrap import preprocessed
from arm_ext.macs import count_macs
from arm_ext.make_manifest import Compiled, make_manifest
from arm_ext.manifest import Calibration, Memory, Numerics, Precision
from arm_ext.memory import memory_of
from arm_ext.native.build import npu_runtime
from arm_ext.package import Package, RegionValues, Selftest
from arm_ext.pipeline import PHASES, Context, build, run_phases
from arm_ext.quant.frontend import import_quantized
from arm_ext.quant.static import Method
from arm_ext.report import CompileReport, build_report
from arm_ext.selftest import check_of, make_selftest, random_inputs
from arm_ext.target.isa import check_isa
from arm_ext.target.profiles import Profile, resolve
from arm_ext.target.toolchain import Linker as LinkStep
from arm_ext.tune.tuned import Tuned
from schedules.kernels import winograd_f32
from schedules.numerics import qdq, tosa

if TYPE_CHECKING:
    from torch.export import ExportedProgram

    from arm_ext.npu_files import Offloaded
    from arm_ext.offloading import Divider
    from arm_ext.partitioner import Partitioner

# PHASES and the steps around them, for a progress display.
STEPS = ("import", *(phase.name for phase in PHASES), "link", "verify", "self-test", "package")

_NUMERICS: dict[Numerics, qdq.Qdq] = {"qdq": qdq.NUMERICS, "tosa": tosa.NUMERICS}


# By LLVM's names, Armv8.2-A's arithmetic on binary16 and Armv8.6-A's products of bfloat16. Without them each
# operation takes conversions more.
_PRECISION_FEATURE: dict[Precision, str] = {"fp16": "fullfp16", "bf16": "bf16"}


@dataclass(frozen=True)
class CompileResult:
    """What `compile` made."""

    package: Package
    report: CompileReport


def compile(
    model: "str | Path | onnx.ModelProto | ExportedProgram",
    target: str = "arm",
    output: str | Path = "model.armpkg",
    *,
    mattr: str | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    preprocess: Preprocess | str | Path | None = None,
    quantize: str | Path | None = None,
    calibration: Method = "minmax",
    precision: Precision = "fp32",
    winograd: bool = True,
    npu: NpuOptions | str | None = None,
    tuned: str | Path | None = None,
    inputs: Sequence[npt.NDArray[Any]] | None = None,
    memory_budget: int | None = None,
    dump_phases: str | Path | None = None,
    cc: str | None = None,
    progress: Callable[[str], None] = lambda step: None,
) -> CompileResult:
    """Compile a model into a package folder, which is written whole or not at all.

    Args:
        model: An ONNX, TFLite or .pt2 file, a loaded ONNX model, or an exported program of PyTorch.
        target: Name of a profile.
        output: The package folder; an earlier package there is replaced.
        mattr: Features to add and remove, such as "+i8mm,-sve".
        shapes: Input name → static shape, for inputs with dynamic dimensions.
        preprocess: Steps before and after the model that the package computes too, or a YAML file of them.
        quantize: .npz with calibration samples, to quantise a float model to int8.
        calibration: How the range of an activation follows from the samples.
        precision: What float operators compute in; "fp16" and "bf16" are for float models, and keep sums
            in fp32; in "bf16" it is products alone.
        winograd: Whether float convolutions may be computed by Winograd's transforms, whose rounding errors are
            some four times those of a plain sum.
        npu: An Ethos-U for parts of a quantised model, such as "ethos-u65-256", or that and how to divide.
        tuned: A tuning database, whose records for the target decide kernels and their parameters.
        inputs: Inputs of the self-test, in the model's order; seeded random ones by default.
        memory_budget: Largest peak of activation memory allowed, in bytes.
        dump_phases: Folder for each phase's module as TVMScript.
        cc: Linker to use instead of the pinned ziglang.
        progress: Called with each of STEPS as it begins.

    Raises:
        UsageError: An argument or the model file is wrong.
        ModelError: The model holds what cannot be compiled, or exceeds a budget, or stays on the CPU against a wish.
        EnvError: The linker, or Vela, is missing or fails.
        InternalError: The result fails the compiler's own checks.
    """
    profile = resolve(target, mattr)
    numerics: Numerics = "qdq" if npu is None else "tosa"
    divider = None if npu is None else _divider(npu)
    with package.writing(Path(output)) as folder:
        progress("import")
        imported, calibrated = _import(model, shapes or {}, quantize, calibration)
        imported = preprocessed(imported, preprocess)
        _check_precision(precision, imported, profile)
        if divider is not None:
            divider.check(imported)
        context = Context(profile, precision, () if winograd else (winograd_f32.NAME,), _NUMERICS[numerics])
        known = None if tuned is None else Tuned(tuned, profile, context.without)
        context.choose = known
        macs = count_macs(imported.mod)
        partitioner = None if divider is None else _partitioner(divider, imported, macs)
        context.divide = partitioner
        modules = _run(imported, context, Path(dump_phases) if dump_phases else None, progress)
        offloaded = None if partitioner is None else partitioner.offloaded
        memory = memory_of(modules["lower"], modules["plan"])
        _check_budget(memory, memory_budget)
        compiled = build_report(
            imported.name,
            profile.name,
            imported.nodes,
            macs,
            context.kernels,
            context.left_float,
            context.kept_layout,
            None if offloaded is None else offloaded.report,
        )
        test_inputs = list(inputs) if inputs is not None else random_inputs(imported.inputs)
        progress("link")
        # The self-test compiles the model for this machine, which takes about as long: each has a core.
        with ThreadPoolExecutor(max_workers=1) as beside:
            pending = beside.submit(_selftest, imported, test_inputs, context, offloaded)
            executable = build(modules["plan"], profile)
            beside_kernels = (npu_runtime(profile.triple),) if context.offers else ()
            linker = executable.export_library(
                str(folder / package.SO), fcompile=LinkStep(profile.triple, cc, beside_kernels)
            )
            progress("verify")
            check_isa(folder / package.SO, profile.features)
            progress("self-test")
            selftest, values = pending.result()
        selftest.save(folder / package.SELFTEST)
        progress("package")
        manifest = make_manifest(
            Compiled(
                imported,
                calibrated,
                profile,
                precision,
                numerics,
                memory,
                compiled.macs,
                check_of(imported, precision, context.left_float),
                linker,
                package.file_sha256(folder / package.SO),
                None if offloaded is None else offloaded.write(folder, values),
                [] if known is None else known.records(imported.name),
            )
        )
        package.write_manifest(folder, manifest)
        (folder / package.REPORT_JSON).write_text(compiled.model_dump_json(indent=2) + "\n")
        (folder / package.REPORT_TEXT).write_text(compiled.text())
    return CompileResult(Package(Path(output), manifest), compiled)


def _import(
    model: "str | Path | onnx.ModelProto | ExportedProgram",
    shapes: Mapping[str, Sequence[int]],
    samples: str | Path | None,
    method: Method,
) -> tuple[ImportedModel, Calibration | None]:
    static = {name: tuple(shape) for name, shape in shapes.items()}
    if samples is None:
        return import_model(model, static), None
    return import_quantized(model, Path(samples), method, static)


def _divider(npu: NpuOptions | str) -> "Divider":
    require_packages()
    # Not above: the packages that it needs may be missing where there is no NPU.
    from arm_ext.offloading import Divider

    return Divider(npu if isinstance(npu, NpuOptions) else NpuOptions(npu))


def _partitioner(divider: "Divider", model: ImportedModel, macs: Mapping[str, int]) -> "Partitioner":
    from arm_ext.partitioner import Partitioner

    return Partitioner(divider, model, macs)


def _selftest(
    model: ImportedModel, inputs: list[npt.NDArray[Any]], context: Context, offloaded: "Offloaded | None"
) -> tuple[Selftest, list[RegionValues]]:
    """What the package's CPU should give, and what flows through its regions for an NPU."""
    if offloaded is not None:
        return offloaded.selftest(model, inputs, context.without)
    return make_selftest(model, inputs, context.precision, context.without, context.numerics), []


def _check_precision(precision: Precision, model: ImportedModel, profile: Profile) -> None:
    if precision == "fp32":
        return
    if model.quantized:
        raise UsageError(f"--precision {precision} is for float models; {model.name} is quantised")
    feature = _PRECISION_FEATURE[precision]
    if feature not in profile.features:
        raise UsageError(
            f"--precision {precision} needs {feature}, which {profile.name} lacks; "
            f"name a target that has it, or add it by --mattr=+{feature}"
        )


def _run(
    imported: ImportedModel, context: Context, dump: Path | None, progress: Callable[[str], None]
) -> dict[str, tvm.IRModule]:
    """Run the phases and return each one's module."""
    modules: dict[str, tvm.IRModule] = {}
    names = [phase.name for phase in PHASES]
    steps = run_phases(imported.mod, context, dump)
    for name in names:
        progress(name)
        done, mod = next(steps)
        modules[done] = mod
    return modules


def _check_budget(memory: Memory, budget: int | None) -> None:
    if budget is None or memory.peak_activation_bytes <= budget:
        return
    widest = "\n".join(
        f"  {layer.live_bytes:>12,} bytes  {', '.join(layer.sources) or layer.kernel}"
        for layer in memory.widest
    )
    raise ModelError(
        f"peak activation memory {memory.peak_activation_bytes:,} bytes exceeds --memory-budget {budget:,}; "
        f"alive at the widest layers:\n{widest}"
    )
