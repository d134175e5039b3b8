# SPDX-License-Identifier: Apache-2.0
"""What is said of models that cannot be imported: all at once, at once, and of what is at fault."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, defs, helper

from arm_ext.common.errors import ModelError, UsageError
from arm_ext.frontends.load import import_model
from arm_ext.frontends.onnx.importer import import_onnx

ROW = [1, 3]


def value(name: str, shape: list[int], kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def wrapped(nodes: list[onnx.NodeProto], shape: list[int]) -> onnx.ModelProto:
    """A model of a condition c and a tensor x, which gives y."""
    inputs = [value("c", [1], TensorProto.BOOL), value("x", shape)]
    graph = helper.make_graph(nodes, "model", inputs, [value("y", shape)])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("my", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def choice(shape: list[int], operators: tuple[str, str], domain: str = "") -> onnx.NodeProto:
    branches = [
        helper.make_graph(
            [helper.make_node(op, ["x"], [f"b{k}"], name=f"n{k}", domain=domain)],
            f"g{k}",
            [],
            [value(f"b{k}", shape)],
        )
        for k, op in enumerate(operators)
    ]
    return helper.make_node("If", ["c"], ["z"], name="if", then_branch=branches[0], else_branch=branches[1])


def test_operators_of_all_branches_are_listed_once_with_their_count():
    relu = helper.make_node("Relu", ["z"], ["y"], name="relu")
    with pytest.raises(ModelError, match=r"1 operator\(s\).*\n  my\.Foo \(2x\): n\d, n\d\n"):
        import_onnx(wrapped([choice(ROW, ("Foo", "Foo"), "my"), relu], ROW))
    foo = helper.make_node("Foo", ["z"], ["y"], name="last", domain="my")
    with pytest.raises(ModelError, match=r"1 operator\(s\).*\n  my\.Foo \(3x\): n\d, n\d, last\n"):
        import_onnx(wrapped([choice(ROW, ("Foo", "Foo"), "my"), foo], ROW))


def test_a_number_of_outputs_beyond_all_bounds_is_refused_at_once():
    split = helper.make_node("Split", ["x"], ["y", "b"], name="halves", axis=1, num_outputs=2**31)
    with pytest.raises(UsageError, match=r"Split node 'halves' has 2 outputs.*num_outputs is 2147483648"):
        import_onnx(wrapped([split], [1, 4]))


def plain(
    node: onnx.NodeProto, *weights: onnx.TensorProto, inputs: tuple[onnx.ValueInfoProto, ...] = ()
) -> onnx.ModelProto:
    graph = helper.make_graph(
        [node], "model", [value("x", ROW), *inputs], [onnx.ValueInfoProto(name="y")], weights
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_a_scale_that_is_divided_by_is_not_0():
    scale = onnx.numpy_helper.from_array(np.float32(0), "s")
    with pytest.raises(UsageError, match="QuantizeLinear node 'q' divides by the scale 's', which is 0"):
        import_onnx(plain(helper.make_node("QuantizeLinear", ["x", "s"], ["y"], name="q"), scale))


def test_sizes_and_axes_that_only_the_run_knows():
    place = value("k", [], TensorProto.INT64)
    node = helper.make_node("CumSum", ["x", "k"], ["y"], name="sums")
    with pytest.raises(
        ModelError, match=r"CumSum node 'sums' .*: its input 'k' is computed at run time.*--value\)$"
    ):
        import_onnx(plain(node, inputs=(place,)))


def test_outputs_that_are_not_computed():
    pool = helper.make_node("MaxPool", ["z"], ["y", "places"], name="pool", kernel_shape=[2])
    model = wrapped([helper.make_node("Abs", ["x"], ["z"]), pool], [1, 1, 8])
    model.graph.output.append(value("places", [1, 1, 7], TensorProto.INT64))
    model.graph.output[0].type.tensor_type.shape.dim[2].dim_value = 7
    with pytest.raises(
        ModelError, match=r"MaxPool node 'pool' .*: its output 'places' is not supported, only 'y'"
    ):
        import_onnx(model)


@pytest.mark.parametrize(
    "declared", [value("w", [9, 3]), value("w", ROW, TensorProto.INT32), value("w", [3])]
)
def test_a_weight_that_is_another_input(declared: onnx.ValueInfoProto):
    weight = onnx.numpy_helper.from_array(np.ones(ROW, np.float32), "w")
    model = plain(helper.make_node("Add", ["x", "w"], ["y"]), weight, inputs=(declared,))
    with pytest.raises(UsageError, match="weight 'w' is declared as an input of another type or shape"):
        import_onnx(model)


@pytest.mark.parametrize(
    ("outputs", "inputs", "says"),
    [
        (["b"], ["x", "x"], "'call' calls the function 'F' with 2 inputs and 1 outputs, and it has 1 and 1"),
        (["c"], ["x"], "the function 'F' does not compute its output 'c'"),
    ],
)
def test_calls_that_are_not_as_the_function_is(outputs: list[str], inputs: list[str], says: str):
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]
    body = [helper.make_node("Relu", ["a"], ["b"])]
    model = plain(helper.make_node("F", inputs, ["y"], name="call", domain="f"))
    model.opset_import.append(opsets[1])
    model.functions.append(helper.make_function("f", "F", ["a"], outputs, body, opsets))
    with pytest.raises(ModelError, match=says):
        import_onnx(model)


def test_a_product_over_no_elements_is_refused():
    weight = onnx.numpy_helper.from_array(np.ones((0, 3), np.float32), "w")
    model = plain(helper.make_node("MatMul", ["x", "w"], ["y"]), weight)
    model.graph.input[0].CopyFrom(value("x", [2, 0]))
    with pytest.raises(ModelError, match=r"^x float32\[2, 0\] has no elements"):
        import_onnx(model)


def test_an_input_without_elements_is_named():
    relu = helper.make_node("Relu", ["z"], ["y"], name="relu")
    with pytest.raises(ModelError, match=r"^x float32\[0, 3\] has no elements"):
        import_onnx(wrapped([choice([0, 3], ("Relu", "Neg")), relu], [0, 3]))
    with pytest.raises(UsageError, match=r"--shape x=0,3 does not fit .*: sizes are 1 and more"):
        import_onnx(wrapped([helper.make_node("Relu", ["x"], ["y"])], ["n", 3]), {"x": (0, 3)})  # type: ignore[list-item]


def test_a_scale_that_is_not_finite_is_named():
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale"], ["q"], name="quantise"),
        helper.make_node("DequantizeLinear", ["q", "scale"], ["y"], name="back"),
    ]
    model = wrapped(nodes, ROW)
    model.graph.initializer.append(helper.make_tensor("scale", TensorProto.FLOAT, [], [float("inf")]))
    with pytest.raises(
        UsageError, match=r"QuantizeLinear node 'quantise' has the scale 'scale', which is not finite"
    ):
        import_onnx(model)


@pytest.mark.parametrize("kind", ["FLOAT8E4M3FN", "FLOAT8E5M2", "FLOAT4E2M1", "COMPLEX64", "STRING"])
def test_a_type_that_nothing_computes_in_is_refused_by_the_tensor(kind: str):
    number = TensorProto.DataType.Value(kind)
    node = helper.make_node("Relu", ["x"], ["y"], name="relu")
    graph = helper.make_graph([node], "model", [value("x", ROW, number)], [value("y", ROW, number)])
    with pytest.raises(ModelError, match=f"'x' is of {kind.lower()}, which is not supported"):
        import_onnx(helper.make_model(graph, ir_version=9))


def test_a_cast_to_such_a_type_is_refused_by_its_node():
    cast = helper.make_node("Cast", ["x"], ["z"], name="narrow", to=TensorProto.FLOAT8E4M3FN)
    back = helper.make_node("Cast", ["z"], ["y"], name="back", to=TensorProto.FLOAT)
    with pytest.raises(ModelError, match="Cast node 'narrow' is of float8e4m3fn"):
        import_onnx(wrapped([cast, back], ROW))


def test_what_the_checker_finds_is_told_with_its_node():
    concat = helper.make_node("Concat", ["x", "x"], ["y"], name="joined")
    with pytest.raises(
        UsageError, match=r"Required attribute 'axis' is missing.*Name: joined OpType: Concat"
    ):
        import_onnx(wrapped([concat], ROW))


@pytest.mark.parametrize("given", [True, False])
def test_random_dropping_is_refused(given: bool):
    ratio = helper.make_tensor("ratio", TensorProto.FLOAT, [], [0.5])
    mode = helper.make_tensor("mode", TensorProto.BOOL, [], [True])
    node = helper.make_node("Dropout", ["x", "ratio", "mode"], ["y"], name="drop")
    inputs = [value("x", ROW)] if given else [value("x", ROW), value("mode", [], TensorProto.BOOL)]
    graph = helper.make_graph([node], "g", inputs, [value("y", ROW)], [ratio, mode] if given else [ratio])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    with pytest.raises(
        ModelError, match=r"drop \(.*it drops elements at random.*export the model for inference"
    ):
        import_onnx(model)


def test_statistics_of_the_batch_are_refused():
    names = ["x", "scale", "bias", "mean", "variance"]
    node = helper.make_node("BatchNormalization", names, ["y", "m", "v"], name="norm", training_mode=1)
    weights = [helper.make_tensor(name, TensorProto.FLOAT, [3], [1.0] * 3) for name in names[1:]]
    graph = helper.make_graph([node], "g", [value("x", ROW)], [value("y", ROW)], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    with pytest.raises(ModelError, match=r"norm \(with training_mode 1 .*export the model for inference"):
        import_onnx(model)


def test_a_shape_is_proposed_where_the_model_takes_it():
    conv = helper.make_node("Conv", ["x", "w"], ["y"], name="conv")
    for size, proposed in ((1, "    e.g. --shape x=1,3,1"), (5, "")):
        weight = helper.make_tensor("w", TensorProto.FLOAT, [2, 3, size], [1.0] * 6 * size)
        output = helper.make_empty_tensor_value_info("y")
        graph = helper.make_graph([conv], "g", [value("x", ["n", 3, "t"])], [output], [weight])  # type: ignore[list-item]
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        with pytest.raises(UsageError) as error:
            import_onnx(model)
        assert str(error.value).splitlines()[1:-1] == [f"  x: [n,3,t]{proposed}"]


def test_a_shape_that_the_run_tells_is_named():
    shape = value("shape", [2], TensorProto.INT64)
    node = helper.make_node("Reshape", ["x", "shape"], ["y"], name="folded")
    graph = helper.make_graph([node], "g", [value("x", [2, 3]), shape], [value("y", [3, 2])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    with pytest.raises(
        ModelError, match=r"Reshape node 'folded' .*its input 'shape' is computed at run time"
    ):
        import_onnx(model)


def test_an_input_that_is_no_tensor_is_refused():
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    node = helper.make_node("SequenceAt", ["s", "i"], ["y"])
    index = helper.make_tensor("i", TensorProto.INT64, [], [0])
    graph = helper.make_graph([node], "g", [sequence], [helper.make_empty_tensor_value_info("y")], [index])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    with pytest.raises(ModelError, match="input 's' is no tensor"):
        import_onnx(model)


def test_what_upstream_says_is_told_from_the_product_s_door():
    axes = value("axes", [1], TensorProto.INT64)
    node = helper.make_node("ReduceMax", ["x", "axes"], ["y"], name="most")
    graph = helper.make_graph(
        [node], "g", [value("x", [2, 3]), axes], [helper.make_empty_tensor_value_info("y")]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    with pytest.raises(
        ModelError,
        match=r"ReduceMax node 'most' gives a tensor whose size depends on .* \(the value of 'axes'\)",
    ):
        import_model(model)


def _without(schema: defs.OpSchema, index: int, *, is_last: bool) -> onnx.ModelProto:
    """A model of one node that has all of its inputs but one, or those before it alone."""
    count = index + 1 if is_last else max(len(schema.inputs), schema.min_input, index + 1)
    names = ["" if k == index else f"x{k}" for k in range(count)]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in names if name]
    made = helper.make_node(schema.name, names, ["y"], name="the_node")
    graph = helper.make_graph([made], "g", inputs, [helper.make_empty_tensor_value_info("y")])
    opset = defs.onnx_opset_version()
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def test_every_required_input_is_asked_for_before_anything_reads_it():
    required = [
        (schema, index)
        for schema in defs.get_all_schemas()
        if schema.domain == ""
        and not schema.deprecated
        and schema.name not in ("If", "Loop", "Scan", "SequenceMap")
        for index, formal in enumerate(schema.inputs)
        if formal.option != defs.OpSchema.FormalParameterOption.Optional
    ]
    assert len(required) > 290
    for schema, index in required:
        with pytest.raises(ModelError, match=f"{schema.name} node 'the_node'.* is missing"):
            import_onnx(_without(schema, index, is_last=bool(index % 2)))


def test_every_operand_of_a_repeated_input_is_required():
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xy"]
    made = helper.make_node("Concat", ["x", "", "x"], ["y"], name="the_node", axis=0)
    graph = helper.make_graph([made], "g", ends[:1], [onnx.ValueInfoProto(name="y")])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    with pytest.raises(ModelError, match=r"'inputs' \(number 2\) is missing"):
        import_onnx(proto)


def test_opsets_of_the_future_and_none_are_refused():
    made = helper.make_node("Relu", ["x"], ["y"])
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xy"]
    graph = helper.make_graph([made], "g", ends[:1], ends[1:])
    newest = defs.onnx_opset_version()
    future = helper.make_model(graph, opset_imports=[helper.make_opsetid("", newest + 1)], ir_version=9)
    with pytest.raises(
        UsageError, match=f"it declares opset {newest + 1} of ai.onnx, and the newest .* is {newest}"
    ):
        import_onnx(future)
    none = helper.make_model(graph, ir_version=9)
    none.ClearField("opset_import")
    with pytest.raises(UsageError, match="it declares no opset"):
        import_onnx(none)
