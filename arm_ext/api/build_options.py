# SPDX-License-Identifier: Apache-2.0
"""Options of `compile` that are the same for every model: checked, and applied in the phases and in packing."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from arm_ext.api.options import Options
from arm_ext.api.packing import Packing
from arm_ext.api.plugins import load_plugins
from arm_ext.common.errors import ModelError, UsageError
from arm_ext.common.names import near
from arm_ext.common.output_folder import OutputFolder
from arm_ext.common.text import counted
from arm_ext.ethosu.options import NpuOptions, require_packages
from arm_ext.package.manifest import Calibration, Memory, Numerics, Precision
from arm_ext.pipeline.kernel_cache import KernelCache
from arm_ext.pipeline.macs import count_macs
from arm_ext.pipeline.phases import PhaseOptions
from arm_ext.shapes.levels import CompiledLevel, run_levels
from arm_ext.shapes.variants import Variant, merge_variants
from arm_ext.target.family import FamilyLevel, family_levels, family_profile
from arm_ext.target.profiles import FAMILY, Profile, resolve
from arm_ext.tune.tuned import Tuned
from relay_passes import Rule
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import Kernel
from schedules.kernels.winograd import winograd_f32
from schedules.numerics import qdq, tosa
from schedules.select import ALL_KERNELS

if TYPE_CHECKING:
    from arm_ext.ethosu.partition.divider import Divider, Offloaded

NUMERICS: dict[Numerics, qdq.Qdq] = {"qdq": qdq.NUMERICS, "tosa": tosa.NUMERICS}


@dataclass(frozen=True)
class BuildOptions:
    """The target and the options of a compile, the same for each of its models.

    Attributes:
        profile: The target.
        precision: What float operators compute in.
        without: Names of kernels that are not to be used.
        tuned: The tuning database, if one was given.
        rules: Graph rewrites beside ours.
        kernels: Kernels beside ours.
        divider: Divides models between an NPU and the CPU, if there is an NPU.
        memory_budget: Most bytes of memory allowed, as `Options.memory_budget`.
        counts_weights: Whether weights are part of that memory.
        fail_on_unpacked: Whether integer weights that become float are an error.
        levels: Of a family of cores, its levels.
    """

    profile: Profile
    precision: Precision
    without: tuple[str, ...]
    tuned: Tuned | None
    rules: tuple[Rule, ...]
    kernels: tuple[Kernel, ...]
    divider: "Divider | None" = None
    memory_budget: int | None = None
    counts_weights: bool = True
    fail_on_unpacked: bool = False
    levels: tuple[FamilyLevel, ...] = ()

    @classmethod
    def checked(cls, target: str, options: Options, *, families: bool = False) -> "BuildOptions":
        """Check options of `compile` for a target, and return the build options that result.

        Args:
            target: Name of a profile, or of a family.
            options: The options.
            families: Whether a family can be compiled for.

        Raises:
            UsageError: A name is unknown, or a user's kernel has the name of a built-in one; a plugin or the database
                cannot be read.
            EnvError: There is an NPU, and the packages that it needs are missing.
        """
        brought = load_plugins(options.plugins)
        rules, kernels = (*options.rules, *brought.rules), (*options.kernels, *brought.kernels)
        ours = [kernel.NAME for kernel in ALL_KERNELS]
        if taken := sorted({kernel.NAME for kernel in kernels} & set(ours)):
            raise UsageError(
                f"kernels: {taken[0]} is already the name of a kernel of arm-ext; choose another NAME"
            )
        if unknown := [name for name in options.without if name not in ours]:
            raise UsageError(
                f"--without-kernel {unknown[0]}: there is no such kernel; {near(unknown[0], ours)}"
            )
        levels: tuple[FamilyLevel, ...] = ()
        if families and target == FAMILY:
            _refuse_for_family(options)
            levels, profile = family_levels(), family_profile()
        else:
            profile = resolve(target, options.mattr, library=options.emit == "c-library")
        if profile.core.is_microcontroller and options.threads > 1:
            raise UsageError(f"--threads {options.threads}: a {target} has one core; leave the option out")
        unused = (*options.without, *(() if options.winograd else (winograd_f32.NAME,)))
        divider = None if options.npu is None else _divider(options.npu)
        records = None if options.tuned is None else Tuned(options.tuned, profile, unused)
        limits = options.memory_budget, options.emit == "package", options.fail_on_unpacked
        return cls(profile, options.precision, unused, records, rules, kernels, divider, *limits, levels)

    @property
    def numerics(self) -> Numerics:
        """The numerics of quantised operators; with an NPU, all operators have the NPU's numerics."""
        return "qdq" if self.divider is None else "tosa"

    def of_phases(self, *, serial: bool = False, kernel_cache: KernelCache | None = None) -> PhaseOptions:
        """Return the options of the phases.

        Args:
            serial: Whether kernels run on the calling thread alone.
            kernel_cache: Choices of kernels that are cached, for what reads no bodies of kernels: no C library, no
                division between an NPU and the CPU, no dump.
        """
        return PhaseOptions(
            self.profile,
            self.precision,
            self.without,
            NUMERICS[self.numerics],
            self.tuned,
            self.rules,
            self.kernels,
            serial=serial,
            kernel_cache=kernel_cache,
        )

    def refuse_indivisible(self, variants: Sequence[Variant]) -> None:
        """Refuse variants of a model that an NPU cannot take: float ones, and those with control flow."""
        if self.divider is not None:
            from arm_ext.ethosu.partition.divider import check_divisible

            for variant in variants:
                check_divisible(variant.model)

    def run(
        self,
        variants: Sequence[Variant],
        calibrated: Calibration | None,
        folder: Path,
        dump: OutputFolder | None,
        progress: Callable[[str], None],
    ) -> Packing:
        """Run the phases of all variants of a model; return the object that links them and writes their files.

        Args:
            variants: The model for each of its shapes.
            calibrated: How it was quantised here, if it was.
            folder: Folder of the package or library, which is not complete yet.
            dump: Folder for each phase's module as TVMScript.
            progress: Called with the name of each phase as it begins.

        Raises:
            ModelError: The model needs more than the memory budget, or integer weights became float against
                `fail_on_unpacked`; or as the phases.
        """
        levels: tuple[CompiledLevel, ...] = ()
        offloaded: list[Offloaded] = []
        if self.levels:
            levels, merged = run_levels(variants, self.levels, progress)
        else:
            offloaded = self._offloaded(variants, dump, progress)
            merged = merge_variants(variants)
        if self.memory_budget is not None:
            states = sum(state.initial.nbytes for state in merged.largest.model.states)
            _check_budget(merged.memory, states, self.memory_budget, weights=self.counts_weights)
        if self.fail_on_unpacked:
            _check_unpacked(merged.result.unpacked)
        packing = Packing(folder, merged, self.profile, self.numerics, calibrated, self.tuned, offloaded)
        return replace(packing, levels=levels, level=levels[-1].level) if levels else packing

    def _offloaded(
        self, variants: Sequence[Variant], dump: OutputFolder | None, progress: Callable[[str], None]
    ) -> "list[Offloaded]":
        """Run the phases of all variants; return the NPU's part of each variant, if there is an NPU."""
        if self.divider is None:
            for variant in variants:
                variant.run(dump, progress)
            return []
        from arm_ext.ethosu.partition.divider import Offloaded
        from arm_ext.ethosu.partition.phase import Partitioner

        found: list[Offloaded] = []
        for variant in variants:
            first = sum(len(each.offload.regions) for each in found)
            partitioner = Partitioner(self.divider, variant.model, count_macs(variant.model.mod), first)
            variant.options = replace(variant.options, divide=partitioner)
            variant.run(dump, progress)
            assert isinstance(variant.result.division, Offloaded)
            found.append(variant.result.division)
        return found


