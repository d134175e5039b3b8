# SPDX-License-Identifier: Apache-2.0
"""The last step of `compile`: linking, and writing the files of a package, or of the models of a C library."""

from collections.abc import Callable, Iterator, Sequence
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy.typing as npt

from arm_ext import package
from arm_ext.clibrary.library import (
    LibraryFunction,
    Planned,
    Weights,
    selftest_file,
    write_library,
    write_selftest,
)
from arm_ext.clibrary.memory import MemoryRegion
from arm_ext.clibrary.npu import NpuRegion, NpuTensor
from arm_ext.common.errors import InternalError, KernelError, ModelError
from arm_ext.common.faults import require_file_size
from arm_ext.common.free_memory import free_memory
from arm_ext.common.timings import section
from arm_ext.common.workers import threads
from arm_ext.ethosu.options import NpuOptions
from arm_ext.ethosu.payload import Payload, areas_of
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.native.build import npu_runtime
from arm_ext.package import RegionValues, Selftest
from arm_ext.package.make_manifest import ManifestContents, make_manifest
from arm_ext.package.manifest import (
    BucketInfo,
    Calibration,
    LevelInfo,
    Library,
    Manifest,
    Npu,
    Numerics,
    PackageFile,
)
from arm_ext.pipeline.large_constants import LargeConstants
from arm_ext.pipeline.machine_code import make_program
from arm_ext.pipeline.selftest import (
    STEPS,
    make_selftest,
    make_steps,
    with_fitting_inputs,
    with_measured,
    with_source,
)
from arm_ext.quantization.accuracy import selftest_distances, warnings
from arm_ext.report.npu import of_all
from arm_ext.report.page import render
from arm_ext.report.report import CompileReport, PackageFacts, build_report
from arm_ext.shapes.batch import SELFTEST_SAMPLES
from arm_ext.shapes.levels import CompiledLevel
from arm_ext.shapes.variants import MAIN, MergedVariants, Variant
from arm_ext.target.family import FamilyLevel
from arm_ext.target.isa import check_isa
from arm_ext.target.profiles import Profile
from arm_ext.target.toolchain import Driver, LinkerRecord
from arm_ext.tune.tuned import Tuned

if TYPE_CHECKING:
    from arm_ext.ethosu.partition.divider import Offloaded


_T = TypeVar("_T")
_Tested: TypeAlias = tuple[Selftest, list[RegionValues]]
_Expected: TypeAlias = Callable[[], _Tested]

_CODE_BYTES = 16 << 20
"""Room for the machine code of a model beside its weights."""


@dataclass(frozen=True)
class Linked:
    """The result of linking: the machine code, and the self-tests.

    Attributes:
        linker: The linker that made it.
        selftest: Self-test of the largest variant.
        region_values: Values of the package's NPU regions for the self-test.
        library: Sizes of the C library, if it is one.
    """

    linker: LinkerRecord
    selftest: Selftest
    region_values: list[RegionValues]
    library: Library | None = None


