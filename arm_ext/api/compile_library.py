# SPDX-License-Identifier: Apache-2.0
"""`arm_ext.compile_library`: compiles several models into one C library."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onnx

from arm_ext import package
from arm_ext.api.arguments import check_type
from arm_ext.api.build_options import BuildOptions
from arm_ext.api.compile import CompileResult, refuse_for_library, regions_of
from arm_ext.api.model_source import Source
from arm_ext.api.mutual_exclusion import serial
from arm_ext.api.options import OPTIONS, ModelOptions, Options, gathered
from arm_ext.api.packing import Linked, Packing, write_models
from arm_ext.api.plugins import with_plugins
from arm_ext.clibrary.library import check_names
from arm_ext.clibrary.text import file_identifier
from arm_ext.common.cache import without_entries
from arm_ext.common.errors import UsageError
from arm_ext.common.timings import section
from arm_ext.frontends.load import prepared
from arm_ext.package import Package
from arm_ext.package.manifest import LibraryEntry, LibraryManifest
from arm_ext.package.writing import writing
from arm_ext.shapes.bounded_length import refuse_with_length
from arm_ext.shapes.given import buckets_of

if TYPE_CHECKING:
    from jax.export import Exported
    from torch.export import ExportedProgram

_OF_ONE = ("example_inputs", "random", "emit", "dump_phases")
_TAKEN = OPTIONS - {each.name for each in fields(ModelOptions)} - {*_OF_ONE}
"""Names of the options that hold for a library as a whole."""

_MODELS = "models"
"""Folder with the manifest and the report of each model."""


@dataclass(frozen=True)
class LibraryModel(ModelOptions):
    """A model to compile into a library, with the options of its import.

    Attributes:
        model: What `compile` takes.
    """

    model: "str | Path | onnx.ModelProto | ExportedProgram | Exported"

    def source(self, *, trust: bool, npu: bool) -> Source:
        """Return the source that the model is imported from."""
        return Source(prepared(self.model, self.values, trust=trust, random=self.random), self, npu)

    @property
    def files(self) -> list[Path]:
        """The files that the import of the model reads."""
        return [*([Path(self.model)] if isinstance(self.model, str | Path) else []), *super().files]


@dataclass(frozen=True)
class LibraryResult:
    """The folder and manifest of a library, and the manifest and report of each of its models."""

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
    options: Options | None = None,
    *,
    progress: Callable[[str], None] = lambda step: None,
    **more: Any,
) -> LibraryResult:
    """Compile models into one C library, which stores weights that they share only once.

    The library is named after its folder, and what it has of each model after that model.

    Args:
        models: The models: each is what `compile` takes, or a `LibraryModel` with its shapes, states and the
            like.
        target: Name of a profile.
        output: The library's folder; an earlier one there is replaced, if nothing else is there.
        options: Options in one record.
        progress: Called with each step of `compile` as it begins; those up to "plan" come again for each model.
        more: Options by keyword: those of `Options` but what a `LibraryModel` has, and what is a package's alone.

    Raises:
        UsageError, ModelError, EnvError, InternalError: As `compile`; or two models have the same name.
    """
    check_type("models", models, Sequence)
    o = gathered("compile_library", Options, options, more, _TAKEN)
    given = [each if isinstance(each, LibraryModel) else LibraryModel(each) for each in _listed(models)]
    build = BuildOptions.checked(target, o)
    buckets = [buckets_of(each.shapes) for each in given]
    for of_model in buckets:
        refuse_for_library(of_model)
        refuse_with_length(of_model, **{"--npu": o.npu})
    regions = regions_of(o.threads, o.memory)
    read = [*(file for each in given for file in each.files), *o.files]
    uses = nullcontext() if o.cache else without_entries()
    with uses, writing(Path(output), read, force=o.force) as folder:
        progress("import")
        phases = build.of_phases(serial=o.threads == 1)
        with section("import"):
            imported = [
                each.source(trust=o.trust, npu=o.npu is not None).variants(of_model, phases)
                for each, of_model in zip(given, buckets, strict=True)
            ]
        check_names([variants[0].model.name for variants, _ in imported])
        for variants, _ in imported:
            build.refuse_indivisible(variants)
        packings = [
            build.run(variants, calibrated, folder, None, progress) for variants, calibrated in imported
        ]
        archive = file_identifier(Path(output).resolve().name)
        linked = write_models(packings, o.weights, o.threads, regions, progress, archive, o.cc)
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
