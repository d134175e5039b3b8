# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from torch.nn import functional

from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.load import import_model
from arm_ext.report.advice.smaller_sizes import just_above, resized, sizes_above_blocks
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder
from tests.arm_ext.report.advice.formats import (
    computed,
    from_onnx,
    from_tflite,
    from_torch,
    prepared,
    weights,
)


@pytest.mark.parametrize(
    ("size", "below"),
    [
        *((size, None) for size in (1, 7, 8, 10, 31, 35, 64, 128)),
        (9, (8, 8)),
        (33, (32, 32)),
        (34, (32, 32)),
        (41, (40, 8)),
        (65, (64, 64)),
        (68, (64, 64)),
        (129, (128, 64)),
    ],
)
def test_sizes_just_above_a_block(size: int, below: tuple[int, int] | None) -> None:
    assert just_above(size) == below


def encoder(length: int) -> ImportedModel:
    """Tokens, embeddings of words and positions, and a reshape to heads and back, with the length in constants."""
    width, words = 12, 50
    nodes = [
        helper.make_node("Gather", ["words", "tokens"], ["e"], name="embed"),
        helper.make_node("Add", ["e", "positions"], ["p"], name="place"),
        helper.make_node("Reshape", ["p", "split"], ["h"], name="heads"),
        helper.make_node("Transpose", ["h"], ["t"], name="transpose", perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["t", "rows"], ["r"], name="rows"),
        helper.make_node("MatMul", ["r", "w"], ["y"], name="fc"),
    ]
    constants = {
        "words": weights(words, width),
        "positions": weights(1, length, width),
        "split": np.array([1, length, 3, 4], np.int64),
        "rows": np.array([3 * length, 4], np.int64),
        "w": weights(4, length),  # columns are no sequence
    }
    graph = helper.make_graph(
        nodes,
        "encoder",
        [helper.make_tensor_value_info("tokens", TensorProto.INT64, [1, length])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3 * length, length])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return prepared(
        import_model(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9))
    )


def test_constants_of_the_length_are_cut_and_weights_are_not() -> None:
    given = encoder(33)
    (size,) = sizes_above_blocks(given)
    assert (size.kind, size.size, size.smaller, size.block, size.inputs) == (
        "sequence",
        33,
        32,
        32,
        ("tokens",),
    )
    changed = resized(given, size)
    assert changed is not None
    assert (changed.what, changed.sources) == ("sequence 33 → 32", ("tokens",))
    assert [spec.shape for spec in (*changed.model.inputs, *changed.model.outputs)] == [(1, 32), (96, 33)]
    tokens = np.arange(33)[np.newaxis]
    whole = computed(given, tokens).reshape(3, 33, 33)
    # Each token is computed by itself.
    np.testing.assert_allclose(
        computed(changed.model, tokens[:, :32]), whole[:, :32].reshape(96, 33), rtol=1e-5
    )


def test_sizes_of_torch_and_tflite_are_made_smaller(tmp_path: Path) -> None:
    m = TfliteBuilder()
    x, half, y = m.take("float32", 1, 33, 8), m.tensor("float32", 33, 8), m.tensor("float32", 33, 4)
    m.op("RESHAPE", [x, m.hold([33, 8])], [half])
    m.op("FULLY_CONNECTED", [half, m.hold(weights(4, 8), "float32"), m.hold(weights(4), "float32")], [y])
    matrix = torch.from_numpy(weights(4, 8))
    for given in (
        from_tflite(m, tmp_path),
        from_torch(lambda x: functional.linear(x.reshape(33, 8), matrix), torch.zeros(1, 33, 8)),
    ):
        (size,) = sizes_above_blocks(given)
        changed = resized(given, size)
        assert changed is not None
        x = weights(1, 33, 8)
        np.testing.assert_allclose(
            computed(changed.model, x[:, :32].copy()), computed(given, x)[:32], rtol=1e-5, atol=1e-6
        )


def fc(shape: list[int], **constants: np.ndarray) -> ImportedModel:
    (name,) = constants
    read = ["x", name] if shape[-1] == len(constants[name]) else [name, "x"]
    return from_onnx([helper.make_node("MatMul", read, ["y"], name="fc")], shape, **constants)


def test_features_are_no_sequence() -> None:
    (size,) = sizes_above_blocks(fc([9, 33], w=np.ones((33, 4), np.float32)))
    assert (size.kind, size.size, size.smaller) == ("batch", 9, 8)


def test_a_size_that_contradicts_others_stays() -> None:
    given = fc([1, 33, 8], w=np.ones((4, 33), np.float32))
    (size,) = sizes_above_blocks(given)
    assert resized(given, size) is None


def test_frames_of_a_convolution_are_its_last_axis() -> None:
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv")
    (size,) = sizes_above_blocks(from_onnx([node], [1, 33, 65], w=np.ones((4, 33, 1), np.float32)))
    assert (size.axis, size.size) == (2, 65)


def test_a_bias_of_as_many_channels_keeps_them() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], name="fc"),
        helper.make_node("Add", ["m", "b"], ["y"], name="bias"),
    ]
    given, x = from_onnx(nodes, [1, 33, 8], w=weights(8, 33), b=weights(33)), weights(1, 33, 8)
    (size,) = sizes_above_blocks(given)
    changed = resized(given, size)
    assert changed is not None
    np.testing.assert_allclose(
        computed(changed.model, x[:, :32].copy()), computed(given, x)[:, :32], rtol=1e-5
    )
