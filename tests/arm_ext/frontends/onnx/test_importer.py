# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from arm_ext.common.errors import ModelError, UsageError
from arm_ext.frontends import TensorSpec
from arm_ext.frontends.onnx.importer import import_onnx
from relay_passes.ir.sources import bindings_of, sources_of, unnamed_calls
from tests.arm_ext.models import mlp, model, residual_cnn


def test_every_call_carries_its_node():
    imported = import_onnx(residual_cnn())
    assert unnamed_calls(imported.mod) == []
    named = {name for b in bindings_of(imported.mod["main"]) for name in sources_of(b.value)}
    assert named == set(imported.nodes)


def test_call_is_named_after_the_node_it_came_from():
    ops = {
        sources_of(b.value)[0]: b.value.op.name
        for b in bindings_of(import_onnx(mlp()).mod["main"])
        if sources_of(b.value)
    }
    assert ops["fc1"] == "relax.matmul"
    assert ops["fc1/relu"] == "relax.nn.relu"


def test_identity_leaves_a_value_its_name():
    nodes = [
        helper.make_node("Relu", ["x"], ["a"], name="relu"),
        helper.make_node("Identity", ["a"], ["b"], name="identity"),
        helper.make_node("Sigmoid", ["b"], ["y"], name="sigmoid"),
    ]
    imported = import_onnx(model(nodes, {"x": [1, 3]}, ["y"]))
    names = [sources_of(b.value) for b in bindings_of(imported.mod["main"]) if sources_of(b.value)]
    assert names[:2] == [("relu",), ("sigmoid",)]


def test_node_with_several_outputs_names_its_own_calls():
    nodes = [
        helper.make_node("LayerNormalization", ["x", "g", "b"], ["n"], name="norm"),
        helper.make_node("Relu", ["n"], ["y"], name="relu"),
    ]
    weights = {"g": np.ones(3, np.float32), "b": np.zeros(3, np.float32)}
    mod = import_onnx(model(nodes, {"x": [2, 3]}, ["y"], weights)).mod
    ops = {b.value.op.name: sources_of(b.value) for b in bindings_of(mod["main"]) if sources_of(b.value)}
    assert ops["relax.nn.layer_norm"] == ("norm",)
    assert ops["relax.nn.relu"] == ("relu",)


def test_inputs_and_outputs_in_the_models_order():
    imported = import_onnx(residual_cnn())
    assert imported.inputs == (TensorSpec("x", (1, 3, 9, 7), "float32"),)
    assert imported.outputs == (TensorSpec("y", (1, 5), "float32"), TensorSpec("z", (1, 5), "float32"))


def test_unnamed_nodes_get_their_outputs_names_and_stay_apart():
    proto = mlp()
    for node in proto.graph.node:
        node.name = "same" if node.op_type == "MatMul" else ""
    assert list(import_onnx(proto).nodes) == ["same", "hb", "a", "same:2"]


def test_dynamic_dimension_needs_a_shape():
    with pytest.raises(UsageError, match=r"x: \[n,31\].*--shape x=1,31"):
        import_onnx(mlp("n"))
    assert import_onnx(mlp("n"), {"x": (5, 31)}).outputs[0].shape == (5, 7)


@pytest.mark.parametrize("shape", [(5, 30), (31,), (0, 31)])
def test_shape_that_does_not_fit_is_refused(shape: tuple[int, ...]):
    with pytest.raises(UsageError, match=r"does not fit the model's \[\?,31\]"):
        import_onnx(mlp("n"), {"x": shape})


def _detector(*tail: onnx.NodeProto) -> onnx.ModelProto:
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1]), *tail]
    weights = {
        "w": np.ones((8, 3, 3, 3), np.float32),
        "s": np.array([1, -1]),
        "m": np.ones((512, 4), np.float32),
    }
    return model(nodes, {"x": [1, 3, 8, 8]}, [nodes[-1].output[0]], weights)


def test_sizes_that_a_model_declares_are_others_where_it_computes_with_them():
    imported = import_onnx(_detector(helper.make_node("Relu", ["c"], ["y"])), {"x": (2, 3, 24, 40)})
    assert [spec.shape for spec in (*imported.inputs, *imported.outputs)] == [(2, 3, 24, 40), (2, 8, 24, 40)]
    flat = [
        helper.make_node("Reshape", ["c", "s"], ["r"]),
        helper.make_node("MatMul", ["r", "m"], ["y"], name="fc"),
    ]
    with pytest.raises(
        UsageError, match=r"does not fit .*\[1,3,8,8\], which it declares itself, .* at MatMul 'fc'"
    ):
        import_onnx(_detector(*flat), {"x": (1, 3, 24, 40)})
    with pytest.raises(UsageError, match=r"other sizes: Conv node 'conv' .*input channels is 4"):
        import_onnx(_detector(), {"x": (1, 4, 8, 8)})


