# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import arm_ext
from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.frontends.onnx.reference import run_onnxruntime
from arm_ext.package.manifest import WeightType
from arm_ext.pipeline.selftest import run_on_host
from arm_ext.quantization.layers import QdqGraph
from arm_ext.quantization.weight_only import WeightOnly, quantize_weights
from tests.arm_ext.models import mlp, residual_cnn

DEPTHS = (1, 7, 8, 9, 31)


def matrix(depth: int, columns: int) -> np.ndarray:
    """Weights with columns of their own sizes, one of them zeros."""
    sizes = np.logspace(-3, 1, columns).astype(np.float32)
    sizes[columns // 2] = 0
    return np.random.default_rng(depth).standard_normal((depth, columns), np.float32) * sizes


def products(nodes: list[onnx.NodeProto], **weights: np.ndarray) -> onnx.ModelProto:
    held = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, (5, None)) for name in ("x", "y")]
    ends[0].type.tensor_type.shape.dim[1].dim_value = weights["w"].shape[0]
    graph = helper.make_graph(nodes, "products", ends[:1], ends[1:], held)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def dequantized(model: onnx.ModelProto, node: str) -> np.ndarray:
    """The weights of a node as DequantizeLinear computes them."""
    graph = QdqGraph(model)
    (found,) = (n for n in model.graph.node if n.name == node)
    producer = graph.producers[found.input[1]]
    quantizer = graph.quantizer(producer)
    assert quantizer is not None
    return quantizer.dequantize(graph.constants[producer.input[0]])


@pytest.mark.parametrize("depth", DEPTHS)
def test_int8_is_rounded_to_a_127th_of_each_channels_largest(depth: int) -> None:
    weights = matrix(depth, 9)
    integers, scales = WeightOnly("int8", 32).quantize(weights)
    largest = np.abs(weights).max(0)
    np.testing.assert_array_equal(scales, np.where(largest > 0, largest / np.float32(127), 1))
    np.testing.assert_array_equal(integers, np.rint(weights / scales))
    assert integers.dtype == np.int8
    assert np.abs(integers.astype(int)).max() == 127


@pytest.mark.parametrize("group", [1, 4, 8, 32])
@pytest.mark.parametrize("depth", DEPTHS)
def test_int4_has_the_least_squared_error_of_each_group(depth: int, group: int) -> None:
    weights = matrix(depth, 9)
    integers, scales = WeightOnly("int4", group).quantize(weights)
    assert (integers.shape, scales.shape) == ((depth, 9), (-(-depth // group), 9))
    assert integers.min() >= -8
    assert integers.max() <= 7
    for first in range(0, depth, group):
        part, steps = weights[first : first + group], scales[first // group]
        ours = integers[first : first + group]
        np.testing.assert_array_equal(ours, np.clip(np.rint(part / steps), -8, 7))
        error = np.square(part - ours * steps).sum(0)
        # As onnxruntime does: the largest becomes -8.
        extreme = np.take_along_axis(part, np.abs(part).argmax(0)[None], 0)[0]
        theirs = np.where(extreme == 0, 1, extreme / np.float32(-8))
        assert (error <= np.square(part - np.clip(np.rint(part / theirs), -8, 7) * theirs).sum(0)).all()


def test_the_smallest_floats_are_quantised_too() -> None:
    weights = np.full((4, 3), 1e-45, np.float32)
    for how in (WeightOnly("int8", 32), WeightOnly("int4", 2)):
        integers, scales = how.quantize(weights)
        assert np.isfinite(integers * scales.mean(0)).all()


@pytest.mark.each_once
@pytest.mark.parametrize(("kind", "group"), [("int8", 32), ("int4", 8), ("int4", 32), ("int4", 6)])
@pytest.mark.parametrize("depth", DEPTHS)
def test_the_compiled_model_computes_what_onnxruntime_does(kind: WeightType, group: int, depth: int) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "first"),
        helper.make_node("Relu", ["a"], ["r"], "relu"),
        helper.make_node("Gemm", ["r", "v", "b"], ["y"], "second", transB=1),
    ]
    first, second = matrix(depth, 31), np.ascontiguousarray(matrix(31, 8).T)
    source = products(nodes, w=first, v=second, b=np.ones(8, np.float32))
    model = quantize_weights(source, WeightOnly(kind, group))
    onnx.checker.check_model(model, full_check=True)
    x = np.random.default_rng(1).standard_normal((5, depth), np.float32)
    (found,) = run_on_host(import_onnx(model).mod, [x])
    for integers in (False, True):  # with all of onnxruntime's fusions, too
        (expected,) = run_onnxruntime(model.SerializeToString(), [x], integers=integers)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    # What the file holds is what was chosen, whichever way the weights lie.
    for name, weights in (("first", first), ("second", second.T)):
        integers, scales = WeightOnly(kind, group).quantize(weights)
        by_row = scales if kind == "int8" else np.repeat(scales, group, 0)[: len(weights)]
        value = dequantized(model, name)
        np.testing.assert_array_equal(value if name == "first" else value.T, integers * by_row)


def test_weights_of_several_readers_are_held_once_and_in_float_where_one_needs_them_so() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "one"),
        helper.make_node("MatMul", ["a", "w"], ["b"], "two"),
        helper.make_node("Gemm", ["b", "w"], ["c"], "turned", transB=1),
        helper.make_node("Add", ["c", "w"], ["y"], "add"),
    ]
    source = products(nodes, w=np.ones((5, 5), np.float32))
    read = {n.name: n.input[1] for n in quantize_weights(source, WeightOnly("int8", 32)).graph.node}
    assert read["one"] == read["two"] == "w/float"
    assert read["turned"] == "w/float/transposed"
    assert read["add"] == "w"
    model = quantize_weights(source, WeightOnly("int4", 4), keep_float=["turned"])
    assert [n.name for n in model.graph.node if n.op_type == "DequantizeLinear"] == ["w/float"]
    assert {tensor.name for tensor in model.graph.initializer} == {"w", "w/int4", "w/scale"}


