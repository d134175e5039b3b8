# SPDX-License-Identifier: Apache-2.0
"""Integer weights beside float data: which stay integers, and how one is told of the others."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import arm_ext
from arm_ext.cli import invoke
from arm_ext.common.errors import ModelError
from arm_ext.pipeline.selftest import module_runner

RNG = np.random.default_rng(0)


def model(
    node: onnx.NodeProto, x: list[int], y: list[int], weights: np.ndarray, zeros: bool, axis: int
) -> onnx.ModelProto:
    """An operator whose weights `w` are dequantised."""
    count = weights.shape[axis]
    held = {"W": weights, "s": RNG.uniform(0.001, 0.01, count).astype(np.float32)}
    if zeros:
        info = np.iinfo(weights.dtype)
        held["z"] = RNG.integers(info.min, info.max + 1, count).astype(weights.dtype)
    nodes = [helper.make_node("DequantizeLinear", [*held], ["w"], "dequantize", axis=axis), node]
    ends = ([helper.make_tensor_value_info(name, 1, shape)] for name, shape in (("x", x), ("y", y)))
    arrays = [numpy_helper.from_array(array, name) for name, array in held.items()]
    graph = helper.make_graph(nodes, "graph", *ends, arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def convolution() -> onnx.ModelProto:
    node = helper.make_node("Conv", ["x", "w"], ["y"], "conv", pads=[1] * 4)
    weights = RNG.integers(-127, 128, (16, 8, 3, 3)).astype(np.int8)
    return model(node, [1, 8, 9, 9], [1, 16, 9, 9], weights, zeros=False, axis=0)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("transposed", [False, True])
def test_products_keep_integers_with_zero_points(dtype: type, transposed: bool, tmp_path: Path):
    node = helper.make_node("Gemm", ["x", "w"], ["y"], "fc", transB=int(transposed))
    info, shape = np.iinfo(dtype), (31, 70) if transposed else (70, 31)
    weights = RNG.integers(info.min, info.max + 1, shape).astype(dtype)
    given = model(node, [3, 70], [3, 31], weights, zeros=True, axis=0 if transposed else 1)
    result = arm_ext.compile(given, "cortex-a76", tmp_path / "p")
    assert {row.kernel for row in result.report.kernels} == {"gemm_blocks_f32"}
    assert result.package.manifest.memory.weight_bytes <= 32 * 72 + 3 * 4 * 32 + 256
    assert result.report.unpacked == ()
    imported = arm_ext.frontends.load.import_model(given)
    x = RNG.normal(size=(3, 70)).astype(np.float32)
    (expected,), _ = imported.reference([x])
    (found,) = module_runner(imported.mod)([x])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_what_becomes_float_is_told(tmp_path: Path):
    result = arm_ext.compile(convolution(), "cortex-a76", tmp_path / "p")
    (told,) = result.report.unpacked
    assert (told.nodes, told.operator) == (("conv",), "nn.conv2d")
    # A kernel of constant weights, and not one that dequantises them at each run.
    assert "generic" not in {row.kernel for row in result.report.kernels}
    assert result.package.manifest.memory.weight_bytes >= 16 * 8 * 9 * 4
    text = (tmp_path / "p" / "report.txt").read_text()
    assert "Integer weights that became float (1):" in text
    assert "nn.conv2d: no kernel reads int8 weights beside its data, which is float" in text


def test_it_can_be_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    message = r"^fail_on_unpacked: the integer weights of 1 operator became float32.*\n  conv: nn\.conv2d: no kernel"
    with pytest.raises(ModelError, match=message):
        arm_ext.compile(convolution(), "cortex-a76", tmp_path / "p", fail_on_unpacked=True)
    onnx.save(convolution(), tmp_path / "m.onnx")
    given = [str(tmp_path / "m.onnx"), "--target", "cortex-a76", "-o", str(tmp_path / "p")]
    assert invoke(["compile", *given, "--fail-on-unpacked"]) == 1
    assert "--fail-on-unpacked: the integer weights of 1 operator" in capsys.readouterr().err
    assert not (tmp_path / "p").exists()