def _refuse_for_family(options: Options) -> None:
    """Refuse options that a package for a family of cores does not support.

    Raises:
        UsageError: Names the first option that is given.
    """
    unsupported = {
        "--emit c-library": options.emit == "c-library",
        "--npu": options.npu,
        "--mattr": options.mattr,
        "--tuned": options.tuned,
        f"--precision {options.precision}": options.precision != "fp32",
        "--dump-phases": options.dump_phases,
    }
    for name, value in unsupported.items():
        if value:
            raise UsageError(
                f"--target {FAMILY} does not go with {name}; name one core, such as --target arm, or leave the option "
                "out"
            )


def _divider(npu: NpuOptions | str) -> "Divider":
    require_packages()
    # Not imported above: without an NPU, the packages that this needs may be missing.
    from arm_ext.ethosu.partition.divider import Divider

    return Divider(npu if isinstance(npu, NpuOptions) else NpuOptions(npu))


def _check_budget(memory: Memory, states: int, budget: int, *, weights: bool) -> None:
    """Refuse a model that needs more memory than the budget; say what it consists of, and what would lower it."""
    widest = "\n".join(layer.describe() for layer in memory.widest)
    parts = [
        (
            memory.peak_activation_bytes,
            "activations",
            f"tensors alive at the layers with the maximum:\n{widest}",
        ),
        (
            states,
            "states",
            "a cache shrinks with its length: of a language model, --context or --cache float16",
        ),
    ]
    if weights:
        less = "--quantize-weights int4 for a language model, `arm-ext quantize` for others"
        parts.append((memory.weight_bytes, "weights", f"weights shrink by {less}"))
    total = sum(size for size, *_ in parts)
    if total <= budget:
        return
    held = ", ".join(f"{what} {size:,}" for size, what, _ in sorted(parts, reverse=True) if size)
    raise ModelError(f"{total:,} bytes of memory exceed --memory-budget {budget:,}: {held}; {max(parts)[2]}")


def _check_unpacked(unpacked: Sequence[Diagnostic]) -> None:
    if unpacked:
        told = "\n".join(f"  {each}" for each in unpacked)
        raise ModelError(
            f"--fail-on-unpacked: the integer weights of {counted(len(unpacked), 'operator')} became float32, four or "
            f"eight times as large:\n{told}"
        )
