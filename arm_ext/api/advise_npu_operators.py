# SPDX-License-Identifier: Apache-2.0
"""Operators that keep a part of a quantised model off an NPU, and similar operators that the NPU can compute.

The model with the other operators is built, too. One inference is then compared: Vela's estimate of the regions with
their hand-overs, and the measured calls of all that stays on the CPU.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from arm_ext.api.advise_builds import MeasuredBuild, cost_of_call
from arm_ext.api.advise_layers import NpuRegions, calls_of_region, quantized
from arm_ext.common.text import counted
from arm_ext.ethosu.ops.constraints import LEAVE
from arm_ext.ethosu.partition.offload_cost import ESTIMATES
from arm_ext.ethosu.partition.unsupported import QUANTIZE_IT
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.report.advice.changes import Changed
from arm_ext.report.advice.failure import told
from arm_ext.report.advice.nearest_operators import NEAREST, operators_of, replaced
from arm_ext.report.advice.record import Advice, Declined
from arm_ext.report.advice.rules import LEAST_GAIN
from arm_ext.report.npu import NpuReport, mac_share
from schedules.diagnostic import Diagnostic

RULE = "npu-operators"


@dataclass(frozen=True)
class _Proposal:
    """A change of the model that may bring an operator to the NPU.

    Attributes:
        operator: Operator that stays on the CPU.
        instead: Operator that is computed in its place.
        how: The change to make.
        changed: The changed model.
    """

    operator: str
    instead: str
    how: str
    changed: Changed


@dataclass(frozen=True)
class NpuOperators:
    """Finds changes of a model by which an NPU would compute more of its operators.

    Attributes:
        regions: The model with the NPU.
        model: The imported model, quantised as the regions are; None if it is compiled for several shapes.
        feed: A sample, which the ranges of new operators in a quantised model are taken from.
    """

    regions: NpuRegions
    model: ImportedModel | None
    feed: Mapping[str, npt.NDArray[Any]]

    def found(self) -> Iterator[Advice | Declined]:
        """Yield advice for the operators that stay on the CPU for another reason than cost.

        Raises:
            UsageError, ModelError, EnvError: As `compile` with `--npu`, and as `profile`.
        """
        kept = _kept(self.regions.build)
        tried: set[str] = set()
        for proposal in self._proposals(kept):
            tried.update(proposal.changed.sources)
            if not self.regions.bench.spent:
                yield self._tried(proposal)
        yield from self._with_hints([found for found in kept if not tried.intersection(found.nodes)])

    def _proposals(self, kept: Collection[Diagnostic]) -> Iterator[_Proposal]:
        """Yield the changes that can be made in the model; each replaces all operators of one kind."""
        if self.model is None:
            return
        names = {name for found in kept for name in found.nodes}
        for nearest in NEAREST:
            changed = replaced(self.model, frozenset(names), nearest)
            if changed is not None:
                names -= set(changed.sources)
                operator = operators_of(self.model, changed.sources)
                how = f"take {nearest.instead} in the place of {operator}, and train the model again"
                yield _Proposal(operator, nearest.instead, how, self._in_integers(changed) or changed)
        floats = [found for found in kept if found.hint == QUANTIZE_IT and names.issuperset(found.nodes)]
        if (
            floats and not self.regions.quantize
        ):  # with `--quantize`, these operators were left in float on purpose
            nodes = tuple(dict.fromkeys(name for found in floats for name in found.nodes))
            operators = ", ".join(sorted({found.operator for found in floats}))
            in_integers = self._in_integers(Changed(self.model, nodes, "", comparable=False))
            if in_integers is not None:
                yield _Proposal(
                    operators, "the same in int8", "quantise what it reads and gives", in_integers
                )

    def _in_integers(self, changed: Changed) -> Changed | None:
        """Return a quantised model with its changed nodes in int8, too.

        None if they are in int8 already, or cannot be.
        """
        made = quantized(changed.model, changed.sources, self.feed)
        return None if made is None else made.after(changed)

    def _tried(self, proposal: _Proposal) -> Advice | Declined:
        """Build and measure a changed model; return it as advice if it gains, else as declined."""
        before, name, sources = self.regions.build, self.regions.npu.accelerator, proposal.changed.sources
        try:
            build = self.regions.bench.measure_changed(
                proposal.changed, self.regions.present, self.regions.options
            )
        except Exception as error:
            fault, said = told(error)
            return Declined(rule=RULE, sources=sources, reason=said, failure=fault)
        gain = 1 - cost_with_npu(build) / cost_with_npu(before)
        evidence = (
            f"{proposal.operator} stays on the CPU with {name}: {_reasons(before, sources)}. "
            f"With {proposal.instead}, there {_regions(build)} on the NPU; now there {_regions(before)}"
        )
        still = _reasons(build, sources)
        if still or gain < LEAST_GAIN:
            why = f"stays on the CPU, too: {still}" if still else f"saves {100 * gain:.1f} % by estimate"
            return Declined(rule=RULE, sources=sources, reason=f"{evidence}; built, this {why}")
        return Advice(
            rule=RULE,
            sources=sources,
            evidence=evidence,
            at_most=self._share(sources),
            estimated=gain,
            basis=f"built; Vela's estimate for {name}, and the measured calls on the CPU",
            how=proposal.how,
        )

    def _with_hints(self, kept: Iterable[Diagnostic]) -> Iterator[Advice]:
        """Yield advice for operators that cost enough and break a limit of the NPU that the model could meet."""
        groups: dict[tuple[str, str, str], list[str]] = {}
        for found in kept:
            if found.hint not in ("", LEAVE):
                groups.setdefault((found.operator, _said(found), found.hint), []).extend(found.nodes)
        for (operator, why, hint), nodes in groups.items():
            share = self._share(nodes)
            if share >= LEAST_GAIN:
                yield Advice(
                    rule=RULE,
                    sources=tuple(dict.fromkeys(nodes)),
                    evidence=f"{operator} stays on the CPU with {self.regions.npu.accelerator}: {why}",
                    at_most=share,
                    estimated=share,
                    basis="all that these calls cost on the CPU, in an inference with the NPU",
                    how=hint,
                )

    def _share(self, sources: Collection[str]) -> float:
        """Return the share of an inference's cost (with the NPU) that the CPU spends in calls of some source nodes."""
        build, wanted = self.regions.build, set(sources)
        on_npu = {call.index for region in _npu(build).regions for call in calls_of_region(region, build)}
        calls = [call for call in build.profile.calls if wanted & set(call.sources)]
        return sum(cost_of_call(call) for call in calls if call.index not in on_npu) / cost_with_npu(build)


