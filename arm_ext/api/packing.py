# SPDX-License-Identifier: Apache-2.0
"""The last step of `compile`: linking, and writing of the files of a package or a C library."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy.typing as npt

from arm_ext import package
from arm_ext.clibrary.library import SELFTEST, Entry, Weights, write_library, write_selftest
from arm_ext.clibrary.memory import Region
from arm_ext.common.faults import require_file_size
from arm_ext.common.timings import section
from arm_ext.native.build import npu_runtime
from arm_ext.package import RegionValues, Selftest
from arm_ext.package.make_manifest import Compiled, make_manifest
from arm_ext.package.manifest import BucketInfo, Calibration, Library, Manifest, Npu, Numerics
from arm_ext.pipeline.machine_code import make_program
from arm_ext.pipeline.selftest import make_selftest, make_steps, with_fitting_inputs
from arm_ext.quantization.accuracy import selftest_distances, warnings
from arm_ext.report.npu import of_all
from arm_ext.report.page import render
from arm_ext.report.report import CompileReport, PackageFacts, build_report
from arm_ext.shapes.batch import SELFTEST_SAMPLES
from arm_ext.shapes.variants import MAIN, United, Variant
from arm_ext.target.isa import check_isa
from arm_ext.target.profiles import Profile
from arm_ext.target.toolchain import LinkerRecord, ziglang_record
from arm_ext.tune.tuned import Tuned

if TYPE_CHECKING:
    from arm_ext.ethosu.partition.divider import Offloaded


_T = TypeVar("_T")

_CODE_BYTES = 16 << 20
"""Room for the machine code of a model beside its weights."""


@dataclass(frozen=True)
class Linked:
    """The result of linking.

    Attributes:
        linker: The linker that made it.
        selftest: Self-test of the largest variant.
        region_values: Of its NPU regions.
        library: Sizes of the C library, if it is one.
    """

    linker: LinkerRecord
    selftest: Selftest
    region_values: list[RegionValues]
    library: Library | None = None


@dataclass(frozen=True)
class Packing:
    """The inputs of the steps that write a package.

    Attributes:
        folder: Folder for the package's files.
        united: The program that went through the phases.
        profile: The target.
        offloaded: The NPU part of each variant, if there is an NPU.
    """

    folder: Path
    united: United
    profile: Profile
    offloaded: "Sequence[Offloaded]"

    def link(self, cc: str | None, progress: Callable[[str], None]) -> Linked:
        """Link and check model.so, and write the self-tests."""

        def make() -> LinkerRecord:
            states = self.united.largest.model.states
            program = make_program(self.united.result.mod, self.profile, [held.initial for held in states])
            beside_kernels = (npu_runtime(self.profile.triple),) if self.united.result.offers else ()
            linker = program.export(so, cc, beside_kernels)
            progress("verify")
            with section("verify"):
                check_isa(so, self.profile.features)
            return linker

        so = self.folder / package.SO
        linker, tested = self._made(make, progress)
        for variant, (selftest, _) in zip(self.united.variants, tested, strict=True):
            selftest.save(self.folder / self.united.selftest_file(variant))
        largest = tested[self.united.variants.index(self.united.largest)][0]
        return Linked(linker, largest, [values for _, of_regions in tested for values in of_regions])

    def write_library(
        self, weights: Weights, threads: int, regions: tuple[Region, ...], progress: Callable[[str], None]
    ) -> Linked:
        """Write a C library and its self-test."""
        variants = self.united.variants
        entries = [
            Entry(variant.name if len(variants) > 1 else MAIN, variant.bucket.label, variant.model)
            for variant in variants
        ]
        check = max((variant.check for variant in variants), key=lambda each: each.relative_bound)

        def make() -> Library:
            return write_library(
                self.folder,
                self.united.result.mod,
                entries,
                self.profile,
                check,
                weights,
                threads,
                regions,
            )

        library, tested = self._made(make, progress)
        selftests = [selftest for selftest, _ in tested]
        write_selftest(self.folder, selftests)
        return Linked(ziglang_record(), selftests[variants.index(self.united.largest)], [], library)

    def _made(
        self, make: Callable[[], _T], progress: Callable[[str], None]
    ) -> tuple[_T, list[tuple[Selftest, list[RegionValues]]]]:
        """Return what `make` gives, and the self-test of each variant, which are computed at the same time."""
        progress("link")
        require_file_size(_CODE_BYTES + 2 * self.united.memory.weight_bytes)
        # The self-tests compile the model for this machine, which takes about as long: each has a core.
        with ThreadPoolExecutor(max_workers=1) as beside:
            pending = [
                beside.submit(copy_context().run, self._selftest, variant, offloaded)
                for variant, offloaded in zip_longest(self.united.variants, self.offloaded)
            ]
            made = make()
            progress("self-test")
            return made, [each.result() for each in pending]

    def _selftest(
        self, variant: Variant, offloaded: "Offloaded | None"
    ) -> tuple[Selftest, list[RegionValues]]:
        """Compute the expected outputs of the package, and the inputs and outputs of its NPU regions."""
        with section("self-test"):
            return with_fitting_inputs(
                lambda inputs: self._selftest_of(variant, inputs, offloaded), variant.inputs, variant.given
            )

    def _selftest_of(
        self, variant: Variant, inputs: list[npt.NDArray[Any]], offloaded: "Offloaded | None"
    ) -> tuple[Selftest, list[RegionValues]]:
        model, options = variant.model, variant.options
        values: list[RegionValues] = []
        if offloaded is not None:
            selftest, values = offloaded.selftest(model, inputs, options.without)
            selftest = replace(selftest, steps=make_steps(model, inputs, options.without, options.numerics))
        else:
            selftest = make_selftest(
                model, inputs, options.precision, options.without, options.numerics, variant.prepared
            )
        if model.float_reference is not None:
            selftest = replace(selftest, floats=model.float_reference(inputs)[0])
        return selftest, values

    def write(
        self, linked: Linked, numerics: Numerics, calibrated: Calibration | None, known: Tuned | None
    ) -> tuple[Manifest, CompileReport]:
        """Write the manifest, the report, and what an NPU's driver takes.

        Args:
            linked: As `link` returned it.
            numerics: Numerics of quantised operators.
            calibrated: How the model was quantised here, if it was.
            known: The tuning database, if one was given.
        """
        main = self.united.largest
        calibrated = calibrated and _with_selftest(calibrated, main, linked.selftest)
        library = linked.library
        program = self.folder / (package.SO if library is None else f"lib{library.name}.a")
        report = self._report(calibrated, numerics, program)
        npu = self._npu(linked.region_values)
        (self.folder / package.REPORT_JSON).write_text(
            report.model_dump_json(indent=2) + "\n", encoding="utf-8"
        )
        (self.folder / package.REPORT_TEXT).write_text(render(report), encoding="utf-8")
        manifest = make_manifest(
            Compiled(
                main.model,
                calibrated,
                self.profile,
                main.options.precision,
                numerics,
                self.united.memory,
                report.macs,
                main.check,
                linked.linker,
                npu,
                [] if known is None else known.records(main.model.name, self.united.result.kernels),
                self._buckets(library),
                linked.library,
            ),
            package.list_files(self.folder),
        )
        package.write_manifest(self.folder, manifest)
        return manifest, report

    def _buckets(self, library: Library | None) -> list[BucketInfo]:
        """The manifest's entries for several shapes; all self-tests of a library are in one file."""
        buckets = self.united.buckets()
        return [each.model_copy(update={"selftest": SELFTEST}) for each in buckets] if library else buckets

    def _npu(self, values: list[RegionValues]) -> Npu | None:
        if not self.offloaded:
            return None
        # Not above: the packages that it needs may be missing where there is no NPU.
        from arm_ext.ethosu.export.npu_files import write_regions

        return write_regions(self.folder, self.offloaded, values)

    def _report(self, calibrated: Calibration | None, numerics: Numerics, program: Path) -> CompileReport:
        """Build the report; `program` is the file with the machine code."""
        main, result = self.united.largest, self.united.result
        return build_report(
            main.model.name,
            self.profile.name,
            main.model.nodes,
            main.macs,
            result.kernels,
            # What is so for each shape is told once.
            dict.fromkeys(result.left_float),
            dict.fromkeys(result.kept_layout),
            of_all([each.report for each in self.offloaded], main.macs) if self.offloaded else None,
            calibrated,
            warnings(
                calibrated, {x.name: value for x, value in zip(main.model.inputs, main.inputs, strict=True)}
            ),
            self.united.calls,
            PackageFacts(
                features=tuple(self.profile.features),
                program=program.name,
                program_bytes=program.stat().st_size,
                memory=self.united.memory,
                numerics=numerics,
                precision=main.options.precision,
                samples=SELFTEST_SAMPLES if main.bucket.batch else 1,
            ),
            main.result.removed,
            main.result.kept_channels,
        )


def _with_selftest(calibrated: Calibration, main: Variant, selftest: Selftest) -> Calibration:
    names = [output.name for output in main.model.outputs]
    distances = selftest_distances(names, selftest.expected, selftest.floats)
    return calibrated.model_copy(update={"selftest": distances})
