# SPDX-License-Identifier: Apache-2.0
"""From an integer graph to compiled regions: claim, grow, emit, compile, and weigh against the CPU.

What Vela does not compile although the constraints allow it is found by compiling its operators one by one; they stay
on the CPU with Vela's words, and the rest grows again. Of a region that does not gain, operators that are dearer on the
NPU than on the CPU are taken out, and the rest grows again; where none is, the whole region stays on the CPU. Every
round leaves fewer operators, so there is a last one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from arm_ext.ethosu.constraints import Violation
from arm_ext.ethosu.layers import cycles_by_operator
from arm_ext.ethosu.operators import Graph, Operator, Tensor, Unread
from arm_ext.ethosu.partition import Part, Refused, Wishes, claim, grow
from arm_ext.ethosu.tosa import emit
from arm_ext.ethosu.vela import Compiled, Io, VelaError, compile_network
from arm_ext.ethosu.vela_config import VelaOptions
from arm_ext.ethosu.worth import Clocks, Worth, dearer, worth
from arm_ext.target.npu import Accelerator


@dataclass(frozen=True, eq=False)
class Region:
    """A part of the graph, compiled.

    Attributes:
        part: Its operators.
        tosa: Its TOSA flatbuffer.
        compiled: Vela's result.
        worth: What it takes there and on the CPU.
    """

    part: Part
    tosa: bytes
    compiled: Compiled
    worth: Worth


@dataclass(frozen=True, eq=False)
class Offload:
    """A graph, divided.

    Attributes:
        regions: For the NPU.
        refused: Operators that stay on the CPU, and why.
        unread: Calls that are no operators of an NPU, and why.
    """

    regions: tuple[Region, ...]
    refused: tuple[Refused, ...]
    unread: tuple[Unread, ...]


@dataclass
class Offloader:
    """Divides graphs for one accelerator.

    Attributes:
        npu: The accelerator.
        options: Vela's.
        wishes: What goes where whatever it costs.
        clocks: What cycles are worth.
        cpu_cycles: What an operator takes on the CPU.
        weigh: Whether regions must gain.
    """

    npu: Accelerator
    options: VelaOptions
    wishes: Wishes
    clocks: Clocks
    cpu_cycles: Callable[[Operator], float]
    weigh: bool = True
    _probed: dict[bytes, str | None] = field(default_factory=dict)
    _compiled: dict[bytes, Compiled] = field(default_factory=dict)

    def divide(self, graph: Graph) -> Offload:
        """The regions that gain, and the reason of every operator that is in none."""
        claimed, refused = claim(graph, self.npu, self.wishes)
        while True:
            regions: list[Region] = []
            lost = [why for part in grow(graph, claimed) for why in self._compile(part, regions)]
            lost = lost or [why for region in regions for why in self._losses(region)]
            if not lost:
                break
            refused += lost
            gone = {refusal.operator for refusal in lost}
            claimed = [operator for operator in claimed if operator not in gone]
        order = {operator: at for at, operator in enumerate(graph.operators)}
        refused.sort(key=lambda refusal: order[refusal.operator])
        return Offload(tuple(regions), tuple(refused), graph.unread)

    def _losses(self, region: Region) -> list[Refused]:
        """What is taken out of a region that does not gain."""
        if region.worth.gains or not self.weigh or self._wished(region.part):
            return []
        there = cycles_by_operator(region.part, region.compiled.layers)
        dear = [
            Refused(operator, why)
            for operator in region.part.operators
            if (why := dearer(there[operator], self.cpu_cycles(operator), self.clocks))
        ]
        return dear or [Refused(operator, region.worth.violation()) for operator in region.part.operators]

    def _wished(self, part: Part) -> bool:
        return bool(self.wishes.npu) and any(self.wishes.npu & {op.kind, *op.nodes} for op in part.operators)

    def _compile(self, part: Part, done: list[Region]) -> list[Refused]:
        """Adds the region of a part, or tells which of its operators Vela does not take."""
        tosa = emit(part.operators, part.inputs, part.outputs)
        try:
            compiled = self._vela(part, tosa)
        except VelaError as error:
            failed = [Refused(op, why) for op in part.operators if (why := self._probe(op))]
            # Each compiles alone: it is their company that Vela fails at.
            return failed or [Refused(op, _vela_says(str(error))) for op in part.operators]
        cycles = sum(self.cpu_cycles(operator) for operator in part.operators)
        done.append(Region(part, tosa, compiled, worth(part, compiled.cycles, cycles, self.clocks)))
        return []

    def _probe(self, operator: Operator) -> Violation | None:
        part = Part((operator,), tuple({t.var: t for t in operator.inputs}.values()), (operator.output,))
        tosa = emit(part.operators, part.inputs, part.outputs)
        if tosa not in self._probed:
            try:
                self._vela(part, tosa)
                self._probed[tosa] = None
            except VelaError as error:
                self._probed[tosa] = str(error)
        said = self._probed[tosa]
        return None if said is None else _vela_says(said)

    def _vela(self, part: Part, tosa: bytes) -> Compiled:
        if tosa not in self._compiled:
            self._compiled[tosa] = compile_network(
                tosa, "TOSA", self.npu, self.options, inputs=_ios(part.inputs), outputs=_ios(part.outputs)
            )
        return self._compiled[tosa]


def _ios(tensors: Sequence[Tensor]) -> list[Io]:
    return [Io(tensor.name, tensor.dtype, tensor.shape) for tensor in tensors]


def _vela_says(text: str) -> Violation:
    return Violation("Vela does not compile it", "a compile of it alone", text, "report it", "Vela")
