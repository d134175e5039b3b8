# SPDX-License-Identifier: Apache-2.0
"""Estimates of a model's cost by the cost model that chooses kernels, without code generation."""

from collections.abc import Callable
from dataclasses import dataclass

from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.pipeline.kernel_cache import KernelCache
from arm_ext.pipeline.macs import count_macs
from arm_ext.pipeline.memory import weight_bytes
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, last, run_phases
from arm_ext.report.calls import CallRow, SourceNodes
from arm_ext.target.profiles import Profile
from schedules.numerics.qdq import NUMERICS, Qdq


@dataclass(frozen=True)
class Estimate:
    """The estimate of a model.

    Attributes:
        calls: Calls of kernels on the CPU, in execution order.
        weights: Bytes of all constants.
        division: Result of `divide`, if there was one.
    """

    calls: tuple[CallRow, ...]
    weights: int
    division: object = None

    @property
    def cycles(self) -> int:
        """Estimated cycles of one inference on one core."""
        return sum(call.cycles_with_caches for call in self.calls)

    def costs(self) -> list[tuple[tuple[str, ...], float]]:
        """Return, for each call, its source nodes (the anchor first) and its cycles."""
        return [((call.anchor, *call.sources), call.cycles_with_caches) for call in self.calls]


def estimate(
    model: ImportedModel,
    profile: Profile,
    *,
    numerics: Qdq = NUMERICS,
    divide: Callable[[PhaseResult, PhaseOptions], PhaseResult] | None = None,
    kernel_cache: KernelCache | None = None,
) -> Estimate:
    """Return the estimated cost of an imported model on a target.

    Args:
        model: The imported model.
        profile: The target.
        numerics: Numerics of quantised operators.
        divide: As `PhaseOptions.divide`; what something else may compute is left out of the calls.
        kernel_cache: Choices of kernels that are known from estimates of like models.
    """
    # The division between an NPU and the CPU needs the bodies of kernels.
    cache = (kernel_cache or KernelCache()) if divide is None else None
    options = PhaseOptions(profile, numerics=numerics, divide=divide, kernel_cache=cache)
    planned = last(run_phases(PhaseResult(model.mod), options))
    nodes = SourceNodes(model.nodes, count_macs(model.mod))
    calls = tuple(row for row in planned.rows(nodes, profile.core) if row.function not in planned.offers)
    return Estimate(calls, weight_bytes(planned.mod), planned.division)
