# SPDX-License-Identifier: Apache-2.0
"""`arm_ext.advise_npu`: the estimated cost of a model on each Ethos-U, from Vela and the kernels' cost formulas."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import tvm

from arm_ext.api.model_source import Source
from arm_ext.api.mutual_exclusion import serial
from arm_ext.api.options import IMPORT, Options, gathered
from arm_ext.api.plugins import load_plugins, with_plugins
from arm_ext.common.errors import UsageError
from arm_ext.ethosu.options import HANDOVER_US, NpuOptions, require_packages
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.load import prepared
from arm_ext.pipeline.macs import count_macs
from arm_ext.pipeline.phases import LAST_OF_ALL_TARGETS, PhaseOptions, PhaseResult, last, run_phases
from arm_ext.report.advice.failure import told
from arm_ext.report.advice.npu.record import NpuAdvice, NpuPrice, Price, Stopped
from arm_ext.report.calls import SourceNodes
from arm_ext.report.npu import NpuReport, mac_share, reasons_of
from arm_ext.shapes.given import Given, buckets_of
from arm_ext.target.npu import ACCELERATORS, Accelerator, resolve_npu
from arm_ext.target.profiles import Profile, resolve
from schedules.numerics import tosa

NOTE = (
    "All figures are estimates: by Vela for the NPU, by the kernels' formulas for one core of the CPU, at the clocks "
    "in the table. NPU and CPU take turns. A hand-over and its copies are assumptions. The figures compare "
    "configurations, and are no times on a board. Regions that would not gain stay on the CPU."
)
BESIDE_CORTEX_M = (
    "An Ethos-U55 stands beside a Cortex-M, for which nothing is compiled yet, and never beside this CPU: its rows "
    "compare accelerators, and are of no product."
)
_MINUTE = 60


@dataclass(frozen=True)
class NpuConfiguration:
    """An accelerator, with a system configuration and a memory mode of Vela that are valid for it."""

    npu: Accelerator
    system_config: str
    memory_mode: str

    @property
    def name(self) -> str:
        """Name for messages, such as "ethos-u55-128 Ethos_U55_High_End_Embedded Shared_Sram"."""
        return f"{self.npu.name} {self.system_config} {self.memory_mode}"


def configurations(npus: Sequence[str] = ()) -> tuple[NpuConfiguration, ...]:
    """Return all configurations of the named accelerators; of all accelerators if none is named.

    Raises:
        UsageError: There is no such accelerator.
        EnvError: Vela is not installed.
    """
    require_packages()
    from arm_ext.ethosu.vela.config import pairs

    named = list(dict.fromkeys(npus)) or list(ACCELERATORS)
    return tuple(NpuConfiguration(npu, *pair) for npu in map(resolve_npu, named) for pair in pairs(npu))


@serial
@with_plugins
def advise_npu(
    model: str | Path,
    target: str = "arm",
    npus: Sequence[str] = (),
    options: Options | None = None,
    *,
    cpu_mhz: float | None = None,
    handover_us: float = HANDOVER_US,
    budget: float | None = None,
    progress: Callable[[str], None] = lambda step: None,
    **more: Any,
) -> NpuAdvice:
    """Divide a quantised model between the CPU and each Ethos-U, and estimate the time of one inference.

    KeyboardInterrupt while configurations are estimated is no error: it ends the estimates, and those made so far are
    returned.

    Args:
        model: A file of any format that `compile` takes.
        target: Name of the CPU's profile.
        npus: Names of accelerators; all by default.
        options: Options in one record.
        cpu_mhz: Clock of the CPU; by default that of one chip with an NPU of the family.
        handover_us: Microseconds for the hand-over of a region to the NPU and back.
        budget: Minutes after which no further configuration is estimated.
        progress: Called with "import", and with the name of each of `configurations` as it begins.
        more: Options by keyword: those by which a model is read, and `mattr`, as for `compile`; one shape an input.

    Raises:
        UsageError: An argument is invalid, or the model is float, or has several shapes.
        ModelError: The model cannot be compiled.
        EnvError: Vela is not installed.
    """
    o = gathered("advise_npu", Options, options, more, IMPORT | {"mattr"})
    asked = configurations(npus)
    until = math.inf if budget is None else monotonic() + budget * _MINUTE
    progress("import")
    source = Source(prepared(model, o.values, trust=o.trust), o, npu=True)
    brought = load_plugins(o.plugins)
    phases = PhaseOptions(
        resolve(target, o.mattr),
        numerics=tosa.NUMERICS,
        more_rules=brought.rules,
        more_kernels=brought.kernels,
    )
    pricer = _Pricer.of(_model(source, o.shapes), phases, cpu_mhz, handover_us)
    prices: list[NpuPrice] = []
    stopped: Stopped = "done"
    try:
        for each in asked:
            if monotonic() >= until:
                stopped = "budget"
                break
            progress(each.name)
            prices.append(pricer.priced(each))
    except KeyboardInterrupt:
        stopped = "interrupted"
    prices += pricer.left(asked[len(prices) :], stopped)
    return pricer.report(prices, stopped)


def _model(source: Source, shapes: Given | None) -> ImportedModel:
    models, _ = source.models(buckets_of(shapes))
    if len(models) > 1 or models[0][0].batch or models[0][0].length:
        raise UsageError(
            "--npu estimates a model of one shape; give each input a --shape without lists or run-time sizes"
        )
    return models[0][1]


@dataclass(frozen=True)
class _Pricer:
    """A model lowered for the CPU, which is then divided for each configuration of an NPU.

    Attributes:
        model: The imported model.
        macs: Source node → multiply-accumulates.
        integer: The module after the phase `integerize`.
        lowered: The module lowered for the CPU alone.
        profile: The profile that it was lowered for.
        cpu_cycles: Cycles of the CPU alone.
        cpu_mhz: Clock of the CPU, where the caller knows it.
        handover_us: Microseconds of handing a region over.
    """

    model: ImportedModel
    macs: dict[str, int]
    integer: tvm.IRModule
    lowered: PhaseResult
    profile: Profile
    cpu_cycles: int
    cpu_mhz: float | None
    handover_us: float

    @classmethod
    def of(
        cls, model: ImportedModel, options: PhaseOptions, cpu_mhz: float | None, handover_us: float
    ) -> "_Pricer":
        """Lower a model for the CPU only."""
        from arm_ext.ethosu.partition.divider import check_divisible
        from arm_ext.ethosu.partition.phase import lowered_for_estimates

        check_divisible(model)
        integer = last(run_phases(PhaseResult(model.mod), options, until=LAST_OF_ALL_TARGETS))
        lowered = lowered_for_estimates(integer, options)
        macs = count_macs(model.mod)
        alone = sum(
            row.selection_cost for row in lowered.rows(SourceNodes(model.nodes, macs), options.profile.core)
        )
        return cls(model, macs, integer.mod, lowered, options.profile, alone, cpu_mhz, handover_us)

    def priced(self, each: NpuConfiguration) -> NpuPrice:
        """Divide the model for a configuration."""
        from arm_ext.ethosu.partition.divider import Divider

        divider = Divider(self._options(each))
        begin = self._begin(each)
        try:
            found = divider.divide(self.model.nodes, self.macs, self.integer, self.lowered).report
        except Exception as error:
            fault, said = told(error)
            return begin.model_copy(update={"failure": fault, "note": said})
        return begin.model_copy(update={"price": self._price(found)})

    def left(self, configurations_: Sequence[NpuConfiguration], stopped: Stopped) -> Iterator[NpuPrice]:
        """Yield rows for the configurations that were not reached before the budget or the user stopped it."""
        note = "the budget was used up" if stopped == "budget" else "interrupted"
        for each in configurations_:
            yield self._begin(each).model_copy(update={"note": note})

    def report(self, prices: Sequence[NpuPrice], stopped: Stopped) -> NpuAdvice:
        """Return the report."""
        from arm_ext.ethosu.vela.compiler import vela_version

        return NpuAdvice(
            model=self.model.name,
            target=self.profile.name,
            core=self.profile.core.name,
            macs=sum(self.macs.values()),
            cpu_cycles=self.cpu_cycles,
            handover_us=self.handover_us,
            vela=vela_version(),
            stopped=stopped,
            prices=tuple(prices),
            note=f"{NOTE} {BESIDE_CORTEX_M}" if any("u55" in each.accelerator for each in prices) else NOTE,
        )

    def _options(self, each: NpuConfiguration) -> NpuOptions:
        return NpuOptions(
            each.npu.name,
            system_config=each.system_config,
            memory_mode=each.memory_mode,
            cpu_mhz=self.cpu_mhz,
            handover_us=self.handover_us,
        )

    def _begin(self, each: NpuConfiguration) -> NpuPrice:
        from arm_ext.ethosu.partition.divider import Divider

        clocks = Divider(self._options(each)).clocks
        return NpuPrice(
            accelerator=each.npu.name,
            macs_per_cycle=each.npu.macs,
            system_config=each.system_config,
            memory_mode=each.memory_mode,
            npu_mhz=clocks.npu,
            cpu_mhz=clocks.cpu,
        )

    def _price(self, found: NpuReport) -> Price:
        regions = found.regions
        npu_cycles = sum(region.cycles for region in regions)
        npu_us = npu_cycles / found.npu_mhz
        alone_us = self.cpu_cycles / found.cpu_mhz
        cpu_us = max(0.0, alone_us - sum(region.cpu_us for region in regions))
        handover_us = sum(region.npu_us for region in regions) - npu_us
        us = npu_us + handover_us + cpu_us
        memories: dict[str, int] = {}
        for memory in (memory for region in regions for memory in region.memories):
            memories[memory.name] = max(memory.peak_bytes, memories.get(memory.name, 0))
        covered = {node for region in regions for node in region.sources}
        left = reasons_of([each for each in found.rejections if not each.unfit], self.macs, covered)
        return Price(
            regions=len(regions),
            operators=sum(len(region.operators) for region in regions),
            mac_share=mac_share(regions, self.macs),
            npu_cycles=npu_cycles,
            cpu_cycles=round(cpu_us * found.cpu_mhz),
            npu_us=round(npu_us, 3),
            handover_us=round(max(0.0, handover_us), 3),
            cpu_us=round(cpu_us, 3),
            us=round(us, 3),
            gain=1 - us / alone_us if alone_us else 0.0,
            memories=memories,
            kept=f"{', '.join(left[0].operators)}: {left[0].reason}" if left else "",
        )
