# SPDX-License-Identifier: Apache-2.0
"""Regions as TOSA graphs: names, and the copies that work around Vela's handling of slices and outputs."""

from collections.abc import Callable

import onnx
import pytest

from arm_ext.ethosu.partition.emit import emit
from arm_ext.ethosu.partition.parts import NpuPart, claim, grow
from arm_ext.ethosu.partition.read import read
from arm_ext.ethosu.tosa.graph import TosaGraph, TosaTensor
from arm_ext.target.npu import ACCELERATORS, Family
from tests.arm_ext.ethosu.ops.one_operator import OneOperator, random_inputs
from tests.fuzz.graphs import Case
from tests.fuzz.npu import integer_graph, npu_outcome_of

NPU_OF: dict[Family, str] = {"u55": "ethos-u55-128", "u85": "ethos-u85-512"}

Recorded = list[tuple[str, str]]
"""TOSA operators with the names of their results."""


def the_part(model: onnx.ModelProto, family: Family) -> NpuPart:
    graph = read(integer_graph(model)[0])
    (part,) = grow(graph, claim(graph, ACCELERATORS[NPU_OF[family]])[0])
    return part


def emitted(part: NpuPart, family: Family) -> bytes:
    return emit(part.operators, part.inputs, part.outputs, family)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    found: Recorded = []
    add = TosaGraph.add

    def recording(graph: TosaGraph, operator: object, *rest: object) -> TosaTensor:
        value = add(graph, operator, *rest)  # type: ignore[arg-type]
        found.append((operator.name, value.name))  # type: ignore[attr-defined]
        return value

    monkeypatch.setattr(TosaGraph, "add", recording)
    return found


def joined_maximum() -> onnx.ModelProto:
    """A maximum, which rescales its operands, of a concatenation."""
    one = OneOperator()
    both = one.node("Concat", one.data(1, 5, 7), one.data(1, 5, 2), axis=2)
    return one.model(one.quantized(one.node("Max", both, one.data(1, 5, 9, scale=0.09, zero=3)), 0.1))


def whole_slice() -> onnx.ModelProto:
    """A take of all elements."""
    one = OneOperator()
    return one.model(one.quantized(one.node("Gather", one.data(1, 5, 7), one.constant([0], "int64"), axis=0)))


def one_channel() -> onnx.ModelProto:
    """A reduction over one channel, in which columns become the reduced channels."""
    one = OneOperator()
    column = one.node("Gather", one.data(1, 16, 9, 7), one.constant(3, "int64"), axis=3)
    return one.model(one.quantized(one.node("ReduceMax", column, axes=[2])))


def test_the_same_operators_give_the_same_bytes():
    part = the_part(joined_maximum(), "u55")
    assert emitted(part, "u55") == emitted(part, "u55")


def test_values_are_named_after_the_operator_that_they_are_for(recorded: Recorded):
    part = the_part(joined_maximum(), "u85")
    emitted(part, "u85")
    assert {name.partition("/")[0] for _, name in recorded} == {op.output.name for op in part.operators}


@pytest.mark.parametrize(("family", "copies"), [("u55", 1), ("u85", 0)])
def test_what_is_joined_is_copied_where_it_is_widened(recorded: Recorded, family: Family, copies: int):
    emitted(the_part(joined_maximum(), family), family)
    assert [kind for kind, _ in recorded].count("TABLE") == copies


def test_a_graph_copies_what_it_only_hands_on(recorded: Recorded):
    emitted(the_part(whole_slice(), "u55"), "u55")
    assert [kind for kind, _ in recorded] == ["TABLE"]


@pytest.mark.parametrize("model", [joined_maximum, whole_slice, one_channel])
def test_with_these_copies_three_ways_agree(model: Callable[[], onnx.ModelProto]):
    made = model()
    outcome = npu_outcome_of(Case(made, tuple(random_inputs(made)), (), ()), list(NPU_OF.values()))
    assert outcome.fault is None
    assert outcome.definitions
