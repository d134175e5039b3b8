# SPDX-License-Identifier: Apache-2.0
"""Quantised operators, imported and run on this machine, against onnxruntime on the original."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from arm_ext.common.errors import ModelError
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.frontends.onnx.quantized import EXPANSIONS
from arm_ext.frontends.onnx.reference import run_onnxruntime
from arm_ext.pipeline.selftest import run_on_host
from relay_passes.ir.sources import bindings_of, sources_of, unnamed_calls
from tests.arm_ext.frontends.onnx.one_node import MS, OneNode, set_output_shapes
from tests.arm_ext.frontends.onnx.quantized_cases import CASES, SCALES, Case, Scales

Arrays = list[np.ndarray]


def import_and_run(proto: onnx.ModelProto, inputs: Arrays) -> tuple[Arrays, Arrays, ImportedModel]:
    """Return our outputs, onnxruntime's, and what was imported."""
    expected = run_onnxruntime(proto.SerializeToString(), inputs, integers=True)
    set_output_shapes(proto, expected)
    imported = import_onnx(proto)
    return run_on_host(imported.mod, inputs), expected, imported


def operators(imported: ImportedModel) -> list[str]:
    calls = [b.value for b in bindings_of(imported.mod["main"]) if sources_of(b.value)]
    return [str(call.op.name) for call in calls]


