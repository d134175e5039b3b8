# SPDX-License-Identifier: Apache-2.0
"""The borders of NPU regions: for each tensor that crosses one, the operator outside and the reason.

On the other side is an input or output of the model, an operator that stays on the CPU (its fallback has the reason),
or another region. Two regions cannot be one if an operator on the CPU depends on the one and feeds the other, or if
Vela does not compile, or miscompiles, an operator together with its producer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm.ir import Var

from arm_ext.ethosu.ops.common.operators import NpuGraph, Operator, UnsupportedCall
from arm_ext.ethosu.partition.offload import Offload
from arm_ext.report.npu import NpuBorder
from schedules.diagnostic import Diagnostic


def borders(
    graph: NpuGraph, divided: Offload, rejections: Sequence[Diagnostic]
) -> list[tuple[NpuBorder, ...]]:
    """Return the borders of each region.

    Args:
        graph: The divided graph.
        divided: The regions, and the reasons why other operators stay on the CPU.
        rejections: The rejections of the report, each with its reason.
    """
    sides = _Sides(graph, divided, rejections)
    return [(*sides.entering(number), *sides.leaving(number)) for number in range(len(divided.regions))]


@dataclass
class _Sides:
    """The region or CPU call that computes each variable, and the variables that read it.

    Attributes:
        graph: The divided graph.
        divided: The regions, and the reasons why other operators stay on the CPU.
        rejections: The rejections of the report, each with its reason.
        region: Variable → number of the region that computes it.
        caller: Variable → the operator on the CPU that computes it.
        readers: Variable → the variables whose values read it.
    """

    graph: NpuGraph
    divided: Offload
    rejections: Sequence[Diagnostic]
    region: dict[Var, int] = field(init=False)
    caller: dict[Var, Operator[Any] | UnsupportedCall] = field(init=False)
    readers: dict[Var, list[Var]] = field(init=False)

    def __post_init__(self) -> None:
        regions = enumerate(self.divided.regions)
        self.region = {v: at for at, region in regions for op in region.part.operators for v in op.bindings}
        self.caller = {var: operator for operator in self.divided.refused for var in operator.bindings}
        self.caller |= {call.var: call for call in self.divided.unsupported}
        self.readers = {}
        for var, read in self.graph.reads.items():
            for source in read:
                self.readers.setdefault(source, []).append(var)

    def entering(self, number: int) -> Iterator[NpuBorder]:
        """Yield the border of each tensor that a region reads from outside."""
        for tensor in self.divided.regions[number].part.inputs:
            for var in self._computed(tensor.var):
                other = self.region.get(var)
                yield self._border(var, "in", None if other is None else (other, number))

    def leaving(self, number: int) -> Iterator[NpuBorder]:
        """Yield the border of each tensor that is read outside the region, for each reader."""
        for tensor in self.divided.regions[number].part.outputs:
            if tensor.var in self.graph.results:
                yield self._border(None, "out", None)
            told: set[object] = set()
            for var in self._read(tensor.var):
                other = self.region.get(var)
                key = self.caller.get(var) if other is None else other
                if other != number and key not in told:
                    told.add(key)
                    yield self._border(var, "out", None if other is None else (number, other))

    def _computed(self, var: Var) -> Iterator[Var]:
        """Yield the variable, or, if it is an alias, a tuple or an item of one, the variables that it comes from."""
        if var in self.region or var in self.caller or var not in self.graph.reads:
            yield var
            return
        for source in self.graph.reads[var]:
            yield from self._computed(source)

    def _read(self, var: Var) -> Iterator[Var | None]:
        """Yield the variables whose values read a variable, directly or by aliases; None for an output of the model."""
        for reader in self.readers.get(var, ()):
            if reader in self.region or reader in self.caller:
                yield reader
            else:
                if reader in self.graph.results:
                    yield None
                yield from self._read(reader)

    def _border(self, var: Var | None, way: Any, regions: tuple[int, int] | None) -> NpuBorder:
        if regions is not None:
            other = self.divided.regions[regions[way == "out"]]
            nodes = next((op.nodes for op in other.part.operators if var in op.bindings), ())
            return NpuBorder(way=way, sources=nodes, reason=self._between(*regions))
        call = None if var is None else self.caller.get(var)
        if call is None:
            return NpuBorder(way=way, sources=(), reason=f"an {way}put of the model")
        return NpuBorder(way=way, sources=call.nodes, reason=self._why(call))

    def _why(self, call: Operator[Any] | UnsupportedCall) -> str:
        """Return the report's reason why a call stays on the CPU."""
        nodes = set(call.nodes)
        found = [f for f in self.rejections if nodes & set(f.nodes)]
        exact = [f for f in found if set(f.nodes) == nodes]
        return "; ".join(dict.fromkeys(f.why() for f in exact or found))

    def _between(self, first: int, second: int) -> str:
        """Return the reason why two regions could not be merged."""
        later = self.divided.regions[second].part
        for operator in later.operators:
            if operator in self.divided.apart and self._reads_a_region(operator):
                said = self.divided.apart[operator]
                return f"{', '.join(operator.nodes)} stands apart from what it reads: {said}"
        waiting = [
            var
            for tensor in later.inputs
            for var in self._computed(tensor.var)
            if var in self.caller and self._regions_before(var)
        ]
        crossing = [var for var in waiting if first in self._regions_before(var)] or waiting
        var = max(crossing, key=lambda var: len(self._regions_before(var)))
        before = ", ".join(map(str, sorted(self._regions_before(var))))
        nodes = ", ".join(self.caller[var].nodes)
        return f"region {second} waits for {nodes} on the CPU, which waits for region {before}"

    def _reads_a_region(self, operator: Operator[Any]) -> bool:
        return any(var in self.region for tensor in operator.inputs for var in self._computed(tensor.var))

    def _regions_before(self, var: Var) -> set[int]:
        """Return the numbers of the regions that a variable depends on."""
        found: set[int] = set()
        seen, left = {var}, [var]
        while left:
            for source in self.graph.reads.get(left.pop(), ()):
                if source in self.region:
                    found.add(self.region[source])
                if source not in seen:
                    seen.add(source)
                    left.append(source)
        return found
