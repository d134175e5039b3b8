# SPDX-License-Identifier: Apache-2.0
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from arm_ext.frontends.load import import_model
from arm_ext.report.advice.onnx_sizes import just_above, resized, sizes_above_blocks
from tests.arm_ext.models import model

RNG = np.random.default_rng(0)


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


def encoder(length: int) -> onnx.ModelProto:
    """Tokens, embeddings of words and positions, and a reshape to heads and back, with the length in constants."""
    width, words = 12, 50
    nodes = [
        helper.make_node("Gather", ["words", "tokens"], ["e"], name="embed"),
        helper.make_node("Add", ["e", "positions"], ["p"], name="place"),
        helper.make_node("Reshape", ["p", "split"], ["h"], name="heads"),
        helper.make_node("Transpose", ["h"], ["t"], name="transpose", perm=[0, 2, 1, 3]),
        helper.make_node("MatMul", ["t", "w"], ["y"], name="fc"),
    ]
    constants = {
        "words": RNG.standard_normal((words, width), dtype=np.float32),
        "positions": RNG.standard_normal((1, length, width), dtype=np.float32),
        "split": np.array([1, length, 3, 4], np.int64),
        "w": RNG.standard_normal((4, length), dtype=np.float32),  # columns are no sequence
    }
    graph = helper.make_graph(
        nodes,
        "encoder",
        [helper.make_tensor_value_info("tokens", TensorProto.INT64, [1, length])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3, length, length])],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_constants_of_the_length_are_cut_and_weights_are_not() -> None:
    proto = encoder(33)
    (size,) = sizes_above_blocks(import_model(proto))
    assert (size.kind, size.size, size.smaller, size.block, size.inputs) == (
        "sequence",
        33,
        32,
        32,
        ("tokens",),
    )
    changed = resized(proto, size)
    assert changed is not None
    assert changed.what == "sequence 33 → 32"
    session = onnxruntime.InferenceSession(
        changed.model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    (found,) = session.run(None, {"tokens": np.zeros((1, 32), np.int64)})
    assert np.asarray(found).shape == (1, 3, 32, 33)


def test_features_are_no_sequence() -> None:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="fc")]
    proto = model(nodes, {"x": [9, 33]}, ["y"], {"w": np.ones((33, 4), np.float32)})
    (size,) = sizes_above_blocks(import_model(proto))
    assert (size.kind, size.size, size.smaller) == ("batch", 9, 8)


def test_a_size_that_contradicts_others_stays() -> None:
    nodes = [helper.make_node("MatMul", ["w", "x"], ["y"], name="fc")]
    proto = model(nodes, {"x": [1, 33, 8]}, ["y"], {"w": np.ones((4, 33), np.float32)})
    (size,) = sizes_above_blocks(import_model(proto))
    assert resized(proto, size) is None


def test_frames_of_a_convolution_are_its_last_axis() -> None:
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], name="conv")]
    proto = model(nodes, {"x": [1, 33, 65]}, ["y"], {"w": np.ones((4, 33, 1), np.float32)})
    (size,) = sizes_above_blocks(import_model(proto))
    assert (size.axis, size.size) == (2, 65)
