# SPDX-License-Identifier: Apache-2.0
"""Variants of a model, one per bucket of shapes, merged into one module that dispatches by shape."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Never

import numpy.typing as npt
import tvm

from arm_ext.common.errors import InternalError
from arm_ext.common.output_folder import OutputFolder
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.package import SELFTEST
from arm_ext.package.make_manifest import tensors
from arm_ext.package.manifest import BucketInfo, Check, Memory, Precision
from arm_ext.pipeline.macs import count_macs
from arm_ext.pipeline.memory import memory_of, weight_bytes
from arm_ext.pipeline.phases import (
    LAST_OF_ALL_TARGETS,
    PhaseDump,
    PhaseOptions,
    PhaseResult,
    announced,
    gather,
    run_phases,
)
from arm_ext.pipeline.selftest import check_of, precision_of
from arm_ext.report.calls import CallSite
from arm_ext.shapes.batch import SELFTEST_SAMPLES, with_samples
from arm_ext.shapes.bounded_length import run_lengths
from arm_ext.shapes.given import Bucket
from arm_ext.target.profiles import Profile
from relay_passes.batching.batch_loop import batch_loop
from relay_passes.lengths.bounded_main import at_length, bounded
from relay_passes.memory.plan_arena import share_arena
from relay_passes.programs.merge_modules import merge_modules
from relay_passes.programs.shape_dispatch import dispatch_by_shape

MAIN = "main"


@dataclass
class Variant:
    """A model for the shapes of one bucket, with the results of its phases.

    Attributes:
        bucket: The shapes that the variant is for.
        model: The imported model.
        inputs: Inputs of the self-test.
        options: Options of the phases.
        given: Whether the user chose these inputs.
        prepared: The model after the phase `LAST_OF_ALL_TARGETS`, if the self-test can start from it.
        result: Result of the last phase.
        memory: Memory of one inference.
    """

    bucket: Bucket
    model: ImportedModel
    inputs: list[npt.NDArray[Any]]
    options: PhaseOptions
    given: bool = False
    prepared: tvm.IRModule | None = field(init=False, default=None)
    result: PhaseResult = field(init=False)
    memory: Memory = field(init=False)

    @property
    def name(self) -> str:
        """Name of the variant's `main` in the merged module."""
        return f"{MAIN}_{self.bucket.label}"

    @cached_property
    def macs(self) -> dict[str, int]:
        """Return source node → MACs of one inference on the self-test's samples, without removed channels."""
        samples = SELFTEST_SAMPLES if self.bucket.batch else 1
        macs = count_macs(self.model.mod)
        for each in self.result.removed:
            # The names may include a scale node that was folded into the product's weights; only the product has MACs.
            if product := next((node for node in each.nodes if node in macs), None):
                macs[product] -= each.macs
        return {node: samples * count for node, count in macs.items()}

    @cached_property
    def check(self) -> Check:
        """Return how the variant's outputs are compared with the self-test."""
        return check_of(self.model, self.options.precision, self.result.left_float)

    @cached_property
    def precision(self) -> Precision:
        """Return the narrowest dtype in which the variant's float operators compute."""
        return precision_of(self.model, self.options.precision)

    def release_weights(self) -> None:
        """Free the imported model's weights, which are not needed after the phases and the self-test's `expected`."""
        _ = self.macs, self.check, self.precision  # these are computed from the imported model
        self.model = replace(
            self.model, mod=tvm.IRModule({}), reference=_released, float_reference=None, for_npu=None
        )

    def with_profile(self, profile: Profile) -> "Variant":
        """Return a variant of the same model for another target; the new variant's phases have not run."""
        options = replace(self.options, profile=profile)
        return Variant(self.bucket, self.model, self.inputs, options, self.given)

    def repeated(self, mod: tvm.IRModule, name: str) -> tvm.IRModule:
        """Make the variant's planned function accept any batch size or bounded length, as its bucket requires."""
        if self.bucket.length:
            taken = ", ".join(spec.describe() for spec in self.model.inputs)
            if self.model.least > 1:
                taken += f", {self.bucket.length} from {self.model.least}"
            refusal = f"the package was compiled for {taken}"
            return bounded(mod, self.model.least, self.bucket.largest, refusal)
        return batch_loop(mod, name, with_samples(self.model.inputs)) if self.bucket.batch else mod

    def _shares_phases(self) -> bool:
        """Whether the self-test can reuse the first phases: there are no user rules and no bounded length."""
        return not (self.options.more_rules or self.bucket.length)

    def run(self, output: OutputFolder | None, progress: Callable[[str], None]) -> None:
        """Run the phases; with several buckets, each dumps to its own folder in `output`."""
        dump = None if output is None else PhaseDump(output, self.bucket.label)
        if self.bucket.length:
            steps = run_lengths(self.model, self.bucket, self.options, dump)
        else:
            steps = run_phases(PhaseResult(self.model.mod), self.options, dump)
        for name, self.result in announced(steps, progress):
            if name == LAST_OF_ALL_TARGETS and self._shares_phases():
                self.prepared = self.result.mod
            if name == "lower":
                lowered = self.result.mod
        planned = self.result.mod
        if self.bucket.length:
            lowered, planned = (at_length(mod, self.bucket.largest) for mod in (lowered, planned))
        self.memory = memory_of(lowered, planned, self.options.kernel_cache)


