# SPDX-License-Identifier: Apache-2.0
"""Variants of a model: one for each bucket of shapes, merged into one module that dispatches by shape."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy.typing as npt
import tvm

from arm_ext.common.output_folder import OutputFolder
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.package import SELFTEST
from arm_ext.package.make_manifest import tensors
from arm_ext.package.manifest import BucketInfo, Check, Memory
from arm_ext.pipeline.macs import count_macs
from arm_ext.pipeline.memory import memory_of, weight_bytes
from arm_ext.pipeline.phases import LAST_OF_ALL_TARGETS, PHASES, Context, Dump, run_phases
from arm_ext.pipeline.selftest import check_of
from arm_ext.report.calls import CallSite
from arm_ext.shapes.batch import SELFTEST_SAMPLES, with_samples
from arm_ext.shapes.bounded_length import run_lengths
from arm_ext.shapes.given import Bucket
from relay_passes.batching.batch_loop import batch_loop
from relay_passes.lengths.bounded_main import at_length, bounded
from relay_passes.memory.plan_arena import share_arena
from relay_passes.programs.merge_modules import merge_modules
from relay_passes.programs.shape_dispatch import choose

MAIN = "main"


@dataclass
class Variant:
    """A model for the shapes of one bucket, with the results of the phases.

    Attributes:
        bucket: What it is for.
        model: As imported.
        inputs: Of the self-test.
        context: What the phases are told, and what they noted down.
        given: Whether the user chose these inputs.
        prepared: As `LAST_OF_ALL_TARGETS` leaves it, if the self-test may go on from there.
        lowered: As the phase of that name leaves it.
        planned: As the last phase leaves it.
        memory: Of one inference.
    """

    bucket: Bucket
    model: ImportedModel
    inputs: list[npt.NDArray[Any]]
    context: Context
    given: bool = False
    prepared: tvm.IRModule | None = field(init=False, default=None)
    lowered: tvm.IRModule = field(init=False)
    planned: tvm.IRModule = field(init=False)
    memory: Memory = field(init=False)

    @property
    def name(self) -> str:
        """Name of the variant's `main` in the merged module."""
        return f"{MAIN}_{self.bucket.label}"

    @cached_property
    def macs(self) -> dict[str, int]:
        """Source node → multiply-accumulates of one inference, of the self-test's samples."""
        samples = SELFTEST_SAMPLES if self.bucket.batch else 1
        return {node: samples * macs for node, macs in count_macs(self.model.mod).items()}

    @property
    def check(self) -> Check:
        """How the variant's outputs are compared with the self-test."""
        return check_of(self.model, self.context.precision, self.context.left_float)

    def repeated(self, mod: tvm.IRModule, name: str) -> tvm.IRModule:
        """Make the variant's planned function accept any batch size or bounded length, as its bucket says."""
        if self.bucket.length:
            taken = ", ".join(spec.describe() for spec in self.model.inputs)
            return bounded(mod, self.bucket.largest, f"the package was compiled for {taken}")
        return batch_loop(mod, name, with_samples(self.model.inputs)) if self.bucket.batch else mod

    def _shares_phases(self) -> bool:
        """Whether the first phases are those of the self-test, which has no rules of the user's, and one length."""
        return not (self.context.more_rules or self.bucket.length)

    def run(self, output: OutputFolder | None, progress: Callable[[str], None]) -> None:
        """Run the phases; of several buckets, each dumps to its own folder in `output`."""
        dump = None if output is None else Dump(output, self.bucket.label)
        if self.bucket.length:
            steps = run_lengths(self.model, self.bucket, self.context, dump)
        else:
            steps = run_phases(self.model.mod, self.context, dump)
        for phase in PHASES:
            progress(phase.name)
            name, mod = next(steps)
            if name == LAST_OF_ALL_TARGETS and self._shares_phases():
                self.prepared = mod
            if name == "lower":
                self.lowered = mod
            self.planned = mod
        modules = self.lowered, self.planned
        if self.bucket.length:
            modules = (
                at_length(self.lowered, self.bucket.largest),
                at_length(self.planned, self.bucket.largest),
            )
        self.memory = memory_of(*modules)


@dataclass(frozen=True)
class United:
    """All variants, merged into one module.

    Attributes:
        variants: In the order of the buckets.
        planned: The module to build.
        memory: The peak of the variant with the greatest, and what all weights take, equal ones once.
        context: What the phases noted down of all, kernels by their names in the module.
    """

    variants: tuple[Variant, ...]
    planned: tvm.IRModule
    memory: Memory
    context: Context

    @property
    def largest(self) -> Variant:
        """The variant with the greatest peak memory."""
        return max(self.variants, key=lambda variant: variant.memory.peak_activation_bytes)

    @property
    def calls(self) -> list[CallSite]:
        """The kernel calls of the largest variant, by the kernels' names in the module."""
        if len(self.variants) == 1:
            return self.context.calls
        name = self.largest.name
        parts = ((call, *call.function.partition("/")) for call in self.context.calls)
        return [replace(call, function=function) for call, variant, _, function in parts if variant == name]

    def selftest_file(self, variant: Variant) -> str:
        """Return the name of the self-test file of a variant."""
        return SELFTEST if variant is self.largest else f"selftest_{variant.bucket.label}.npz"

    def buckets(self) -> list[BucketInfo]:
        """Return the manifest's entries for the buckets; none if there is a single variant."""
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


def unite(variants: Sequence[Variant]) -> United:
    """Merge variants into one module, whose `main` dispatches by shape."""
    (first, *others) = variants
    if not others:
        return United((first,), first.repeated(first.planned, MAIN), first.memory, first.context)
    merged = merge_modules({variant.name: variant.planned for variant in variants})
    context = first.context.of_piece()
    context.gather({variant.name: variant.context for variant in variants}, merged.names)
    mains = [variant.name for variant in variants]
    planned = share_arena(merged.mod, mains)
    for variant in variants:
        planned = variant.repeated(planned, variant.name)
    planned = choose(planned, mains, _refusal(variants))
    united = United(tuple(variants), planned, first.memory, context)
    memory = united.largest.memory.model_copy(update={"weight_bytes": weight_bytes(merged.mod)})
    return replace(united, memory=memory)


def _refusal(variants: Sequence[Variant]) -> str:
    taken = "; ".join(", ".join(spec.describe() for spec in variant.model.inputs) for variant in variants)
    return f"the package was compiled for these shapes alone: {taken}"
