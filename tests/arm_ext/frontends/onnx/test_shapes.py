# SPDX-License-Identifier: Apache-2.0
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.inputs import random_inputs
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.frontends.onnx.reference import run_onnxruntime
from arm_ext.frontends.onnx.shapes import fold_shapes
from arm_ext.frontends.onnx.weights import SMALL_ELEMENTS
from arm_ext.pipeline.selftest import run_on_host
from relay_passes.ir.sources import bindings_of, sources_of
from tests.arm_ext.models import model
from tests.relay_passes.graphs import operators

Node = onnx.NodeProto
node = helper.make_node


def left(proto: onnx.ModelProto) -> list[str]:
    """Operators that are left after folding, but for constants."""
    fold_shapes(proto, "m")
    return [n.op_type for n in proto.graph.node if n.op_type != "Constant"]


def folded(proto: onnx.ModelProto, value: str) -> np.ndarray:
    """A value that folding made constant."""
    fold_shapes(proto, "m")
    (found,) = [n for n in proto.graph.node if value in n.output]
    return numpy_helper.to_array(helper.get_attribute_value(found.attribute[0]))


X = {"x": [1, 6, 4, 3]}
I64 = {
    "zero": np.array([0]),
    "one": np.array(1),
    "ones": np.array([1]),
    "two": np.array(2),
    "minus": np.array([-1]),
    "four": np.array([4]),
    "end": np.array([2**63 - 1]),
}

# What exporters write: half the channels, one dimension merged with the next, a size scaled, a constant pad.
CHUNK = [
    node("Shape", ["x"], ["shape"]),
    node("Gather", ["shape", "one"], ["channels"], axis=0),
    node("Add", ["channels", "one"], ["more"]),
    node("Div", ["more", "two"], ["half"]),
    node("Unsqueeze", ["half", "zero"], ["halves"]),
    node("Slice", ["x", "zero", "halves", "ones"], ["left"]),
    node("Slice", ["x", "halves", "end", "ones"], ["right"]),
    node("Mul", ["left", "right"], ["y"]),
]
MERGE = [
    node("Shape", ["x"], ["front"], start=0, end=1),
    node("Size", ["x"], ["size"]),
    node("Cast", ["size"], ["size32"], to=TensorProto.INT32),
    node("Cast", ["size32"], ["size64"], to=TensorProto.INT64),
    node("Unsqueeze", ["size64", "zero"], ["rest"]),
    node("Equal", ["rest", "minus"], ["any"]),
    node("Where", ["any", "ones", "rest"], ["known"]),
    node("Concat", ["front", "known"], ["to"], axis=0),
    node("Reshape", ["x", "to"], ["y"]),
]
SCALE = [
    node("Shape", ["x"], ["shape"]),
    node("Cast", ["shape"], ["shape32"], to=TensorProto.FLOAT),
    node("Mul", ["shape32", "factors"], ["scaled"]),
    node("Floor", ["scaled"], ["whole"]),
    node("Cast", ["whole"], ["to"], to=TensorProto.INT64),
    node("Resize", ["x", "", "", "to"], ["y"], mode="nearest"),
]
PAD = [
    node("ConstantOfShape", ["four"], ["none"], value=numpy_helper.from_array(np.array([0]))),
    node("Concat", ["widths", "none"], ["pairs"], axis=0),
    node("Reshape", ["pairs", "in_pairs"], ["rows"]),
    node("Slice", ["rows", "minus", "far", "zero", "minus"], ["reversed"]),
    node("Transpose", ["reversed"], ["turned"], perm=[1, 0]),
    node("Reshape", ["turned", "minus"], ["flat"]),
    node("Cast", ["flat"], ["pads"], to=TensorProto.INT64),
    node("Pad", ["x", "pads"], ["y"]),
]
POSITIONS = [
    node("Shape", ["x"], ["shape"]),
    node("Gather", ["shape", "two"], ["rows"], axis=0),
    node("Constant", [], ["start"], value_int=0),
    node("Range", ["start", "rows", "one"], ["positions"]),
    node("Gather", ["table", "positions"], ["embedded"], axis=0),
    node("Add", ["x", "embedded"], ["y"]),
]
FORMS: dict[str, tuple[list[Node], list[str]]] = {
    "chunk": (CHUNK, ["Slice", "Slice", "Mul"]),
    "merge": (MERGE, ["Reshape"]),
    "scale": (SCALE, ["Resize"]),
    "pad": (PAD, ["Pad"]),
    "positions": (POSITIONS, ["Add"]),
}
WEIGHTS = I64 | {
    "factors": np.array([1, 1, 1.5, 2.5], np.float32),
    "widths": np.array([1, 2, 0, 3]),
    "in_pairs": np.array([-1, 2]),
    "far": np.array([-(2**63) + 1]),
    "table": np.linspace(-1, 1, 21, dtype=np.float32).reshape(7, 3),
}


