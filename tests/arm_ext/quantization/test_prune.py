# SPDX-License-Identifier: Apache-2.0
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from arm_ext.quantization.prune import prune_two_of_four, pruned

Array = np.ndarray[Any, Any]


def by_hand(row: list[float]) -> list[float]:
    """Keep the two largest of each four, in plain Python."""
    groups = [row[first : first + 4] for first in range(0, len(row), 4)]
    kept = [sorted(range(len(g)), key=lambda i: -abs(g[i]))[:2] for g in groups]
    return [
        value if i in keep else 0.0 for g, keep in zip(groups, kept, strict=True) for i, value in enumerate(g)
    ]


@pytest.mark.parametrize("count", [8, 9, 10, 11, 12])
@pytest.mark.parametrize("axis", [0, 1])
def test_two_of_each_four_stay(count: int, axis: int):
    weights = np.random.default_rng(0).normal(size=(5, count)).astype("float32")
    expected = np.array([by_hand(row) for row in weights.tolist()], "float32")
    found = pruned(weights if axis else weights.T, axis)
    np.testing.assert_array_equal(found if axis else found.T, expected)


def test_of_equal_weights_the_first_stay():
    assert pruned(np.ones((1, 8), "float32"), 1).tolist() == [[1, 1, 0, 0, 1, 1, 0, 0]]


def test_pruned_weights_stay_as_they_are():
    once = pruned(np.random.default_rng(0).normal(size=(4, 9, 3, 3)), 1)
    np.testing.assert_array_equal(pruned(once, 1), once)


def net(**weights: tuple[int, ...]) -> onnx.ModelProto:
    """A model with these weights: conv, deep (depthwise), image, gemm, turned (a Gemm with transB), matmul."""
    rng = np.random.default_rng(0)
    nodes = {
        "conv": helper.make_node("Conv", ["x", "conv"], ["c"], name="conv"),
        "deep": helper.make_node("Conv", ["x", "deep"], ["d"], name="deep", group=16),
        "image": helper.make_node("Conv", ["i", "image"], ["e"], name="image"),
        "gemm": helper.make_node("Gemm", ["r", "gemm"], ["g"], name="gemm"),
        "turned": helper.make_node("Gemm", ["r", "turned"], ["t"], name="turned", transB=1),
        "matmul": helper.make_node("MatMul", ["r", "matmul"], ["m"], name="matmul"),
        "again": helper.make_node("MatMul", ["r", "twice"], ["a"], name="again"),
        "twice": helper.make_node("MatMul", ["r", "twice"], ["b"], name="twice"),
    }
    held = [numpy_helper.from_array(rng.normal(size=s).astype("float32"), n) for n, s in weights.items()]
    used = [node for node in nodes.values() if node.input[1] in weights]
    return helper.make_model(helper.make_graph(used, "net", [], [], held))


def test_products_are_pruned_along_what_they_sum_over():
    model = net(conv=(8, 16, 3, 3), gemm=(16, 8), turned=(8, 16), matmul=(16, 8))
    out, names = prune_two_of_four(model)
    assert names == ("conv", "gemm", "turned", "matmul")
    before, after = (
        {t.name: numpy_helper.to_array(t) for t in each.graph.initializer} for each in (model, out)
    )
    for name, axis in {"conv": 1, "gemm": 0, "turned": 1, "matmul": 0}.items():
        np.testing.assert_array_equal(after[name], pruned(before[name], axis))
        assert np.mean(after[name] == 0) == 0.5


def test_what_the_npu_does_not_multiply_so_is_left_alone():
    """Depthwise convolutions, those of an image's channels, and weights that two nodes read."""
    model = net(deep=(16, 1, 3, 3), image=(8, 3, 3, 3), twice=(16, 16))
    out, names = prune_two_of_four(model)
    assert names == ()
    assert out == model
