# SPDX-License-Identifier: Apache-2.0
"""Which models compute each sample by itself, operator by operator; and what is said of the others."""

from collections.abc import Mapping

import numpy as np
import onnx
import pytest
from onnx import helper

from arm_ext.frontends.onnx.importer import import_onnx
from relay_passes.batching.batch_independence import check_batch_independence
from tests.arm_ext.models import mlp, model, residual_cnn

COUNT = 3
node = helper.make_node
RNG = np.random.default_rng(0)


def ints(*values: int) -> np.ndarray:
    return np.array(values)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, np.float32)


ROWS = [node("Reshape", ["x", "flat"], ["rows"], name="flatten"), node("Reshape", ["normed", "back"], ["y"])]
ROW_SHAPES = {"flat": ints(-1, 6), "back": ints(-1, 4, 6)}
LSTM_WEIGHTS = {"w": floats(1, 12, 2), "r": floats(1, 12, 3), "one": ints(1)}

# (nodes, shape of a sample, weights)
APART: dict[str, tuple[list[onnx.NodeProto], tuple[int, ...], Mapping[str, np.ndarray]]] = {
    "softmax along the features": ([node("Softmax", ["x"], ["y"], axis=1)], (4,), {}),
    "flattened": ([node("Reshape", ["x", "s"], ["y"])], (4, 6), {"s": ints(-1, 24)}),
    "rows of all samples": (
        [ROWS[0], node("Softmax", ["rows"], ["normed"], axis=1), ROWS[1]],
        (4, 6),
        ROW_SHAPES,
    ),
    "samples along another axis between": (
        [
            node("Transpose", ["x"], ["t"], perm=[1, 0, 2]),
            node("Relu", ["t"], ["p"]),
            node("Transpose", ["p"], ["y"], perm=[1, 0, 2]),
        ],
        (4, 6),
        {},
    ),
    "products of a sample with itself": (
        [node("Transpose", ["x"], ["t"], perm=[0, 2, 1]), node("MatMul", ["x", "t"], ["y"])],
        (4, 6),
        {},
    ),
    "cumulated along the features": ([node("CumSum", ["x", "k"], ["y"])], (5,), {"k": np.array(1)}),
    "the place of the greatest feature": (
        [node("ArgMax", ["x"], ["i"], axis=1), node("Cast", ["i"], ["y"], to=onnx.TensorProto.FLOAT)],
        (5,),
        {},
    ),
    "resized": (
        [node("Resize", ["x", "", "s"], ["y"], mode="linear")],
        (2, 4, 4),
        {"s": np.array([1, 1, 2, 2], np.float32)},
    ),
    "clipped and padded": (
        [node("Clip", ["x", "lo", "hi"], ["c"]), node("Pad", ["c", "p"], ["y"])],
        (4,),
        {"lo": np.array(0, np.float32), "hi": np.array(6, np.float32), "p": ints(0, 1, 0, 1)},
    ),
    "a state of zeros a sample": (
        [node("LSTM", ["x", "w", "r"], ["", "h"], hidden_size=3, layout=1), node("Squeeze", ["h", "one"], ["y"])],
        (4, 2),
        LSTM_WEIGHTS,
    ),
}  # fmt: skip
MIXED: dict[str, tuple[list[onnx.NodeProto], tuple[int, ...], Mapping[str, np.ndarray], str]] = {
    "softmax along the samples": ([node("Softmax", ["x"], ["y"], "sm", axis=0)], (4,), {}, "sm: a sample of"),
    "rows of all samples normed together": (
        [ROWS[0], node("Softmax", ["rows"], ["normed"], "sm", axis=0), ROWS[1]],
        (4, 6),
        ROW_SHAPES,
        "sm: a sample of its output reads other samples",
    ),
    "mean of the samples": (
        [node("ReduceSum", ["x", "k"], ["s"], "rs"), node("Add", ["x", "s"], ["y"])],
        (4,),
        {"k": ints(0)},
        "rs: a sample of",
    ),
    "products of samples with each other": (
        [node("Transpose", ["x"], ["t"], perm=[1, 0]), node("MatMul", ["x", "t"], ["y"], "mm")],
        (4,),
        {},
        "mm: a sample of",
    ),
    "the first sample for all": (
        [node("Slice", ["x", "a", "b", "c"], ["s"], "sl"), node("Sub", ["x", "s"], ["y"])],
        (4,),
        {"a": ints(0), "b": ints(1), "c": ints(0)},
        "sl: a sample of",
    ),
    "twice as many samples": ([node("Concat", ["x", "x"], ["y"], "cc", axis=0)], (4,), {}, "cc: a sample of"),
    "the place of the greatest sample": (
        [
            node("ArgMax", ["x"], ["i"], "am", axis=0),
            node("Cast", ["i"], ["f"], to=onnx.TensorProto.FLOAT),
            node("Add", ["x", "f"], ["y"]),
        ],
        (4,),
        {},
        "am: a sample of",
    ),
    "cumulated along the samples": (
        [node("CumSum", ["x", "k"], ["y"], "cs")],
        (4,),
        {"k": np.array(0)},
        "cs: it operates along the batch axis",
    ),
    "divided by their number": (
        [
            node("Shape", ["x"], ["s"], end=1),
            node("Cast", ["s"], ["f"], to=onnx.TensorProto.FLOAT),
            node("Div", ["x", "f"], ["y"], "dv"),
        ],
        (4,),
        {},
        "dv: it differs between one sample and several",
    ),
    "samples along the second axis of the output": (
        [node("Transpose", ["x"], ["y"], perm=[1, 0])],
        (4,),
        {},
        "an output has no samples along its first axis",
    ),
}


def apart(proto: onnx.ModelProto, sample: tuple[int, ...]) -> str:
    one, several = (import_onnx(proto, {"x": (n, *sample)}).mod for n in (1, COUNT))
    return str(check_batch_independence(one, several, [0], COUNT) or "")


@pytest.mark.parametrize("name", APART)
def test_apart(name: str):
    nodes, sample, weights = APART[name]
    assert not apart(model(nodes, {"x": ["n", *sample]}, ["y"], dict(weights)), sample)


@pytest.mark.parametrize("name", MIXED)
def test_mixed(name: str):
    nodes, sample, weights, reason = MIXED[name]
    assert reason in apart(model(nodes, {"x": ["n", *sample]}, ["y"], dict(weights)), sample)


def test_networks():
    assert not apart(mlp("n"), (31,))
    cnn = residual_cnn()
    cnn.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    assert not apart(cnn, (3, 9, 7))
