# SPDX-License-Identifier: Apache-2.0
"""Limits of operators that select elements, or compute on integers that are not quantised."""

from collections.abc import Callable, Sequence

import numpy as np
import onnx
from onnx import helper

from tests.arm_ext.ethosu.ops.limit_case import EARLIER, LimitCase
from tests.arm_ext.ethosu.ops.one_operator import ZERO, OneOperator, weights

_U85 = ("u85",)
SHAPE = (1, 7, 9)

Build = Callable[[], onnx.ModelProto]


def on_integers(
    op: str, *dtypes: str, out: str, shape: Sequence[int] = SHAPE, opset: int = 17, **attributes: object
) -> Build:
    """An ONNX operator on integer or bool inputs."""

    def build() -> onnx.ModelProto:
        one = OneOperator(opset=opset)
        return one.model(
            one.node(op, *(one.integers(dtype, *shape) for dtype in dtypes), **attributes), dtype=out
        )

    return build


def bits_shifted(by: object) -> Build:
    """A logical right shift of int32, by casts to and from uint32."""

    def build() -> onnx.ModelProto:
        one = OneOperator()
        to = {name: helper.np_dtype_to_tensor_dtype(np.dtype(name)) for name in ("int32", "uint32")}
        bits = one.node("Cast", one.integers("int32", *SHAPE), to=to["uint32"])
        shifted = one.node("BitShift", bits, one.constant(by, "uint32"), direction="RIGHT")
        return one.model(one.node("Cast", shifted, to=to["int32"]), dtype="int32")

    return build


def on_widened(op: str, *dtypes: str) -> Build:
    """An operator on integers that are widened to int32 first."""

    def build() -> onnx.ModelProto:
        one = OneOperator()
        wide = [
            one.node(
                "Cast", one.integers(dtype, *SHAPE), to=helper.np_dtype_to_tensor_dtype(np.dtype("int32"))
            )
            for dtype in dtypes
        ]
        return one.model(one.node(op, *wide), dtype="int32")

    return build


def cast(to: str, source: str = "int8") -> Build:
    return on_integers("Cast", source, out=to, to=helper.np_dtype_to_tensor_dtype(np.dtype(to)))


def index(*shape: int, axis: int = -1, dtype: str = "int8", op: str = "ArgMax") -> Build:
    def build() -> onnx.ModelProto:
        one = OneOperator()
        data = one.data(*shape, zero=ZERO if dtype == "int8" else 0, dtype=dtype)
        return one.model(one.node(op, data, axis=axis), dtype="int64")

    return build


def take(indices: Sequence[int], axis: int = 1) -> Build:
    def build() -> onnx.ModelProto:
        one = OneOperator()
        picked = one.node("Gather", one.data(1, 19, 6), one.constant(indices, "int64"), axis=axis)
        return one.model(one.quantized(picked))

    return build


def joined_truths(op: str, *axes: int, shape: Sequence[int] = SHAPE, keepdims: int = 1) -> Build:
    """Any or all along axes: ReduceMax and ReduceMin of bools, as of opset 20."""

    def build() -> onnx.ModelProto:
        one = OneOperator(opset=20)
        reads = one.integers("bool", *shape), one.constant(axes, "int64")
        return one.model(one.node(op, *reads, keepdims=keepdims), dtype="bool")

    return build


def scatter(
    op: str,
    shape: Sequence[int],
    indices: object,
    written: Sequence[int],
    dtype: str = "int8",
    **attributes: object,
) -> Build:
    """A scatter into a quantised tensor at constant indices."""

    def build() -> onnx.ModelProto:
        one, zero = OneOperator(), 0 if dtype == "int16" else ZERO
        into, pieces = (one.data(*each, zero=zero, dtype=dtype) for each in (shape, written))
        done = one.node(op, into, one.constant(indices, "int64"), pieces, **attributes)
        return one.model(one.quantized(done, zero=zero, dtype=dtype), dtype=dtype)

    return build


def added() -> onnx.ModelProto:
    """A scatter that adds rows of integers to others."""
    one = OneOperator()
    reads = one.integers("int8", 9, 6), one.constant([[1], [2]], "int64"), one.integers("int8", 2, 6)
    return one.model(one.node("ScatterND", *reads, reduction="add"))


def shift(direction: str, by: object, dtype: str = "int32") -> Build:
    """BitShift of signed integers, which ONNX defines for unsigned ones; TVM imports it as TFLite's shifts."""

    def build() -> onnx.ModelProto:
        one = OneOperator()
        amounts = one.constant(by, dtype)
        return one.model(
            one.node("BitShift", one.integers(dtype, *SHAPE), amounts, direction=direction), dtype=dtype
        )

    return build


