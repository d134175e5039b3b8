# SPDX-License-Identifier: Apache-2.0
"""The phase `partition`: NPU regions of a model become functions, each with a payload that the NPU can run instead."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from tvm import relax

from arm_ext.ethosu.options import OnNpuError
from arm_ext.ethosu.partition.divider import Divider
from arm_ext.ethosu.partition.offload import Region
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.native.build import NPU_RUN
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, last, run_phases
from arm_ext.report.npu import fallback_name
from relay_passes import Offer, Part, outline

_ON_ERROR: dict[OnNpuError, int] = {"fallback": 0, "fail": 1}


@dataclass(frozen=True)
class Partitioner:
    """Divides a model between NPU and CPU.

    Attributes:
        divider: The divider with the user's options.
        model: The imported model.
        macs: Source node → number of multiply-accumulates.
        first: Number of the first region; regions are numbered through all of a package's shapes.
    """

    divider: Divider
    model: ImportedModel
    macs: Mapping[str, int]
    first: int

    def __call__(self, integer: PhaseResult, options: PhaseOptions) -> PhaseResult:
        """Move the regions of an integer graph into functions; the result's `division` is an `Offloaded`.

        The whole graph is lowered here for the estimates, and again after the division.
        """
        lowered = lowered_for_estimates(integer, options)
        found = self.divider.divide(self.model.nodes, self.macs, integer.mod, lowered, self.first)
        regions = {
            fallback_name(number): (number, region)
            for number, region in enumerate(found.offload.regions, self.first)
        }
        on_error = self.divider.options.on_npu_error
        return replace(
            integer,
            mod=outline(integer.mod, [part_of(name, region) for name, (_, region) in regions.items()]),
            offers={name: offer_of(number, on_error, region) for name, (number, region) in regions.items()},
            division=found,
        )


def lowered_for_estimates(integer: PhaseResult, options: PhaseOptions) -> PhaseResult:
    """Lower an integer graph for the CPU alone.

    The CPU cost of an operator depends on the kernel that it is lowered to, together with its neighbours.
    """
    return last(
        run_phases(integer, replace(options, divide=None, record=None), after="integerize", until="lower")
    )


def part_of(name: str, region: Region) -> Part:
    """Return the variables of `main` that become a region's function."""
    part = region.part
    return Part(
        name,
        frozenset(var for operator in part.operators for var in operator.bindings),
        tuple(tensor.var for tensor in part.inputs),
        tuple(tensor.var for tensor in part.outputs),
    )


def offer_of(number: int, on_error: OnNpuError, region: Region) -> Offer:
    """Return the call of `NPU_RUN` that runs a region on the NPU."""
    payload = np.frombuffer(region.compiled.payload.to_bytes(), np.uint8)
    return Offer(
        NPU_RUN, (relax.prim_value(number), relax.prim_value(_ON_ERROR[on_error]), relax.const(payload))
    )
