# SPDX-License-Identifier: Apache-2.0
"""For each constraint on 8-bit and 16-bit dtypes, an operator that just meets it and one that violates it."""

from collections.abc import Sequence

import numpy as np
import onnx

from tests.arm_ext.ethosu.ops.limit_case import EARLIER, Build, LimitCase
from tests.arm_ext.ethosu.ops.one_operator import SCALE, ZERO, OneOperator, weights

_FINE = 1 / 2000  # scale of 16-bit tensors


def _data(one: OneOperator, dtype: str, *shape: int, scale: float | None = None) -> str:
    """Data with a scale that suits the dtype, symmetric for 16 bits."""
    if dtype == "int16":
        return one.data(*shape, scale=scale or _FINE, zero=0, dtype=dtype)
    return one.data(*shape, scale=scale or SCALE, dtype=dtype)


def _of(op: str, *reads: str, result: str = "int16", scale: float = _FINE, **attributes: object) -> Build:
    """An operator on data of the given dtypes."""

    def build() -> onnx.ModelProto:
        one = OneOperator()
        y = one.node(op, *(_data(one, dtype, 2, 3, 7) for dtype in reads), **attributes)
        zero = 0 if result == "int16" else ZERO
        return one.model(one.quantized(y, scale, zero, result), dtype=result)

    return build


def _product(left: str, right: str, result: str) -> Build:
    def build() -> onnx.ModelProto:
        one = OneOperator()
        y = one.node("MatMul", _data(one, left, 2, 5, 9), _data(one, right, 2, 9, 7))
        return one.model(one.quantized(y, 0.4, 0, result), dtype=result)

    return build


def _centred(zero: int) -> Build:
    def build() -> onnx.ModelProto:
        one = OneOperator()
        y = one.node("Conv", _data(one, "int16", 1, 3, 5, 4), one.weight(weights((7, 3, 2, 2))))
        return one.model(one.quantized(y, 0.003, zero, "int16"), dtype="int16")

    return build


def _average(result: str) -> Build:
    """An average over rows and columns with the scale of its data."""

    def build() -> onnx.ModelProto:
        one = OneOperator()
        y = one.node("Conv", _data(one, "int16", 1, 3, 9, 7), one.weight(weights((3, 3, 1, 1))))
        y = one.dequantized(one.quantized(y, 0.004, 0, "int16"), 0.004, 0, "int16")
        y = one.node("AveragePool", y, kernel_shape=[3, 3])
        return one.model(one.quantized(y, 0.004, 0, result), dtype=result)

    return build


def _biased(bias: float) -> Build:
    """A product with one weight of 1 and scales of 1, so that the result is the bias."""

    def build() -> onnx.ModelProto:
        one = OneOperator()
        x = _data(one, "int16", 1, 1, 3, 4, scale=1.0)
        y = one.node("Conv", x, one.weight(np.ones((1, 1, 1, 1), np.int8), 1.0), one.constant([bias]))
        return one.model(one.quantized(y, 2.0**26, 0, "int16"), dtype="int16")

    return build


def _transposed(dtype: str) -> Build:
    def build() -> onnx.ModelProto:
        one = OneOperator()
        y = one.node("ConvTranspose", _data(one, dtype, 1, 4, 5, 6), one.weight(weights((4, 4, 3, 3))))
        zero = 0 if dtype == "int16" else ZERO
        return one.model(one.quantized(y, 3.0 if dtype == "int8" else 0.01, zero, dtype), dtype=dtype)

    return build


def _reduced(op: str, axes: Sequence[int]) -> Build:
    return _of(op, "int16", axes=list(axes), keepdims=0)


def _squares(scale: float) -> Build:
    """Products of 31 bits, sign included."""

    def build() -> onnx.ModelProto:
        one = OneOperator()
        y = one.node("Mul", *(_data(one, "int16", 1, 5, 7, scale=1.0) for _ in "ab"))
        return one.model(one.quantized(y, scale, 0, "int16"), dtype="int16")

    return build


WIDTH_CASES: tuple[LimitCase, ...] = (
    LimitCase("a tensor of 16 bits has a zero point", _centred(0), _centred(1)),
    LimitCase(
        "its operands have different types",
        _product("int8", "int8", "int16"),
        _product("int8", "int16", "int16"),
    ),
    LimitCase("its result has another type than its data", _average("int16"), _average("int8")),
    LimitCase(
        "TOSA's table for data of 8 bits has entries of 8",
        _of("Tanh", "int16", result="int8", scale=1 / 128),
        _of("Tanh", "int8", scale=2.0**-15),
    ),
    LimitCase("Vela supports it for int8 data only", _transposed("int8"), _transposed("int16"), EARLIER),
    LimitCase(
        "Vela supports it for int8 data only",
        _product("int8", "int8", "int8"),
        _product("int16", "int16", "int16"),
        EARLIER,
    ),
    LimitCase(
        "Vela computes the minimum of 16-bit data wrong",
        _reduced("ReduceMax", [1]),
        _reduced("ReduceMin", [1]),
        EARLIER,
    ),
    LimitCase("its bias has too many bits", _biased(2.0**38), _biased(2.0**39)),
    LimitCase("RESCALE leaves its greatest values undefined", _squares(2.1), _squares(2.0)),
)
"""Cases in the order of `CONSTRAINTS`."""