def choice(op: str) -> Build:
    """Where, or a maximum, which needs no condition."""

    def build() -> onnx.ModelProto:
        one = OneOperator()
        x, limit = one.data(*SHAPE), one.constant(np.linspace(-2, 2, 9))
        operands = (one.constant(np.arange(9) % 2 == 0, "bool"), x, limit) if op == "Where" else (x, limit)
        return one.model(one.quantized(one.node(op, *operands)))

    return build


def convolved(x: tuple[int, ...], w: tuple[int, ...], *dtypes: str, **attributes: object) -> Build:
    """A convolution whose weights are an input, int8 or of other dtypes."""

    def build() -> onnx.ModelProto:
        one, (data, weight) = OneOperator(), (*dtypes, *("int8", "int8")[len(dtypes) :])
        fine = data == "int16"
        left = one.data(*x, scale=1 / 2000 if fine else 0.07, zero=0 if fine else ZERO, dtype=data)
        right = one.data(*w, scale=0.09, zero=0 if fine else 3, dtype=weight)
        y = one.quantized(
            one.node("Conv", left, right, **attributes), 0.05 if fine else 9.0, 0 if fine else ZERO, data
        )
        return one.model(y, dtype=data)

    return build


def conv3d(*kernel: int, **attributes: object) -> Build:
    def build() -> onnx.ModelProto:
        one = OneOperator()
        y = one.node("Conv", one.data(1, 6, 3, 7, 8), one.weight(weights((4, 6, *kernel))), **attributes)
        return one.model(one.quantized(y, 3.0))

    return build


INTEGER_CASES: tuple[LimitCase, ...] = (
    LimitCase(
        "its weights are computed at run time", on_integers("Max", "int8", "int8", out="int8"),
        convolved((1, 3, 5, 4), (5, 3, 3, 2)), EARLIER,
    ),
    LimitCase(
        "its weights are not of 8 bits", convolved((1, 3, 5, 4), (5, 3, 3, 2), "int16"),
        convolved((1, 3, 5, 4), (5, 3, 3, 2), "int16", "int16"), _U85,
    ),
    LimitCase("its windows span several images", conv3d(1, 3, 3), conv3d(2, 3, 3), EARLIER),
    LimitCase("its data are not int8", index(1, 5, 9), index(1, 5, 9, dtype="int16")),
    LimitCase(
        "it searches another axis than the last, or too long a one", index(1, 5, 127), index(1, 5, 128), EARLIER
    ),
    LimitCase("it computes too many indices", index(1, 256, 256, 2), index(1, 257, 256, 2), EARLIER),
    LimitCase(
        "its indices are not constants in few runs", take(range(0, 16, 2)), take(range(0, 18, 2)), EARLIER,
    ),
    LimitCase("it gathers elements one by one", take(range(0, 18, 2)), take([5, 0, 3, 1, 4, 2, 5, 0, 3], axis=2), _U85),
    LimitCase("the accelerator has no such operator", choice("Max"), choice("Where"), EARLIER),
    LimitCase("the accelerator rounds the result of right shifts", shift("LEFT", 1), shift("RIGHT", 1), EARLIER),
    LimitCase(
        "the accelerator reduces only integers", on_integers("ReduceMax", "int8", out="int8", axes=[1]),
        on_integers("ReduceMax", "bool", out="bool", axes=[1]), EARLIER,
    ),
    LimitCase(
        "it combines updates with the old values", scatter("ScatterND", (9, 6), [[1], [2]], (2, 6)), added, _U85,
    ),
    LimitCase(
        "it may write an element twice", scatter("ScatterND", (9, 6), [[-8], [2]], (2, 6)),
        scatter("ScatterND", (9, 6), [[-8], [1]], (2, 6)), _U85,
    ),
    LimitCase(
        "TOSA has it for int32 only", on_widened("Abs", "int8"), on_integers("Abs", "int8", out="int8")
    ),
    LimitCase(
        "its result may overflow 32 bits or be undefined", on_widened("Mul", "int8", "int8"),
        on_integers("Mul", "int32", "int32", out="int32"),
    ),
    LimitCase(
        "TOSA has no such operator for integers of this width", on_integers("Max", "int8", "int8", out="int8"),
        on_integers("Max", "uint8", "uint8", out="uint8"),
    ),
    LimitCase(
        "TOSA has no such operator for this type", on_integers("Equal", "int8", "int8", out="bool"),
        on_integers("Equal", "uint8", "uint8", out="bool"), _U85,
    ),
    LimitCase("TOSA has no cast between these types", cast("int16"), cast("uint8")),
    LimitCase("it narrows integers, or casts them to bool", cast("int32"), cast("int8", "int32"), EARLIER),
)  # fmt: skip
"""Cases in the order of `CONSTRAINTS`."""
