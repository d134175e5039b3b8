# SPDX-License-Identifier: Apache-2.0
"""Writing of a C library: the compiled archive of planned modules, with header, example and self-test."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import tvm

from arm_ext.clibrary.facts import CompiledFacts
from arm_ext.clibrary.memory import ARENA, MemoryRegion, alignment_of
from arm_ext.clibrary.npu import NpuRegion
from arm_ext.clibrary.objects import CompiledLibrary, Member, compile_library
from arm_ext.clibrary.open_size import OpenLength, OpenSamples, OpenSize
from arm_ext.clibrary.program import ConstantPool, read_program, with_workspaces
from arm_ext.clibrary.project import project_files
from arm_ext.clibrary.rust import crate_files
from arm_ext.clibrary.shared import Group, groups_of
from arm_ext.clibrary.sources import FREESTANDING, Shape, Sources, weights_source
from arm_ext.clibrary.stack import stack_bound
from arm_ext.clibrary.text import comment, file_identifier
from arm_ext.common.errors import InternalError, UsageError
from arm_ext.common.scratch import temporary
from arm_ext.common.timings import section
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.native.build import npu_linux
from arm_ext.package import Selftest
from arm_ext.package.manifest import Check
from arm_ext.package.manifest import Library as LibraryInfo
from arm_ext.pipeline.machine_code import c_objects
from arm_ext.target.isa import check_isa
from arm_ext.target.profiles import Profile
from arm_ext.target.toolchain import Driver
from relay_passes.memory.plan_arena import aligned
from schedules.cores import X86_64

# Functions of libm that kernels of float models may call; each also has a binary32 variant, such as expf.
_MATH_NAMES = """acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs floor
fma fmax fmin fmod hypot ldexp lgamma log log10 log1p log2 nearbyint nextafter pow remainder rint round sin sinh sqrt
tan tanh tgamma trunc"""
_MATH = frozenset(f"{name}{suffix}" for name in _MATH_NAMES.split() for suffix in ("", "f"))
_ROUTINES = ("__aeabi_", "__clz")
"""Beginnings of the names of routines that compilers of 32-bit Arm call where a core lacks an instruction, such as
__aeabi_fadd and __aeabi_ldivmod (Run-time ABI for the Arm Architecture), and __clzsi2; libgcc and compiler-rt have
them."""
Weights = Literal["embedded", "file"]
"""Where a library's weights are: among its constants, or in a file beside it, which the caller maps into memory."""

# Suffixes of a model's files and symbols, after its name and "_"; no other model of the library may have a name
# that ends so.
_ENDINGS = ("input", "output", "k", "pool", "text")


@dataclass(frozen=True)
class LibraryFunction:
    """The function of a library for inputs of one shape.

    Attributes:
        function: Name of the function in the planned module.
        label: The sizes that are chosen in the shape; empty if there is only one shape.
        model: The model as imported for that shape.
        open: The name of the length, or of the number of samples, that it takes; empty where there is none.
        largest: The greatest length; 0 of samples.
    """

    function: str
    label: str
    model: ImportedModel
    open: str = ""
    largest: int = 0

    def shape(self, model: "Planned", constants: ConstantPool, threads: int) -> Shape:
        """Return the program of the function of a model, and add its constants to `constants`."""
        planned = model.mod
        program = read_program(planned, self.function, constants, self.largest, model.npu)
        program = with_workspaces(program, threads)
        if not self.open:
            return Shape(self.label, self.model, program)
        main = planned[self.function]
        size: OpenSize = (
            OpenLength.of(main, self.open, self.largest, self.model)
            if self.largest
            else OpenSamples.of(self.model)
        )
        return Shape(self.label, size.at_largest(self.model), program, size)


@dataclass(frozen=True)
class Planned:
    """A planned model, ready to be written as a part of a library.

    Attributes:
        mod: The module of all shapes after the last phase.
        entries: The functions that compute the model, one per shape.
        check: How the self-test compares outputs.
        npu: Regions that an NPU may compute.
    """

    mod: tvm.IRModule
    entries: Sequence[LibraryFunction]
    check: Check
    npu: Sequence[NpuRegion] = ()

    def shapes(self, constants: ConstantPool, threads: int) -> list[Shape]:
        """Return the program for each shape, and add their constants to `constants`."""
        return [entry.shape(self, constants, threads) for entry in self.entries]


