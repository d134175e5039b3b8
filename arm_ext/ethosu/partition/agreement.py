# SPDX-License-Identifier: Apache-2.0
"""Comparison of NPU regions with the CPU: payloads run on the functional model, with the CPU's values as inputs.

If a region differs, prefixes of it are compiled by themselves, and a bisection finds the first operator that differs.
TOSA's reference model then says which of the two is wrong.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm.ir import Var

from arm_ext.ethosu import model
from arm_ext.ethosu.ops.common.operators import NpuGraph, Operator, RunTimeTensor
from arm_ext.ethosu.partition.divider import Divider, Offloaded
from arm_ext.ethosu.partition.offload import Region
from arm_ext.ethosu.partition.parts import grow
from arm_ext.ethosu.partition.read import read
from arm_ext.ethosu.partition.region_values import value_runner
from arm_ext.ethosu.tosa.reference import run_reference
from arm_ext.ethosu.vela.compiler import VelaError
from arm_ext.pipeline.phases import PhaseOptions
from arm_ext.report.accuracy.record import NpuDifference, NpuLink, NpuRegionLink, Wrong
from arm_ext.target.profiles import baseline_host
from relay_passes.ir.sources import union
from schedules.numerics import tosa

Array = npt.NDArray[Any]


@dataclass
class _Sums:
    """Differences between NPU and CPU in one region's outputs.

    `first` holds the model's inputs of the first difference.
    """

    elements: int = 0
    differing: int = 0
    largest: int = 0
    first: Sequence[Array] | None = None

    def add(self, found: Sequence[Array], expected: Sequence[Array], inputs: Sequence[Array]) -> None:
        for one, other in zip(found, expected, strict=True):
            gap = np.abs(one.astype(np.int64) - other.astype(np.int64))
            self.elements += gap.size
            self.differing += int(np.count_nonzero(gap))
            self.largest = max(self.largest, int(gap.max(initial=0)))
        if self.differing and self.first is None:
            self.first = inputs


@dataclass
class Agreement:
    """Compares the NPU regions of a model with the CPU, sample by sample.

    Attributes:
        divider: The divider that made the regions.
        offloaded: The model divided into regions.
        samples: Number of samples that were compared.
    """

    divider: Divider
    offloaded: Offloaded
    samples: int = 0
    _sums: list[_Sums] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._options = PhaseOptions(baseline_host(), numerics=tosa.NUMERICS)
        self._regions = self.offloaded.offload.regions
        self._sums = [_Sums() for _ in self._regions]
        tensors = [t for each in self._regions for t in (*each.part.inputs, *each.part.outputs)]
        self._run = value_runner(self.offloaded.integer, [tensor.var for tensor in tensors], self._options)

    def add(self, inputs: Sequence[Array]) -> None:
        """Compare one sample, given as the model's inputs."""
        self.samples += 1
        values = self._run(inputs) if self._regions else {}
        for region, sums in zip(self._regions, self._sums, strict=True):
            given, expected = (
                [values[t.var] for t in of] for of in (region.part.inputs, region.part.outputs)
            )
            sums.add(model.run(region.compiled.payload, given), expected, inputs)

    def link(self) -> NpuLink:
        """Return the results of the comparison and, for each region that differs, its first operator that differs."""
        return NpuLink(
            accelerator=self.offloaded.report.accelerator,
            samples=self.samples,
            regions=tuple(self._region(*each) for each in zip(self._regions, self._sums, strict=True)),
        )

    def _region(self, region: Region, sums: _Sums) -> NpuRegionLink:
        return NpuRegionLink(
            sources=union(operator.nodes for operator in region.part.operators),
            elements=sums.elements,
            differing=sums.differing,
            largest=sums.largest,
            begins=None if sums.first is None else self._located(region, sums.first),
        )

    def _located(self, region: Region, inputs: Sequence[Array]) -> NpuDifference | None:
        """Return the first operator with a difference in a region.

        None if no prefix of the region differs when compiled alone.
        """
        graph = read(self.offloaded.integer)
        own = {operator.output.var for operator in region.part.operators}
        operators = [operator for operator in graph.operators if operator.output.var in own]
        tensors = [*region.part.inputs, *(operator.output for operator in operators)]
        run = value_runner(self.offloaded.integer, [tensor.var for tensor in tensors], self._options)
        values = run(inputs)
        equal, differs, wrong = 0, len(operators), self._wrong(graph, operators, values)
        if wrong is None:
            return None
        while differs - equal > 1:
            middle = (equal + differs) // 2
            found = self._wrong(graph, operators[:middle], values)
            equal, differs, wrong = (middle, differs, wrong) if found is None else (equal, middle, found)
        operator = operators[differs - 1]
        return NpuDifference(nodes=operator.nodes, operator=operator.kind, wrong=wrong)

    def _wrong(
        self, graph: NpuGraph, operators: Sequence[Operator[Any]], values: Mapping[Var, Array]
    ) -> Wrong | None:
        """Return which side computes operators wrongly; None if NPU and CPU agree, or Vela refuses the operators."""
        found: Wrong | None = None
        for part in grow(graph, operators):
            try:
                flatbuffer, compiled = self.divider.compile(part)
            except VelaError:
                continue
            given = _of(part.inputs, values)
            computed = model.run(compiled.payload, given)
            expected = _of(part.outputs, values)
            if not _equal(computed, expected):
                found = "CPU" if _equal(computed, run_reference(flatbuffer, given)) else "NPU"
        return found


def _of(tensors: Sequence[RunTimeTensor], values: Mapping[Var, Array]) -> list[Array]:
    return [values[tensor.var] for tensor in tensors]


def _equal(one: Sequence[Array], other: Sequence[Array]) -> bool:
    return all(np.array_equal(*pair) for pair in zip(one, other, strict=True))
