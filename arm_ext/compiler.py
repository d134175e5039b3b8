# SPDX-License-Identifier: Apache-2.0
"""`arm_ext.compile`: a model in, a package out."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt
import onnx

from arm_ext import package
from arm_ext.batch import batched
from arm_ext.errors import ModelError, UsageError
from arm_ext.ethosu.options import NpuOptions, require_packages
from arm_ext.frontends.imported import ImportedModel
from arm_ext.frontends.load import export_module, import_model
from arm_ext.frontends.preprocess import Preprocess
from arm_ext.frontends.state import read_initial, with_states
from arm_ext.frontends.wrap import preprocessed
from arm_ext.macs import count_macs
from arm_ext.make_manifest import Compiled, make_manifest
from arm_ext.manifest import Memory, Numerics, Precision
from arm_ext.native.build import npu_runtime
from arm_ext.package import Package, RegionValues, Selftest
from arm_ext.pipeline import PHASES, Context, build
from arm_ext.quant.frontend import import_given
from arm_ext.quant.static import Method
from arm_ext.report import CompileReport, build_report
from arm_ext.selftest import make_selftest, make_steps, random_inputs
from arm_ext.shapes import Bucket, Given, buckets_of
from arm_ext.target.isa import check_isa
from arm_ext.target.profiles import Profile, resolve
from arm_ext.target.toolchain import Linker as LinkStep
from arm_ext.tune.tuned import Tuned
from arm_ext.variants import Variant, unite
from schedules.kernels import winograd_f32
from schedules.numerics import qdq, tosa

if TYPE_CHECKING:
    from jax.export import Exported
    from torch import nn
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
    model: "str | Path | onnx.ModelProto | ExportedProgram | nn.Module | Exported",
    target: str = "arm",
    output: str | Path = "model.armpkg",
    *,
    example_inputs: Sequence[Any] | None = None,
    mattr: str | None = None,
    shapes: Given | None = None,
    preprocess: Preprocess | str | Path | None = None,
    state: Mapping[str, str] | None = None,
    state_init: Mapping[str, npt.NDArray[Any]] | str | Path | None = None,
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
        model: An ONNX, TFLite, StableHLO or .pt2 file, a loaded ONNX model, or an exported program of PyTorch or JAX,
            or a torch.nn.Module in eval mode.
        target: Name of a profile.
        output: The package folder; an earlier package there is replaced.
        example_inputs: Of a module: the positional arguments of its forward, by which it is exported.
        mattr: Features to add and remove, such as "+i8mm,-sve".
        shapes: Input name → shape, for inputs with dynamic dimensions. A list in the place of a size is of sizes
            to choose from at run time; lists go together position by position. A name in the place of the first size
            is any number of samples, computed one by one.
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
    if example_inputs is not None:
        model = export_module(model, example_inputs)
    profile = resolve(target, mattr)
    numerics: Numerics = "qdq" if npu is None else "tosa"
    divider = None if npu is None else _divider(npu)
    buckets = buckets_of(shapes)
    together = {
        "--npu": npu,
        "--quantize": quantize,
        "--preprocess": preprocess,
        "inputs for the self-test": inputs,
    }
    _refuse_together(buckets, **together)
    with package.writing(Path(output)) as folder:
        progress("import")
        without = () if winograd else (winograd_f32.NAME,)
        known = None if tuned is None else Tuned(tuned, profile, without)
        variants = []
        for bucket in buckets:
            imported, calibrated = import_given(model, bucket.shapes, state or {}, quantize, calibration)
            if bucket.batch:
                imported = batched(imported, bucket, partial(import_model, model))
            imported = with_states(preprocessed(imported, preprocess), state or {}, read_initial(state_init))
            _check_precision(precision, imported, profile)
            _refuse_together(buckets, states=imported.states)
            test_inputs = list(inputs) if inputs is not None else random_inputs(imported.inputs)
            context = Context(profile, precision, without, _NUMERICS[numerics], known)
            variants.append(Variant(bucket, imported, test_inputs, context))
        partitioner = None
        if divider is not None:
            divider.check(imported)
            partitioner = _partitioner(divider, imported, count_macs(imported.mod))
            context.divide = partitioner
        for variant in variants:
            variant.run(Path(dump_phases) if dump_phases else None, progress)
        offloaded = None if partitioner is None else partitioner.offloaded
        united = unite(variants)
        _check_budget(united.memory, memory_budget)
        main = united.largest
        compiled = build_report(
            main.model.name,
            profile.name,
            main.model.nodes,
            main.macs,
            united.context.kernels,
            # What is so for each shape is told once.
            dict.fromkeys(united.context.left_float),
            dict.fromkeys(united.context.kept_layout),
            None if offloaded is None else offloaded.report,
        )
        progress("link")
        # The self-tests compile the model for this machine, which takes about as long: each has a core.
        with ThreadPoolExecutor(max_workers=1) as beside:
            pending = [beside.submit(_selftest, variant, offloaded) for variant in variants]
            executable = build(united.planned, profile, [held.initial for held in main.model.states])
            beside_kernels = (npu_runtime(profile.triple),) if context.offers else ()
            linker = executable.export_library(
                str(folder / package.SO), fcompile=LinkStep(profile.triple, cc, beside_kernels)
            )
            progress("verify")
            check_isa(folder / package.SO, profile.features)
            progress("self-test")
            tested = [each.result() for each in pending]
        for variant, (selftest, _) in zip(variants, tested, strict=True):
            selftest.save(folder / united.selftest_file(variant))
        progress("package")
        manifest = make_manifest(
            Compiled(
                main.model,
                calibrated,
                profile,
                precision,
                numerics,
                united.memory,
                compiled.macs,
                main.check,
                linker,
                package.file_sha256(folder / package.SO),
                None if offloaded is None else offloaded.write(folder, tested[0][1]),
                [] if known is None else known.records(main.model.name, united.context.kernels),
                united.buckets(),
            )
        )
        package.write_manifest(folder, manifest)
        (folder / package.REPORT_JSON).write_text(compiled.model_dump_json(indent=2) + "\n")
        (folder / package.REPORT_TEXT).write_text(compiled.text())
    return CompileResult(Package(Path(output), manifest), compiled)


def _divider(npu: NpuOptions | str) -> "Divider":
    require_packages()
    # Not above: the packages that it needs may be missing where there is no NPU.
    from arm_ext.offloading import Divider

    return Divider(npu if isinstance(npu, NpuOptions) else NpuOptions(npu))


def _partitioner(divider: "Divider", model: ImportedModel, macs: Mapping[str, int]) -> "Partitioner":
    from arm_ext.partitioner import Partitioner

    return Partitioner(divider, model, macs)


def _selftest(variant: Variant, offloaded: "Offloaded | None") -> tuple[Selftest, list[RegionValues]]:
    """What the package's CPU should give, and what flows through its regions for an NPU."""
    model, inputs, context = variant.model, variant.inputs, variant.context
    if offloaded is not None:
        selftest, values = offloaded.selftest(model, inputs, context.without)
        return replace(selftest, steps=make_steps(model, inputs, context.without, context.numerics)), values
    return make_selftest(model, inputs, context.precision, context.without, context.numerics), []


def _refuse_together(buckets: Sequence[Bucket], **given: object) -> None:
    """Refuse what takes one shape an input, where there are several."""
    for option, value in given.items():
        if value and (len(buckets) > 1 or buckets[0].batch):
            raise UsageError(
                f"several shapes in one package cannot have {option}; name one size in the place of a list or name"
            )


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
