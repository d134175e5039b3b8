# SPDX-License-Identifier: Apache-2.0
"""A case on several Ethos-U: what its regions compute in three ways, which must give the same bytes.

TOSA's reference model    =    the functional model of Vela's stream    =    the integer graph on this machine
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import tvm
from tvm import relax
from tvm.ir import Var

from arm_ext.ethosu.constraints import violation
from arm_ext.ethosu.model import run as run_model
from arm_ext.ethosu.operators import Graph, Operator, Tensor
from arm_ext.ethosu.partition import Part, claim, grow
from arm_ext.ethosu.read import read
from arm_ext.ethosu.reference import run_reference
from arm_ext.ethosu.tosa import emit
from arm_ext.ethosu.vela import Io, VelaError, compile_network
from arm_ext.frontends.onnx import import_onnx
from arm_ext.pipeline import PHASES, Context, build
from arm_ext.target.npu import ACCELERATORS, Accelerator
from relay_passes.sources import bindings_of
from schedules.numerics import tosa
from tests.fuzz.compiled import Outcome, host_profile, linked
from tests.fuzz.graphs import Case

Array = npt.NDArray[Any]

NPUS = ("ethos-u55-32", "ethos-u55-128", "ethos-u65-256", "ethos-u65-512", "ethos-u85-128", "ethos-u85-512")

_INTEGERIZED = 1 + next(i for i, phase in enumerate(PHASES) if phase.name == "integerize")


def npu_outcome_of(case: Case, npus: Sequence[str] = NPUS) -> Outcome:
    """Divide, compile and run a case; hits are constraints that rejected, definitions what ran where."""
    mod, context = integer_graph(case.model)
    graph = read(mod)
    hits: Counter[str] = Counter()
    parts: list[tuple[Accelerator, Part]] = []
    for npu in (ACCELERATORS[name] for name in npus):
        claimed, refused = claim(graph, npu)
        hits.update(f"{npu.family}: {refusal.why.reason}" for refusal in refused)
        parts += [(npu, part) for part in grow(graph, claimed)]
    hits.update(f"not read: {unread.reason}" for unread in graph.unread)
    values = values_of(mod, graph, context, [part for _, part in parts], case.inputs)
    ran: Counter[str] = Counter()
    held: set[bytes] = set()
    for npu, part in parts:
        fault = _held(npu, part, values, held)
        if fault is not None:
            return Outcome(fault, hits, ran)
        ran.update(f"{npu.family}: {feature}" for op in part.operators for feature in _features(op))
    return Outcome(None, hits, ran)


def integer_graph(model: onnx.ModelProto) -> tuple[tvm.IRModule, Context]:
    """An ONNX model as the phase `integerize` leaves it."""
    return integerized(import_onnx(model).mod)


def integerized(mod: tvm.IRModule) -> tuple[tvm.IRModule, Context]:
    """An imported module as the phase `integerize` leaves it."""
    context = Context(host_profile(), numerics=tosa.NUMERICS)
    for phase in PHASES[:_INTEGERIZED]:
        mod = phase.run(mod, context)
    return mod, context


def values_of(
    mod: tvm.IRModule, graph: Graph, context: Context, parts: Sequence[Part], inputs: Sequence[Array]
) -> dict[Var, Array]:
    """What stands at the borders of parts when the integer graph runs on this machine."""
    border = {tensor.var for part in parts for tensor in (*part.inputs, *part.outputs)}
    wanted = [var for var in graph.reads if var in border]
    given = dict(zip(graph.inputs, inputs, strict=True))
    if not wanted:
        return given
    shown = tvm.IRModule(mod.functions)
    shown.update_func(mod.get_global_var("main"), _showing(mod["main"], wanted))
    for phase in PHASES[_INTEGERIZED:]:
        shown = phase.run(shown, context)
    vm = relax.VirtualMachine(linked(build(shown, context.profile)), tvm.cpu())
    results = vm["main"](*(tvm.runtime.tensor(value) for value in inputs))
    return given | {var: value.numpy() for var, value in zip(wanted, results, strict=True)}


def _showing(main: relax.Function, wanted: Sequence[Var]) -> relax.Function:
    """The function with the values of some variables as its results."""
    shown = [relax.Var(f"shown{i}", var.ty) for i, var in enumerate(wanted)]
    ends = [relax.VarBinding(end, var) for end, var in zip(shown, wanted, strict=True)]
    block = relax.DataflowBlock([*bindings_of(main), *ends])
    body = relax.SeqExpr([block], relax.Tuple(shown))
    ty = relax.TupleType([var.ty for var in shown])
    return relax.Function(main.params, body, ty, main.is_pure, main.attrs)


def _held(npu: Accelerator, part: Part, values: dict[Var, Array], held: set[bytes]) -> str | None:
    """What is wrong with a part, or None; `held` has the graphs that the reference model has run."""
    network = emit(part.operators, part.inputs, part.outputs)
    data = [values[tensor.var] for tensor in part.inputs]
    expected = [values[tensor.var] for tensor in part.outputs]
    if network not in held:
        found = run_reference(network, data)
        if fault := _difference("the reference model", part.outputs, found, expected):
            return fault
        held.add(network)
    try:
        compiled = compile_network(network, "TOSA", npu, inputs=_ios(part.inputs), outputs=_ios(part.outputs))
    except VelaError as error:
        return f"on {npu.name} {', '.join(op.kind for op in part.operators)}: {error}"
    return _difference(f"the model of {npu.name}", part.outputs, run_model(compiled.payload, data), expected)


def _difference(
    what: str, outputs: Sequence[Tensor], found: Sequence[Array], expected: Sequence[Array]
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


def _ios(tensors: Sequence[Tensor]) -> list[Io]:
    return [Io(tensor.name, tensor.dtype, tensor.shape) for tensor in tensors]


_COUNTED = ("strides", "dilation", "padding", "kernel", "axes", "axis", "input_zero_point")
"""Attributes whose values the histogram tells apart, padding and zero points by whether there are any."""


def _features(operator: Operator) -> Iterator[str]:
    yield operator.kind
    for name in _COUNTED:
        if name in operator.attributes:
            value = operator.attributes[name]
            if name == "padding":
                value = any(value)
            elif name == "input_zero_point":
                value = value != 0
            yield f"{operator.kind}.{name}={str(value).replace(' ', '')}"


def rejections(graph: Graph, npu: str) -> list[str]:
    """The reasons of the constraints that operators of a graph violate."""
    found = [violation(operator, ACCELERATORS[npu]) for operator in graph.operators]
    return [why.reason for why in found if why is not None]