def form(name: str) -> onnx.ModelProto:
    used = {value for n in FORMS[name][0] for value in n.input}
    return model(FORMS[name][0], X, ["y"], {key: value for key, value in WEIGHTS.items() if key in used})


@pytest.mark.parametrize("name", FORMS)
def test_what_follows_from_shapes_is_constant(name: str):
    assert left(form(name)) == FORMS[name][1]


@pytest.mark.parametrize("name", FORMS)
def test_values_are_kept(name: str):
    proto = form(name)
    imported = import_onnx(proto)
    inputs = random_inputs(imported.inputs)
    (expected,) = run_onnxruntime(proto.SerializeToString(), inputs, integers=False)
    np.testing.assert_array_equal(run_on_host(imported.mod, inputs)[0], expected)


def test_names_are_kept():
    nodes = [helper.make_node(n.op_type, n.input, n.output, name=f"/{n.output[0]}") for n in CHUNK]
    nodes[1].attribute.append(helper.make_attribute("axis", 0))
    imported = import_onnx(model(nodes, X, ["y"], I64))
    assert list(imported.nodes) == [f"/{n.output[0]}" for n in CHUNK]
    assert operators(imported.mod["main"]) == ["strided_slice", "strided_slice", "multiply"]
    named = [name for b in bindings_of(imported.mod["main"]) for name in sources_of(b.value)]
    assert named == ["/left", "/right", "/y"]


def test_a_shape_that_only_folding_makes_known_is_folded_too():
    # Shape inference does not follow values through a division.
    divided = [
        node("Shape", ["x"], ["shape"]),
        node("Div", ["shape", "halves"], ["smaller"]),
        node("Expand", ["one", "smaller"], ["block"]),
        node("Shape", ["block"], ["again"]),
        node("Cast", ["again"], ["y"], to=TensorProto.FLOAT),
    ]
    proto = model(divided, X, ["y"], {"one": I64["one"], "halves": np.array([1, 2, 2, 1])})
    np.testing.assert_array_equal(folded(proto, "y"), [1, 3, 2, 3])


@pytest.mark.parametrize(("operator", "expected"), [("Div", [-3, 3]), ("Mod", [-1, -1])])
def test_integers_divide_as_onnx_says(operator: str, expected: list[int]):
    nodes = [
        node(operator, ["a", "b"], ["c"], **({"fmod": 1} if operator == "Mod" else {})),
        node("Reshape", ["x", "to"], ["z"]),
        node("Expand", ["z", "c"], ["y"]),
    ]
    weights = {"a": np.array([-7, -7]), "b": np.array([2, -2]), "to": np.array([-1])}
    np.testing.assert_array_equal(folded(model(nodes, {"x": [1]}, ["y"], weights), "c"), expected)


def test_quantised_weights_stay_integers():
    nodes = [
        node("Transpose", ["w"], ["turned"], perm=[1, 0]),
        node("DequantizeLinear", ["turned", "scale"], ["float"]),
        node("MatMul", ["x", "float"], ["y"]),
    ]
    weights = {"w": np.ones((7, 9), np.int8), "scale": np.array(0.5, np.float32)}
    assert left(model(nodes, {"x": [1, 9]}, ["y"], weights)) == ["DequantizeLinear", "MatMul"]


def test_scales_are_computed():
    """Of a size given in floats, one of whose parts exporters share by an Identity."""
    nodes = [
        node("Identity", ["front"], ["again"]),
        node("Div", ["size", "four"], ["back"]),
        node("Concat", ["again", "back"], ["scales"], axis=0),
        node("Resize", ["x", "", "scales"], ["y"], mode="nearest"),
    ]
    numbers = {"front": [1, 1], "size": [8, 6], "four": [4]}
    weights = {name: np.array(values, np.float32) for name, values in numbers.items()}
    np.testing.assert_array_equal(folded(model(nodes, X, ["y"], weights), "scales"), [1, 1, 2, 1.5])


