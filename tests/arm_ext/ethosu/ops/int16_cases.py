# SPDX-License-Identifier: Apache-2.0
"""Operators on 16-bit activations, and between 8 and 16 bits, as QDQ models of one operator each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx

from arm_ext.target.npu import Family
from tests.arm_ext.ethosu.ops.limit_case import EVERY
from tests.arm_ext.ethosu.ops.one_operator import SCALE, ZERO, OneOperator, weights

FINE = 1 / 2000  # scale of 16-bit tensors
_SHARE = 2.0**-15

Build = Callable[[], onnx.ModelProto]


@dataclass(frozen=True)
class Int16Case:
    """A model of one operator.

    Attributes:
        build: Builds the model; "int16" stands for values around 0.
        families: Families that support it.
    """

    build: Build
    families: tuple[Family, ...] = EVERY


@dataclass(frozen=True)
class _Types:
    """Dtypes of an operator's inputs and result, with the result's scale."""

    reads: tuple[str, ...] = ("int16",)
    result: str = "int16"
    scale: float = FINE
    steps: tuple[float, ...] = (FINE, FINE * 0.7)

    def data(self, one: OneOperator, at: int, *shape: int) -> str:
        if self.reads[at] == "int16":
            return one.data(*shape, scale=self.steps[at], zero=0, dtype="int16")
        return one.data(*shape, scale=SCALE)

    def model(self, one: OneOperator, y: str) -> onnx.ModelProto:
        zero = 0 if self.result == "int16" else ZERO
        return one.model(one.quantized(y, self.scale, zero, self.result), dtype=self.result)


def _one(
    op: str, *shape: int, types: _Types = _Types(), constants: tuple[object, ...] = (), **attributes: object
) -> Build:
    """An operator of one tensor, and possibly int64 constants."""

    def build() -> onnx.ModelProto:
        one = OneOperator()
        reads = [types.data(one, 0, *shape), *(one.constant(c, "int64") for c in constants)]
        return types.model(one, one.node(op, *reads, **attributes))

    return build


def _two(
    op: str, left: tuple[int, ...], right: tuple[int, ...], types: _Types, **attributes: object
) -> Build:
    def build() -> onnx.ModelProto:
        one = OneOperator()
        reads = types.data(one, 0, *left), types.data(one, 1, *right)
        return types.model(one, one.node(op, *reads, **attributes))

    return build


def _with_constant(op: str, scale: float) -> Build:
    types = _Types(scale=scale)

    def build() -> onnx.ModelProto:
        one = OneOperator()
        constant = one.constant(np.linspace(-9, 7, 19))
        return types.model(one, one.node(op, types.data(one, 0, 1, 5, 6, 19), constant))

    return build


def _weighted(
    op: str, shape: tuple[int, ...], weight: tuple[int, ...], types: _Types, **attributes: object
) -> Build:
    """A weighted operator with per-channel scales, and a bias if it is a convolution."""

    def build() -> onnx.ModelProto:
        one, rng = OneOperator(), np.random.default_rng(3)
        scales: object = rng.uniform(0.001, 0.02, weight[0]) if op == "Conv" else 0.01
        reads = [types.data(one, 0, *shape), one.weight(weights(weight), scales)]
        if op != "MatMul":
            reads.append(one.constant(rng.uniform(-5, 5, weight[0] if op == "Conv" else weight[1])))
        return types.model(one, one.node(op, *reads, **attributes))

    return build


def _image(op: str, scale: float, **attributes: object) -> Build:
    """An operator on an image after a convolution, so that it is channels last."""
    types, step = _Types(scale=scale), 3 * FINE

    def build() -> onnx.ModelProto:
        one = OneOperator()
        y = one.node("Conv", types.data(one, 0, 1, 7, 9, 8), one.weight(weights((7, 7, 1, 1))))
        y = one.dequantized(one.quantized(y, step, 0, "int16"), step, 0, "int16")
        return types.model(one, one.node(op, y, **attributes))

    return build


def _behind_slice(op: str, scale: float, **attributes: object) -> Build:
    """An operator on a slice of a tensor, which not all operators may read directly."""
    types = _Types(scale=scale)

    def build() -> onnx.ModelProto:
        one = OneOperator()
        numbers = [one.constant([n], "int64") for n in (1, 7, 2, 1)]
        part = one.node("Slice", types.data(one, 0, 1, 8, 9, 20), *numbers)
        part = one.dequantized(one.quantized(part, FINE, 0, "int16"), FINE, 0, "int16")
        return types.model(one, one.node(op, part, **attributes))

    return build


_WIDE, _TO_8, _FROM_8 = _Types(scale=0.003), _Types(result="int8", scale=0.2), _Types(("int8",), scale=0.003)
_PADDED = {"pads": [1] * 4}
_SHAPE, _ROW = (1, 5, 6, 19), (1, 1, 6, 1)


def _pair(
    scale: float, *reads: str, result: str = "int16", steps: tuple[float, ...] = (FINE, FINE * 0.7)
) -> _Types:
    return _Types(reads or ("int16", "int16"), result, scale, steps)


INT16_CASES: Mapping[str, Int16Case] = {
    "conv": Int16Case(_weighted("Conv", (2, 5, 7, 9), (7, 5, 3, 3), _WIDE, strides=[2, 2], **_PADDED)),
    "conv to 8": Int16Case(_weighted("Conv", (1, 5, 7, 9), (31, 5, 3, 3), _TO_8, **_PADDED)),
    "conv from 8": Int16Case(_weighted("Conv", (1, 5, 7, 9), (7, 5, 3, 3), _FROM_8, **_PADDED)),
    "conv beyond int32": Int16Case(_weighted("Conv", (1, 1500, 1, 3), (5, 1500, 1, 1), _Types(scale=0.02))),
    "conv of groups": Int16Case(_weighted("Conv", (1, 4, 7, 9), (6, 2, 3, 3), _WIDE, group=2)),
    "depthwise": Int16Case(_weighted("Conv", (1, 9, 7, 8), (9, 1, 3, 3), _WIDE, group=9, **_PADDED)),
    "depthwise multiplier": Int16Case(_weighted("Conv", (1, 9, 7, 8), (18, 1, 3, 3), _WIDE, group=9)),
    "transposed": Int16Case(_weighted("ConvTranspose", (1, 4, 5, 6), (4, 7, 3, 3), _WIDE, strides=[2, 2]), ("u85",)),
    "linear": Int16Case(_weighted("MatMul", (2, 5, 31), (31, 9), _WIDE)),
    "linear to 8": Int16Case(_weighted("MatMul", (5, 31), (31, 9), _TO_8)),
    "matmul": Int16Case(_two("MatMul", (2, 3, 5, 7), (2, 3, 7, 9), _pair(0.01)), ("u85",)),
    "matmul to 8": Int16Case(_two("MatMul", (1, 9, 200), (1, 200, 8), _pair(20.0, result="int8")), ("u85",)),
    "matmul from 8": Int16Case(_two("MatMul", (1, 5, 7), (1, 7, 9), _pair(0.001, "int8", "int8"))),
    "add": Int16Case(_two("Add", _SHAPE, _SHAPE, _pair(FINE))),
    "add of one scale": Int16Case(_two("Add", _SHAPE, _ROW, _pair(FINE, steps=(FINE, FINE)))),
    "add to 8": Int16Case(_two("Add", _ROW, _SHAPE, _pair(0.2, result="int8"))),
    "add from 8": Int16Case(_two("Add", _SHAPE, _SHAPE, _pair(FINE, "int8", "int16"))),
    "add a constant": Int16Case(_with_constant("Add", 0.002)),
    "subtract": Int16Case(_two("Sub", _SHAPE, _SHAPE, _pair(FINE, steps=(FINE * 0.3, FINE)))),
    "multiply": Int16Case(_two("Mul", _SHAPE, (1, 1, 1, 19), _pair(0.01))),
    "multiply to 8": Int16Case(_two("Mul", _SHAPE, _SHAPE, _pair(0.9, result="int8"))),
    "multiply from 8": Int16Case(_two("Mul", _SHAPE, _SHAPE, _pair(0.01, "int8", "int16"))),
    "multiply by a constant": Int16Case(_with_constant("Mul", 0.01)),
    "maximum": Int16Case(_two("Max", _SHAPE, _SHAPE, _pair(FINE))),
    "minimum": Int16Case(_two("Min", _SHAPE, _SHAPE, _pair(FINE))),
    "relu": Int16Case(_one("Relu", 1, 3, 5, 7)),
    "relu in other steps": Int16Case(_one("Relu", 1, 3, 5, 7, types=_Types(scale=FINE / 3))),
    "requantize": Int16Case(_one("Identity", 3, 7, 31, types=_Types(scale=FINE * 3))),
    "requantize to 8": Int16Case(_one("Identity", 3, 7, 31, types=_TO_8)),
    "requantize from 8": Int16Case(_one("Identity", 3, 7, 31, types=_FROM_8)),
    "sigmoid": Int16Case(_one("Sigmoid", 3, 7, 31, types=_Types(scale=_SHARE))),
    "tanh": Int16Case(_one("Tanh", 3, 7, 31, types=_Types(scale=_SHARE))),
    "tanh to 8": Int16Case(_one("Tanh", 3, 7, 31, types=_Types(result="int8", scale=1 / 128))),
    "softmax from 8": Int16Case(_one("Softmax", 3, 31, types=_Types(("int8",), scale=_SHARE))),
    "max pool": Int16Case(_image("MaxPool", 3 * FINE, kernel_shape=[3, 2], strides=[2, 2], **_PADDED)),
    "average pool": Int16Case(_image("AveragePool", 3 * FINE, kernel_shape=[3, 3], **_PADDED)),
    "average in other steps": Int16Case(_image("AveragePool", FINE, kernel_shape=[3, 3])),
    "global average": Int16Case(_image("GlobalAveragePool", 3 * FINE)),
    "global average in other steps": Int16Case(_image("GlobalAveragePool", FINE)),
    "mean": Int16Case(_one("ReduceMean", *_SHAPE, axes=[1, 3])),
    "sum": Int16Case(_one("ReduceSum", *_SHAPE, types=_Types(scale=0.02), constants=([2],))),
    "greatest": Int16Case(_one("ReduceMax", *_SHAPE, axes=[2, 3])),
    "least": Int16Case(_one("ReduceMin", *_SHAPE, axes=[2, 3], keepdims=0), ("u85",)),
    "concat": Int16Case(_two("Concat", (1, 5, 7), (1, 5, 7), _pair(FINE), axis=1)),
    "pad": Int16Case(_one("Pad", 1, 4, 5, 9, constants=([0, 1, 2, 0, 0, 0, 1, 3],))),
    "slice, transpose": Int16Case(_behind_slice("Transpose", FINE, perm=[0, 2, 1, 3])),
    "slice, tanh": Int16Case(_behind_slice("Tanh", _SHARE)),
    "slice, greatest": Int16Case(_behind_slice("ReduceMax", FINE, axes=[3])),
}  # fmt: skip
"""Cases by name."""
