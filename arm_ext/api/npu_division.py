# SPDX-License-Identifier: Apache-2.0
"""The division of a model between NPU and CPU, for commands that only analyse it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from arm_ext.ethosu.options import NpuOptions, require_packages
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.pipeline.estimate import Estimate, estimate
from arm_ext.pipeline.macs import count_macs
from arm_ext.report.npu import NpuReport, mac_share
from arm_ext.target.profiles import Profile
from schedules.numerics import tosa

if TYPE_CHECKING:
    from arm_ext.ethosu.partition.phase import Partitioner


def partitioner(npu: NpuOptions | str, imported: ImportedModel) -> "Partitioner":
    """Return the object that divides a model between NPU and CPU during its phases.

    Raises:
        UsageError: The model is not quantised, or has control flow; an option of the NPU is wrong.
        EnvError: Vela is not installed.
    """
    require_packages()
    # Not imported above: without an NPU, the packages that this needs may be missing.
    from arm_ext.ethosu.partition.divider import Divider, check_divisible
    from arm_ext.ethosu.partition.phase import Partitioner

    check_divisible(imported)
    divider = Divider(npu if isinstance(npu, NpuOptions) else NpuOptions(npu))
    return Partitioner(divider, imported, count_macs(imported.mod), first=0)


def check_npu(npu: NpuOptions) -> None:
    """Check the options of an NPU before any work.

    Raises:
        UsageError: An option is wrong.
        EnvError: Vela is not installed.
    """
    require_packages()
    from arm_ext.ethosu.partition.divider import Divider

    Divider(npu)


@dataclass(frozen=True)
class DividedEstimate:
    """The estimated cost of a model that is divided between an NPU and the CPU.

    Attributes:
        cpu: Estimate of the CPU's part; regions of the NPU are left out of its calls.
        npu: How the model was divided; None for a model in float, which the CPU computes alone.
        mac_share: Share of the multiply-accumulates that the NPU computes.
    """

    cpu: Estimate
    npu: NpuReport | None
    mac_share: float

    @property
    def weights(self) -> int:
        """Bytes of all constants, including those of the NPU's regions as the CPU's code stores them."""
        return self.cpu.weights

    @property
    def cycles(self) -> int:
        """Estimated time of one inference, hand-overs and copies included, in cycles of the CPU's clock."""
        if self.npu is None:
            return self.cpu.cycles
        return self.cpu.cycles + round(self.npu.cpu_mhz * sum(region.npu_us for region in self.npu.regions))

    @property
    def npu_cycles(self) -> int:
        """Vela's estimate of all regions, in cycles of the NPU's clock."""
        return 0 if self.npu is None else sum(region.cycles for region in self.npu.regions)

    @property
    def on_npu(self) -> frozenset[str]:
        """Source nodes that the NPU computes."""
        regions = () if self.npu is None else self.npu.regions
        return frozenset(node for region in regions for node in region.sources)

    def costs(self) -> list[tuple[tuple[str, ...], float]]:
        """Return source nodes with their cost in cycles of the CPU's clock, without hand-overs and copies."""
        found = self.cpu.costs()
        if self.npu is not None:
            scale = self.npu.cpu_mhz / self.npu.npu_mhz
            found += [(la.sources, scale * la.cycles) for each in self.npu.regions for la in each.layers]
        return found


def estimate_divided(model: ImportedModel, profile: Profile, npu: NpuOptions) -> DividedEstimate:
    """Return the estimated cost of an imported model on a target with an NPU.

    Raises:
        UsageError, EnvError: As `partitioner`; a model in float is the CPU's.
        ModelError: A region needs more SRAM than it may have.
    """
    if not model.quantized:
        return DividedEstimate(estimate(model, profile), None, 0.0)
    divide = partitioner(npu, model)
    from arm_ext.ethosu.partition.divider import Offloaded

    found = estimate(model, profile, numerics=tosa.NUMERICS, divide=divide)
    division = found.division
    assert isinstance(division, Offloaded)
    return DividedEstimate(found, division.report, mac_share(division.report.regions, divide.macs))
