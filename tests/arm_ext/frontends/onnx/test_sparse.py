# SPDX-License-Identifier: Apache-2.0
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from arm_ext.common.errors import ModelError, UsageError
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.pipeline.selftest import run_on_host


def product(values: list[float], indices: object, dims: list[int]) -> onnx.ModelProto:
    """x @ w of a sparse w."""
    w = helper.make_sparse_tensor(
        numpy_helper.from_array(np.array(values, np.float32), "w"),
        numpy_helper.from_array(np.array(indices, np.int64), "w_indices"),
        dims,
    )
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy"]
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = helper.make_graph([node], "g", ends[:1], ends[1:], sparse_initializer=[w])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


@pytest.mark.parametrize("indices", [[0, 5, 7], [[0, 0], [1, 2], [2, 1]]], ids=["flat", "by axis"])
def test_values_are_at_their_indices(indices: object):
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    (found,) = run_on_host(import_onnx(product([1, 2, 3], indices, [3, 3])).mod, [x])
    np.testing.assert_array_equal(found, x @ np.array([[1, 0, 0], [0, 0, 2], [0, 3, 0]], np.float32))


@pytest.mark.parametrize(
    ("indices", "says"),
    [
        ([0, 9, 7], r"has the index \[9\], which is out of range of its dims \[3, 3\]"),
        ([[0, 0], [1, 3], [2, 1]], r"has the index \[1, 3\]"),
        ([0, -1, 7], r"has the index \[-1\]"),
        ([0, 5], "has 3 values and indices of the shape"),
        ([0, 5, 5], "has two values of the same index"),
    ],
)
def test_indices_that_contradict_the_dims_are_refused_by_the_name(indices: object, says: str):
    with pytest.raises(UsageError, match=f"sparse initializer 'w' {says}"):
        import_onnx(product([1, 2, 3], indices, [3, 3]))


def test_one_that_would_fill_memory_is_refused():
    with pytest.raises(ModelError, match="sparse initializer 'w'"):
        import_onnx(product([1, 2, 3], [0, 5, 7], [2**30, 2**30]))