@pytest.mark.parametrize(
    ("operator", "size"), [("Add", SMALL_ELEMENTS + 1), ("RandomNormalLike", 7), ("DequantizeLinear", 7)]
)
def test_neither_weights_nor_random_numbers_are_computed(operator: str, size: int):
    kind = np.int8 if operator == "DequantizeLinear" else np.float32
    inputs = ["w"] if operator == "RandomNormalLike" else ["w", "v"]
    proto = model(
        [node(operator, inputs, ["e"]), node("Mul", ["x", "e"], ["y"])],
        {"x": [size]},
        ["y"],
        {"w": np.ones(size, kind), "v": np.array(2, np.float32)},
    )
    assert left(proto) == [operator, "Mul"]


@pytest.mark.parametrize("opset", [9, 12])
def test_operators_of_an_older_opset(opset: int):
    """Whose axes are attributes; onnx's reference takes a node by itself for one of the newest opset."""
    nodes = [
        node("Shape", ["x"], ["shape"]),
        node("Gather", ["shape", "one"], ["channels"], axis=0),
        node("Unsqueeze", ["channels"], ["size"], axes=[0]),
        node("ConstantOfShape", ["size"], ["y"]),
    ]
    proto = model([], X, ["y"], {"one": I64["one"]})
    proto.opset_import[0].version = opset
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    proto.graph.node.extend(nodes)
    np.testing.assert_array_equal(folded(proto, "size"), [6])


def test_float_constants_are_left_to_the_passes():
    nodes = [node("Exp", ["w"], ["e"]), node("Add", ["x", "e"], ["y"])]
    assert left(model(nodes, {"x": [7]}, ["y"], {"w": np.ones(7, np.float32)})) == ["Exp", "Add"]


def test_outputs_may_be_constants():
    nodes = [node("Shape", ["x"], ["shape"]), node("Cast", ["shape"], ["y"], to=TensorProto.FLOAT)]
    imported = import_onnx(model(nodes, X, ["y"]))
    (output,) = run_on_host(imported.mod, random_inputs(imported.inputs))
    np.testing.assert_array_equal(output, X["x"])


def test_what_the_reference_refuses_is_left_to_the_importer():
    nodes = [
        node("Gather", ["five", "far"], ["z"], axis=1),
        node("Cast", ["z"], ["w"], to=TensorProto.FLOAT),
        node("Add", ["x", "w"], ["y"]),
    ]
    proto = model(nodes, {"x": [1]}, ["y"], {"five": np.arange(5).reshape(1, 5), "far": np.array([9])})
    assert left(proto) == ["Gather", "Cast", "Add"]
    with pytest.raises(ModelError, match="Gather node 'z' cannot be imported: index 9 is out of bounds"):
        import_onnx(proto)


@pytest.mark.parametrize(
    ("operator", "opset", "inputs"),
    [("GroupNormalization", 21, ["x", "c", "c"]), ("MeanVarianceNormalization", 13, ["x"])],
)
def test_operators_whose_types_onnx_does_not_infer(operator: str, opset: int, inputs: list[str]):
    attributes = {"num_groups": 2} if operator[0] == "G" else {}
    nodes = [helper.make_node(operator, inputs, ["n"], **attributes), helper.make_node("Relu", ["n"], ["y"])]
    ends = (
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4, 5, 5])],
        [onnx.ValueInfoProto(name="y")],
    )
    ones = numpy_helper.from_array(np.ones(4, np.float32), "c")
    proto = helper.make_model(
        helper.make_graph(nodes, "g", *ends, [ones] if "c" in inputs else []),
        opset_imports=[helper.make_opsetid("", opset)],
        ir_version=9,
    )
    x = np.random.default_rng(0).standard_normal((3, 4, 5, 5)).astype(np.float32)
    (found,) = run_on_host(import_onnx(proto).mod, [x])
    rows = x.reshape(3, 2, 2, 5, 5)
    axes, of = ((2, 3, 4), rows + 1) if operator[0] == "G" else ((0, 3, 4), rows)
    normal = (of - of.mean(axes, keepdims=True)) / np.sqrt(of.var(axes, keepdims=True) + 1e-5)
    np.testing.assert_allclose(
        found, np.maximum(normal + (operator[0] == "G"), 0).reshape(x.shape), atol=1e-4
    )
