# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest
import tvm
from onnx import helper
from tvm import relax

import arm_ext
from tests.arm_ext.models import model

VALUES = np.array([1, 2, 3], np.float32)


@pytest.mark.parametrize("outputs", [["c"], ["y", "c", "column"]])
def test_what_a_caller_writes_to_a_constant_output_does_not_stay(tmp_path: Path, outputs: list[str]):
    """`column` is another look at the constant's bytes."""
    nodes = [
        helper.make_node("Constant", [], ["c"], name="k", value=helper.make_tensor("c", 1, [3], VALUES)),
        helper.make_node("Reshape", ["c", "s"], ["column"], name="reshape"),
        helper.make_node("Add", ["x", "c"], ["y"], name="add"),
    ]
    proto = model(nodes, {"x": [1, 3]}, outputs, {"s": np.array([3, 1])})
    package = arm_ext.compile(proto, "host", tmp_path / "p").package
    vm = relax.VirtualMachine(tvm.runtime.load_module(str(package.so)), tvm.cpu())
    x = tvm.runtime.tensor(np.zeros((1, 3), np.float32))

    def run() -> list[tvm.runtime.Tensor]:
        result = vm["main"](x)
        return [result] if isinstance(result, tvm.runtime.Tensor) else list(result)

    for output in run():
        output.copyfrom(np.full(output.shape, 9, np.float32))
    for output in run():
        np.testing.assert_array_equal(output.numpy().ravel(), VALUES)
