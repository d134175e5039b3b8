# SPDX-License-Identifier: Apache-2.0
"""Small ONNX models of sequences whose length is open."""

import numpy as np
import onnx
from onnx import helper

from tests.arm_ext.models import model

WIDTH, HEADS = 16, 2


def transformer() -> onnx.ModelProto:
    """Return attention over x [1, n, 16] with embeddings of up to 64 positions, a residual and a layer norm."""
    rng = np.random.default_rng(3)
    weights = {name: rng.standard_normal((WIDTH, WIDTH), np.float32) / 4 for name in ("q", "k", "v", "o")}
    weights |= {
        "positions": rng.standard_normal((64, WIDTH), np.float32),
        "gamma": rng.standard_normal(WIDTH, np.float32),
        "scale": np.array(0.35, np.float32),
        "heads": np.array([1, -1, HEADS, WIDTH // HEADS]),
        "joined": np.array([1, -1, WIDTH]),
        "zero": np.array([0]),
        "one": np.array([1]),
    }
    nodes = [
        helper.make_node("Shape", ["x"], ["sizes"], name="sizes"),
        helper.make_node("Gather", ["sizes", "one"], ["n"], name="length"),
        helper.make_node("Slice", ["positions", "zero", "n"], ["p"], name="slice"),
        helper.make_node("Add", ["x", "p"], ["e"], name="embed"),
    ]
    for name, axes in (("q", [0, 2, 1, 3]), ("k", [0, 2, 3, 1]), ("v", [0, 2, 1, 3])):
        nodes += [
            helper.make_node("MatMul", ["e", name], [f"{name}_all"], name=f"{name}/MatMul"),
            helper.make_node("Reshape", [f"{name}_all", "heads"], [f"{name}_heads"], name=f"{name}/Reshape"),
            helper.make_node("Transpose", [f"{name}_heads"], [f"{name}_t"], name=f"{name}/T", perm=axes),
        ]
    nodes += [
        helper.make_node("MatMul", ["q_t", "k_t"], ["scores"], name="scores"),
        helper.make_node("Mul", ["scores", "scale"], ["scaled"], name="scaled"),
        helper.make_node("Softmax", ["scaled"], ["shares"], name="shares", axis=-1),
        helper.make_node("MatMul", ["shares", "v_t"], ["mixed"], name="mixed"),
        helper.make_node("Transpose", ["mixed"], ["mixed_t"], name="mixed/T", perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["mixed_t", "joined"], ["together"], name="together"),
        helper.make_node("MatMul", ["together", "o"], ["out"], name="out"),
        helper.make_node("Add", ["e", "out"], ["sum"], name="residual"),
        helper.make_node("LayerNormalization", ["sum", "gamma"], ["y"], name="norm", axis=-1),
    ]
    return model(nodes, {"x": [1, "n", WIDTH]}, ["y"], weights)


def moved() -> onnx.ModelProto:
    """A product with weights of each position, whose outputs have more or fewer positions: n + 3, 2 n, 2 n - 1, 1."""
    rng = np.random.default_rng(8)
    weights = {
        "w": rng.standard_normal((WIDTH, WIDTH), np.float32) / 4,
        "pads": np.array([0, 1, 0, 0, 2, 0]),
        "one": np.array([1]),
        "none": np.array([0]),
        "end": np.array([2**63 - 1]),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], name="product"),
        helper.make_node("Pad", ["h", "pads"], ["padded"], name="pad"),
        helper.make_node("Concat", ["h", "x"], ["joined"], name="join", axis=1),
        helper.make_node("Slice", ["joined", "one", "end", "one"], ["rest"], name="rest"),
        helper.make_node("MatMul", ["rest", "w"], ["again"], name="again"),
        helper.make_node("Slice", ["h", "none", "one", "one"], ["first"], name="first"),
    ]
    return model(nodes, {"x": [1, "n", WIDTH]}, ["padded", "joined", "again", "first"], weights)


def convolution() -> onnx.ModelProto:
    """Return two 1-D convolutions over x [1, 8, n], the second of stride 2, and the mean of what they give."""
    rng = np.random.default_rng(4)
    weights = {
        "w": rng.standard_normal((12, 8, 3), np.float32) / 5,
        "b": rng.standard_normal(12, np.float32),
        "w2": rng.standard_normal((8, 12, 3), np.float32) / 5,
    }
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], name="conv", pads=[1, 1]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("Conv", ["r", "w2"], ["d"], name="down", pads=[1, 1], strides=[2]),
        helper.make_node("ReduceMean", ["d"], ["m"], name="mean", axes=[2], keepdims=0),
    ]
    return model(nodes, {"x": [1, 8, "n"]}, ["d", "m"], weights)


def recurrent() -> onnx.ModelProto:
    """Return an LSTM over x [n, 1, 5], whose kernel has a number of steps."""
    rng = np.random.default_rng(5)
    weights = {
        "w": rng.standard_normal((1, 24, 5), np.float32),
        "r": rng.standard_normal((1, 24, 6), np.float32),
    }
    nodes = [helper.make_node("LSTM", ["x", "w", "r"], ["y"], name="lstm", hidden_size=6)]
    return model(nodes, {"x": ["n", 1, 5]}, ["y"], weights)
