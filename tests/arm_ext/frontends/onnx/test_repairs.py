# SPDX-License-Identifier: Apache-2.0
"""Files that onnxruntime runs and onnx's checker refuses, each with one fault."""

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import ModelProto, NodeProto, helper

from arm_ext.common.errors import ModelError, UsageError
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.frontends.onnx.reference import run_onnxruntime
from arm_ext.pipeline.selftest import run_on_host
from tests.arm_ext.frontends.onnx.one_node import MS
from tests.arm_ext.models import model

node = helper.make_node
TRUE = np.array(True)


def small() -> ModelProto:
    branch = [
        helper.make_graph(nodes, name, [], [onnx.ValueInfoProto(name=f"{name}_y")])
        for name, nodes in {
            "then": [node("Neg", ["b"], ["n"]), node("Add", ["n", "a"], ["then_y"])],
            "else": [node("Identity", ["b"], ["else_y"])],
        }.items()
    ]
    nodes = [
        node("Mul", ["x", "w"], ["a"]),
        node("Relu", ["a"], ["b"]),
        node("If", ["true"], ["y"], then_branch=branch[0], else_branch=branch[1]),
    ]
    weights = {"w": np.array([1, -2, 3], np.float32), "true": TRUE}
    return model(nodes, {"x": [2, 3]}, ["y"], weights)


def backwards(nodes: list[NodeProto]) -> list[NodeProto]:
    return [NodeProto.FromString(one.SerializeToString()) for one in reversed(nodes)]


def unsorted(proto: ModelProto) -> None:
    for graph in (helper.get_attribute_value(proto.graph.node[2].attribute[k]) for k in (0, 1)):
        nodes = backwards(list(graph.node))
        graph.ClearField("node")
        graph.node.extend(nodes)
    nodes = backwards(list(proto.graph.node))
    proto.graph.ClearField("node")
    proto.graph.node.extend(nodes)


def old_version(proto: ModelProto) -> None:
    proto.ir_version = 3


def unnamed(proto: ModelProto) -> None:
    proto.graph.name = ""


def two_versions(proto: ModelProto) -> None:
    proto.opset_import.add(domain="", version=8)


def long_domain(proto: ModelProto) -> None:
    proto.opset_import[0].domain = "ai.onnx"
    for one in proto.graph.node:
        one.domain = "ai.onnx"


def no_output_shape(proto: ModelProto) -> None:
    proto.graph.output[0].type.tensor_type.ClearField("shape")


def no_output_type(proto: ModelProto) -> None:
    proto.graph.output[0].ClearField("type")


def other_batch(proto: ModelProto) -> None:
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, [1, 3]))
    proto.graph.value_info.append(helper.make_tensor_value_info("b", 1, [1, 3]))


def other_rank(proto: ModelProto) -> None:
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, [3]))


def empty_input(proto: ModelProto) -> None:
    proto.graph.node[1].input.append("")


FAULTS = (
    empty_input,
    unsorted,
    old_version,
    unnamed,
    two_versions,
    long_domain,
    no_output_shape,
    no_output_type,
    other_batch,
    other_rank,
)


@pytest.fixture(scope="module")
def plain() -> str:
    return import_onnx(small()).mod.script()


@pytest.mark.parametrize("fault", FAULTS, ids=[fault.__name__ for fault in FAULTS])
def test_a_fault_changes_nothing(fault: Callable[[ModelProto], None], plain: str):
    proto = small()
    fault(proto)
    imported = import_onnx(proto)
    assert [spec.shape for spec in (*imported.inputs, *imported.outputs)] == [(2, 3), (2, 3)]
    assert imported.mod.script() == plain


def test_a_model_of_contributed_operators_alone():
    proto = model([node("QuickGelu", ["x"], ["y"], domain=MS)], {"x": [7]}, ["y"], domains=(MS,))
    del proto.opset_import[0]
    x = np.linspace(-3, 3, 7, dtype=np.float32)
    (expected,) = run_onnxruntime(proto.SerializeToString(), [x], integers=False)
    (found,) = run_on_host(import_onnx(proto).mod, [x])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["sequence", "optional"])
def test_outputs_that_are_no_tensors_are_refused(kind: str):
    made = {"sequence": "SequenceConstruct", "optional": "Optional"}[kind]
    tensor = helper.make_tensor_type_proto(1, [7])
    whole = {"sequence": helper.make_sequence_type_proto, "optional": helper.make_optional_type_proto}[kind]
    proto = model([node(made, ["x"], ["y"])], {"x": [7]}, ["y"])
    proto.graph.output[0].type.CopyFrom(whole(tensor))
    with pytest.raises(ModelError, match="output 'y' is no tensor"):
        import_onnx(proto)


def test_values_of_unsorted_nodes():
    proto = small()
    unsorted(proto)
    x = np.array([[1, 2, 3], [-4, -5, -6]], np.float32)
    (expected,) = run_onnxruntime(small().SerializeToString(), [x], integers=False)
    (found,) = run_on_host(import_onnx(proto).mod, [x])
    np.testing.assert_array_equal(found, expected)


def test_negative_dimensions_are_dynamic():
    proto = small()
    proto.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", 1, [-1, 3]))
    with pytest.raises(UsageError, match=r"x: \[\?,3\]"):
        import_onnx(proto)
    assert import_onnx(proto, {"x": (5, 3)}).outputs[0].shape == (5, 3)


def test_a_cycle_is_refused():
    proto = small()
    proto.graph.node[0].input[1] = "b"
    with pytest.raises(UsageError, match="topologically sorted"):
        import_onnx(proto)


def test_shapes_that_do_not_fit_are_refused():
    proto = small()
    proto.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", 1, [2, 4]))
    with pytest.raises(ModelError, match="contradict each other"):
        import_onnx(proto)
