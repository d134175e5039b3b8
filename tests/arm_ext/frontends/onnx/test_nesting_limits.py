# SPDX-License-Identifier: Apache-2.0
"""Functions that call themselves, nests of branches and loops without end are refused, at once and by name."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import FunctionProto, NodeProto, TensorProto, helper, numpy_helper

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.limits import MOST_NESTED
from arm_ext.frontends.onnx.importer import import_onnx

OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]


def value(name: str, shape: list[int], kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def function(name: str, *nodes: NodeProto) -> FunctionProto:
    return helper.make_function("f", name, ["a"], ["b"], nodes, OPSETS)


def call(name: str, x: str = "a", y: str = "b") -> NodeProto:
    return helper.make_node(name, [x], [y], domain="f")


def model(nodes: list[NodeProto], functions: list[FunctionProto] | None = None) -> onnx.ModelProto:
    inputs = [value("x", [4]), value("c", [], TensorProto.BOOL)]
    graph = helper.make_graph(nodes, "g", inputs, [value("y", [4])])
    return helper.make_model(graph, functions=functions or [], opset_imports=OPSETS, ir_version=9)


def doubling(count: int) -> list[FunctionProto]:
    """Each function calls the one before it twice."""
    first = function("F0", helper.make_node("Sin", ["a"], ["b"]))
    return [
        first,
        *(
            function(f"F{k}", call(f"F{k - 1}", "a", "m"), call(f"F{k - 1}", "m"))
            for k in range(1, count + 1)
        ),
    ]


def chained(count: int) -> list[FunctionProto]:
    first = function("F0", helper.make_node("Sin", ["a"], ["b"]))
    return [first, *(function(f"F{k}", call(f"F{k - 1}")) for k in range(1, count + 1))]


def inside_branch() -> FunctionProto:
    outputs = [helper.make_empty_tensor_value_info("t")]
    branches = {
        name: helper.make_graph([call("F", "a", "t")], name, [], outputs)
        for name in ("then_branch", "else_branch")
    }
    return function(
        "F", helper.make_node("Less", ["a", "a"], ["c"]), helper.make_node("If", ["c"], ["b"], **branches)
    )


CALLS = {
    "itself": ([function("F", call("F"))], "F", "function 'F' calls itself"),
    "by another": (
        [function("F", call("G")), function("G", call("F"))],
        "F",
        "calls itself, directly or by others",
    ),
    "in a branch": ([inside_branch()], "F", "function 'F' calls itself"),
    "without being called": ([*chained(1), function("F", call("F"))], "F1", "function 'F' calls itself"),
    "2^40 nodes": (doubling(40), "F40", "nodes with its functions inlined; at most 50000 can be compiled"),
    "3000 deep": (chained(3000), "F3000", f"calls functions nested {MOST_NESTED + 1} deep"),
}


@pytest.mark.parametrize("case", CALLS)
def test_functions_without_end(case: str):
    functions, called, says = CALLS[case]
    with pytest.raises(ModelError, match=says):
        import_onnx(model([call(called, "x", "y")], functions))


def test_functions_that_call_others():
    imported = import_onnx(model([call("F4", "x", "y")], doubling(4)))
    assert len(imported.nodes) == 2**4


def nested(
    count: int, leaf: NodeProto | None = None, functions: Sequence[FunctionProto] = ()
) -> onnx.ModelProto:
    nodes = [leaf or helper.make_node("Sin", ["x"], ["b0"], name="leaf")]
    for k in range(count):
        other = helper.make_node("Relu", ["x"], [f"e{k}"])
        branches = {
            "then_branch": helper.make_graph(nodes, f"t{k}", [], [value(f"b{k}", [4])]),
            "else_branch": helper.make_graph([other], f"e{k}", [], [value(f"e{k}", [4])]),
        }
        nodes = [helper.make_node("If", ["c"], [f"b{k + 1}"], name=f"if{k}", **branches)]
    return model([*nodes, helper.make_node("Identity", [f"b{count}"], ["y"])], [*functions])


def message(field: int, content: bytes) -> bytes:
    """A field of protobuf's that holds a message."""
    size, digits = len(content), []
    while True:
        digits.append(size % 128 + 128 * (size > 127))
        size //= 128
        if not size:
            return bytes([field * 8 + 2, *digits]) + content


def test_branches_inside_branches(tmp_path: Path):
    graph = b""
    for _ in range(200):
        graph = message(1, message(5, message(6, graph)))  # a node, its attribute, and the graph that this is
    (tmp_path / "m.onnx").write_bytes(b"\x08\x09" + message(7, graph))
    with pytest.raises(ModelError, match="nested deeper than protobuf can read"):
        import_onnx(tmp_path / "m.onnx")


def untyped(graph: onnx.GraphProto) -> None:
    """Take the types of what branches give, which onnx's shape inference adds again."""
    for attribute in (attribute for node in graph.node for attribute in node.attribute):
        for output in attribute.g.output:
            output.ClearField("type")
        untyped(attribute.g)


@pytest.mark.parametrize("typed", [True, False])
def test_branches_too_deep_in_a_model_made_in_memory(typed: bool):
    deep = nested(32)
    if not typed:
        untyped(deep.graph)
    with pytest.raises(ModelError, match=r"nested deeper than protobuf can read.* let a Where choose"):
        import_onnx(deep)


def test_branches_in_a_function_that_branches_call():
    inner = nested(17).graph.node
    body = helper.make_function("f", "F", ["x", "c"], ["y"], inner, OPSETS)
    deep = nested(17, helper.make_node("F", ["x", "c"], ["b0"], domain="f"), [body])
    with pytest.raises(ModelError, match="its inlined functions, are nested deeper"):
        import_onnx(deep)


def test_a_few_branches_inside_branches():
    assert import_onnx(nested(8)).outputs[0].shape == (4,)


def loop(rounds: int | None) -> onnx.ModelProto:
    body = helper.make_graph(
        [helper.make_node("Sin", ["s"], ["t"]), helper.make_node("Identity", ["go"], ["on"])],
        "body",
        [value("i", [], TensorProto.INT64), value("go", [], TensorProto.BOOL), value("s", [4])],
        [value("on", [], TensorProto.BOOL), value("t", [4])],
    )
    proto = model(
        [helper.make_node("Loop", ["" if rounds is None else "n", "", "x"], ["y"], name="loop", body=body)]
    )
    if rounds is not None:
        proto.graph.initializer.append(numpy_helper.from_array(np.array(rounds, np.int64), "n"))
    return proto


@pytest.mark.parametrize(
    ("rounds", "says"),
    [
        (2**62, "it has 4611686018427387904 iterations; at most 16777216 can be compiled"),
        (None, "its condition is always true: it never ends"),
    ],
)
def test_loops_without_end(rounds: int | None, says: str):
    with pytest.raises(ModelError, match=rf"Loop \(1x\): loop \(.*{says}"):
        import_onnx(loop(rounds))


def test_a_loop_of_many_rounds_stays_one():
    assert import_onnx(loop(100_000)).outputs[0].shape == (4,)