def check_names(models: Sequence[str]) -> None:
    """Check that the C names of the models in one library differ.

    Args:
        models: Names of the models.

    Raises:
        UsageError: Two models would have the same C name.
    """
    named = [(model, file_identifier(model)) for model in models]
    for (one, name), (other, its) in permutations(named, 2):
        if name == its:
            said = f"two models are called {one} and" if one == other else f"the models {one} and {other}"
            raise UsageError(f"{said} would have the same C names {name}_…; rename the file of one of them")
        if its in {f"{name}_{ending}" for ending in _ENDINGS}:
            raise UsageError(
                f"the C names {its}_… of the model {other} would also be names of the model {one}; rename the "
                "file of one of them"
            )


def write_library(
    folder: Path,
    models: Sequence[Planned],
    profile: Profile,
    weights: Weights = "embedded",
    threads: int = 1,
    regions: tuple[MemoryRegion, ...] = ARENA,
    archive: str | None = None,
    cc: str | None = None,
) -> list[LibraryInfo]:
    """Write all files of a library but the self-tests' data; returns a manifest record of each model.

    Args:
        folder: Folder to write to.
        models: The models; several of them share weights.
        profile: The target.
        weights: Whether weights are embedded in the library or in a file beside it.
        threads: Most threads of a pool that share a kernel.
        regions: Memory that the caller gives an instance, the fastest first.
        archive: Name of a library of several models.
        cc: Command of the C compiler; None for the pinned ziglang.

    Raises:
        ModelError: A model holds what needs a run time, or does not fit in the regions.
        EnvError: The compiler is missing or failed.
        InternalError: A kernel asks for a function that no system has, or an instruction that the target lacks.
    """
    alignment = alignment_of(profile, has_npu=any(model.npu for model in models))
    regions = tuple(replace(region, alignment=alignment) for region in regions)
    programs = _read(models, threads, archive, weights, alignment)
    sources = [
        Sources(tuple(shapes), profile, model.check, weights == "file", threads, regions, group, model.npu)
        for model, (shapes, group) in zip(models, programs, strict=True)
    ]
    driver = Driver.of(profile, cc)
    library = _compiled(sources, profile, driver)
    for each in filter(lambda each: each.weights_in_file, sources):
        (folder / f"{each.archive}.weights").write_bytes(each.weights)
    (folder / f"lib{sources[0].archive}.a").write_bytes(library.archive)
    required = [_requires(library, each, cc) for each in sources]
    has_math = any(symbol in _MATH for requires in required for symbol in requires)
    texts, infos = project_files(sources, has_math=has_math), []
    for each, requires in zip(sources, required, strict=True):
        is_known = profile.core.isa.name != X86_64.name
        stack = stack_bound(*(library.members[name] for name in _members(each))) if is_known else None
        texts |= each.files(CompiledFacts(requires, stack, has_math))
        infos.append(_info(each, requires, stack))
    if driven := [each for each in sources if each.has_driver]:
        (folder / f"lib{sources[0].archive}_npu_linux.a").write_bytes(_npu_driver(driven, driver))
    headers = {each.name: texts[f"include/{each.name}.h"] for each in sources}
    title = comment(", ".join(each.model.name for each in sources))
    texts |= crate_files(sources[0].archive, title, headers, has_math=has_math)
    for path, text in texts.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return infos


def _read(
    models: Sequence[Planned], threads: int, archive: str | None, weights: Weights, alignment: int
) -> list[tuple[list[Shape], Group | None]]:
    """Return, for each model, its programs, and the constants and kernels that it shares with other models."""
    constants = [ConstantPool(alignment) for _ in models]
    programs = [model.shapes(own, threads) for model, own in zip(models, constants, strict=True)]
    if archive is None:
        return [(shapes, None) for shapes in programs]
    names = [file_identifier(model.entries[0].model.name) for model in models]
    kernels = [
        {name: func for shape in shapes for name, func in shape.program.kernels.items()}
        for shapes in programs
    ]
    if weights == "file":
        file = ConstantPool(alignment)
        programs = [model.shapes(file, threads) for model in models]
        for state in (state for model in models for state in model.entries[0].model.states):
            if state.initial.any():
                file.add(state.initial.tobytes())
        groups = groups_of(archive, names, [ConstantPool(alignment) for _ in models], kernels)
        return [(shapes, replace(group, file=file)) for shapes, group in zip(programs, groups, strict=True)]
    groups = groups_of(archive, names, constants, kernels)
    # The programs are read again, now that the offsets of the shared constants are known.
    return [
        (model.shapes(ConstantPool(alignment, group.places), threads) if group.places else shapes, group)
        for model, shapes, group in zip(models, programs, groups, strict=True)
    ]


