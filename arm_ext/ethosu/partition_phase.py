# SPDX-License-Identifier: Apache-2.0
"""The phase `partition`: NPU regions of a model become functions, with payloads that may compute them."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import tvm
from tvm import relax

from arm_ext.ethosu.divider import Divider
from arm_ext.ethosu.npu_files import Offloaded
from arm_ext.ethosu.offload import Region
from arm_ext.ethosu.options import OnNpuError
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.pipeline import phases
from arm_ext.report.npu import fallback_name
from relay_passes import Offer, Part, outline

RUN = "arm_ext_npu_run"
"""Of model.so: (region, whether a failed run is an error, payload, inputs, outputs) → whether it ran on the NPU."""

_ON_ERROR: dict[OnNpuError, int] = {"fallback": 0, "fail": 1}


@dataclass
class Partitioner:
    """Divides a model between NPU and CPU.

    Attributes:
        divider: How.
        model: The model.
        macs: Source node → multiply-accumulates.
        divided: What was found, behind what was for the package's other shapes: regions are numbered through.
    """

    divider: Divider
    model: ImportedModel
    macs: Mapping[str, int]
    divided: list[Offloaded] = field(default_factory=list)

    def __call__(self, mod: tvm.IRModule, context: phases.Context) -> tvm.IRModule:
        """Move the regions of an integer graph into functions.

        The whole graph is lowered for the estimates, and again when it is divided.
        """
        lowered, estimates = lowered_for_estimates(mod, context)
        first = sum(len(each.offload.regions) for each in self.divided)
        found = self.divider.divide(self.model.nodes, self.macs, mod, lowered, estimates, first)
        self.divided.append(found)
        regions = {fallback_name(i): region for i, region in enumerate(found.offload.regions, first)}
        on_error = self.divider.options.on_npu_error
        context.offers |= {
            name: offer_of(number, on_error, region)
            for number, (name, region) in enumerate(regions.items(), first)
        }
        return outline(mod, [part_of(name, region) for name, region in regions.items()])


def lowered_for_estimates(mod: tvm.IRModule, context: phases.Context) -> tuple[tvm.IRModule, phases.Context]:
    """Lower an integer graph for the CPU, and return it with a context of its kernels and calls.

    What an operator takes on the CPU is known once it is lowered, and that depends on its neighbours.
    """
    estimates = replace(context, kernels=[], calls=[])
    for phase in (phases.fuse, phases.lower_kernels):
        mod = phase(mod, estimates)
    return mod, estimates


def part_of(name: str, region: Region) -> Part:
    """Return the part of `main` that becomes a region's function."""
    part = region.part
    return Part(
        name,
        frozenset(var for operator in part.operators for var in operator.bindings),
        tuple(tensor.var for tensor in part.inputs),
        tuple(tensor.var for tensor in part.outputs),
    )


def offer_of(number: int, on_error: OnNpuError, region: Region) -> Offer:
    """Return the call that runs the region of a number on the NPU."""
    payload = np.frombuffer(region.compiled.payload.to_bytes(), np.uint8)
    return Offer(RUN, (relax.prim_value(number), relax.prim_value(_ON_ERROR[on_error]), relax.const(payload)))
