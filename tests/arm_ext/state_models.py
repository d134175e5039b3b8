# SPDX-License-Identifier: Apache-2.0
"""Small models with states, as ONNX."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT8 = TensorProto.FLOAT, TensorProto.INT8

Shapes = Mapping[str, Sequence[int]]

INPUT, HIDDEN = 5, 7


def graph(
    nodes: list[onnx.NodeProto],
    inputs: Shapes,
    outputs: Shapes,
    constants: Mapping[str, np.typing.NDArray[np.generic]],
    of: int = FLOAT,
) -> onnx.ModelProto:
    """A model whose inputs and outputs are of one type."""
    values = [
        [helper.make_tensor_value_info(name, of, list(shape)) for name, shape in part.items()]
        for part in (inputs, outputs)
    ]
    held = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    made = helper.make_graph(nodes, "model", *values, held)
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def lstm(constants: Mapping[str, np.typing.NDArray[np.generic]] | None = None) -> onnx.ModelProto:
    """One layer; the states h and c stand in front of x, and their next values hn and cn around y."""
    rng = np.random.default_rng(0)
    shapes = {"W": (1, 4 * HIDDEN, INPUT), "R": (1, 4 * HIDDEN, HIDDEN), "B": (1, 8 * HIDDEN)}
    weights = {name: rng.standard_normal(shape).astype(np.float32) / 3 for name, shape in shapes.items()}
    node = helper.make_node(
        "LSTM", ["x", "W", "R", "B", "", "h", "c"], ["y", "hn", "cn"], hidden_size=HIDDEN, name="lstm"
    )
    state = (1, 1, HIDDEN)
    return graph(
        [node],
        {"h": state, "x": (1, 1, INPUT), "c": state},
        {"hn": state, "y": (1, *state), "cn": state},
        weights | dict(constants or {}),
    )


def convolution() -> onnx.ModelProto:
    """A causal one over time, a frame a step: the buffer holds the frames before, [1, channels, taps - 1]."""
    rng = np.random.default_rng(1)
    weight = rng.standard_normal((4, 3, 5)).astype(np.float32)
    nodes = [
        helper.make_node("Concat", ["buffer", "x"], ["frames"], axis=2, name="join"),
        helper.make_node("Conv", ["frames", "w"], ["y"], name="conv"),
        helper.make_node("Slice", ["frames", "begin", "end", "axis"], ["buffer_out"], name="drop"),
    ]
    bounds = {"begin": 1, "end": 5, "axis": 2}
    return graph(
        nodes,
        {"x": (1, 3, 1), "buffer": (1, 3, 4)},
        {"y": (1, 4, 1), "buffer_out": (1, 3, 4)},
        {"w": weight, **{name: np.array([value], np.int64) for name, value in bounds.items()}},
    )


def delay() -> onnx.ModelProto:
    """x - last; the next `last` is x itself, looked at in another shape."""
    nodes = [
        helper.make_node("Reshape", ["last", "row"], ["before"], name="lay"),
        helper.make_node("Sub", ["x", "before"], ["y"], name="sub"),
        helper.make_node("Reshape", ["x", "column"], ["next"], name="stand"),
    ]
    row, column = (1, 9), (9, 1)
    shapes = {"row": np.array(row), "column": np.array(column)}
    return graph(nodes, {"x": row, "last": column}, {"y": row, "next": column}, shapes)


def accumulator(size: int = 9) -> onnx.ModelProto:
    """sum' = sum + x, and nothing else."""
    shape = (1, size)
    node = helper.make_node("Add", ["sum", "x"], ["sum_out"], name="add")
    return graph([node], {"x": shape, "sum": shape}, {"sum_out": shape}, {})


def held() -> onnx.ModelProto:
    """y = last where `hold`, else x; the next `last` is the last one."""
    shape = (1, 1, HIDDEN)
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node("Identity", [source], [name])],
            name,
            [],
            [helper.make_tensor_value_info(name, FLOAT, shape)],
        )
        for name, source in {"then": "last", "else": "x"}.items()
    }
    nodes = [
        helper.make_node("If", ["hold"], ["y"], name="choose", **branches),
        helper.make_node("Identity", ["last"], ["next"], name="keep"),
    ]
    made = graph(nodes, {"x": shape, "last": shape}, {"y": shape, "next": shape}, {})
    made.graph.input.insert(0, helper.make_tensor_value_info("hold", TensorProto.BOOL, []))
    return made


def int8_accumulator() -> onnx.ModelProto:
    """The same in QDQ form, its state of 8 bits: q(0.5 dq(sum) + dq(x))."""
    scale, zero = np.float32(0.25), np.int8(3)
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "scale", "zero"], ["xf"], name="xf"),
        helper.make_node("DequantizeLinear", ["sum", "scale", "zero"], ["sf"], name="sf"),
        helper.make_node("Add", ["xf", "sf"], ["f"], name="add"),
        helper.make_node("QuantizeLinear", ["f", "scale", "zero"], ["sum_out"], name="q"),
    ]
    shape = (1, 31)
    constants = {"scale": np.array(scale), "zero": np.array(zero)}
    return graph(nodes, {"x": shape, "sum": shape}, {"sum_out": shape}, constants, INT8)