def assert_close(found: np.ndarray, expected: np.ndarray) -> None:
    """Compare floats: sums of tens of products, in another order."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


@pytest.mark.each_once
@pytest.mark.parametrize("scales", SCALES.values(), ids=SCALES.keys())
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_operator(case: Case, scales: Scales):
    node = case(scales)
    (found,), (expected,), imported = import_and_run(node.build(), node.values())
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if expected.dtype.kind == "f":
        assert_close(found, expected)
    else:
        steps = np.abs(found.astype(int) - expected)
        assert steps.max() <= 1, "a tie goes one step the other way"
        assert np.mean(steps > 0) <= scales.ties
    assert imported.nodes == {"q": node.op}
    assert unnamed_calls(imported.mod) == []
    assert {name for b in bindings_of(imported.mod["main"]) for name in sources_of(b.value)} == {"q"}


def test_every_qdq_form_has_a_case():
    shown = {(node.domain, node.op) for case in CASES.values() for node in [case(SCALES["pow2"])]}
    integer = {("", "ConvInteger"), ("", "DynamicQuantizeLinear"), ("", "MatMulInteger")}
    scaled = {(MS, "DynamicQuantizeMatMul"), (MS, "MatMulIntegerToFloat")}
    blocks = {("", "DequantizeLinear")}  # of constants; see test_int4
    assert shown == set(EXPANSIONS) - integer - scaled - blocks - {(MS, "QLinearReduceMean")}


def test_mean():
    """Against its parts: onnxruntime defines it, but has no kernel for it."""
    node = OneNode("QLinearReduceMean", attributes={"axes": [1, 3], "keepdims": 0})
    node.take("uint8", 1, 7, 9, 8).params(0.1, 131, "uint8").params(0.004, 129, "uint8")
    proto, inputs = node.build(), node.values()
    set_output_shapes(proto, [np.empty((1, 9))])
    (found,) = run_on_host(import_onnx(proto).mod, inputs)
    parts = [
        helper.make_node("DequantizeLinear", ["x0", "c1", "c2"], ["x"]),
        helper.make_node("ReduceMean", ["x"], ["m"], axes=[1, 3], keepdims=0),
        helper.make_node("QuantizeLinear", ["m", "c3", "c4"], ["y0"]),
    ]
    del proto.graph.node[:]
    proto.graph.node.extend(parts)
    (expected,) = run_onnxruntime(proto.SerializeToString(), inputs, integers=False)
    assert len(np.unique(expected)) > 2
    np.testing.assert_allclose(found.astype(int), expected, rtol=0, atol=1)


def _conv_integer(*zero_points: object) -> OneNode:
    # 511 * 4 products of up to 255 * 255 add up to more than float32 counts.
    attributes: dict[str, object] = {"pads": [1, 0, 0, 1], "strides": [1, 2]}
    node = OneNode("ConvInteger", "", outputs=("int32",), attributes=attributes)
    node.take("uint8", 1, 511, 5, 4).weight("uint8", 3, 511, 2, 2)
    for zero_point in zero_points:
        node.hold(zero_point, "uint8")
    return node


@pytest.mark.parametrize("zero_points", [(), (7,), (7, 9)], ids=str)
def test_conv_integer_is_exact(zero_points: tuple[int, ...]):
    node = _conv_integer(*zero_points)
    (found,), (expected,), _ = import_and_run(node.build(), node.values())
    assert np.abs(expected).max() > 2**24 or len(zero_points) == 2
    np.testing.assert_array_equal(found, expected)


def test_conv_integer_with_a_zero_point_a_filter():
    # onnxruntime takes but one for all, so each filter is compared by itself.
    points = [1, 255, 128]
    proto, inputs = _conv_integer(7, points).build(), _conv_integer().values()
    set_output_shapes(proto, [np.empty((1, 3, 5, 2))])
    (found,) = run_on_host(import_onnx(proto).mod, inputs)
    for k, point in enumerate(points):
        (expected,) = run_onnxruntime(
            _conv_integer(7, point).build().SerializeToString(), inputs, integers=True
        )
        np.testing.assert_array_equal(found[:, k], expected[:, k])


def test_matmul_integer_is_exact():
    node = OneNode("MatMulInteger", "", outputs=("int32",)).take("uint8", 2, 511).take("uint8", 511, 3)
    node.hold(3, "uint8").hold([5, 0, 7], "uint8")
    (found,), (expected,), _ = import_and_run(node.build(), node.values())
    assert np.abs(expected).max() > 2**22
    np.testing.assert_array_equal(found, expected)


@pytest.mark.each_once
@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize(
    "x", [[[0.0, 0.0]], [[-3.0, -1.5]], [[0.5, 7.25]], [[-1.0, 254.0, 0.5, 1.5, 2.5]]], ids=str
)
def test_dynamic_quantize(x: list[list[float]], opset: int):
    value = np.array(x, np.float32)
    node = OneNode("DynamicQuantizeLinear", "", opset, ("uint8", "float32", "uint8")).take(
        "float32", *value.shape
    )
    found, expected, imported = import_and_run(node.build(), [value])
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert operators(imported).count("relax.quantize") == 1


@pytest.mark.parametrize("bias", [True, False])
def test_integer_products_to_float(bias: bool):
    scale = [0.1, 0.2, 0.3]
    dynamic = OneNode("DynamicQuantizeMatMul", outputs=("float32",)).take("float32", 7, 31)
    dynamic.weight("int8", 31, 3).hold(scale).hold(np.zeros(3), "int8")
    static = OneNode("MatMulIntegerToFloat", outputs=("float32",)).take("uint8", 7, 31).weight("int8", 31, 3)
    static.hold(0.05).hold(scale).hold(131, "uint8").hold(np.zeros(3), "int8")
    for node in (dynamic, static):
        if bias:
            node.hold([1.0, -2.0, 3.5])
        (found,), (expected,), imported = import_and_run(node.build(), node.values())
        assert_close(found, expected)
        assert "relax.matmul" in operators(imported)


def test_what_cannot_be_expanded_is_listed_with_the_reason():
    softmax = helper.make_node(
        "QLinearSoftmax", ["x", "s", "", "s", "z"], ["y"], "inner", domain=MS, axis=1, opset=11
    )
    matmul = helper.make_node("QLinearMatMul", ["x", "s", "z", "w", "ws", "wz", "s", "z"], ["v"], "batched")
    weights = {
        "s": np.float32(0.1),
        "z": np.uint8(3),
        "w": np.ones((2, 5, 3), np.uint8),
        "ws": np.ones((2, 1, 3), np.float32),
        "wz": np.zeros((2, 1, 3), np.uint8),
    }
    graph = helper.make_graph(
        [softmax, matmul],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.UINT8, [2, 7, 5])],
        [
            helper.make_tensor_value_info("y", TensorProto.UINT8, [2, 7, 5]),
            helper.make_tensor_value_info("v", TensorProto.UINT8, [2, 7, 3]),
        ],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)]
    with pytest.raises(ModelError) as error:
        import_onnx(helper.make_model(graph, opset_imports=opsets, ir_version=9))
    assert "com.microsoft.QLinearSoftmax (1x): inner (its axis 1 is defined as in opset 11" in str(
        error.value
    )
    assert "QLinearMatMul (1x): batched (b_scale has 3 dimensions" in str(error.value)
