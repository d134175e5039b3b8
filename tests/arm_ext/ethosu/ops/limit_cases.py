# SPDX-License-Identifier: Apache-2.0
"""For each constraint an operator that just meets it and one that just violates it."""

from collections.abc import Callable

import numpy as np
import onnx

from tests.arm_ext.ethosu.ops.integer_cases import INTEGER_CASES
from tests.arm_ext.ethosu.ops.limit_case import EARLIER as _EARLIER
from tests.arm_ext.ethosu.ops.limit_case import LimitCase
from tests.arm_ext.ethosu.ops.one_operator import SCALE, ZERO, OneOperator, weights
from tests.arm_ext.ethosu.ops.resize_models import RESIZE_CASES
from tests.arm_ext.ethosu.ops.width_cases import WIDTH_CASES


def _image(one: OneOperator, *shape: int) -> str:
    """An image after a convolution, so that it is channels last."""
    y = one.node("Conv", one.data(*shape), one.weight(weights((shape[1], shape[1], 1, 1))))
    return one.dequantized(one.quantized(y, 3 * SCALE), 3 * SCALE, ZERO, "int8")


def _window(
    op: str, *shape: int, scale: float = 3 * SCALE, **attributes: object
) -> Callable[[], onnx.ModelProto]:
    def build() -> onnx.ModelProto:
        one = OneOperator()
        return one.model(one.quantized(one.node(op, _image(one, *shape), **attributes), scale))

    return build


def _unary(op: str, *shape: int, dtype: str = "int8", **attributes: object) -> Callable[[], onnx.ModelProto]:
    def build() -> onnx.ModelProto:
        one, zero = OneOperator(), 0 if dtype == "int16" else ZERO if dtype == "int8" else 131
        y = one.node(op, one.data(*shape, zero=zero, dtype=dtype), **attributes)
        return one.model(one.quantized(y, zero=zero, dtype=dtype), dtype=dtype)

    return build


def _rows(count: int) -> Callable[[], onnx.ModelProto]:
    """A slice of rows of a tensor, possibly empty."""

    def build() -> onnx.ModelProto:
        one = OneOperator()
        bounds = [one.constant([each], "int64") for each in (0, count, 1)]
        return one.model(one.quantized(one.node("Slice", one.data(1, 4, 5), *bounds)))

    return build


def _conv(
    x: tuple[int, ...], w: tuple[int, ...], scale: float = 5.0, op: str = "Conv", **attributes: object
) -> Callable[[], onnx.ModelProto]:
    def build() -> onnx.ModelProto:
        one = OneOperator()
        y = one.node(op, one.data(*x), one.weight(weights(w)), **attributes)
        return one.model(one.quantized(y, scale))

    return build


def _weights_of(zero: int) -> Callable[[], onnx.ModelProto]:
    def build() -> onnx.ModelProto:
        one = OneOperator()
        values = np.arange(4 * 8, dtype=np.uint8).reshape(4, 8, 1, 1)
        return one.model(one.quantized(one.node("Conv", one.data(1, 8, 3, 3), one.weight(values, zero=zero))))

    return build


def _heavy(channels: int) -> Callable[[], onnx.ModelProto]:
    def build() -> onnx.ModelProto:
        one = OneOperator()
        full = np.full((1, channels, 2, 1), 127, np.int8)
        y = one.node("Conv", one.data(1, channels, 2, 1), one.weight(full))
        return one.model(one.quantized(y, 3000.0))

    return build


def _biased(*shape: int) -> Callable[[], onnx.ModelProto]:
    def build() -> onnx.ModelProto:
        one = OneOperator()
        y = one.node("Conv", one.data(1, 3, 5, 4), one.weight(weights((7, 3, 1, 1))))
        bias = np.random.default_rng(1).uniform(-9, 9, shape)
        return one.model(one.quantized(one.node("Add", y, one.constant(bias)), 2.0))

    return build


def _accumulators(ratio: float) -> Callable[[], onnx.ModelProto]:
    """Accumulators of 15 bits, sign included: one weight of 127, values from -128 on."""

    def build() -> onnx.ModelProto:
        one = OneOperator()
        w = one.weight(np.full((1, 1, 1, 1), 127, np.int8), 1.0)
        return one.model(
            one.quantized(one.node("Conv", one.data(1, 1, 3, 3, scale=1.0, zero=0), w), 1 / ratio)
        )

    return build


def _resize(factor: float, rounding: str = "floor") -> Callable[[], onnx.ModelProto]:
    def build() -> onnx.ModelProto:
        one = OneOperator()
        scales = one.constant([1, 1, factor, factor])
        attributes = {"mode": "nearest", "nearest_mode": rounding}
        way = {"coordinate_transformation_mode": "asymmetric"}
        grown = one.node("Resize", _image(one, 1, 3, 4, 6), "", scales, **attributes, **way)
        grown = one.dequantized(one.quantized(grown, 3 * SCALE), 3 * SCALE, ZERO, "int8")
        return one.model(one.quantized(one.node("Conv", grown, one.weight(weights((5, 3, 1, 1)))), 2.0))

    return build