@dataclass(frozen=True)
class Packing:
    """Links the variants of a model, and writes the files of a package.

    Attributes:
        folder: Folder for the package's files.
        merged: The program that went through the phases.
        profile: The target.
        numerics: Numerics of quantised operators.
        calibrated: How the model was quantised here, if it was.
        known: The tuning database, if one was given.
        offloaded: The NPU part of each variant, if there is an NPU.
        selftest: A self-test to write for a variant without an NPU part, if its tensors are those of the variant;
            otherwise one is computed.
        reused: Whether the variants are compiled again in other ways; otherwise their weights are freed as soon as no
            step needs them.
        levels: For a family of cores, its levels; `merged` has the module of all and the findings of the last.
        level: Of a family, the level that the report is of.
    """

    folder: Path
    merged: MergedVariants
    profile: Profile
    numerics: Numerics
    calibrated: Calibration | None
    known: Tuned | None
    offloaded: "Sequence[Offloaded]" = ()
    selftest: Selftest | None = None
    reused: bool = False
    levels: tuple[CompiledLevel, ...] = ()
    level: FamilyLevel | None = None

    def link(self, cc: str | None, progress: Callable[[str], None]) -> Linked:
        """Compute and write the self-tests; link and check model.so."""
        largest, so = self.merged.largest, self.folder / package.SO

        def make() -> LinkerRecord:
            program = make_program(
                self.merged.result.mod,
                self.profile,
                [held.initial for held in largest.model.states],
                kernel_cache=largest.options.kernel_cache,
                constants=LargeConstants(),
                levels={each.level.name: each.level.profile for each in self.levels},
            )
            progress("link")
            runtime = (npu_runtime(self.profile.triple),) if self.merged.result.offers else ()
            return program.export(so, cc, runtime)

        linker, (tested,) = _made([self], make, progress)
        for variant, (selftest, _) in zip(self.merged.variants, tested, strict=True):
            selftest.save(self.folder / self.merged.selftest_file(variant))
        progress("verify")
        with section("verify"):
            check_isa(so, self._reported.features)
        selftest = tested[self.merged.variants.index(largest)][0]
        return Linked(linker, selftest, [values for _, of_regions in tested for values in of_regions])

    def planned(self) -> Planned:
        """Return the model in the form that the writer of C libraries needs."""
        variants = self.merged.variants
        entries = [
            LibraryFunction(
                variant.name if len(variants) > 1 else MAIN,
                variant.bucket.label,
                variant.model,
                variant.bucket.length or variant.bucket.batch,
                variant.bucket.largest,
            )
            for variant in variants
        ]
        # The C library itself checks lengths, and loops over samples.
        planned = self.merged.result.mod if len(variants) > 1 else variants[0].result.mod
        check = max((variant.check for variant in variants), key=lambda each: each.relative_bound)
        return Planned(planned, entries, check, self._npu_regions())

    def _npu_regions(self) -> list[NpuRegion]:
        """Return the description of the NPU's regions for a C library."""
        bare = self.profile.core.is_microcontroller
        return [
            _npu_region(region.compiled.payload, each.options, plans_scratch=bare)
            for each in self.offloaded
            for region in each.offload.regions
        ]

    def selftests(self) -> "Iterator[Callable[[], _Expected]]":
        """Yield, for each variant, a function that computes its self-test; its result completes the self-test."""
        for variant, offloaded in zip_longest(self.merged.variants, self.offloaded):
            yield partial(self._selftest, variant, offloaded)

    def _selftest(self, variant: Variant, offloaded: "Offloaded | None") -> _Expected:
        """Compute the expected outputs of the package, and the inputs and outputs of its NPU regions.

        Returns:
            A function that adds the outputs of the source's runtime, which has up to three copies of the weights. It
            is called once the program is linked and all other weights are freed.
        """
        if self.selftest is not None and offloaded is None and _is_of(self.selftest, variant.model):
            known = self.selftest
            return lambda: (known, [])
        references = variant.model.reference, variant.model.float_reference
        with section("self-test"):
            selftest, values = with_fitting_inputs(
                lambda inputs: self._expected(variant, inputs, offloaded),
                variant.inputs,
                variant.given,
                lambda tested: tested[0].expected,
            )
            variant.prepared = None
            if not self.reused:
                variant.release_weights()

        def completed() -> _Tested:
            with section("self-test"):
                tested = with_source(selftest, *references)
                variant.check = with_measured(variant.check, variant.precision, tested)
                return tested, values

        return completed

    def _expected(
        self, variant: Variant, inputs: list[npt.NDArray[Any]], offloaded: "Offloaded | None"
    ) -> _Tested:
        """Return the self-test without the outputs of the source's runtime."""
        model, options = variant.model, variant.options
        if offloaded is None:
            # The variants share their states: several steps of the first variant test the states.
            steps = STEPS if variant is self.merged.variants[0] else 1
            return make_selftest(
                model, inputs, options.precision, options.without, options.numerics, variant.prepared, steps
            ), []
        selftest, values = offloaded.selftest(model, inputs, options.without)
        return replace(selftest, steps=make_steps(model, inputs, options.without, options.numerics)), values

    def write(self, linked: Linked) -> tuple[Manifest, CompileReport]:
        """Write the manifest, the report, and the files for an NPU's driver."""
        report = self.write_report(linked, self.folder)
        for each in self.levels[:-1]:
            inside = self.folder / package.LEVELS / each.level.name
            inside.mkdir(parents=True)
            replace(self, merged=each.merged, level=each.level).write_report(linked, inside)
        npu = self.write_npu(linked, Path())
        for name, content in self.merged.largest.model.files.items():
            (self.folder / name).write_bytes(content)
        manifest = self.manifest(linked, report, package.list_files(self.folder), npu)
        package.write_manifest(self.folder, manifest)
        return manifest, report

    def write_report(self, linked: Linked, folder: Path) -> CompileReport:
        """Write the report to a folder."""
        library = linked.library
        program = self.folder / (package.SO if library is None else library.file)
        report = self._report(self._calibrated(linked), program)
        (folder / package.REPORT_JSON).write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
        (folder / package.REPORT_TEXT).write_text(render(report), encoding="utf-8")
        return report

    def manifest(
        self, linked: Linked, report: CompileReport, files: list[PackageFile], npu: Npu | None = None
    ) -> Manifest:
        """Return the manifest; `files` are all other files of the package or library."""
        main = self.merged.largest
        return make_manifest(
            ManifestContents(
                main.model,
                self._calibrated(linked),
                self.profile,
                main.options.precision,
                self.numerics,
                self.merged.memory,
                report.macs,
                main.check,
                linked.linker,
                npu,
                [] if self.known is None else self.known.records(main.model.name, self.merged.result.kernels),
                self._buckets(linked.library),
                linked.library,
                [_level(each.level) for each in self.levels],
            ),
            files,
        )

    @property
    def _reported(self) -> Profile:
        """The profile that the report is of."""
        return self.profile if self.level is None else self.level.profile

    def _calibrated(self, linked: Linked) -> Calibration | None:
        return self.calibrated and _with_selftest(self.calibrated, self.merged.largest, linked.selftest)

    def _buckets(self, library: Library | None) -> list[BucketInfo]:
        """Return the manifest's entries for several shapes; in a library, all self-tests are in one file."""
        buckets = self.merged.buckets()
        return (
            [each.model_copy(update={"selftest": selftest_file(library)}) for each in buckets]
            if library
            else buckets
        )

    def write_npu(self, linked: Linked, inside: Path) -> Npu | None:
        """Write the files of the NPU's regions into a subfolder of the package or library, if there is an NPU."""
        if not self.offloaded:
            return None
        # Not imported above: without an NPU, the packages that this needs may be missing.
        from arm_ext.ethosu.export.npu_files import write_regions

        return write_regions(self.folder, self.offloaded, linked.region_values, inside)

    def _report(self, calibrated: Calibration | None, program: Path) -> CompileReport:
        """Build the report; `program` is the file with the machine code."""
        main, result = self.merged.largest, self.merged.result
        return build_report(
            main.model.name,
            self.profile.name,
            main.model.nodes,
            main.macs,
            result.kernels,
            self._reported.core,
            # Warnings that are the same for all shapes are reported once.
            dict.fromkeys(result.left_float),
            dict.fromkeys(result.kept_layout),
            of_all([each.report for each in self.offloaded], main.macs) if self.offloaded else None,
            calibrated,
            warnings(
                calibrated, {x.name: value for x, value in zip(main.model.inputs, main.inputs, strict=True)}
            ),
            self.merged.calls,
            PackageFacts(
                features=tuple(self._reported.features),
                levels=tuple(each.level.name for each in self.levels),
                level=None if self.level is None else self.level.name,
                program=program.name,
                program_bytes=program.stat().st_size,
                memory=self.merged.memory,
                state_bytes=sum(state.initial.nbytes for state in main.model.states),
                numerics=self.numerics,
                precision=main.options.precision,
                samples=SELFTEST_SAMPLES if main.bucket.batch else 1,
                classes={spec.name: spec.labels for spec in main.model.outputs if spec.labels},
            ),
            main.result.removed,
            main.result.kept_channels,
            dict.fromkeys(result.unpacked),
        )


