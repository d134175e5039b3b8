# SPDX-License-Identifier: Apache-2.0
"""ONNX models with weights of 4 bits: right on the CPU and in an NPU's stream; other tensors of 4 bits are refused."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.frontends.onnx.reference import run_onnxruntime
from arm_ext.pipeline.selftest import run_on_host
from tests.fuzz.graphs import Case
from tests.fuzz.npu import npu_outcome_of

SHAPE, WEIGHTS = (1, 3, 7, 9), (15, 3, 3, 3)
X = np.random.default_rng(0).integers(-128, 128, SHAPE).astype(np.int8)
_INT4 = {"int4": (TensorProto.INT4, -8, 3), "uint4": (TensorProto.UINT4, 0, 8)}
_INT2 = {"int2": (TensorProto.INT2, -2), "uint2": (TensorProto.UINT2, 0)}


def narrow(name: str, kind: int, values: np.ndarray) -> onnx.TensorProto:
    return helper.make_tensor(name, kind, values.shape, values.reshape(-1).tolist())


def model(nodes: list[onnx.NodeProto], constants: list[onnx.TensorProto], **types: int) -> onnx.ModelProto:
    kinds = {"x": TensorProto.INT8, "y": TensorProto.INT8, **types}
    shape = (1, WEIGHTS[0], *SHAPE[2:]) if any(node.op_type == "Conv" for node in nodes) else SHAPE
    ends = [
        helper.make_tensor_value_info("x", kinds["x"], SHAPE),
        helper.make_tensor_value_info("y", kinds["y"], shape),
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def convolution(dtype: str, *, initializers: bool) -> onnx.ModelProto:
    """Weights a scale a filter, whose least and greatest are those of the type."""
    kind, least, zero = _INT4[dtype]
    rng = np.random.default_rng(1)
    weights = rng.integers(least, least + 16, WEIGHTS)
    held = [narrow("w", kind, weights), narrow("wz", kind, np.full(15, zero))]
    given = {
        "s": np.float32(0.07),
        "z": np.int8(-5),
        "ws": rng.uniform(0.05, 0.2, 15).astype("f"),
        "ys": np.float32(0.2),
    }
    constants = [numpy_helper.from_array(np.asarray(value), name) for name, value in given.items()]
    nodes = [] if initializers else [helper.make_node("Constant", [], [t.name], value=t) for t in held]
    nodes += [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["xd"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=0),
        helper.make_node("Conv", ["xd", "wd"], ["c"], pads=[1] * 4),
        helper.make_node("QuantizeLinear", ["c", "ys", "z"], ["y"]),
    ]
    return model(nodes, constants + (held if initializers else []))


@pytest.mark.each_once
@pytest.mark.parametrize("dtype", _INT4)
@pytest.mark.parametrize("initializers", [True, False])
def test_weights_of_4_bits_are_right(dtype: str, initializers: bool):
    proto = convolution(dtype, initializers=initializers)
    onnx.checker.check_model(proto, full_check=True)
    (expected,) = run_onnxruntime(proto.SerializeToString(), [X], integers=False)
    (found,) = run_on_host(import_onnx(proto).mod, [X])
    assert found.dtype == expected.dtype
    assert np.abs(found.astype(int) - expected).max() <= 1, "a tie goes one step the other way"
    assert np.mean(found != expected) <= 0.001
    outcome = npu_outcome_of(Case(proto, (X,), (), ()), ["ethos-u55-128", "ethos-u85-512"])
    assert outcome.fault is None
    assert {name for name in outcome.definitions if name.endswith("regions")} == {
        "ethos-u55-128: regions",
        "ethos-u85-512: regions",
    }


def test_what_rounds_to_4_bits_is_refused_by_name():
    scale = numpy_helper.from_array(np.float32(0.1), "s")
    back = [helper.make_node("Cast", ["n"], ["y"], to=TensorProto.INT8)]
    cast = helper.make_node("Cast", ["x"], ["n"], name="narrowed", to=TensorProto.INT4)
    with pytest.raises(ModelError, match=r"Cast node 'narrowed' rounds to int4 at run time; .*int8"):
        import_onnx(model([cast, *back], []))
    zero = narrow("z", TensorProto.UINT4, np.array(8))
    for inputs, given in ((["r", "s", "z"], {}), (["r", "s"], {"output_dtype": TensorProto.UINT4})):
        real = helper.make_node("Cast", ["x"], ["r"], to=TensorProto.FLOAT)
        quantized = helper.make_node("QuantizeLinear", inputs, ["n"], name="coarse", **given)
        with pytest.raises(ModelError, match="QuantizeLinear node 'coarse' rounds to uint4"):
            import_onnx(model([real, quantized, *back], [scale, zero]))


def test_inputs_and_outputs_of_4_bits_are_refused_by_name():
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    with pytest.raises(ModelError, match="'x' is of int4, which is supported for constants only"):
        import_onnx(model(nodes, [], x=TensorProto.INT4, y=TensorProto.INT4))


def blocked(
    dtype: str, shape: tuple[int, ...], axis: int, block: int, *, zeros: bool = True, blocks: int = 0
) -> onnx.ModelProto:
    """A product with weights that have a scale a block along an axis."""
    kind, least, _ = _INT4[dtype]
    rng = np.random.default_rng(2)
    held = list(shape)
    held[axis] = blocks or -(-shape[axis] // block)
    constants = [
        narrow("w", kind, rng.integers(least, least + 16, shape)),
        numpy_helper.from_array(rng.uniform(0.05, 0.2, held).astype("f"), "ws"),
        narrow("wz", kind, rng.integers(least, least + 16, held)),
    ]
    nodes = [
        helper.make_node(
            "DequantizeLinear", ["w", "ws", *["wz"] * zeros], ["wd"], "widened", axis=axis, block_size=block
        ),
        helper.make_node("MatMul", ["x", "wd"], ["y"]),
    ]
    ends = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, (3, shape[0])),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, (3, shape[1])),
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


@pytest.mark.each_once
@pytest.mark.parametrize(
    ("dtype", "shape", "axis", "block"),
    [
        ("int4", (31, 9), 0, 8),
        ("int4", (32, 7), -2, 16),
        ("uint4", (33, 8), 0, 16),
        ("uint4", (8, 31), 1, 9),
        ("int4", (7, 1), 0, 32),
        ("uint4", (9, 3), 0, 1),
    ],
)
@pytest.mark.parametrize("zeros", [True, False])
def test_scales_of_blocks_are_right(dtype: str, shape: tuple[int, int], axis: int, block: int, zeros: bool):
    proto = blocked(dtype, shape, axis, block, zeros=zeros)
    onnx.checker.check_model(proto, full_check=True)
    x = np.random.default_rng(3).standard_normal((3, shape[0]), np.float32)
    (expected,) = run_onnxruntime(proto.SerializeToString(), [x], integers=False)
    (found,) = run_on_host(import_onnx(proto).mod, [x])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


def test_blocks_that_do_not_cover_the_weights_are_refused():
    with pytest.raises(
        ModelError,
        match=r"widened \(its scales have the shape \[7, 3\]; expected \[7, 4\], for blocks of 8\)",
    ):
        import_onnx(blocked("int4", (32, 7), 0, 8, blocks=3))


@pytest.mark.parametrize("dtype", _INT2)
def test_weights_of_2_bits_are_right(dtype: str):
    kind, least = _INT2[dtype]
    weights = np.random.default_rng(2).integers(least, least + 4, (9, 7))
    scale = numpy_helper.from_array(np.float32(0.5), "ws")
    constants = [narrow("w", kind, weights), scale, narrow("wz", kind, np.array(least + 1))]
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wd"], "widened"),
        helper.make_node("MatMul", ["x", "wd"], ["y"]),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, (3, n)) for name, n in (("x", 9), ("y", 7))
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=13)
    onnx.checker.check_model(proto, full_check=True)
    x = np.random.default_rng(3).integers(-4, 5, (3, 9)).astype(np.float32)
    (found,) = run_on_host(import_onnx(proto).mod, [x])
    np.testing.assert_array_equal(found, x @ (0.5 * (weights - (least + 1))).astype(np.float32))


def test_other_tensors_of_2_bits_are_refused_by_name():
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    with pytest.raises(ModelError, match="'x' is of uint2, which is supported for constants only"):
        import_onnx(model(nodes, [], x=TensorProto.UINT2, y=TensorProto.UINT2))
    cast = helper.make_node("Cast", ["x"], ["n"], name="narrowed", to=TensorProto.INT2)
    back = [helper.make_node("Cast", ["n"], ["y"], to=TensorProto.INT8)]
    with pytest.raises(ModelError, match="'narrowed' rounds to int2 at run time; 2 bits are supported"):
        import_onnx(model([cast, *back], []))
