# SPDX-License-Identifier: Apache-2.0
"""Offloading of an integer graph: claim operators, grow regions, emit TOSA, compile by Vela, and compare with the CPU.

If Vela rejects a part although its operators meet the constraints, they are compiled one by one; those that fail stay
on the CPU with Vela's message, and parts are grown again. If each compiles alone, Vela fails on their combination: a
bisection finds the first operator with which a prefix of the part fails, and this operator begins a new part. If a
region is slower than the CPU, its operators that are slower than on the CPU are removed and parts are grown again; if
there are none, the whole region stays on the CPU. Each round leaves fewer operators or more parts, so the loop ends.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from arm_ext.ethosu.ops.common.operators import NpuGraph, Operator, RunTimeTensor, UnsupportedCall
from arm_ext.ethosu.partition.emit import emit
from arm_ext.ethosu.partition.layers import cycles_by_operator
from arm_ext.ethosu.partition.offload_cost import Clocks, OffloadCost, dearer, offload_cost
from arm_ext.ethosu.partition.parts import NpuPart, Wishes, barriers, claim, grow
from arm_ext.ethosu.vela.compiler import CompiledPayload, Io, VelaError, compile_network
from arm_ext.ethosu.vela.config import VelaOptions
from arm_ext.target.npu import Accelerator
from schedules.diagnostic import Diagnostic


@dataclass(frozen=True, eq=False)
class Region:
    """A compiled region.

    Attributes:
        part: The operators of the region.
        tosa: The TOSA flatbuffer.
        compiled: Payload and estimates that Vela returned.
        cost: Estimated times on the NPU and on the CPU.
    """

    part: NpuPart
    tosa: bytes
    compiled: CompiledPayload
    cost: OffloadCost


@dataclass(frozen=True, eq=False)
class Offload:
    """The division of a graph into regions and operators that stay on the CPU.

    Attributes:
        regions: Regions that run on the NPU.
        refused: Operators that stay on the CPU, in program order, with the reason.
        unsupported: Calls that were not parsed as NPU operators, with the reason.
        apart: Operators that must begin a new part, with the reason.
    """

    regions: tuple[Region, ...]
    refused: Mapping[Operator[Any], Diagnostic]
    unsupported: tuple[UnsupportedCall, ...]
    apart: Mapping[Operator[Any], str] = field(default_factory=dict)


@dataclass
class Offloader:
    """Divides graphs for one accelerator.

    Attributes:
        npu: The accelerator.
        options: Options of Vela.
        wishes: The user's assignment of operators, which overrides cost.
        clocks: Clock rates and hand-over time.
        cpu_cycles: Returns the estimated CPU cycles of an operator.
        weigh: Whether only regions that are faster than the CPU are offloaded.
    """

    npu: Accelerator
    options: VelaOptions
    wishes: Wishes
    clocks: Clocks
    cpu_cycles: Callable[[Operator[Any]], float]
    weigh: bool = True
    _probed: dict[bytes, str | None] = field(default_factory=dict)
    _compiled: dict[bytes, CompiledPayload] = field(default_factory=dict)

    def divide(self, graph: NpuGraph) -> Offload:
        """Return the regions that are faster on the NPU, and for every other operator why it stays on the CPU."""
        claimed, refused = claim(graph, self.npu, self.wishes)
        apart = barriers(claimed, self.npu.family)
        while True:
            regions, lost, misfits = self._compile_all(graph, grow(graph, claimed, apart))
            if not (lost or misfits):
                lost = {operator: why for region in regions for operator, why in self._losses(region).items()}
            if not (lost or misfits):
                break
            apart |= misfits
            refused |= lost
            claimed = [operator for operator in claimed if operator not in lost]
        ordered = {operator: refused[operator] for operator in graph.operators if operator in refused}
        return Offload(tuple(regions), ordered, graph.unsupported, apart)

    def _compile_all(
        self, graph: NpuGraph, parts: Sequence[NpuPart]
    ) -> tuple[list[Region], dict[Operator[Any], Diagnostic], dict[Operator[Any], str]]:
        """Compile parts; return regions, operators that Vela rejects alone, and operators that must begin a part."""
        regions: list[Region] = []
        lost: dict[Operator[Any], Diagnostic] = {}
        misfits: dict[Operator[Any], str] = {}
        for part in parts:
            try:
                regions.append(self._compile(part))
            except VelaError as error:
                failed = {op: why for op in part.operators if (why := self._probe(op))}
                lost |= failed
                if not failed:
                    misfits[self._misfit(graph, part)] = str(error)
        return regions, lost, misfits

    def _losses(self, region: Region) -> dict[Operator[Any], Diagnostic]:
        """Return the operators to remove from a region that is slower than the CPU, with the reason."""
        if region.cost.gains or not self.weigh or self._wished(region.part):
            return {}
        there = cycles_by_operator(region.part, region.compiled.layers)
        dear = {
            operator: why
            for operator in region.part.operators
            if (why := dearer(there[operator], self.cpu_cycles(operator), self.clocks))
        }
        return dear or dict.fromkeys(region.part.operators, region.cost.loss())

    def _wished(self, part: NpuPart) -> bool:
        return bool(self.wishes.npu) and any(self.wishes.npu & {op.kind, *op.nodes} for op in part.operators)

    def _compile(self, part: NpuPart) -> Region:
        """Compile a part to a region.

        Raises:
            VelaError: Vela rejects the part.
        """
        tosa = emit(part.operators, part.inputs, part.outputs, self.npu.family)
        compiled = self._vela(part, tosa)
        cycles = sum(self.cpu_cycles(operator) for operator in part.operators)
        return Region(part, tosa, compiled, offload_cost(part, compiled.cycles, cycles, self.clocks))

    def _misfit(self, graph: NpuGraph, part: NpuPart) -> Operator[Any]:
        """Return the operator with which a prefix of a part fails to compile, while the prefix without it compiles.

        The operator reads a value of that prefix, since otherwise the two would not be in one part.
        """
        fits, fails = 1, len(part.operators)
        while fails - fits > 1:
            middle = (fits + fails) // 2
            if self._compiles(graph, part.operators[:middle]):
                fits = middle
            else:
                fails = middle
        return part.operators[fails - 1]

    def _compiles(self, graph: NpuGraph, operators: Sequence[Operator[Any]]) -> bool:
        try:
            for part in grow(graph, operators):
                self._compile(part)
        except VelaError:
            return False
        return True

    def _probe(self, operator: Operator[Any]) -> Diagnostic | None:
        part = NpuPart((operator,), tuple({t.var: t for t in operator.inputs}.values()), (operator.output,))
        tosa = emit(part.operators, part.inputs, part.outputs, self.npu.family)
        if tosa not in self._probed:
            try:
                self._vela(part, tosa)
                self._probed[tosa] = None
            except VelaError as error:
                self._probed[tosa] = str(error)
        said = self._probed[tosa]
        return None if said is None else _vela_says(said)

    def _vela(self, part: NpuPart, tosa: bytes) -> CompiledPayload:
        if tosa not in self._compiled:
            self._compiled[tosa] = compile_tosa(tosa, part, self.npu, self.options)
        return self._compiled[tosa]


def compile_part(part: NpuPart, npu: Accelerator, options: VelaOptions) -> tuple[bytes, CompiledPayload]:
    """Return the TOSA flatbuffer of a part, and the result of compiling it with Vela.

    Raises:
        VelaError: Vela rejects the part.
    """
    tosa = emit(part.operators, part.inputs, part.outputs, npu.family)
    return tosa, compile_tosa(tosa, part, npu, options)


def compile_tosa(tosa: bytes, part: NpuPart, npu: Accelerator, options: VelaOptions) -> CompiledPayload:
    """Return the result of compiling a part's TOSA flatbuffer with Vela.

    Raises:
        VelaError: Vela rejects the part.
    """
    return compile_network(tosa, "TOSA", npu, options, inputs=_ios(part.inputs), outputs=_ios(part.outputs))


def _ios(tensors: Sequence[RunTimeTensor]) -> list[Io]:
    return [Io(tensor.name, tensor.dtype, tensor.shape) for tensor in tensors]


def _vela_says(text: str) -> Diagnostic:
    return Diagnostic(
        "Vela does not compile it, even alone", "a network", text, asked="Vela", hint="report it to us"
    )
