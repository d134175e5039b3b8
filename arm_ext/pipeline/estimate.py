# SPDX-License-Identifier: Apache-2.0
"""Estimates of a model's cost without code generation, from the cost model that chooses kernels."""

from dataclasses import dataclass

from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.pipeline.macs import count_macs
from arm_ext.pipeline.memory import weight_bytes
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, last, run_phases
from arm_ext.report.calls import CallRow, SourceNodes
from arm_ext.target.profiles import Profile


@dataclass(frozen=True)
class Estimate:
    """The estimate of a model.

    Attributes:
        calls: Calls of kernels, in execution order.
        weights: Bytes of all constants.
    """

    calls: tuple[CallRow, ...]
    weights: int

    @property
    def cycles(self) -> int:
        """Estimated cycles of one inference on one core."""
        return sum(call.selection_cost for call in self.calls)


def estimate(model: ImportedModel, profile: Profile) -> Estimate:
    """Return the estimated cost of an imported model on a target."""
    planned = last(run_phases(PhaseResult(model.mod), PhaseOptions(profile)))
    nodes = SourceNodes(model.nodes, count_macs(model.mod))
    return Estimate(planned.rows(nodes), weight_bytes(planned.mod))
