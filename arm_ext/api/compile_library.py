# SPDX-License-Identifier: Apache-2.0
"""`arm_ext.compile_library`: several models in, one C library out."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy.typing as npt
import onnx

from arm_ext import package
from arm_ext.api.arguments import check_choice, check_type
from arm_ext.api.build_options import BuildOptions
from arm_ext.api.compile import CompileResult, refuse_for_library, regions_of
from arm_ext.api.model_source import Source
from arm_ext.api.packing import Linked, Packing, write_models
from arm_ext.api.plugins import with_plugins
from arm_ext.api.serial import serial
from arm_ext.clibrary.library import Weights, check_names
from arm_ext.clibrary.text import file_identifier
from arm_ext.common.cache import without_entries
from arm_ext.common.errors import UsageError
from arm_ext.common.timings import section
from arm_ext.ethosu.options import NpuOptions
from arm_ext.frontends.load import prepared
from arm_ext.frontends.preprocess.options import Preprocess
from arm_ext.package import Package
from arm_ext.package.manifest import LibraryEntry, LibraryManifest, Method, Precision
from arm_ext.package.writing import writing
from arm_ext.shapes.bounded_length import refuse_with_length
from arm_ext.shapes.given import Given, buckets_of
from relay_passes import Rule
from schedules.kernels.common.contract import Kernel

if TYPE_CHECKING:
    from jax.export import Exported
    from torch.export import ExportedProgram

_MODELS = "models"
"""Folder with the manifest and the report of each model."""


@dataclass(frozen=True)
class LibraryModel:
    """A model to compile into a library, with the arguments of `compile` that import it."""

    model: "str | Path | onnx.ModelProto | ExportedProgram | Exported"
    shapes: Given | None = None
    values: Mapping[str, npt.ArrayLike] | None = None
    preprocess: Preprocess | str | Path | None = None
    state: Mapping[str, str] | None = None
    state_init: Mapping[str, npt.NDArray[Any]] | str | Path | None = None
    quantize: str | Path | None = None
    calibration: Method = "minmax"
    inputs: Sequence[npt.NDArray[Any]] | None = None

    def source(self, *, trust: bool, npu: bool) -> Source:
        """Return the source that the model is imported from."""
        return Source(
            prepared(self.model, self.values, trust=trust),
            self.preprocess,
            self.state or {},
            self.state_init,
            self.quantize,
            self.calibration,
            self.inputs,
            npu,
        )

    @property
    def files(self) -> list[Path]:
        """Files that are read."""
        given = (self.model, self.preprocess, self.state_init, self.quantize)
        return [Path(each) for each in given if isinstance(each, str | Path)]


@dataclass(frozen=True)
class LibraryResult:
    """The result of `compile_library`: its folder and manifest, and for each model its own manifest and report."""

    path: Path
    manifest: LibraryManifest
    models: tuple[CompileResult, ...]

    def __repr__(self) -> str:
        """Return the folder and the names of the models, in one line."""
        names = ", ".join(model.name for model in self.manifest.models)
        return f"LibraryResult({str(self.path)!r}: lib{self.manifest.archive}.a with {names})"


@serial
@with_plugins
def compile_library(
    models: "Sequence[str | Path | onnx.ModelProto | ExportedProgram | Exported | LibraryModel]",
    target: str = "arm",
    output: str | Path = "models",
    *,
    weights: Weights = "embedded",
    threads: int = 1,
    memory: str | None = None,
    trust: bool = False,
    plugins: Sequence[str | Path] = (),
    mattr: str | None = None,
    precision: Precision = "fp32",
    winograd: bool = True,
    without: Sequence[str] = (),
    npu: NpuOptions | str | None = None,
    tuned: str | Path | None = None,
    rules: Sequence[Rule] = (),
    kernels: Sequence[Kernel] = (),
    memory_budget: int | None = None,
    cc: str | None = None,
    force: bool = False,
    cache: bool = True,
    progress: Callable[[str], None] = lambda step: None,
) -> LibraryResult:
    """Compile models into one C library, in which weights that they share are stored once.

    The library is named after its folder, and what it has of each model after that model.

    Args:
        models: The models: each is what `compile` takes, or a `LibraryModel` with its shapes, states and the
            like.
        target: Name of a profile.
        output: The library's folder; an earlier one there is replaced, if nothing else is there.
        weights: Where the weights are: "embedded" in the library, or in one "file" of all models beside it.
        threads: How many threads of a pool share a kernel at most.
        memory: Regions of memory that an instance of any of the models is given, the fastest first.
        trust: Whether a .pt2 file may run code of its own when it is opened.
        plugins: Python files of yours with converters of custom operators, rules and kernels.
        mattr: Features to add and remove.
        precision: What float operators compute in.
        winograd: Whether float convolutions may be computed by Winograd's transforms.
        without: Names of kernels that are not to be used.
        npu: An Ethos-U for parts of the models, all of which are quantised then.
        tuned: A tuning database.
        rules: Graph rewrites of your own.
        kernels: Kernels of your own.
        memory_budget: Largest peak of activation memory allowed of any model, in bytes.
        cc: Compiler driver that compiles the C of the library, instead of the pinned ziglang.
        force: Whether to write to a folder where other files are, too, which stay.
        cache: Whether kernels that were compiled before are taken from the user's cache, and new ones kept there.
        progress: Called with each step of `compile` as it begins; those up to "plan" come again for each model.

    Raises:
        UsageError, ModelError, EnvError, InternalError: As `compile`; or two models have the same name.
    """
    check_type("models", models, Sequence)
    check_choice("weights", weights, Weights)
    check_choice("precision", precision, Precision)
    given = [each if isinstance(each, LibraryModel) else LibraryModel(each) for each in _listed(models)]
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
    buckets = [buckets_of(each.shapes) for each in given]
    for of_model in buckets:
        refuse_for_library(of_model)
        refuse_with_length(of_model, **{"--npu": npu})
    regions = regions_of(threads, memory)
    vela_config = npu.vela_config if isinstance(npu, NpuOptions) else None
    files = [Path(each) for each in (*plugins, tuned, vela_config) if each is not None]
    read = [*(file for each in given for file in each.files), *files]
    uses = nullcontext() if cache else without_entries()
    with uses, writing(Path(output), read, force=force) as folder:
        progress("import")
        options = build.of_phases(serial=threads == 1)
        with section("import"):
            imported = [
                each.source(trust=trust, npu=npu is not None).variants(of_model, options)
                for each, of_model in zip(given, buckets, strict=True)
            ]
        check_names([variants[0].model.name for variants, _ in imported])
        for variants, _ in imported:
            build.refuse_indivisible(variants)
        packings = [
            build.run(variants, calibrated, folder, None, progress) for variants, calibrated in imported
        ]
        archive = file_identifier(Path(output).resolve().name)
        linked = write_models(packings, weights, threads, regions, progress, archive, cc)
        progress("package")
        with section("package"):
            return _write(Path(output), packings, linked, archive)


def _listed(models: Sequence[Any]) -> Sequence[Any]:
    if isinstance(models, str) or not models:
        raise UsageError(
            f"models: expected a list of models, such as ['encoder.onnx', 'decoder.onnx'], not {models!r}"
        )
    return models


def _write(
    output: Path, packings: Sequence[Packing], linked: Sequence[Linked], archive: str
) -> LibraryResult:
    """Write the reports and manifests of the models and of the library."""
    folder = packings[0].folder
    entries, reports, npus = [], [], []
    for packing, each in zip(packings, linked, strict=True):
        assert each.library is not None
        own = Path(_MODELS, each.library.name)
        (folder / own).mkdir(parents=True)
        reports.append(packing.write_report(each, folder / own))
        npus.append(packing.write_npu(each, own))
        names = (str(own / package.MANIFEST), str(own / package.REPORT_JSON))
        entries.append(LibraryEntry(name=each.library.name, manifest=names[0], report=names[1]))
    files = package.list_files(folder)
    results = []
    for packing, each, entry, report, npu in zip(packings, linked, entries, reports, npus, strict=True):
        manifest = packing.manifest(each, report, files, npu)
        package.write_manifest((folder / entry.manifest).parent, manifest)
        results.append(CompileResult(Package(output, manifest), report))
    whole = LibraryManifest(files=package.list_files(folder), archive=archive, models=entries)
    package.write_manifest(folder, whole)
    return LibraryResult(output, whole, tuple(results))
