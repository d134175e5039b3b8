# SPDX-License-Identifier: Apache-2.0
"""QDQ models of int16 activations and int8 weights: the board against the definition, and against onnxruntime."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import arm_ext
from arm_ext.board import Board
from arm_ext.frontends.onnx.reference import run_onnxruntime

CHANNELS, COLUMNS = 9, 17

CONVOLUTIONS = {
    "pointwise": ((COLUMNS, CHANNELS, 1, 1), {}),
    "padded": ((31, CHANNELS, 3, 3), {"pads": [1, 1, 1, 1]}),
    "strided": ((7, CHANNELS, 3, 3), {"strides": [2, 2], "pads": [0, 1, 1, 0]}),
}


def model(zero_point: int, folder: Path) -> Path:
    """Three convolutions and a linear layer of one input, each with a scale per output channel."""
    rng, constants, nodes = np.random.default_rng(5), [], []
    outputs = []

    def constant(name: str, value: np.ndarray) -> str:
        constants.append(numpy_helper.from_array(value, name))
        return name

    def quantized(name: str, source: str, scale: float) -> None:
        pair = [constant(f"{name}_s", np.float32(scale)), constant(f"{name}_z", np.int16(zero_point))]
        nodes.append(helper.make_node("QuantizeLinear", [source, *pair], [f"{name}_q"], name=f"{name}/q"))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", *pair], [name], name=f"{name}/dq"))

    def weights(name: str, shape: tuple[int, ...], axis: int) -> str:
        scales = (0.004 * (1 + np.arange(shape[axis]) % 3)).astype(np.float32)
        inputs = [
            constant(f"{name}_q", rng.integers(-128, 128, shape).astype(np.int8)),
            constant(f"{name}_s", scales),
            constant(f"{name}_z", np.zeros(shape[axis], np.int8)),
        ]
        nodes.append(helper.make_node("DequantizeLinear", inputs, [name], name=f"{name}/dq", axis=axis))
        return name

    def result(name: str) -> None:
        quantized(f"{name}_out", name, 1 / 2048)
        outputs.append(helper.make_tensor_value_info(f"{name}_out_q", TensorProto.INT16, None))

    quantized("x1", "x", 1 / 8192)
    for name, (shape, window) in CONVOLUTIONS.items():
        nodes.append(
            helper.make_node("Conv", ["x1", weights(f"{name}_w", shape, 0)], [name], name=name, **window)
        )
        result(name)
    nodes.append(helper.make_node("Transpose", ["x1"], ["last"], name="last", perm=[0, 2, 3, 1]))
    nodes.append(
        helper.make_node("MatMul", ["last", weights("linear_w", (CHANNELS, 8), 1)], ["linear"], name="linear")
    )
    result("linear")
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, CHANNELS, 8, 7])
    graph = helper.make_graph(nodes, "g", [x], outputs, constants)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10),
        folder / "m.onnx",
    )
    return folder / "m.onnx"


@pytest.mark.parametrize("zero_point", [0, -1001])
def test_products_are_integers_of_kernels_and_equal_the_definition(
    zero_point: int, tmp_path: Path, board: Board
):
    path = model(zero_point, tmp_path)
    x = np.random.default_rng(6).normal(0, 1.5, (1, CHANNELS, 8, 7)).astype(np.float32)
    compiled = arm_ext.compile(path, output=tmp_path / "p", inputs=[x])
    assert compiled.report.left_float == ()
    kernels = {node.source: node.kernel for node in compiled.report.nodes}
    assert {kernels[name] for name in (*CONVOLUTIONS, "linear")} == {"gemm_s8_sdot"}
    outputs = board.load(compiled.package.so).run([x])
    expected = compiled.package.selftest().expected
    # onnxruntime has no integer kernels for int16: it computes in float32, and rounds a tie otherwise now and then.
    theirs = run_onnxruntime(path.read_bytes(), [x], integers=False)
    for ours, definition, other in zip(outputs, expected, theirs, strict=True):
        assert len(np.unique(ours)) > 40
        np.testing.assert_array_equal(ours, definition)
        assert np.abs(ours.astype(int) - other.astype(int)).max() <= 1