def test_all_unsupported_operators_at_once():
    nodes = [
        helper.make_node("Frobnicate", ["x"], ["a"], name="f1", domain="acme"),
        helper.make_node("Frobnicate", ["a"], ["b"], name="f2", domain="acme"),
        helper.make_node("StringNormalizer", ["b"], ["y"], name="s"),
    ]
    proto = model(nodes, {"x": [1]}, ["y"], domains=("acme",))
    with pytest.raises(ModelError) as error:
        import_onnx(proto)
    assert str(error.value).splitlines()[1:-1] == [
        "  StringNormalizer (1x): s",
        "      texts are no tensors of numbers: run it before the package",
        "  acme.Frobnicate (2x): f1, f2",
        "      unknown: define it in the model by a function of standard operators, which is inlined",
    ]
    assert "--save-node" in str(error.value)


def test_forms_that_are_refused_are_told_with_the_unsupported_operators():
    nodes = [
        helper.make_node("Frobnicate", ["x"], ["a"], name="frob", domain="acme"),
        helper.make_node("Resize", ["x", "", "s"], ["b"], name="size"),
        # What follows an unknown operator is no fault of its own.
        helper.make_node("SpaceToDepth", ["a"], ["c"], name="after", blocksize=2),
        helper.make_node("Bernoulli", ["x"], ["d"], name="chance"),
        helper.make_node("ReorderInput", ["x"], ["y"], name="layout", domain="com.microsoft.nchwc"),
    ]
    domains = ("acme", "com.microsoft.nchwc")
    with pytest.raises(ModelError) as error:
        import_onnx(model(nodes, {"x": [1, 1, 2, 2], "s": [4]}, ["y"], domains=domains))
    assert str(error.value).splitlines()[1:-1] == [
        "  Resize (1x): size (its scales or sizes are computed at run time; make them constants)",
        "  acme.Frobnicate (1x): frob",
        "      unknown: define it in the model by a function of standard operators, which is inlined",
        "  com.microsoft.nchwc.ReorderInput (1x): layout",
        "      onnxruntime's layout for the machine that it ran on: save its optimised model with ORT_ENABLE_EXTENDED, "
        "not ORT_ENABLE_ALL",
    ]


def test_what_the_definition_of_an_operator_needs_is_told():
    nodes = [helper.make_node("Bernoulli", ["x"], ["y"], name="chance")]
    with pytest.raises(ModelError, match=r"RandomUniformLike \(1x\): chance \(is defined by it\)"):
        import_onnx(model(nodes, {"x": [2]}, ["y"]))


def test_node_the_importer_rejects_is_named(capsys: pytest.CaptureFixture[str]):
    # A reduction whose axes are computed at run time has no static shape.
    nodes = [
        helper.make_node("Cast", ["x"], ["axes"], name="cast", to=onnx.TensorProto.INT64),
        helper.make_node("ReduceSum", ["x", "axes"], ["y"], name="dynamic_sum"),
    ]
    with pytest.raises(ModelError, match="dynamic_sum"):
        import_onnx(model(nodes, {"x": [1]}, ["y"]))
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.99])
def test_damaged_file_is_refused(tmp_path: Path, keep: float):
    data = residual_cnn().SerializeToString()
    path = tmp_path / "cut.onnx"
    path.write_bytes(data[: int(len(data) * keep)])
    with pytest.raises(UsageError, match=r"cut"):
        import_onnx(path)


def test_reference_runs_the_model():
    imported = import_onnx(mlp())
    x = np.ones((2, 31), np.float32)
    weights = {t.name: onnx.numpy_helper.to_array(t) for t in mlp().graph.initializer}
    expected = np.maximum(x @ weights["w1"] + weights["b1"], 0) @ weights["w2"]
    outputs, runtime = imported.reference([x])
    assert runtime.startswith("onnxruntime ")
    np.testing.assert_allclose(outputs[0], expected, rtol=1e-5, atol=1e-5)
