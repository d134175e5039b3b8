# SPDX-License-Identifier: Apache-2.0
"""Packages that take any number of samples."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper
from tvm import relax

import arm_ext
from arm_ext.api.compile import CompileResult
from arm_ext.common.errors import ModelError, UsageError
from arm_ext.package import SO
from tests.arm_ext.models import mlp, model, residual_cnn


def cnn() -> onnx.ModelProto:
    proto = residual_cnn()
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    return proto


def shared() -> onnx.ModelProto:
    """One input has samples, the other is the same for all; rows may be 3 or 8."""
    nodes = [helper.make_node("Add", ["x", "all"], ["s"]), helper.make_node("Softmax", ["s"], ["y"], axis=1)]
    return model(nodes, {"x": ["n", "r", 5], "all": ["r", 5]}, ["y"])


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> CompileResult:
    out = tmp_path_factory.mktemp("batch") / "p"
    return arm_ext.compile(cnn(), "host", out, shapes={"x": ("n", 3, 9, 7)})


def main(package: Path) -> Callable[..., list[np.ndarray]]:
    vm = relax.VirtualMachine(tvm.runtime.load_module(str(package / SO)), tvm.cpu())

    def call(*inputs: np.ndarray) -> list[np.ndarray]:
        result = vm["main"](*map(tvm.runtime.tensor, inputs))
        return [v.numpy() for v in ([result] if isinstance(result, tvm.runtime.Tensor) else result)]

    return call


def test_samples_equal_those_computed_alone(compiled: CompileResult, tmp_path: Path):
    alone = main(arm_ext.compile(cnn(), "host", tmp_path / "p", shapes={"x": (1, 3, 9, 7)}).package.path)
    together = main(compiled.package.path)
    for count in (1, 2, 7, 9):
        x = np.random.default_rng(count).standard_normal((count, 3, 9, 7), np.float32)
        parts = zip(*(alone(x[i : i + 1]) for i in range(count)), strict=True)
        for found, expected in zip(together(x), parts, strict=True):
            assert found.tobytes() == np.concatenate(expected).tobytes()


def test_board_checks_against_the_sources_runtime_and_runs_any_number(tmp_path: Path):
    package = arm_ext.compile(mlp("n"), output=tmp_path / "p", shapes={"x": ("n", 31)}).package
    (check,) = arm_ext.run(package, check=True).checks
    assert check.passed
    assert check.source is not None
    assert check.source.relative < 1e-5
    (output,) = arm_ext.run(package, inputs={"x": np.zeros((5, 31), np.float32)}).outputs.values()
    assert output.shape == (5, 7)


def test_run_refuses_other_samples_before_a_board_starts(compiled: CompileResult):
    with pytest.raises(UsageError, match=r"shape is \[5, 3, 9, 8\], the model takes \[n, 3, 9, 7\]"):
        arm_ext.run(compiled.package, "host:1", inputs={"x": np.zeros((5, 3, 9, 8), np.float32)})


def test_manifest_names_the_dimension(compiled: CompileResult):
    manifest = compiled.package.manifest
    assert [tensor.batch for tensor in (*manifest.inputs, *manifest.outputs)] == ["n"] * 3
    assert manifest.inputs[0].spec().describe() == "x float32[n, 3, 9, 7]"


def test_batch_and_buckets_in_one(tmp_path: Path):
    shapes = {"x": ("n", [3, 8], 5), "all": ([3, 8], 5)}
    call = main(arm_ext.compile(shared(), "host", tmp_path / "p", shapes=shapes).package.path)
    for rows, count in ((3, 2), (8, 7), (3, 1)):
        x, offset = (
            np.zeros((count, rows, 5), np.float32),
            np.arange(rows * 5, dtype=np.float32).reshape(rows, 5),
        )
        (found,) = call(x, offset)
        wanted = np.exp(offset) / np.exp(offset).sum(0)
        np.testing.assert_allclose(found, np.broadcast_to(wanted, found.shape), rtol=1e-5)
    with pytest.raises(ValueError, match=r"x float32\[n, 3, 5\].*x float32\[n, 8, 5\]"):
        call(np.zeros((2, 4, 5), np.float32), np.zeros((4, 5), np.float32))


def test_mixed_samples_are_refused_by_node(tmp_path: Path):
    proto = model([helper.make_node("Softmax", ["x"], ["y"], "sm", axis=0)], {"x": ["n", 4]}, ["y"])
    with pytest.raises(ModelError, match=r"sm: a sample of its output.*shapes 'x=\{1,8\},4'"):
        arm_ext.compile(proto, "host", tmp_path / "p", shapes={"x": ("n", 4)})
    assert not (tmp_path / "p").exists()


def test_a_model_of_one_sample_is_refused(tmp_path: Path):
    nodes = [helper.make_node("Reshape", ["x", "s"], ["y"], "re")]
    proto = model(nodes, {"x": ["n", 4]}, ["y"], {"s": np.array([1, 2, 2])})
    with pytest.raises(ModelError, match=r"its samples cannot be computed one by one.*re"):
        arm_ext.compile(proto, "host", tmp_path / "p", shapes={"x": ("n", 4)})


def test_a_model_of_a_fixed_number_is_refused(tmp_path: Path):
    nodes = [helper.make_node("Reshape", ["x", "s"], ["y"], "re")]
    proto = model(nodes, {"x": [1, 31]}, ["y"], {"s": np.array([1, 31])})
    with pytest.raises(ModelError, match="it does not take 3 of them"):
        arm_ext.compile(proto, "host", tmp_path / "p", shapes={"x": ("n", 31)})


def test_a_model_that_declares_one_sample_takes_any_number(tmp_path: Path):
    result = arm_ext.compile(mlp(1), "host", tmp_path / "p", shapes={"x": ("n", 31)})
    assert result.package.manifest.inputs[0].batch == "n"