def cost_with_npu(build: MeasuredBuild) -> float:
    """Return the cost of one inference with the NPU computing its regions, in cycles of the CPU's clock."""
    found = _npu(build)
    on_cpu = sum(cost_of_call(call) for region in found.regions for call in calls_of_region(region, build))
    return build.cost - on_cpu + found.cpu_mhz * sum(region.npu_us for region in found.regions)


def _npu(build: MeasuredBuild) -> NpuReport:
    assert build.report.npu is not None  # it was built with --npu
    return build.report.npu


def _kept(build: MeasuredBuild) -> list[Diagnostic]:
    """Return the operators that stay on the CPU, except those that are faster there."""
    return [found for found in _npu(build).rejections if not found.unfit and found.asked != ESTIMATES]


def _said(found: Diagnostic) -> str:
    return found.reason + (f" (allowed: {found.limit}; found: {found.actual})" if found.limit else "")


def _reasons(build: MeasuredBuild, sources: Collection[str]) -> str:
    """Return the reasons why any of these nodes stays on the CPU; "" if there are none except cost."""
    kept = [found for found in _kept(build) if set(sources) & set(found.nodes)]
    return "; ".join(dict.fromkeys(found.reason for found in kept))


def _regions(build: MeasuredBuild) -> str:
    regions = _npu(build).regions
    share = mac_share(regions, build.report.source_nodes().macs)
    verb = "is" if len(regions) == 1 else "are"
    return f"{verb} {counted(len(regions), 'region')} with {100 * share:.0f} % of the MACs"
