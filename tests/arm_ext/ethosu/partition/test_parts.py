# SPDX-License-Identifier: Apache-2.0
"""Parts of random graphs are convex and connected, and have no cyclic dependencies."""

from collections.abc import Sequence
from graphlib import TopologicalSorter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax
from tvm.ir import Var

from arm_ext.ethosu.ops.common.operators import Attributes, NpuGraph, Operator, RunTimeTensor
from arm_ext.ethosu.partition.parts import NpuPart, Wishes, claim, grow
from arm_ext.target.npu import ACCELERATORS

Dag = list[tuple[list[int], bool]]
"""For each operator the values that it reads, 0 the graph's input, and whether it is claimed."""


@st.composite
def dags(draw: st.DrawFn) -> Dag:
    size = draw(st.integers(1, 14))
    reads = [draw(st.lists(st.integers(0, at), min_size=1, max_size=3, unique=True)) for at in range(size)]
    return [(read, draw(st.booleans())) for read in reads]


def graph_of(dag: Dag, kind: str = "table") -> NpuGraph:
    tensors = [_tensor(f"v{at}") for at in range(len(dag) + 1)]
    operators = tuple(
        Operator(kind, (f"node{at}",), tuple(tensors[i] for i in read), out, Attributes(), (out.var,))
        for at, ((read, _), out) in enumerate(zip(dag, tensors[1:], strict=True))
    )
    reads = {op.output.var: tuple(tensor.var for tensor in op.inputs) for op in operators}
    return NpuGraph(operators, (), (tensors[0].var,), (tensors[-1].var,), reads)


def _tensor(name: str) -> RunTimeTensor:
    return RunTimeTensor(relax.Var(name, relax.TensorType((1, 4), "int8")), (1, 4), "int8")


def parts_of(dag: Dag) -> tuple[NpuGraph, tuple[NpuPart, ...]]:
    graph = graph_of(dag)
    return graph, grow(graph, [op for op, (_, npu) in zip(graph.operators, dag, strict=True) if npu])


def positions(graph: NpuGraph, operators: Sequence[Operator]) -> list[int]:
    return [graph.operators.index(operator) for operator in operators]


@settings(max_examples=100, deadline=None, derandomize=True)
@given(dags())
def test_parts_can_run_one_after_the_other(dag: Dag):
    graph, parts = parts_of(dag)
    owner: dict[Var, object] = {op.output.var: part for part in parts for op in part.operators}
    waits: dict[object, set[object]] = {}
    for var, read in graph.reads.items():
        mine = owner.get(var, var)
        waits.setdefault(mine, set()).update(owner.get(source, source) for source in read)
        waits[mine].discard(mine)
    # A path that leaves a part and returns would make it depend on itself.
    TopologicalSorter(waits).prepare()


@settings(max_examples=100, deadline=None, derandomize=True)
@given(dags())
def test_each_claimed_operator_is_in_one_part(dag: Dag):
    graph, parts = parts_of(dag)
    found = sorted(at for part in parts for at in positions(graph, part.operators))
    assert found == [at for at, (_, npu) in enumerate(dag) if npu]
    for part in parts:
        assert positions(graph, part.operators) == sorted(positions(graph, part.operators))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(dags())
def test_a_part_hangs_together_and_knows_its_border(dag: Dag):
    graph, parts = parts_of(dag)
    for part in parts:
        own = {op.output.var for op in part.operators}
        joined = {part.operators[0].output.var}
        for _ in part.operators:
            for op in part.operators:
                around = {op.output.var, *(x.var for x in op.inputs if x.var in own)}
                if around & joined:
                    joined |= around
        assert joined == own
        read = {tensor.var for op in part.operators for tensor in op.inputs}
        assert {tensor.var for tensor in part.inputs} == read - own
        outside = {x for var, used in graph.reads.items() if var not in own for x in used} | {*graph.results}
        assert {tensor.var for tensor in part.outputs} == own & outside


def test_a_chain_is_one_part_and_an_operator_between_cuts_it():
    chain: Dag = [([0], True), ([1], True), ([2], True)]
    graph, parts = parts_of(chain)
    assert [positions(graph, part.operators) for part in parts] == [[0, 1, 2]]
    graph, parts = parts_of([([0], True), ([1], False), ([2], True)])
    assert [positions(graph, part.operators) for part in parts] == [[0], [2]]


def test_a_path_over_the_cpu_divides_a_diamond():
    # 0 -> 1 (CPU) -> 2, and 0 -> 2: one part of 0 and 2 would depend on 1, which depends on 0.
    graph, parts = parts_of([([0], True), ([1], False), ([1, 2], True)])
    assert [positions(graph, part.operators) for part in parts] == [[0], [2]]


def test_what_is_apart_begins_a_part_of_its_own():
    graph, _ = parts_of([([0], True), ([1], True), ([2], True), ([1], True)])
    whole = grow(graph, graph.operators, {graph.operators[1]})
    # The last one reads no value of the operator that begins a part.
    assert [positions(graph, part.operators) for part in whole] == [[1, 2], [0, 3]]


@pytest.mark.parametrize(
    ("wishes", "reason", "actual"),
    [
        (Wishes(cpu=frozenset(("node1",))), "--cpu-ops keeps it on the CPU", "node1"),
        (Wishes(cpu=frozenset(("table",))), "--cpu-ops keeps it on the CPU", "table"),
        (Wishes(npu=frozenset(("node0",))), "--npu-ops does not name it", "table"),
    ],
)
def test_wishes_by_kind_and_by_node(wishes: Wishes, reason: str, actual: str):
    graph = graph_of([([0], True), ([1], True)])
    taken, refused = claim(graph, ACCELERATORS["ethos-u55-128"], wishes)
    last = list(refused.values())[-1]
    assert (last.reason, last.actual) == (reason, actual)
    assert len(taken) + len(refused) == 2


def test_an_operator_that_cannot_run_there_says_why():
    graph = graph_of([([0], True)], "sort")
    taken, refused = claim(graph, ACCELERATORS["ethos-u85-512"])
    (why,) = refused.values()
    assert not taken
    assert (why.reason, why.actual) == ("we have no TOSA form of this operator", "sort")
