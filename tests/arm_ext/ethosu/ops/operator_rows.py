# SPDX-License-Identifier: Apache-2.0
"""Table of the accelerators' operators: for each the families that support it, and models with edge shapes."""

import numpy as np
import onnx

from tests.arm_ext.ethosu.ops.integer_cases import conv3d, index, on_integers, take
from tests.arm_ext.ethosu.ops.integer_rows import INTEGER_ROWS
from tests.arm_ext.ethosu.ops.one_operator import SCALE, OneOperator, weights
from tests.arm_ext.ethosu.ops.row import U85, Build, Row


def unary(
    op: str, *shape: int, scale: float = SCALE, numbers: tuple[object, ...] = (), **attributes: object
) -> Build:
    """An operator on one quantised tensor and constants: integers as int64, others as float."""

    def build() -> onnx.ModelProto:
        one = OneOperator()
        further = [
            one.constant(n, "int64" if np.asarray(n).dtype.kind == "i" else "float32") for n in numbers
        ]
        return one.model(one.quantized(one.node(op, one.data(*shape), *further, **attributes), scale))

    return build


def binary(op: str, a: tuple[int, ...], b: tuple[int, ...], scale: float = 0.2) -> Build:
    def build() -> onnx.ModelProto:
        one = OneOperator()
        y = one.node(op, one.data(*a), one.data(*b, scale=0.09, zero=3))
        return one.model(one.quantized(y, scale))

    return build


def weighted(op: str, x: tuple[int, ...], w: tuple[int, ...], **attributes: object) -> Build:
    def build() -> onnx.ModelProto:
        one = OneOperator()
        y = one.node(op, one.data(*x), one.weight(weights(w)), **attributes)
        return one.model(one.quantized(y, 2.0))

    return build


def averaged(scale: float, **attributes: object) -> Build:
    return unary("AveragePool", 2, 5, 7, 6, scale=scale, kernel_shape=[3, 3], pads=[1] * 4, **attributes)


def sliced(start: int, end: int, axis: int, step: int) -> Build:
    return unary("Slice", 1, 5, 9, 7, numbers=([start], [end], [axis], [step]))


def joined() -> onnx.ModelProto:
    one = OneOperator()
    return one.model(one.quantized(one.node("Concat", one.data(1, 5, 3), one.data(1, 5, 17), axis=2)))


_BEYOND = -1000  # before the first element, whatever the axis

