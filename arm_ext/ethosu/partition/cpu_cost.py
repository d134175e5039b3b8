# SPDX-License-Identifier: Apache-2.0
"""CPU cycles of each operator, from the estimates of the kernels that the same graph is lowered to.

    cycles(op) = sum over the calls of kernels that compute it:  cycles(call) * work(op) / work of all that it computes
    work(op) = multiply-accumulates + elements of its output

A call is attributed to the operators of which it has the largest share of source nodes, since neighbours often have a
source node in common. A call without an estimate, of loops without a schedule, takes one cycle per unit of work.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import IRModule, relax
from tvm.relax.analysis import has_reshape_pattern

from arm_ext.ethosu.ops.common.operators import Operator
from arm_ext.report.call_rows import UNSCHEDULED_CYCLES
from arm_ext.report.calls import KernelCall
from relay_passes.ir.sources import Names, bindings_of, global_callees, sources_of


@dataclass(frozen=True)
class _Call:
    nodes: Names
    cycles: float | None


def cpu_cycles(
    lowered: IRModule, kernels: Iterable[KernelCall], operators: Sequence[Operator[Any]]
) -> Mapping[Operator[Any], float]:
    """Return the estimated CPU cycles of each operator on one core.

    Args:
        lowered: The lowered module, whose `main` calls kernels; each call has its source nodes.
        kernels: The records of the kernels.
        operators: The operators of the graph that was lowered.
    """
    by_symbol = {kernel.symbol: kernel for kernel in kernels}
    owners: dict[str, list[Operator[Any]]] = {}
    for operator in operators:
        for node in operator.nodes:
            owners.setdefault(node, []).append(operator)
    found = dict.fromkeys(operators, 0.0)
    for call in _calls(lowered, by_symbol):
        computed = _computed(call, owners)
        total = sum(map(_work, computed))
        cycles = UNSCHEDULED_CYCLES * total if call.cycles is None else call.cycles
        for operator in computed:
            found[operator] += cycles * _work(operator) / total
    return found


def _computed(call: _Call, owners: Mapping[str, Sequence[Operator[Any]]]) -> list[Operator[Any]]:
    common = Counter(operator for node in call.nodes for operator in owners.get(node, ()))
    part = {operator: count / len(operator.nodes) for operator, count in common.items()}
    return [operator for operator, size in part.items() if size == max(part.values())]


def _calls(lowered: IRModule, kernels: Mapping[str, KernelCall]) -> Iterable[_Call]:
    for binding in bindings_of(lowered["main"]):
        if isinstance(binding.value, relax.Call):
            for symbol in global_callees(binding.value):
                kernel = kernels[symbol]
                # The phase `plan` replaces this call by a view of the same bytes.
                is_view = has_reshape_pattern(lowered[symbol])
                yield _Call(sources_of(binding.value), 0 if is_view else kernel.selection_cost)


def _work(operator: Operator[Any]) -> int:
    return operator.macs + math.prod(operator.output.shape)
