# SPDX-License-Identifier: Apache-2.0
"""Partitioning of a graph into the largest NPU regions without dependency cycles through the CPU.

claim      operators that meet the constraints and that no option keeps on the CPU
barriers   claimed operators that Vela compiles correctly only if they are not fused with their producers
grow       convex parts of connected claimed operators
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from tvm.ir import Var

from arm_ext.ethosu.ops.common.operators import NpuGraph, Operator, RunTimeTensor
from arm_ext.ethosu.ops.constraints import violation
from arm_ext.ethosu.ops.registry import quirks_of
from arm_ext.target.npu import Accelerator, Family
from schedules.diagnostic import Diagnostic


@dataclass(frozen=True, eq=False)
class NpuPart:
    """A convex set of operators that run on the NPU in one submission.

    Attributes:
        operators: The operators in program order.
        inputs: Tensors that they read from outside the part, each once.
        outputs: Tensors of the part that are read outside.
    """

    operators: tuple[Operator[Any], ...]
    inputs: tuple[RunTimeTensor, ...]
    outputs: tuple[RunTimeTensor, ...]

    @property
    def macs(self) -> int:
        """Number of multiply-accumulates."""
        return sum(operator.macs for operator in self.operators)


_OPTIONS = "command line"


@dataclass(frozen=True)
class Wishes:
    """The user's assignment of operators (by kind or source node) to NPU or CPU.

    Attributes:
        npu: If not empty, only these operators may run on the NPU.
        cpu: Operators that stay on the CPU.
    """

    npu: frozenset[str] = frozenset()
    cpu: frozenset[str] = frozenset()

    def against(self, operator: Operator[Any]) -> Diagnostic | None:
        """Return the reason why an option keeps an operator on the CPU; None if none does."""
        names = {operator.kind, *operator.nodes}
        kept = sorted(names & self.cpu)
        if kept:
            return Diagnostic(
                "--cpu-ops keeps it on the CPU",
                "none of --cpu-ops",
                kept[0],
                asked=_OPTIONS,
                hint="leave it out of --cpu-ops",
            )
        if self.npu and not names & self.npu:
            return Diagnostic(
                "--npu-ops does not name it",
                "a name in --npu-ops",
                operator.kind,
                asked=_OPTIONS,
                hint="add it",
            )
        return None


def claim(
    graph: NpuGraph, npu: Accelerator, wishes: Wishes | None = None
) -> tuple[list[Operator[Any]], dict[Operator[Any], Diagnostic]]:
    """Return the operators that may run on the NPU, and why the others may not, in program order."""
    wishes = wishes or Wishes()
    taken: list[Operator[Any]] = []
    refused: dict[Operator[Any], Diagnostic] = {}
    for operator in graph.operators:
        why = wishes.against(operator) or violation(operator, npu)
        if why is None:
            taken.append(operator)
        else:
            refused[operator] = why
    return taken, refused


def barriers(claimed: Collection[Operator[Any]], family: Family) -> dict[Operator[Any], str]:
    """Return the operators that must begin a region of their own, with the reason."""
    behind = {op.output.var: why for op in claimed if (why := quirks_of(op).barrier_behind(op, family))}
    apart = dict[Operator[Any], str]()
    for operator in claimed:
        of_read = (behind[tensor.var] for tensor in operator.inputs if tensor.var in behind)
        why = next(of_read, None) or quirks_of(operator).barrier(operator, family)
        if why is not None:
            apart[operator] = why
    return apart


def grow(
    graph: NpuGraph, claimed: Collection[Operator[Any]], apart: Collection[Operator[Any]] = ()
) -> tuple[NpuPart, ...]:
    """Return convex parts of the claimed operators, without dependency cycles through the CPU, in program order.

    Every value has a level, even on the CPU and odd on the NPU: the smallest of its parity that is not below any
    input's level. A path that leaves the NPU and returns ends two levels higher, so all operators of one level can run
    in one submission. Operators of a level that share no value form separate parts.

    Args:
        graph: The whole graph.
        claimed: Operators that run on the NPU.
        apart: Claimed operators that must not be in one part with their producers.
    """
    level = _levels(graph, claimed, apart)
    groups: list[list[Operator[Any]]] = []
    for operator in (operator for operator in graph.operators if operator in claimed):
        read = {tensor.var for tensor in operator.inputs}
        joined = [
            group
            for group in groups
            if level[group[0].output.var] == level[operator.output.var]
            and any(other.output.var in read for other in group)
        ]
        groups = [group for group in groups if group not in joined]
        groups.append([*(each for group in joined for each in group), operator])
    order = {operator: at for at, operator in enumerate(graph.operators)}
    return tuple(_part(graph, sorted(group, key=order.__getitem__)) for group in groups)


def _levels(
    graph: NpuGraph, claimed: Collection[Operator[Any]], apart: Collection[Operator[Any]]
) -> dict[Var, int]:
    owner = {var: operator for operator in claimed for var in operator.bindings}
    level: dict[Var, int] = dict.fromkeys(graph.inputs, 0)
    for var, read in graph.reads.items():
        operator = owner.get(var)
        sources = read if operator is None else [tensor.var for tensor in operator.inputs]
        least = max((level[source] for source in sources), default=0)
        on_npu = operator is not None
        if operator in apart:
            least += least % 2
        level[var] = least if least % 2 == on_npu else least + 1
    return level


def _part(graph: NpuGraph, operators: Sequence[Operator[Any]]) -> NpuPart:
    own = {var for operator in operators for var in operator.bindings}
    inputs = {tensor.var: tensor for op in operators for tensor in op.inputs if tensor.var not in own}
    outside = set(graph.results)
    for var, read in graph.reads.items():
        if var not in own:
            outside.update(read)
    outputs = tuple(operator.output for operator in operators if operator.output.var in outside)
    return NpuPart(tuple(operators), tuple(inputs.values()), outputs)