def _released(_inputs: Sequence[npt.NDArray[Any]]) -> Never:
    raise InternalError("a model's reference was called after its weights had been released")


@dataclass
class MergedVariants:
    """All variants, merged into one module.

    Attributes:
        variants: Variants in the order of the buckets.
        result: The module to build, with the findings of all phases, kernels by their names in it.
        memory: The peak of the variant with the greatest, and what all weights take, equal ones once.
    """

    variants: tuple[Variant, ...]
    result: PhaseResult
    memory: Memory

    def release_weights(self) -> None:
        """Free the weights of all modules, which are not needed after linking and computing the self-test."""
        self.result = replace(self.result, mod=tvm.IRModule({}))
        for variant in self.variants:
            variant.result = replace(variant.result, mod=tvm.IRModule({}))

    @property
    def largest(self) -> Variant:
        """The variant with the maximum peak memory; of equal ones, that with the largest inputs."""

        def size(variant: Variant) -> tuple[int, int]:
            return variant.memory.peak_activation_bytes, sum(each.nbytes for each in variant.inputs)

        return max(self.variants, key=size)

    @property
    def calls(self) -> list[CallSite]:
        """The kernel calls of the largest variant, with the kernels' names in the merged module."""
        if len(self.variants) == 1:
            return list(self.result.calls)
        name = self.largest.name
        parts = ((call, *call.function.partition("/")) for call in self.result.calls)
        return [replace(call, function=function) for call, variant, _, function in parts if variant == name]

    def selftest_file(self, variant: Variant) -> str:
        """Return the name of the self-test file of a variant."""
        return SELFTEST if variant is self.largest else f"selftest_{variant.bucket.label}.npz"

    def buckets(self) -> list[BucketInfo]:
        """Return the manifest's entries for the buckets; () if there is a single variant."""
        if len(self.variants) == 1:
            return []
        return [
            BucketInfo(
                inputs=tensors(each.model.inputs),
                outputs=tensors(each.model.outputs),
                memory=each.memory,
                macs=sum(each.macs.values()),
                check=each.check,
                selftest=self.selftest_file(each),
            )
            for each in self.variants
        ]


def merge_variants(variants: Sequence[Variant]) -> MergedVariants:
    """Merge variants into one module, whose `main` dispatches by shape."""
    (first, *others) = variants
    if not others:
        planned = first.repeated(first.result.mod, MAIN)
        return MergedVariants((first,), replace(first.result, mod=planned), first.memory)
    merged = merge_modules({variant.name: variant.result.mod for variant in variants})
    mains = [variant.name for variant in variants]
    planned = share_arena(merged.mod, mains)
    for variant in variants:
        planned = variant.repeated(planned, variant.name)
    planned = dispatch_by_shape(planned, mains, _refusal(variants))
    result = gather(planned, {variant.name: variant.result for variant in variants}, merged.names)
    whole = MergedVariants(tuple(variants), result, first.memory)
    memory = whole.largest.memory.model_copy(update={"weight_bytes": weight_bytes(merged.mod)})
    return replace(whole, memory=memory)


def _refusal(variants: Sequence[Variant]) -> str:
    taken = "; ".join(", ".join(spec.describe() for spec in variant.model.inputs) for variant in variants)
    return f"the package was compiled for these shapes alone: {taken}"
