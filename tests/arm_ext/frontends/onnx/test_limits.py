# SPDX-License-Identifier: Apache-2.0
"""Sizes and attributes beyond their limits are refused before anything is built: node, attribute, value and limit."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from arm_ext.common.errors import ModelError, UsageError
from arm_ext.frontends.onnx.importer import import_onnx

IMAGE = [1, 4, 8, 8]
KINDS = {"bool": TensorProto.BOOL, "float32": TensorProto.FLOAT, "int64": TensorProto.INT64}


def one(
    operator: str,
    inputs: dict[str, list[int]],
    held: dict[str, object] | None = None,
    order: list[str] | None = None,
    opset: int = 18,
    outputs: int = 1,
    kind: str = "float32",
    **attributes: object,
) -> onnx.ModelProto:
    """A model of one node, "bad", of inputs and of constants."""
    held = {name: np.asarray(value) for name, value in (held or {}).items()}
    names = [f"y{k}" for k in range(outputs)]
    node = helper.make_node(operator, order or [*inputs, *held], names, name="bad", **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(name, KINDS[kind], shape) for name, shape in inputs.items()],
        [helper.make_empty_tensor_value_info(name) for name in names],
        [numpy_helper.from_array(value, name) for name, value in held.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def conv(*kernel: int, **attributes: object) -> onnx.ModelProto:
    return one("Conv", {"x": IMAGE}, {"w": np.ones(kernel or (4, 4, 3, 3), "f")}, **attributes)


def pool(
    operator: str = "MaxPool", kernel: tuple[int, int] = (3, 3), **attributes: object
) -> onnx.ModelProto:
    return one(operator, {"x": IMAGE}, kernel_shape=kernel, **attributes)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


ROW = {"x": [2, 3]}

# What onnx's own checks refuse is not listed. Model → what the message says.
ATTRIBUTES = {
    "stride 0": (
        conv(strides=[0, 0]),
        r"Conv node 'bad' .*strides is \[0, 0\], and must be from 1 to 2147483647",
    ),
    "stride -1": (conv(strides=[-1, 1]), "strides"),
    "stride 2^40": (conv(strides=[2**40, 1]), "strides"),
    "dilation 0": (conv(dilations=[0, 1]), "dilations"),
    "dilation 2^62": (conv(dilations=[2**62, 1]), "dilations"),
    "pads -3": (conv(pads=[-3] * 4), "pads"),
    "pads 2^62": (conv(pads=[2**62] * 4), "pads"),
    "pads 2^30": (
        conv(pads=[2**30] * 4),
        r"result has the shape \[1, 4, 2147483654, 2147483654\] and takes 64 EiB",
    ),
    "window": (
        conv(4, 4, 9, 9),
        r"its window is \[9, 9\], and must be no larger than the padded image, \[8, 8\]",
    ),
    "kernel_shape": (
        conv(kernel_shape=[5, 5]),
        r"kernel_shape is \[5, 5\], and must be the \[3, 3\] of its weights",
    ),
    "group 0": (conv(group=0), "group is 0"),
    "group 3": (conv(group=3), "groups is 3, and must be a divisor of the 4 input channels"),
    "group of outputs": (conv(3, 2, 3, 3, group=2), "a divisor of the 3 output channels"),
    "channels": (conv(4, 5, 3, 3), "input channels is 4, and must be the 5 of its weights"),
    "pool stride 0": (pool(strides=[0, 0]), "strides"),
    "mean stride 0": (pool("AveragePool", strides=[0, 0]), "strides"),
    "Lp stride 0": (pool("LpPool", strides=[0, 0]), "strides"),
    "pool kernel 0": (pool(kernel=(0, 3)), "kernel_shape"),
    "pool kernel 2^40": (pool(kernel=(2**40, 3)), "kernel_shape"),
    "pool window": (pool(kernel=(9, 3)), "its window"),
    "mean dilation -1": (pool("AveragePool", opset=19, dilations=[-1, -1]), "dilations"),
    "transposed": (
        one("ConvTranspose", {"x": IMAGE}, {"w": np.ones((4, 4, 3, 3), "f")}, strides=[2**30, 1]),
        "takes",
    ),
    "block 2^40": (one("DepthToSpace", {"x": IMAGE}, blocksize=2**40), "blocksize"),
    "heads": (
        one("Attention", {n: [1, 4, 6] for n in "qkv"}, opset=23, q_num_heads=4, kv_num_heads=0),
        "kv_num_heads is 0",
    ),
    "no filters": (conv(0, 4, 3, 3), r"the shape of its weights is \[0, 4, 3, 3\], and must be without a 0"),
    "mode": (
        one("Resize", {"x": IMAGE}, {"s": np.array([1, 1, 2, 2], "f")}, ["x", "", "s"], mode="lanczos"),
        "mode is lanczos, and must be one of nearest, linear, cubic",
    ),
    "no columns": (
        one("MatMul", ROW, {"w": np.ones((3, 0), "f")}),
        r"operand is \[3, 0\], and must be without a 0",
    ),
    "hidden size": (
        one(
            "LSTM",
            {"x": [3, 1, 4]},
            {"w": np.ones((1, 8, 4), "f"), "r": np.ones((1, 8, 2), "f")},
            hidden_size=5,
        ),
        "hidden_size is 5, and must be the 2 of its recurrent weights",
    ),
    "LRN": (one("LRN", {"x": IMAGE}, size=-3), "size is -3"),
    "alpha": (one("Celu", {"x": [4]}, alpha=0.0), "alpha is 0.0, and must be other than 0"),
    "equation": (one("Einsum", {"x": [3, 3]}, equation="ij->ijk"), "the output of its equation is ijk"),
    "slope": (one("PRelu", ROW, {"s": np.ones(5, "f")}), r"slope is \[5\]"),
    "permutation": (
        one("Transpose", ROW, perm=[0]),
        r"perm is \[0\], and must be an order of the axes 0 to 1",
    ),
    "axis 2^62": (one("Softmax", ROW, axis=2**62), "axis is 4611686018427387904, and must be from -2 to 1"),
    "axis of sums": (one("CumSum", ROW, {"a": np.int64(9)}), "axis is 9"),
    "axis of scatter": (
        one("ScatterElements", ROW, {"i": [[0]], "u": np.ones((1, 1), "f")}, axis=9),
        "axis is 9",
    ),
    "axes twice": (one("ReduceSum", ROW, {"a": ints(1, 1)}), r"axes is \[1, 1\], and must be no axis twice"),
}
INPUTS = {
    "repeats 2^60": (one("Tile", ROW, {"r": ints(2**60, 1)}), "repeats is"),
    "repeats -1": (one("Tile", ROW, {"r": ints(-1, 1)}), "repeats"),
    "pads 2^40": (one("Pad", ROW, {"p": ints(2**40, 0, 0, 0)}), "pads is"),
    "pads -3": (
        one("Pad", ROW, {"p": ints(-3, 0, 0, 0)}),
        r"has the shape \[-1, 3\]; a size cannot be negative",
    ),
    "Expand": (one("Expand", ROW, {"s": ints(2**62, 2, 3)}), "takes 96 EiB"),
    "Range": (one("Range", {}, {"a": np.int64(0), "b": np.int64(2**40), "c": np.int64(1)}), "takes 8 TiB"),
    "Range of 0": (one("Range", {}, {"a": np.int64(0), "b": np.int64(4), "c": np.int64(0)}), "delta is 0"),
    "ConstantOfShape": (one("ConstantOfShape", {}, {"s": ints(2**32, 2**32)}), "takes 64 EiB"),
    "OneHot": (
        one("OneHot", {"x": [3]}, {"d": np.int64(2**40), "v": np.ones(2, "f")}, kind="int64"),
        "OneHot node 'bad'",
    ),
    "Resize": (
        one("Resize", {"x": IMAGE}, {"s": ints(1, 4, 2**40, 8)}, ["x", "", "", "s"]),
        "Resize node 'bad'",
    ),
    "Resize to 0": (one("Resize", {"x": IMAGE}, {"s": ints(1, 4, 0, 8)}, ["x", "", "", "s"]), "sizes"),
    "scale": (
        one("Resize", {"x": IMAGE}, {"s": np.array([1, 1, -1, 1], "f")}, ["x", "", "s"]),
        "Resize node 'bad'",
    ),
    "EyeLike": (one("EyeLike", {"x": [2**30, 2**30]}), "takes 4 EiB"),
    "TopK": (one("TopK", ROW, {"k": ints(-1)}, outputs=2), "K is -1"),
    "Split": (one("Split", {"x": [6]}, {"s": ints(-2, 8)}, outputs=2, axis=0), "split"),
    "step": (one("Slice", ROW, {"a": ints(0), "b": ints(4), "c": ints(1), "d": ints(-(2**63))}), "steps"),
    "Trilu": (one("Trilu", {"x": [3, 3]}, {"k": np.int64(2**62)}), "k is"),
    "window length": (one("HannWindow", {}, {"n": np.int64(2**40)}, opset=17), "HannWindow node 'bad'"),
    "DFT": (one("DFT", {"x": [1, 8, 1]}, {"n": np.int64(2**40)}, opset=17), "DFT node 'bad'"),
    "input 2^62": (one("Relu", {"x": [2**62, 4]}), "takes 64 EiB"),
    "broadcast": (one("Add", {"x": [2**20, 1], "z": [1, 2**21]}), "takes 8 TiB"),
    "product": (one("MatMul", {"x": [2**20, 1], "z": [1, 2**21]}), "takes 8 TiB"),
}
CASES = ATTRIBUTES | INPUTS


@pytest.mark.parametrize("case", CASES)
def test_beyond_limits(case: str):
    model, says = CASES[case]
    with pytest.raises(ModelError, match=says):
        import_onnx(model)


def test_inside_branches():
    branches = {
        name: helper.make_graph([node], name, [], [helper.make_empty_tensor_value_info(node.output[0])])
        for name, node in {
            "then_branch": helper.make_node(
                "MaxPool", ["x"], ["t"], name="bad", kernel_shape=[3], strides=[0]
            ),
            "else_branch": helper.make_node("Relu", ["x"], ["e"]),
        }.items()
    }
    inputs = [
        helper.make_tensor_value_info("c", TensorProto.BOOL, []),
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 8]),
    ]
    outputs = [helper.make_empty_tensor_value_info("y")]
    graph = helper.make_graph([helper.make_node("If", ["c"], ["y"], **branches)], "g", inputs, outputs)
    with pytest.raises(ModelError, match="MaxPool node 'bad' cannot be compiled: strides is"):
        import_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9))


@pytest.mark.parametrize(
    ("dims", "size", "kind", "says"),
    [
        ([4], 8, TensorProto.FLOAT, r"holds 8 bytes, and its dims \[4\] of float32 take 16"),
        ([4], 32, TensorProto.FLOAT, "holds 32 bytes"),
        ([4], 15, TensorProto.FLOAT, "holds 15 bytes"),
        ([-4], 16, TensorProto.FLOAT, "a dim cannot be negative"),
        ([4], 16, 77, "has the element type 77"),
    ],
)
def test_constant_of_other_bytes(dims: list[int], size: int, kind: int, says: str):
    model = one("Add", {"x": [4]}, {"w": np.ones(4, "f")})
    model.graph.initializer[0].CopyFrom(
        TensorProto(name="w", dims=dims, data_type=kind, raw_data=bytes(size))
    )
    with pytest.raises(UsageError, match=f"constant 'w' .*{says}"):
        import_onnx(model)


def test_numbers_that_the_type_of_a_constant_does_not_hold():
    tensor = onnx.TensorProto(name="w", data_type=TensorProto.INT8, dims=[3], int32_data=[1, 300, -1])
    node = helper.make_node("Identity", ["w"], ["y"])
    graph = helper.make_graph([node], "g", [], [helper.make_empty_tensor_value_info("y")], [tensor])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    with pytest.raises(UsageError, match="constant 'w' holds 300, and its type int8 holds -128 to 127"):
        import_onnx(model)


def test_element_types_without_code():
    with pytest.raises(ModelError, match="Cast node 'bad' is of float8e4m3fn, which is not supported"):
        import_onnx(one("Cast", {"x": [3]}, opset=19, to=TensorProto.FLOAT8E4M3FN))


@pytest.mark.parametrize(
    "model",
    [
        pool(kernel=(8, 8), pads=[0] * 4),
        pool(kernel=(9, 9), ceil_mode=1, pads=[1, 1, 0, 0], strides=[2, 2]),
        one("Pad", ROW, {"p": ints(-1, 0, 0, 2)}),
        one("Slice", ROW, {"a": ints(-(2**62)), "b": ints(2**62), "c": ints(1), "d": ints(2**62)}),
        one("QuantizeLinear", {"x": [3]}, {"s": np.float32(1), "z": np.int8(0)}, axis=1),
    ],
    ids=["whole image", "ceil", "crop", "long step", "axis of no scale"],
)
def test_within_limits(model: onnx.ModelProto):
    import_onnx(model)


@pytest.mark.parametrize(
    ("operator", "inputs", "kind", "says"),
    [
        ("And", 2, "int64", "its input 'a' is of int64, and the operator takes booleans; insert a Cast"),
        ("Not", 1, "float32", "its input 'a' is of float32, and the operator takes booleans"),
        ("Add", 2, "bool", "its input 'a' is of bool, and the operator takes numbers"),
        ("Neg", 1, "bool", "its input 'a' is of bool, and the operator takes numbers"),
    ],
)
def test_numbers_for_booleans_and_booleans_for_numbers(operator: str, inputs: int, kind: str, says: str):
    with pytest.raises(ModelError, match=f"{operator} node 'bad' cannot be compiled: {says}"):
        import_onnx(one(operator, {name: [2, 3] for name in "ab"[:inputs]}, kind=kind))


def test_booleans_where_an_operator_takes_them():
    import_onnx(one("Equal", {"a": [2, 3], "b": [2, 3]}, kind="bool"))
    import_onnx(one("Where", {"a": [2, 3]}, {"x": np.float32(1), "y": np.float32(2)}, kind="bool"))