def _level(level: FamilyLevel) -> LevelInfo:
    core = level.profile.core
    return LevelInfo(
        name=level.name, core=core.name, features=list(core.features), cpu=core.llvm_cpu, mca_cpu=core.mca_cpu
    )


def _npu_region(payload: Payload, options: NpuOptions, *, plans_scratch: bool) -> NpuRegion:
    """Return a region as a C library describes it; with `plans_scratch`, its tensors have to be in the scratch.

    Raises:
        ModelError: A tensor is in another memory.
    """
    data, kinds = payload.to_bytes(), {area.number: area.kind for area in payload.regions}
    outside = [each.name for each in (*payload.inputs, *payload.outputs) if kinds[each.region] != "scratch"]
    if plans_scratch and outside:
        raise ModelError(
            f"{outside[0]}: Vela places it in the memory {kinds[payload.inputs[0].region]!r}, where a library for a "
            "Cortex-M cannot; choose another --memory-mode"
        )
    return NpuRegion(
        payload.accelerator,
        options.on_npu_error == "fail",
        len(data),
        *areas_of(data),
        {area.number: (area.kind, area.size) for area in payload.regions},
        [NpuTensor(tensor.region, tensor.offset, tensor.size) for tensor in payload.inputs],
        [NpuTensor(tensor.region, tensor.offset, tensor.size) for tensor in payload.outputs],
        plans_scratch,
        options.npu_fallback == "cpu",
    )