def _transposed(groups: int = 1, stride: int = 1, dilation: int = 1) -> Callable[[], onnx.ModelProto]:
    return _conv(
        (1, 4, 5, 6), (4, 4 // groups, 3, 3), op="ConvTranspose",
        group=groups, strides=[stride] * 2, dilations=[dilation] * 2,
    )  # fmt: skip


def _pool(
    shape: tuple[int, int], kernel: tuple[int, int], stride: int = 1, **attributes: object
) -> Callable[[], onnx.ModelProto]:
    return _window("MaxPool", 1, 1, *shape, kernel_shape=list(kernel), strides=[stride] * 2, **attributes)


_IMAGE = (1, 7, 9, 8)

LIMIT_CASES: tuple[LimitCase, ...] = (
    LimitCase(
        "we have no TOSA form of this operator", _window("MaxPool", *_IMAGE, kernel_shape=[2, 2]),
        _unary("MaxPool", *_IMAGE[:3], kernel_shape=[2]),
    ),
    LimitCase(
        "its tensors are not int8 or int16", _unary("Sigmoid", *_IMAGE, dtype="int16"),
        _unary("Sigmoid", *_IMAGE, dtype="uint8"),
    ),
    *WIDTH_CASES,
    LimitCase(
        "a tensor has too many axes", _unary("Tanh", 2, 1, 3, 4, 5, 2), _unary("Tanh", 2, 1, 3, 1, 4, 5, 2),
    ),
    LimitCase("a tensor has no elements", _rows(1), _rows(0)),
    LimitCase("a tensor's axis is too long", _unary("Tanh", 1, 1 << 16), _unary("Tanh", 1, 1 + (1 << 16))),
    LimitCase("its weights, less their zero point, do not fit in 8 bits", _weights_of(128), _weights_of(129)),
    LimitCase("the sum of |weights| of an output is too large", _heavy(1 << 15), _heavy(1 + (1 << 15))),
    LimitCase("its bias varies along another axis than the channels", _biased(1, 7, 1, 1), _biased(1, 7, 5, 1)),
    LimitCase("RESCALE leaves its greatest accumulators undefined", _accumulators(65535.0), _accumulators(65536.0)),
    LimitCase("its window has too many rows", _conv((1, 2, 65, 3), (3, 2, 64, 1)), _conv((1, 2, 65, 3), (3, 2, 65, 1))),
    LimitCase(
        "its window has too many taps", _conv((1, 1, 64, 65), (2, 1, 64, 64)),
        _conv((1, 1, 64, 65), (2, 1, 64, 65)),
    ),
    LimitCase(
        "its stride is too great", _conv(_IMAGE, (7, 1, 3, 3), group=7, strides=[3, 3]),
        _conv(_IMAGE, (7, 1, 3, 3), group=7, strides=[1, 4]), _EARLIER,
    ),
    LimitCase(
        "its stride is too great", _conv(_IMAGE, (5, 7, 3, 3), strides=[3, 3], pads=[1, 1, 1, 1]),
        _conv(_IMAGE, (5, 7, 3, 3), strides=[4, 1], pads=[1, 1, 1, 1]), _EARLIER,
    ),
    LimitCase("TOSA's convolution of its kind has one group", _transposed(), _transposed(groups=2)),
    LimitCase(
        "a tap of its dilated window only reads padding",
        _conv((1, 4, 5, 3), (3, 4, 1, 2), dilations=[1, 3], pads=[0, 1, 0, 1]),
        _conv((1, 4, 5, 2), (3, 4, 1, 2), dilations=[1, 3], pads=[0, 1, 0, 1]),
    ),
    LimitCase("TOSA's transposed convolution is not dilated", _transposed(), _transposed(dilation=2)),
    LimitCase("its strides are not supported", _transposed(stride=2), _transposed(stride=3), _EARLIER),
    LimitCase(
        "its padded window is too large", _window("AveragePool", 1, 3, 9, 9, kernel_shape=[8, 8], pads=[1] * 4),
        _window("AveragePool", 1, 3, 9, 9, kernel_shape=[9, 8], pads=[1] * 4), _EARLIER,
    ),
    LimitCase("its window has too many rows", _pool((257, 2), (256, 1)), _pool((257, 2), (257, 1))),
    LimitCase("its window has too many taps", _pool((256, 257), (256, 256)), _pool((256, 257), (256, 257))),
    LimitCase("its stride is too great", _pool((9, 8), (2, 2), 3), _pool((9, 8), (2, 2), 4), _EARLIER),
    LimitCase(
        "its stride is too great for windows that are padded", _pool((9, 8), (3, 2), 3, pads=[1] * 4),
        _pool((9, 8), (3, 2), 4, pads=[1] * 4), ("u85",),
    ),
    LimitCase(
        "TOSA's pool is not dilated", _window("MaxPool", *_IMAGE, kernel_shape=[2, 2]),
        _window("MaxPool", *_IMAGE, kernel_shape=[2, 2], dilations=[2, 1]),
    ),
    LimitCase("it does not repeat each pixel", _resize(2), _resize(2, "ceil")),
    LimitCase("its factors are not powers of two", _resize(2), _resize(3), _EARLIER),
    *RESIZE_CASES,
    *INTEGER_CASES,
)  # fmt: skip
"""Cases in the order of `CONSTRAINTS`."""
