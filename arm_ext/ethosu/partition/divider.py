# SPDX-License-Identifier: Apache-2.0
"""Division of a model between NPU and CPU during compilation, with its report."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt
import tvm

from arm_ext.common.errors import UsageError
from arm_ext.ethosu.model.linux_driver import refused_by_linux
from arm_ext.ethosu.ops.common.operators import NpuGraph, UnsupportedCall
from arm_ext.ethosu.ops.registry import BY_KIND
from arm_ext.ethosu.options import DEFAULT_CPU_MHZ, Names, NpuOptions
from arm_ext.ethosu.partition.borders import borders
from arm_ext.ethosu.partition.cpu_cost import cpu_cycles
from arm_ext.ethosu.partition.demands import check_rejections, check_sram
from arm_ext.ethosu.partition.layers import layer_sources
from arm_ext.ethosu.partition.offload import Offload, Offloader, Region, compile_part
from arm_ext.ethosu.partition.offload_cost import Clocks
from arm_ext.ethosu.partition.parts import NpuPart, Wishes
from arm_ext.ethosu.partition.read import read
from arm_ext.ethosu.partition.region_values import region_values
from arm_ext.ethosu.partition.two_of_four import sparsity
from arm_ext.ethosu.partition.unsupported import CONVERSIONS, IN_64_BITS, QUANTIZE_IT
from arm_ext.ethosu.vela.compiler import CompiledPayload, MemoryUse, check_configuration, vela_version
from arm_ext.ethosu.vela.config import VelaOptions, configuration
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.package import RegionValues, Selftest
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult
from arm_ext.pipeline.selftest import host_runner, samples_of
from arm_ext.report.npu import NpuBorder, NpuLayer, NpuMemoryUse, NpuRegion, NpuReport, reasons_of
from arm_ext.target.npu import resolve_npu
from arm_ext.target.profiles import baseline_host
from relay_passes.ir.sources import union
from relay_passes.programs.control_flow import has_control_flow
from schedules.diagnostic import Diagnostic
from schedules.numerics import tosa


def check_divisible(model: ImportedModel) -> None:
    """Raise an error if a model is not quantised, or has control flow.

    Raises:
        UsageError: The model is float, or has control flow.
    """
    if not model.quantized:
        raise UsageError(
            f"--npu needs a quantised model, and {model.name} has no quantised tensor; "
            "--quantize FILE.npz quantises an ONNX model by calibration samples"
        )
    if has_control_flow(model.mod):
        raise UsageError(
            f"--npu is for models without control flow, and {model.name} decides at run time what it computes; "
            "compile it without --npu"
        )


@dataclass(frozen=True)
class Offloaded:
    """A divided model with its report.

    Attributes:
        offload: The regions, and the operators that stay on the CPU.
        report: The NPU part of the report.
        integer: The integer graph that was divided.
        options: The options by which it was divided.
    """

    offload: Offload
    report: NpuReport
    integer: tvm.IRModule
    options: NpuOptions

    def selftest(
        self, model: ImportedModel, inputs: list[npt.NDArray[Any]], without: tuple[str, ...]
    ) -> tuple[Selftest, list[RegionValues]]:
        """Compute the self-test on this machine, without `source`, and the values of each region in it.

        Args:
            model: The imported model.
            inputs: Inputs of the self-test.
            without: Names of kernels that must not be used.
        """
        parts = [region.part for region in self.offload.regions]
        host = PhaseOptions(baseline_host(), without=without, numerics=tosa.NUMERICS)
        samples = samples_of(model.inputs, inputs)
        expected, values = region_values(self.integer, parts, samples[0], host)
        if len(samples) > 1:
            expected = host_runner(model, without=without, numerics=tosa.NUMERICS)(inputs)
        return Selftest(inputs, expected, [], ""), values


class Divider:
    """Divides models between NPU and CPU by the user's options, which are checked first.

    Raises:
        UsageError: The accelerator, a configuration file or a section of it does not exist.
    """

    def __init__(self, options: NpuOptions) -> None:
        self.options = options
        self._npu = resolve_npu(options.accelerator)
        self._vela = VelaOptions(
            options.system_config, options.memory_mode, options.vela_config, options.sram_budget
        )
        self._configuration = configuration(self._npu, self._vela)
        if options.vela_config is not None:
            check_configuration(self._npu, self._vela)
        self.clocks = Clocks(
            options.cpu_mhz or DEFAULT_CPU_MHZ[self._npu.family],
            options.npu_mhz or self._configuration.core_mhz,
            options.handover_us,
        )

    def divide(
        self,
        nodes: Mapping[str, str],
        macs: Mapping[str, int],
        integer: tvm.IRModule,
        lowered: PhaseResult,
        first: int = 0,
    ) -> Offloaded:
        """Divide a model between NPU and CPU.

        Args:
            nodes: Source node → operator.
            macs: Source node → number of multiply-accumulates.
            integer: Result of the phase `integerize`.
            lowered: Result of the phase `lower` for the same graph.
            first: Number of the first region.

        Raises:
            UsageError: An option names an operator that the model does not have.
            ModelError: Operators fall back to the CPU against --fail-on-fallback, or a region exceeds the SRAM budget.
        """
        options, graph = self.options, read(integer)
        kinds = {*BY_KIND, *(o.kind for o in graph.operators), *(u.operator for u in graph.unsupported)}
        names = Names(kinds | {call.operator for call in lowered.left_float}, nodes)
        wishes = Wishes(
            names.resolve("--npu-ops", options.npu_ops), names.resolve("--cpu-ops", options.cpu_ops)
        )
        watched = names.resolve("--fail-on-fallback", options.fallback_ops)
        cycles = cpu_cycles(lowered.mod, lowered.kernels, graph.operators)
        divided = Offloader(
            npu=self._npu,
            options=self._vela,
            wishes=wishes,
            clocks=self.clocks,
            cpu_cycles=cycles.__getitem__,
            weigh=not options.fail_on_fallback,
        ).divide(graph)
        report = self._report(graph, divided, macs, lowered.left_float, first)
        if options.fail_on_fallback:
            check_rejections(report, watched, macs)
        if options.sram_budget is not None:
            check_sram(report, options.sram_budget)
        return Offloaded(divided, report, integer, options)

    def compile(self, part: NpuPart) -> tuple[bytes, CompiledPayload]:
        """Return the TOSA flatbuffer of a part, and the result of compiling it with Vela.

        Raises:
            VelaError: Vela rejects the part.
        """
        return compile_part(part, self._npu, self._vela)

    def _report(
        self,
        graph: NpuGraph,
        divided: Offload,
        macs: Mapping[str, int],
        left_float: Sequence[Diagnostic],
        first: int,
    ) -> NpuReport:
        rejections = tuple(_rejections(divided, left_float))
        ends = borders(graph, divided, rejections)
        regions = tuple(
            _region(number, *parts, self._vela)
            for number, parts in enumerate(zip(divided.regions, ends, strict=True), first)
        )
        covered = {node for region in regions for node in region.sources}
        return NpuReport(
            accelerator=self._npu.name,
            linux_driver=self._npu.has_linux_driver,
            vela=vela_version(),
            system_config=self._configuration.system_config,
            memory_mode=self._configuration.memory_mode,
            cpu_mhz=self.clocks.cpu,
            npu_mhz=self.clocks.npu,
            handover_us=self.clocks.handover,
            regions=regions,
            rejections=rejections,
            reasons=reasons_of(rejections, macs, covered),
        )


def _rejections(divided: Offload, left_float: Sequence[Diagnostic]) -> Iterator[Diagnostic]:
    """Yield why each operator stays on the CPU; `unfit` if it only converts between float and integers."""
    for operator, why in divided.refused.items():
        yield replace(why, nodes=operator.nodes, operator=operator.kind)
    for call in left_float:
        limit, actual = call.limit or "integers", call.actual or "float"
        yield replace(call, limit=limit, actual=actual, hint=QUANTIZE_IT)
    told = {node for call in left_float for node in call.nodes}
    for other in divided.unsupported:
        if other.operator in CONVERSIONS:
            yield replace(other.why, reason="it converts between float and integers", unfit=True)
        # For calls left in float, the phase `integerize` has given a more precise reason above.
        elif not told.issuperset(other.nodes):
            yield replace(other.why, unfit=_widens_an_index(other))


def _widens_an_index(call: UnsupportedCall) -> bool:
    """Whether a call is a cast between int64 indices of a model and int32 ones of the NPU."""
    return call.operator == "astype" and call.why.reason == IN_64_BITS


def _region(number: int, region: Region, ends: tuple[NpuBorder, ...], options: VelaOptions) -> NpuRegion:
    part, compiled = region.part, region.compiled
    return NpuRegion(
        index=number,
        sources=union(operator.nodes for operator in part.operators),
        operators=tuple(operator.kind for operator in part.operators),
        macs=part.macs,
        cycles=compiled.cycles,
        npu_cycles=compiled.npu_cycles,
        npu_us=round(1e6 * region.cost.on_npu, 3),
        cpu_us=round(1e6 * region.cost.on_cpu, 3),
        memories=tuple(NpuMemoryUse(**vars(memory)) for memory in _memories(compiled.memories)),
        layers=tuple(
            NpuLayer(
                operator=layer.operator,
                sources=sources,
                cycles=layer.cycles,
                npu_cycles=layer.npu_cycles,
                macs=layer.macs,
                staging_bytes=layer.staging_bytes,
            )
            for layer, sources in layer_sources(part, compiled.layers)
        ),
        borders=ends,
        sparsity=sparsity(part, compiled, options),
        refused_by_linux=refused_by_linux(compiled.payload) if compiled.payload.npu.has_linux_driver else "",
    )


def _memories(memories: Sequence[MemoryUse]) -> list[MemoryUse]:
    """Return the memories in use, sorted by name, since Vela's order differs from run to run."""
    return sorted((memory for memory in memories if memory.peak_bytes), key=lambda memory: memory.name)