def test_weights_of_constant_nodes_are_taken() -> None:
    held = numpy_helper.from_array(matrix(9, 7))
    nodes = [
        helper.make_node("Constant", [], ["c"], "held", value=held),
        helper.make_node("MatMul", ["x", "c"], ["y"], "fc"),
    ]
    model = quantize_weights(products(nodes, w=matrix(9, 7)), WeightOnly("int8", 32))
    assert [n.op_type for n in model.graph.node] == ["DequantizeLinear", "MatMul"]


def test_without_such_weights_it_says_so() -> None:
    with pytest.raises(ModelError, match="no MatMul or Gemm besides those of --keep-float has a constant"):
        quantize_weights(mlp(), WeightOnly("int8", 32), keep_float=["fc1", "fc2"])
    nodes = [helper.make_node("MatMul", ["x", "x"], ["y"], "squared")]
    with pytest.raises(
        ModelError,
        match=r"products: there are no weights for weight-only quantisation: no MatMul or Gemm has",
    ):
        quantize_weights(products(nodes, w=np.ones((5, 5), np.float32)), WeightOnly("int8", 32))


@pytest.mark.parametrize("kind", ["int8", "int4"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused_by_node(kind: WeightType, value: float) -> None:
    weights = matrix(9, 7)
    weights[3, 2] = value
    model = products([helper.make_node("MatMul", ["x", "w"], ["y"], "fc")], w=weights)
    with pytest.raises(ModelError, match="products: MatMul node 'fc': weights 'w' are not finite"):
        quantize_weights(model, WeightOnly(kind, 32))


@pytest.mark.parametrize(
    ("kind", "kernel", "sqnr"), [("int8", "gemm_w8", 35), ("int4", "gemm_blocks_f32", 15)]
)
def test_narrow_weights_reach_the_kernel_that_reads_them(
    tmp_path: Path, kind: WeightType, kernel: str, sqnr: float
) -> None:
    onnx.save(mlp(), tmp_path / "mlp.onnx")
    result = arm_ext.quantize(tmp_path / "mlp.onnx", None, tmp_path / "narrow.onnx", weights=kind)
    assert result.accuracy.outputs[0].integers.sqnr_db > sqnr
    assert result.accuracy.to_blame() == []
    report = arm_ext.compile(tmp_path / "narrow.onnx", "host", tmp_path / "p").report
    assert {row.kernel for row in report.nodes if row.source in ("fc1", "fc2")} == {kernel}
    assert report.left_float == ()


def test_onnxruntime_does_not_round_the_data_of_the_reference() -> None:
    """A product behind an activation becomes MatMulNBits, which rounds its data to 8 bits unless it is told."""
    source = onnx.version_converter.convert_version(mlp(), 21)
    model = quantize_weights(source, WeightOnly("int4", 32)).SerializeToString()
    x = np.random.default_rng(2).standard_normal((2, 31), np.float32)
    (fused,), (plain,) = (run_onnxruntime(model, [x], integers=integers) for integers in (True, False))
    np.testing.assert_allclose(fused, plain, rtol=0, atol=1e-6 * np.abs(plain).max())


def test_dynamic_dimensions_stay_dynamic(tmp_path: Path) -> None:
    onnx.save(mlp("n"), tmp_path / "mlp.onnx")
    arm_ext.quantize(
        tmp_path / "mlp.onnx", None, tmp_path / "narrow.onnx", weights="int4", shapes={"x": (2, 31)}
    )
    model = onnx.load(tmp_path / "narrow.onnx")
    dims = [
        value.type.tensor_type.shape.dim[0].dim_param for value in (*model.graph.input, *model.graph.output)
    ]
    assert dims[0] == "n"
    x = np.random.default_rng(2).standard_normal((3, 31), np.float32)
    (found,) = run_onnxruntime(model.SerializeToString(), [x], integers=False)
    assert found.shape == (3, 7)
    assert arm_ext.compile(tmp_path / "narrow.onnx", "host", tmp_path / "p", shapes={"x": (4, 31)}).package


def test_convolutions_stay_in_float() -> None:
    model = quantize_weights(residual_cnn(), WeightOnly("int8", 32))
    found = {n.output[0] for n in model.graph.node if n.op_type == "DequantizeLinear"}
    assert {n.op_type for n in model.graph.node if found.intersection(n.input)} <= {"MatMul", "Gemm"}