ROWS: dict[str, Row] = {
    "conv2d": Row(("conv2d",), {
        "one pixel": weighted("Conv", (1, 2, 1, 1), (1, 2, 1, 1)),
        "tails": weighted("Conv", (1, 17, 7, 9), (31, 17, 3, 3), pads=[1] * 4, strides=[2, 1]),
        "dilated 3": weighted("Conv", (1, 3, 9, 8), (5, 3, 3, 3), dilations=[3, 3]),
        "batch": weighted("Conv", (3, 5, 4, 4), (7, 5, 3, 3), pads=[1] * 4),
        "groups": weighted("Conv", (1, 8, 5, 5), (6, 4, 3, 3), group=2),
    }),
    "depthwise": Row(("depthwise_conv2d",), {
        "tails": weighted("Conv", (1, 17, 7, 9), (17, 1, 3, 3), group=17, pads=[1] * 4),
        "multiplier 2": weighted("Conv", (1, 3, 5, 5), (6, 1, 3, 3), group=3),
    }),
    "fully connected": Row(("linear",), {
        "row": weighted("MatMul", (1, 31), (31, 9)), "rows": weighted("MatMul", (3, 5, 17), (17, 1)),
    }),
    "transposed conv": Row(("conv2d_transpose",), {
        "stride 1": weighted("ConvTranspose", (1, 4, 5, 6), (4, 7, 3, 3)),
        "stride 2": weighted("ConvTranspose", (1, 4, 5, 6), (4, 7, 3, 3), strides=[2, 2], pads=[1] * 4),
    }),
    "conv3d, one image deep": Row(("conv3d",), {
        "1 x 1 x 1": conv3d(1, 1, 1), "padded": conv3d(1, 3, 3, pads=[0, 1, 1, 0, 1, 1]),
    }),
    "conv3d": Row(
        ("conv3d",), {"padded": conv3d(3, 3, 3, pads=[1] * 6), "strided": conv3d(2, 3, 2, strides=[1, 2, 1])}, U85,
        {"2 deep": conv3d(2, 3, 3)}, "its windows span several images",
    ),
    "matmul": Row(("matmul",), {
        "batch": binary("MatMul", (2, 3, 5, 7), (2, 3, 7, 4)), "one row": binary("MatMul", (1, 9), (9, 1)),
        "repeated": binary("MatMul", (2, 3, 5, 7), (1, 3, 7, 4)), "shared": binary("MatMul", (2, 3, 5, 7), (7, 4)),
    }),
    "average pool": Row(("average_pool2d", "depthwise_conv2d"), {
        "padded": averaged(SCALE), "another scale": averaged(0.05), "counted": averaged(SCALE, count_include_pad=1),
        "rounded up": averaged(0.05, strides=[2, 2], ceil_mode=1),
    }),
    "max pool": Row(("nn.max_pool2d",), {
        "channels first": unary("MaxPool", 1, 17, 7, 9, kernel_shape=[3, 2], strides=[2, 1]),
        "padded batch": unary("MaxPool", 2, 3, 5, 5, kernel_shape=[3, 3], pads=[1] * 4),
    }),
    "add, sub, mul, max, min": Row(("add", "subtract", "multiply", "maximum", "minimum"), {
        "add": binary("Add", (1, 7, 9), (1, 7, 9)), "add a column": binary("Add", (2, 7, 9), (7, 1)),
        "subtract": binary("Sub", (1, 1, 31), (1, 5, 31)), "multiply": binary("Mul", (3, 8, 9), (9,), 0.5),
        "maximum": binary("Max", (2, 3, 4, 5, 6), (2, 3, 4, 5, 6)), "minimum": binary("Min", (1, 7, 9), (1, 7, 9)),
        "minimum of a constant": unary("Min", 1, 7, 9, numbers=(np.linspace(-2, 2, 9),)),
    }),
    "abs, neg, tables": Row(("table",), {
        op: unary(op, 1, 5, 17) for op in ("Abs", "Neg", "Sigmoid", "Tanh", "HardSwish")
    }),
    "clamp": Row(("integer_maximum", "integer_minimum"), {
        "relu": unary("Relu", 1, 5, 17), "minimum": on_integers("Min", "int8", "int8", out="int8"),
        "of 32 bits": on_integers("Max", "int32", "int32", out="int32"),
    }),
    "softmax": Row(("softmax",), {
        "last axis": unary("Softmax", 1, 7, 31, scale=1 / 256, axis=-1),
        "five axes": unary("Softmax", 2, 3, 2, 5, 4, scale=1 / 256, axis=2),
    }),
    "mean, sum, max, min": Row(("reduce_sum", "max", "min"), {
        "mean": unary("ReduceMean", 2, 7, 9, 6, axes=[2, 3]), "sum": unary("ReduceSum", 2, 7, 9, numbers=([1],)),
        "max": unary("ReduceMax", 1, 7, 9, axes=[2]), "min": unary("ReduceMin", 2, 7, 9, axes=[1]),
    }),
    "argmax, channels": Row(("argmax", "argmin"), {
        "127": index(1, 3, 127), "rank 5": index(2, 3, 1, 4, 8), "argmin": index(1, 5, 31, op="ArgMin"),
    }),
    "argmax": Row(
        ("argmax",), {"rows": index(1, 7, 9, axis=1), "128": index(1, 3, 128)}, U85, {"rows": index(1, 7, 9, axis=1)},
        "it searches another axis than the last, or too long a one",
    ),
    "reshape, slice, split, concat, pad, tile": Row(
        ("reshape", "strided_slice", "concat", "nn.pad", "tile", "broadcast_to", "take"), {
            "reshape": unary("Reshape", 2, 3, 4, 5, numbers=([5, 24],)), "slice": sliced(1, 4, 2, 1),
            "every third": sliced(1, 8, 2, 3), "every second channel": sliced(0, 7, 3, 2),
            "concat": joined, "pad": unary("Pad", 1, 3, 5, 6, numbers=([0, 0, 1, 2, 0, 1, 0, 1],)),
            "tile": unary("Tile", 1, 3, 4, 5, numbers=([1, 2, 1, 3],)),
            "expand": unary("Expand", 1, 3, 1, 5, numbers=([2, 3, 4, 5],)),
            "one of several": unary("Gather", 1, 5, 7, numbers=(3,), axis=1), "runs": take([0, 5, 6, 7, 18, 2]),
        },
    ),
    "transpose, reverse": Row(("permute_dims", "strided_slice"), {
        "four axes": unary("Transpose", 2, 3, 4, 5, perm=[3, 1, 0, 2]),
        "six axes": unary("Transpose", 1, 2, 3, 4, 2, 3, perm=[5, 0, 2, 4, 1, 3]),
        "rows": sliced(-1, _BEYOND, 2, -1), "channels": sliced(-1, _BEYOND, 3, -1),
        "every second, backwards": sliced(-2, _BEYOND, 2, -2),
    }),
    **INTEGER_ROWS,
}  # fmt: skip
"""Rows by the operators' names in the table."""