def _compiled(models: Sequence[Sources], profile: Profile, driver: Driver) -> CompiledLibrary:
    """Compile the archive: each model's kernels, C code and weights, and the parts that models share."""
    members: dict[str, Member] = {}
    with temporary() as include:
        for each in models:
            name, texts = each.name, each.files(CompiledFacts())
            (include / f"{name}.h").write_text(texts[f"include/{name}.h"], encoding="utf-8")
            joined = {f"{name}.c": texts[f"src/{name}.c"]}
            if not each.weights_in_file:
                joined |= _weights(f"{name}_weights", each.weights, include, each.alignment)
            members[f"{name}.o"] = Member(joined, c_objects(each.own_kernels, profile), f"{name}_k_")
            if each.has_bare_driver:
                driver_name = f"{name}_npu_ethosu"
                (include / f"{driver_name}.h").write_text(texts[f"include/{driver_name}.h"], encoding="utf-8")
                members[f"{driver_name}.o"] = Member({f"{driver_name}.c": texts[f"src/{driver_name}.c"]})
            members[f"{name}_text.o"] = Member({f"{name}_text.c": texts[f"src/{name}_text.c"]})
        for shared in {each.name: each for model in models for each in model.shared.values()}.values():
            alignment = models[0].alignment
            weights = _weights(shared.symbol, shared.weights, include, alignment) if shared.weights else {}
            kernels = c_objects(shared.kernels, profile)
            members[f"{shared.name}.o"] = Member(weights, kernels, f"{shared.name}_k_")
        with section("machine code"):
            library = compile_library(members, include, driver)
        with section("verify"):
            for name in dict.fromkeys(name for each in models for name in _members(each)):
                (include / "member.o").write_bytes(library.members[name])
                check_isa(include / "member.o", profile.code_features)
    return library


def _npu_driver(models: Sequence[Sources], driver: Driver) -> bytes:
    """Compile the archive that runs the models' NPU regions through Linux's driver."""
    members = {"arm_ext_npu_linux.o": Member({}, [npu_linux(driver.triple).read_bytes()])}
    with temporary() as include:
        for model in models:
            name, texts = model.name, model.files(CompiledFacts())
            for header in (f"{name}.h", f"{name}_npu_linux.h"):
                (include / header).write_text(texts[f"include/{header}"], encoding="utf-8")
            source = {f"{name}_npu_linux.c": texts[f"src/{name}_npu_linux.c"]}
            members[f"{name}_npu_linux.o"] = Member(source)
        return compile_library(members, include, driver).archive


def _members(model: Sources) -> list[str]:
    """Return the names of the object files with a model's machine code, including those shared with other models."""
    return [f"{model.name}.o", *(f"{shared.name}.o" for shared in model.shared.values())]


def _weights(symbol: str, data: bytes, include: Path, alignment: int) -> dict[str, str]:
    """Write weights to a file, and return the source of an object that includes their bytes."""
    (include / f"{symbol}.bin").write_bytes(data)
    return {f"{symbol}.S": weights_source(symbol, f"{symbol}.bin", alignment)}


def _requires(library: CompiledLibrary, model: Sources, cc: str | None) -> tuple[str, ...]:
    requires = library.requires(_members(model))
    routines = _ROUTINES if model.profile.core.is_microcontroller else ()
    if unknown := [
        symbol
        for symbol in requires
        if symbol not in FREESTANDING | _MATH and not symbol.startswith(routines)
    ]:
        would = f"the library of {model.model.name} would need {', '.join(unknown)}"
        if cc is not None:
            raise UsageError(f"--cc {cc}: {would}; leave out the options by which it calls them")
        raise InternalError(would)
    return requires


def _info(model: Sources, requires: Sequence[str], stack_bytes: int | None) -> LibraryInfo:
    names = [region.name for region in model.regions]
    return LibraryInfo(
        name=model.name,
        archive=None if model.group is None else model.group.archive,
        arena_bytes=sum(model.region_bytes),
        in_place_bytes=sum(model.in_place_bytes),
        regions=dict(zip(names, model.region_bytes, strict=True)),
        stack_bytes=stack_bytes,
        weight_bytes=len(model.weights),
        shared_weight_bytes=model.shared_bytes,
        requires=list(requires),
    )


def selftest_file(library: LibraryInfo) -> str:
    """Return the name of a model's self-test file; each model of a library has one."""
    return f"example/{'selftest' if library.archive is None else library.name}.bin"


def write_selftest(file: Path, selftests: Sequence[Selftest]) -> None:
    """Write the data of each shape's self-test as the example reads them: inputs, outputs, and outputs of steps."""
    arrays = [
        array
        for each in selftests
        for array in (*each.inputs, *each.expected, *(array for step in each.steps for array in step))
    ]
    file.write_bytes(b"".join(map(_padded, arrays)))


def _padded(array: npt.NDArray[Any]) -> bytes:
    data = np.ascontiguousarray(array).tobytes()
    return data + bytes(aligned(len(data)) - len(data))
