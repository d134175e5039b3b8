# SPDX-License-Identifier: Apache-2.0
"""A case on several Ethos-U: what its regions compute in three ways, which must give the same bytes.

TOSA's reference model    =    the functional model of Vela's stream    =    the integer graph on this machine
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import tvm
from tvm import relax
from tvm.ir import Var

from arm_ext.ethosu.model import run as run_model
from arm_ext.ethosu.ops.common.operators import NpuGraph, RunTimeTensor
from arm_ext.ethosu.ops.constraints import violation
from arm_ext.ethosu.partition.offload import Offloader, Region
from arm_ext.ethosu.partition.offload_cost import Clocks
from arm_ext.ethosu.partition.parts import NpuPart, Wishes, claim
from arm_ext.ethosu.partition.read import read
from arm_ext.ethosu.tosa.reference import run_reference
from arm_ext.ethosu.vela.compiler import VelaOptions
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.pipeline.machine_code import linked, make_program
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, last, run_phases
from arm_ext.target.npu import ACCELERATORS, Accelerator
from relay_passes.ir.main_signature import returning
from schedules.numerics import tosa
from tests.fuzz.compiled import Outcome, host_profile
from tests.fuzz.graphs import Case
from tests.fuzz.npu_features import features

Array = npt.NDArray[Any]

NPUS = ("ethos-u55-32", "ethos-u55-128", "ethos-u65-256", "ethos-u65-512", "ethos-u85-128", "ethos-u85-512")

REGIONS, APART = "regions", "compiled apart from what it reads"
"""Counted beside the kinds of operators that ran, and beside the reasons of those that did not."""


def npu_outcome_of(case: Case, npus: Sequence[str] = NPUS) -> Outcome:
    """Divide, compile and run a case; hits are constraints that rejected, definitions what ran where."""
    mod, options = integer_graph(case.model)
    graph = read(mod)
    hits: Counter[str] = Counter()
    hits.update(f"not read: {call.why.reason}" for call in graph.unsupported)
    regions: list[tuple[Accelerator, Region]] = []
    for npu in (ACCELERATORS[name] for name in npus):
        if not case.runs:
            hits.update(f"{npu.family}: {why.reason}" for why in claim(graph, npu)[1].values())
            continue
        divided = offloader(npu).divide(graph)
        hits.update(f"{npu.family}: {why.reason}" for why in divided.refused.values())
        hits[f"{npu.family}: {APART}"] += len(divided.apart)
        regions += [(npu, region) for region in divided.regions]
    values = values_of(mod, graph, options, [region.part for _, region in regions], case.inputs)
    ran: Counter[str] = Counter()
    held: set[bytes] = set()
    for npu, region in regions:
        fault = _held(npu, region, values, held)
        if fault is not None:
            return Outcome(fault, hits, ran)
        ran[f"{npu.name}: {REGIONS}"] += 1
        ran.update(f"{npu.family}: {feature}" for op in region.part.operators for feature in features(op))
    return Outcome(None, +hits, ran)


def offloader(npu: Accelerator) -> Offloader:
    """That sends to the NPU whatever may run there."""
    return Offloader(npu, VelaOptions(), Wishes(), Clocks(1, 1), lambda _: 0.0, weigh=False)


def integer_graph(model: onnx.ModelProto) -> tuple[tvm.IRModule, PhaseOptions]:
    """An ONNX model as the phase `integerize` leaves it."""
    return integerized(import_onnx(model).mod)


def integerized(mod: tvm.IRModule) -> tuple[tvm.IRModule, PhaseOptions]:
    """An imported module as the phase `integerize` leaves it."""
    options = PhaseOptions(host_profile(), numerics=tosa.NUMERICS)
    return last(run_phases(PhaseResult(mod), options, until="integerize")).mod, options


def values_of(
    mod: tvm.IRModule,
    graph: NpuGraph,
    options: PhaseOptions,
    parts: Sequence[NpuPart],
    inputs: Sequence[Array],
) -> dict[Var, Array]:
    """What stands at the borders of parts when the integer graph runs on this machine."""
    border = {tensor.var for part in parts for tensor in (*part.inputs, *part.outputs)}
    wanted = [var for var in graph.reads if var in border]
    given = dict(zip(graph.inputs, inputs, strict=True))
    if not wanted:
        return given
    results = run_integers(PhaseResult(returning(mod, wanted)), options, inputs)
    return given | dict(zip(wanted, results, strict=True))


def run_integers(
    integer: PhaseResult, options: PhaseOptions, inputs: Sequence[Array], beside: Sequence[bytes] = ()
) -> list[Array]:
    """The outputs of an integer graph on this machine; objects `beside` are linked with it."""
    planned = last(run_phases(integer, options, after="integerize")).mod
    program = make_program(planned, options.profile)
    vm = relax.VirtualMachine(linked(program.executable, (*program.kernels, *beside)), tvm.cpu())
    result = vm["main"](*(tvm.runtime.tensor(value) for value in inputs))
    outputs = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
    return [output.numpy() for output in outputs]


def _held(npu: Accelerator, region: Region, values: dict[Var, Array], held: set[bytes]) -> str | None:
    """What is wrong with a region, or None; `held` has the graphs that the reference model has run."""
    part = region.part
    data = [values[tensor.var] for tensor in part.inputs]
    expected = [values[tensor.var] for tensor in part.outputs]
    if region.tosa not in held:
        found = run_reference(region.tosa, data)
        if fault := _difference("the reference model", part.outputs, found, expected):
            return fault
        held.add(region.tosa)
    found = run_model(region.compiled.payload, data)
    return _difference(f"the model of {npu.name}", part.outputs, found, expected)


def _difference(
    what: str, outputs: Sequence[RunTimeTensor], found: Sequence[Array], expected: Sequence[Array]
) -> str | None:
    for tensor, actual, value in zip(outputs, found, expected, strict=True):
        # The reference model gives a scalar one axis.
        if actual.size != value.size or actual.dtype != value.dtype:
            return f"{tensor.name} of {what} is {actual.dtype}{actual.shape}, not {value.dtype}{value.shape}"
        differs = np.flatnonzero(actual.reshape(-1) != value.reshape(-1))
        if differs.size:
            at = differs[0]
            pair = f"{actual.reshape(-1)[at]}, not {value.reshape(-1)[at]}"
            return (
                f"{tensor.name} of {what} differs in {differs.size} of {value.size} elements: {pair} at {at}"
            )
    return None


def rejections(graph: NpuGraph, npu: str) -> list[str]:
    """The reasons of the constraints that operators of a graph violate."""
    found = [violation(operator, ACCELERATORS[npu]) for operator in graph.operators]
    return [why.reason for why in found if why is not None]
