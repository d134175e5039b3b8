# SPDX-License-Identifier: Apache-2.0
"""Writing of a C library: what the planned module becomes, compiled and with its header, example and self-test."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import tvm

from arm_ext.clibrary.memory import ARENA, Region
from arm_ext.clibrary.objects import compile_library
from arm_ext.clibrary.open_size import OpenLength, OpenSamples, OpenSize
from arm_ext.clibrary.program import Constants, read_program, with_workspaces
from arm_ext.clibrary.sources import FREESTANDING, Facts, Shape, Sources
from arm_ext.clibrary.stack import stack_bound
from arm_ext.common.scratch import temporary
from arm_ext.common.timings import section
from arm_ext.errors import InternalError
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.package import Selftest
from arm_ext.package.manifest import Check
from arm_ext.package.manifest import Library as LibraryInfo
from arm_ext.pipeline.machine_code import c_objects
from arm_ext.target.isa import check_isa
from arm_ext.target.profiles import Profile
from relay_passes.memory.plan_arena import aligned

# Of libm, what kernels of float models may call; of each there is one for binary32, too.
_MATH_NAMES = """acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1 fabs floor
fma fmax fmin fmod hypot ldexp lgamma log log10 log1p log2 nearbyint nextafter pow remainder rint round sin sinh sqrt
tan tanh tgamma trunc"""
_MATH = frozenset(f"{name}{suffix}" for name in _MATH_NAMES.split() for suffix in ("", "f"))
Weights = Literal["embedded", "file"]
"""Where a library's weights are: among its constants, or in a file beside it, which the caller maps."""

_WEIGHTS = "weights.bin"
SELFTEST = "example/selftest.bin"


@dataclass(frozen=True)
class Entry:
    """A function that a library has for inputs of one shape.

    Attributes:
        function: Its name in the planned module.
        label: The sizes that are chosen in the shape; empty where there is one shape.
        model: As imported with it.
        open: The name of the length, or of the number of samples, that it takes; empty where there is none.
        largest: The greatest length; 0 of samples.
    """

    function: str
    label: str
    model: ImportedModel
    open: str = ""
    largest: int = 0

    def shape(self, planned: tvm.IRModule, constants: Constants, threads: int) -> Shape:
        """Return what the function does; its constants are added to others."""
        program = with_workspaces(read_program(planned, self.function, constants, self.largest), threads)
        if not self.open:
            return Shape(self.label, self.model, program)
        main = planned[self.function]
        size: OpenSize = (
            OpenLength.of(main, self.open, self.largest, self.model)
            if self.largest
            else OpenSamples.of(self.model)
        )
        return Shape(self.label, size.at_largest(self.model), program, size)


def write_library(
    folder: Path,
    planned: tvm.IRModule,
    entries: Sequence[Entry],
    profile: Profile,
    check: Check,
    weights: Weights = "embedded",
    threads: int = 1,
    regions: tuple[Region, ...] = ARENA,
) -> LibraryInfo:
    """Write all files of a library but the self-test's data.

    Args:
        folder: To write to.
        planned: As the last phase leaves it, of all shapes.
        entries: What it computes, of each shape.
        profile: The target.
        check: How the self-test compares outputs.
        weights: Where they are.
        threads: How many of a pool share a kernel at most.
        regions: Memory that the caller gives an instance, the fastest first.

    Raises:
        ModelError: The model holds what needs a run time, or does not fit in the regions.
        EnvError: zig is missing or failed.
        InternalError: A kernel asks for a function that no system has, or an instruction that the target lacks.
    """
    constants = Constants()
    shapes = [entry.shape(planned, constants, threads) for entry in entries]
    sources = Sources(tuple(shapes), profile, check, weights == "file", threads, regions)
    name = sources.name
    kernels = c_objects({sources.symbols[kernel]: func for kernel, func in sources.kernels.items()}, profile)
    texts = sources.files(Facts())
    with section("machine code"), temporary() as include:
        (include / f"{name}.h").write_text(texts[f"include/{name}.h"], encoding="utf-8")
        joined = {f"{name}.c": texts[f"src/{name}.c"]}
        if sources.apart:
            (folder / f"{name}.weights").write_bytes(sources.weights)
        else:
            (include / _WEIGHTS).write_bytes(sources.weights)
            joined[f"{name}_weights.S"] = sources.weights_source(_WEIGHTS)
        library = compile_library(
            name,
            joined,
            {f"{name}_text.c": texts[f"src/{name}_text.c"]},
            [include],
            kernels,
            profile.triple,
        )
        (include / "member.o").write_bytes(library.member)
        with section("verify"):
            check_isa(include / "member.o", profile.features)
    if unknown := [symbol for symbol in library.requires if symbol not in FREESTANDING | _MATH]:
        raise InternalError(f"the library of {sources.model.name} would need {', '.join(unknown)}")
    is_aarch64 = profile.triple.startswith("aarch64")
    facts = Facts(library.requires, stack_bound(library.member) if is_aarch64 else None)
    (folder / f"lib{name}.a").write_bytes(library.archive)
    for path, text in sources.files(facts).items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return LibraryInfo(
        name=name,
        arena_bytes=sum(sources.region_bytes),
        in_place_bytes=sum(sources.in_place_bytes),
        regions=dict(zip((region.name for region in regions), sources.region_bytes, strict=True)),
        stack_bytes=facts.stack_bytes,
        weight_bytes=len(sources.weights),
        requires=list(facts.requires),
    )


def write_selftest(folder: Path, selftests: Sequence[Selftest]) -> None:
    """Write the data of each shape's self-test as the example reads them: inputs, outputs, and outputs of steps."""
    arrays = [
        array
        for each in selftests
        for array in (*each.inputs, *each.expected, *(array for step in each.steps for array in step))
    ]
    (folder / SELFTEST).write_bytes(b"".join(map(_padded, arrays)))


def _padded(array: npt.NDArray[Any]) -> bytes:
    data = np.ascontiguousarray(array).tobytes()
    return data + bytes(aligned(len(data)) - len(data))
