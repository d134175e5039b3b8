# SPDX-License-Identifier: Apache-2.0
from dataclasses import dataclass, replace
from types import SimpleNamespace

from arm_ext.ethosu.partition.emit import emit
from arm_ext.ethosu.partition.layers import cycles_by_operator, layer_sources, owned
from arm_ext.ethosu.partition.parts import grow
from arm_ext.ethosu.vela.compiler import OperationEstimate, compile_network
from arm_ext.target.npu import resolve_npu
from relay_passes.ir.sources import union
from tests.arm_ext.ethosu.partition.divided import named, prepared


def test_each_of_velas_layers_is_an_operators():
    graph = prepared("mixed").graph
    softmax, scores = named(graph, "softmax"), named(graph, "scores")
    (part,) = grow(graph, [softmax, scores])
    tosa = emit(part.operators, part.inputs, part.outputs, "u55")
    layers = compile_network(tosa, "TOSA", resolve_npu("ethos-u55-128")).layers
    owners = [operator for _, operator in owned(part, layers)]
    assert set(owners) == {softmax, scores}
    cycles = cycles_by_operator(part, layers)
    assert sum(cycles.values()) == sum(layer.cycles for layer in layers)
    assert min(cycles.values()) > 0


def layer(name: str, source: int) -> OperationEstimate:
    return OperationEstimate("Add", name, 7, 7, 0, 0, source)


def test_a_layer_under_a_name_of_velas_own_goes_with_the_others_of_its_source():
    graph = prepared("whole").graph
    (part,) = grow(graph, graph.operators)
    conv = named(graph, "conv")
    first = part.operators[0]
    layers = [
        layer("#9", 1),
        layer(f"{conv.output.name}/12_int32", 1),
        layer("input-0_copy", 2),
        layer("#7", 3),
    ]
    assert [operator for _, operator in owned(part, layers)] == [conv, conv, first, None]


def test_a_layer_that_multiplies_goes_by_the_product_that_was_fused_into_it():
    graph = prepared("whole").graph
    (part,) = grow(graph, graph.operators)
    by_output = {operator.output.name: operator for operator in part.operators}
    pairs = ((by_output.get(op.inputs[0].name), op) for op in part.operators)
    conv, after = next((maker, op) for maker, op in pairs if maker and maker.macs and not op.macs)
    name = f"{after.output.name}/3"
    layers = [replace(layer(name, 3), macs=8), replace(layer(name, 4), macs=8), layer(name, 5)]
    sources = [names for _, names in layer_sources(part, layers)]
    assert sources == [union([conv.nodes, after.nodes]), after.nodes, after.nodes]
    own = replace(layer(f"{conv.output.name}/1", 1), macs=8)
    assert [names for _, names in layer_sources(part, [own, *layers])] == [conv.nodes, *[after.nodes] * 3]


@dataclass(frozen=True, eq=False)
class Made:
    """What attribution reads of an operator."""

    output: SimpleNamespace
    inputs: tuple[SimpleNamespace, ...] = ()
    nodes: tuple[str, ...] = ()
    macs: int = 0


def made(name: str, *operands: Made, macs: int = 0) -> Made:
    return Made(SimpleNamespace(name=name), tuple(each.output for each in operands), (name,), macs)


def test_a_product_fused_into_any_operand_of_a_concatenation_is_found():
    first = made("first", macs=8)
    second = made("second", macs=8)
    left, right = made("left", first), made("right", second)
    joined = made("joined", left, right)
    part = SimpleNamespace(operators=(first, second, left, right, joined), inputs=())
    look_up = replace(layer("joined/1", 2), operator="LUT", macs=8)
    layers = [
        replace(layer("first/1", 1), macs=8),
        look_up,
        replace(layer("joined/2", 3), operator="Conv2D", macs=8),
    ]
    sources = [names for _, names in layer_sources(part, layers)]  # type: ignore[arg-type]
    assert sources == [("first",), ("left", "joined"), ("second", "right", "joined")]
