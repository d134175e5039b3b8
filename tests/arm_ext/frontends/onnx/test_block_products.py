# SPDX-License-Identifier: Apache-2.0
"""MatMulNBits and GatherBlockQuantized against onnxruntime, which quantises data in the blocks of the weights."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import arm_ext
from arm_ext.frontends.load import import_model
from arm_ext.pipeline.selftest import module_runner
from schedules.numerics.blocks import BlockWeights, linear_blocks

CASES = {
    "4 bits": (1, 64, 32, 4, 32, "", False),
    "4 bits, a zero point a block, bias": (5, 96, 48, 4, 32, "random", True),
    "4 bits, one zero point": (2, 64, 17, 4, 32, "equal", False),
    "8 bits": (3, 128, 16, 8, 32, "", True),
    "8 bits, a zero point a block": (3, 70, 33, 8, 32, "random", False),
}


def model(
    rows: int, k: int, n: int, bits: int, block: int, zeros: str, bias: bool, level: int = 4
) -> onnx.ModelProto:
    rng, count = np.random.default_rng(2), -(-k // block)
    held = {
        "q": rng.integers(0, 256, (n, count, block * bits // 8)).astype(np.uint8),
        "s": (rng.random(n * count) * 0.02).astype(np.float32),
        "z": rng.integers(0, 256, n * -(-count * bits // 8)).astype(np.uint8),
        "b": rng.normal(size=n).astype(np.float32),
    }
    if zeros == "equal":
        held["z"][:] = 0x33
    inputs = ["x", "q", "s", "z" if zeros else "", "", "b" if bias else ""]
    attributes = {"K": k, "N": n, "bits": bits, "block_size": block, "accuracy_level": level}
    node = helper.make_node(
        "MatMulNBits", inputs, ["y"], name="product", domain="com.microsoft", **attributes
    )
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, rows, size])]
        for name, size in (("x", k), ("y", n))
    ]
    arrays = [numpy_helper.from_array(held[name], name) for name in inputs if name in held]
    graph = helper.make_graph([node], "graph", *ends, arrays)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


@pytest.mark.parametrize("name", CASES)
def test_products_are_those_of_onnxruntime(name: str):
    imported = import_model(model(*CASES[name]))
    x = np.random.default_rng(3).normal(size=imported.inputs[0].shape).astype(np.float32)
    (found,), ((expected,), runtime) = module_runner(imported.mod)([x]), imported.reference([x])
    assert runtime.startswith("onnxruntime")
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())


def test_weights_keep_their_bits(tmp_path):
    given = CASES["4 bits, a zero point a block, bias"]
    result = arm_ext.compile(model(*given), "cortex-a76", tmp_path / "p")
    assert "gemm_blocks" in {kernel.kernel for kernel in result.report.kernels}
    _, k, n, *_ = given
    packed = -(-n // 16) * 16 * (k // 2 + 2 * 4 * k // 32 + 4)
    assert result.package.manifest.memory.weight_bytes <= packed + 128


def test_it_is_the_definition():
    rng = np.random.default_rng(5)
    imported = import_model(model(*CASES["4 bits, one zero point"]))
    x = rng.normal(size=(1, 2, 64)).astype(np.float32)
    proto = model(*CASES["4 bits, one zero point"])
    held = {t.name: numpy_helper.to_array(t) for t in proto.graph.initializer}
    pairs = np.stack([held["q"] & 15, held["q"] >> 4], -1).reshape(17, 64).astype(np.int8) - 8
    weights = BlockWeights.of(pairs, held["s"].reshape(17, 2), 32, 4, shift=8 - 3)
    (found,) = module_runner(imported.mod)([x])
    np.testing.assert_array_equal(found[0], linear_blocks(x[0], weights))


@pytest.mark.parametrize(
    ("name", "level"), [*((name, 0) for name in (*CASES, "blocks of 16")), ("4 bits", 1)]
)
def test_other_levels_leave_data_in_float(level: int, name: str, tmp_path):
    rows, k, n, bits, block, *more = (CASES | {"blocks of 16": (7, 40, 9, 4, 16, "random", True)})[name]
    given = model(rows, k, n, bits, block, *more, level=level)
    imported = import_model(given)
    x = np.random.default_rng(3).normal(size=imported.inputs[0].shape).astype(np.float32)
    (found,), ((expected,), _) = module_runner(imported.mod)([x]), imported.reference([x])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    if "zero point a block" not in name:
        return
    result = arm_ext.compile(given, "cortex-a76", tmp_path / "p")
    assert "gemm_blocks_f32" in {kernel.kernel for kernel in result.report.kernels}
    said = "product  accuracy_level 4 of MatMulNBits: data is int8 in blocks"
    assert said in (tmp_path / "p" / "report.txt").read_text()
    packed = -(-n // 16) * 16 * (-(-k // 4) * 4 * bits // 8 + 2 * 4 * -(-k // block) + 4)
    assert result.package.manifest.memory.weight_bytes <= packed + 256


def test_data_in_16_bits():
    given = model(*CASES["4 bits, a zero point a block, bias"], level=0)
    for value in (*given.graph.input, *given.graph.output):
        value.type.tensor_type.elem_type = TensorProto.FLOAT16
    for tensor in given.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(
                numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float16), tensor.name)
            )
    imported = import_model(given)
    x = np.random.default_rng(3).normal(size=imported.inputs[0].shape).astype(np.float16)
    (found,), ((expected,), _) = module_runner(imported.mod)([x]), imported.reference([x])
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-3 * np.abs(expected).max())
    assert [gv for gv in imported.mod.get_global_vars() if "float_linear_blocks" in gv.name_hint]


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("zeros", [False, True])
def test_rows_of_tables_are_those_of_onnxruntime(bits: int, zeros: bool, tmp_path):
    rng, (n, k, block) = np.random.default_rng(2), (37, 96, 32)
    held = {
        "q": rng.integers(0, 256, (n, k * bits // 8)).astype(np.uint8),
        "i": np.array([[0, 36, -1], [5, -37, 7]], np.int64),
        "s": (rng.random((n, k // block)) * 0.02).astype(np.float32),
        "z": rng.integers(0, 256, (n, -(-(k // block) * bits // 8))).astype(np.uint8),
    }
    attributes = {"bits": bits, "block_size": block, "quantize_axis": 1, "gather_axis": 0}
    inputs = ["q", "i", "s", *(["z"] if zeros else [])]
    node = helper.make_node(
        "GatherBlockQuantized", inputs, ["y"], name="rows", domain="com.microsoft", **attributes
    )
    ends = (
        [helper.make_tensor_value_info("i", TensorProto.INT64, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3, k])],
    )
    arrays = [numpy_helper.from_array(held[name], name) for name in inputs if name != "i"]
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "graph", *ends, arrays)
    given = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    imported = import_model(given)
    (found,), ((expected,), _) = module_runner(imported.mod)([held["i"]]), imported.reference([held["i"]])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * np.abs(expected).max())
    if not zeros:
        return
    result = arm_ext.compile(given, "cortex-a76", tmp_path / "p")
    assert "gather_blocks" in {kernel.kernel for kernel in result.report.kernels}
    assert result.package.manifest.memory.weight_bytes <= 48 * (k * bits // 8 + 2 * 4 * 3) + 256
