# SPDX-License-Identifier: Apache-2.0
"""Models around one node: they compile to the same kernel, or fail with the same error."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from arm_ext.api import digits
from arm_ext.common.errors import ModelError, UsageError
from arm_ext.frontends.onnx.extract import save_node
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, last, run_phases
from arm_ext.target.profiles import resolve
from tests.arm_ext.models import mlp, model

node = helper.make_node


def saved(proto: onnx.ModelProto | Path, name: str, folder: Path) -> onnx.ModelProto:
    """The written model; onnx's checker takes it."""
    path = folder / "node.onnx"
    save_node(proto, name, path, {})
    small = onnx.load(path)
    if not any(entry.domain for entry in small.opset_import):
        onnx.checker.check_model(small, full_check=True)
    assert [p.name for p in folder.iterdir()] == ["node.onnx"]
    return small


def operators(small: onnx.ModelProto) -> list[str]:
    return [n.op_type for n in small.graph.node]


def shapes(small: onnx.ModelProto) -> dict[str, list[int]]:
    return {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in small.graph.input}


def kernels(proto: onnx.ModelProto | Path, name: str) -> list[tuple[str, str, dict[str, object]]]:
    """What computes a node, and with which parameters."""
    start, options = PhaseResult(import_onnx(proto).mod), PhaseOptions(resolve("neoverse-n2"))
    lowered = last(run_phases(start, options, until="lower"))
    return [(k.kernel, k.numerics, k.params) for k in lowered.kernels if name in k.sources]


def test_a_quantised_node_keeps_its_kernel(tmp_path: Path):
    whole = onnx.load(digits.model_path())
    name = next(n.name for n in whole.graph.node if n.op_type == "Conv")
    small = saved(digits.model_path(), name, tmp_path)
    # The two of the weights and the bias, and the one of the data.
    assert operators(small) == [*["DequantizeLinear"] * 3, "Conv", "QuantizeLinear"]
    assert kernels(tmp_path / "node.onnx", name) == kernels(digits.model_path(), name) != []


def test_a_float_node_has_its_weights_and_the_shape_of_what_it_reads(tmp_path: Path):
    small = saved(mlp(), "fc2", tmp_path)
    assert operators(small) == ["MatMul"]
    assert shapes(small) == {"a": [2, 9]}
    (weight,) = small.graph.initializer
    assert weight == next(t for t in mlp().graph.initializer if t.name == "w2")


def unknown() -> onnx.ModelProto:
    nodes = [
        node("Relu", ["x"], ["r"], name="relu"),
        node("Frobnicate", ["r"], ["a"], name="frob", domain="acme"),
        node("Relu", ["a"], ["y"], name="after"),
    ]
    return model(nodes, {"x": [1, 3]}, ["y"], domains=("acme",))


def refused() -> onnx.ModelProto:
    nodes = [node("Relu", ["x"], ["r"], name="relu"), node("Resize", ["r", "", "s"], ["y"], name="size")]
    nodes.insert(0, node("Relu", ["scales"], ["s"], name="scales"))
    return model(nodes, {"x": [1, 1, 3, 3], "scales": [4]}, ["y"])


@pytest.mark.parametrize(
    ("proto", "name"), [(unknown(), "frob"), (refused(), "size")], ids=["unknown", "refused"]
)
def test_a_node_that_cannot_be_imported_fails_alike(tmp_path: Path, proto: onnx.ModelProto, name: str):
    small = saved(proto, name, tmp_path)
    assert len(small.graph.node) == 1
    errors = []
    for either in (proto, small):
        with pytest.raises(ModelError) as error:
            import_onnx(either)
        errors.append(str(error.value).partition(". A package's sizes")[0])  # how to split the model follows
    assert errors[0] == errors[1]
    assert name in errors[0]


def test_what_follows_from_shapes_is_constant(tmp_path: Path):
    nodes = [
        node("Shape", ["x"], ["s"], name="shape"),
        node("Gather", ["s", "first"], ["n"], name="batch"),
        node("Concat", ["n", "rest"], ["shape"], name="sizes", axis=0),
        node("Relu", ["x"], ["r"], name="relu"),
        node("Reshape", ["r", "shape"], ["y"], name="reshape"),
    ]
    weights = {"first": np.array([0]), "rest": np.array([-1])}
    small = saved(model(nodes, {"x": [2, 3, 5]}, ["y"], weights), "reshape", tmp_path)
    assert (operators(small), shapes(small)) == (["Reshape"], {"r": [2, 3, 5]})
    assert onnx.numpy_helper.to_array(small.graph.initializer[0]).tolist() == [2, -1]


def test_a_shape_that_onnx_cannot_infer_is_that_of_a_run(tmp_path: Path):
    nodes = [
        node("Gelu", ["x"], ["g"], name="gelu", domain="com.microsoft"),
        node("Relu", ["g"], ["y"], name="relu"),
    ]
    small = saved(model(nodes, {"x": [2, 5]}, ["y"], domains=("com.microsoft",)), "relu", tmp_path)
    assert shapes(small) == {"g": [2, 5]}


def test_what_a_subgraph_captures_is_an_input(tmp_path: Path):
    ends = [helper.make_tensor_value_info("b", TensorProto.FLOAT, [3])]
    branches = {
        name: helper.make_graph([node(op, ["r"], ["b"])], name, [], ends)
        for name, op in (("then_branch", "Exp"), ("else_branch", "Neg"))
    }
    nodes = [
        node("Relu", ["x"], ["r"], name="relu"),
        node("ReduceMax", ["x"], ["m"], name="max", keepdims=0),
        node("Cast", ["m"], ["c"], name="cast", to=TensorProto.BOOL),
        node("If", ["c"], ["y"], name="choice", **branches),
    ]
    small = saved(model(nodes, {"x": [3]}, ["y"]), "choice", tmp_path)
    assert (operators(small), shapes(small)) == (["If"], {"c": [], "r": [3]})


def test_what_cannot_be_written_is_told(tmp_path: Path):
    with pytest.raises(UsageError, match=r"no node 'fc1/rel'; did you mean fc1/relu"):
        save_node(mlp(), "fc1/rel", tmp_path / "node.onnx", {})
    with pytest.raises(UsageError, match="there is no folder"):
        save_node(mlp(), "fc1", tmp_path / "nowhere" / "node.onnx", {})
    tflite = tmp_path / "m.tflite"
    tflite.write_bytes(b"\x1c\0\0\0TFL3")
    with pytest.raises(UsageError, match="takes ONNX models"):
        save_node(tflite, "fc1", tmp_path / "node.onnx", {})
    with pytest.raises(ModelError, match="type of a is not known"):
        save_node(unknown(), "after", tmp_path / "node.onnx", {})
    assert [p.name for p in tmp_path.iterdir()] == ["m.tflite"]
