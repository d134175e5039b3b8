# SPDX-License-Identifier: Apache-2.0
"""Models prepared for a division: the integer graph, and the same graph lowered for a core."""

from dataclasses import dataclass
from functools import cache, cached_property

import onnx

from arm_ext.ethosu.ops.common.operators import NpuGraph, Operator
from arm_ext.ethosu.partition.divider import Divider, Offloaded
from arm_ext.ethosu.partition.read import read
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.load import import_model
from arm_ext.pipeline.macs import count_macs
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, run_phases
from arm_ext.target.profiles import resolve
from schedules.numerics import tosa
from tests.arm_ext import npu_models


@dataclass(frozen=True)
class Prepared:
    """State of a model in `compile` before its division."""

    model: ImportedModel
    macs: dict[str, int]
    options: PhaseOptions
    integer: PhaseResult
    lowered: PhaseResult

    @cached_property
    def graph(self) -> NpuGraph:
        return read(self.integer.mod)

    def divide(self, divider: Divider) -> Offloaded:
        return divider.divide(self.model.nodes, self.macs, self.integer.mod, self.lowered)


@cache
def prepared(name: str) -> Prepared:
    """Prepare a model of npu_models."""
    return prepare(getattr(npu_models, name)())


def prepare(proto: onnx.ModelProto) -> Prepared:
    model = import_model(proto, {})
    options = PhaseOptions(resolve("cortex-a55"), numerics=tosa.NUMERICS)
    results = dict(run_phases(PhaseResult(model.mod), options, until="lower"))
    return Prepared(model, count_macs(model.mod), options, results["integerize"], results["lower"])


def named(graph: NpuGraph, node: str) -> Operator:
    """Return the operator that contains a source node."""
    return next(operator for operator in graph.operators if node in operator.nodes)