def write_models(
    models: Sequence[Packing],
    weights: Weights,
    threads: int,
    regions: tuple[MemoryRegion, ...],
    progress: Callable[[str], None],
    archive: str | None = None,
    cc: str | None = None,
) -> list[Linked]:
    """Write a C library of models, with their self-tests.

    Args:
        models: The models of one library folder.
        weights: Whether weights are embedded in the library or in a file beside it.
        threads: Most threads of a pool that share a kernel.
        regions: Memory that the caller gives an instance.
        progress: Called with each step as it begins.
        archive: Name of a library of several models.
        cc: C compiler to use instead of the pinned ziglang.
    """
    folder, profile = models[0].folder, models[0].profile
    planned = [each.planned() for each in models]

    def make() -> list[Library]:
        libraries = write_library(folder, planned, profile, weights, threads, regions, archive, cc)
        planned.clear()  # also frees the weights, which are in the library by now
        return libraries

    libraries, tested = _made(models, make, progress)
    compiler = Driver.of(profile, cc).record()
    linked = []
    for model, library, each in zip(models, libraries, tested, strict=True):
        selftests = [selftest for selftest, _ in each]
        write_selftest(folder / selftest_file(library), selftests)
        largest = selftests[model.merged.variants.index(model.merged.largest)]
        values = [of_region for _, of_regions in each for of_region in of_regions]
        linked.append(Linked(compiler, largest, values, library))
    return linked


def _made(
    models: Sequence[Packing], make: Callable[[], _T], progress: Callable[[str], None]
) -> tuple[_T, list[list[_Tested]]]:
    """Return the result of `make`, after which weights are not needed, and each variant's self-test of each model.

    `make` and our own part of the self-tests run at the same time; what the source's runtime computes follows.
    """
    progress("kernels")
    weight_bytes = sum(each.merged.memory.weight_bytes for each in models)
    require_file_size(_CODE_BYTES * len(models) + 2 * weight_bytes)
    # Computing the self-tests compiles the model for this machine, which takes about as long as `make`: they run in
    # parallel.
    with threads(1) as beside:
        pending = [
            [beside.submit(copy_context().run, selftest) for selftest in each.selftests()] for each in models
        ]
        try:
            made = make()
        except KernelError as err:
            nodes = [
                name
                for each in models
                for kernel in each.merged.result.kernels
                if err.symbol.endswith(kernel.symbol)
                for name in kernel.sources
            ]
            raise InternalError(f"{err}; it computes {', '.join(nodes)}") from err
        progress("self-test")
        expected = [[each.result() for each in of_model] for of_model in pending]
        for each in models:
            if not each.reused:
                each.merged.release_weights()
        free_memory()
        return made, [[complete() for complete in of_model] for of_model in expected]


def _is_of(selftest: Selftest, model: ImportedModel) -> bool:
    """Return whether a self-test has the same tensors as a model, and all sizes of the model are fixed."""
    return all(
        len(specs) == len(values)
        and all(
            not spec.batch and (tuple(spec.shape), spec.dtype) == (value.shape, value.dtype.name)
            for spec, value in zip(specs, values, strict=True)
        )
        for specs, values in ((model.inputs, selftest.inputs), (model.outputs, selftest.expected))
    )


def _with_selftest(calibrated: Calibration, main: Variant, selftest: Selftest) -> Calibration:
    names = [output.name for output in main.model.outputs]
    distances = selftest_distances(names, selftest.expected, selftest.floats)
    return calibrated.model_copy(update={"selftest": distances})
