# SPDX-License-Identifier: Apache-2.0
"""Quantised TFLite operators in the forms they come in."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.arm_ext.frontends.tflite.builder import TfliteBuilder

SAME, VALID = 0, 1
RELU, RELU_N1_TO_1, RELU6 = 1, 2, 3


@dataclass(frozen=True)
class Scales:
    """Scales to quantise with: of the first input, of the second or the weights, of the output, of a sum's output."""

    x: float
    w: float
    y: float
    sum: float


SCALES = {"pow2": Scales(0.0625, 0.03125, 0.125, 2.0), "decimal": Scales(0.1, 0.013, 0.07, 2.3)}
# Odd, and off the middle.
X_ZERO, Y_ZERO = -7, 5

Case = Callable[[Scales], bytes]


def _conv(*size: int, per_channel: bool = True, **options: object) -> Case:
    """CONV_2D of 7 filters of 3x2; `size` is the output's height and width."""

    def build(s: Scales) -> bytes:
        m = TfliteBuilder()
        scale = s.w * (1 + np.arange(7) % 3) if per_channel else s.w
        inputs = [
            m.take("int8", 1, 9, 8, 3, scale=s.x, zero=X_ZERO),
            m.weight(7, 3, 2, 3, scale=scale),
        ]
        inputs.append(m.bias(7, np.float32(s.x) * np.float32(scale)))
        y = m.tensor("int8", 1, *size, 7, scale=s.sum, zero=Y_ZERO)
        m.op("CONV_2D", inputs, [y], **{"strideH": 1, "strideW": 1, **options})
        return m.build()

    return build


def _depthwise(channels: int, multiplier: int, *, per_channel: bool = True) -> Case:
    def build(s: Scales) -> bytes:
        m, filters = TfliteBuilder(), channels * multiplier
        scale = s.w * (1 + np.arange(filters) % 3) if per_channel else s.w
        x = m.take("int8", 1, 9, 8, channels, scale=s.x, zero=X_ZERO)
        w = m.weight(1, 3, 3, filters, scale=scale, axis=3 if per_channel else 0)
        y = m.tensor("int8", 1, 5, 4, filters, scale=s.sum / 4, zero=Y_ZERO)
        options = {"strideH": 2, "strideW": 2, "padding": SAME, "depthMultiplier": multiplier}
        m.op(
            "DEPTHWISE_CONV_2D",
            [x, w, m.bias(filters, np.float32(s.x) * np.float32(scale))],
            [y],
            fusedActivationFunction=RELU,
            **options,
        )
        return m.build()

    return build


def _fully_connected(
    x: tuple[int, ...],
    y: tuple[int, ...],
    *,
    bias: str = "scaled",
    per_channel: bool = False,
    **options: object,
) -> Case:
    def build(s: Scales) -> bytes:
        m = TfliteBuilder()
        scale = s.w * (1 + np.arange(9) % 3) if per_channel else s.w
        inputs = [m.take("int8", *x, scale=s.x, zero=X_ZERO), m.weight(9, 31, scale=scale)]
        bias_scale = np.float32(s.x) * np.float32(scale) if bias == "scaled" else None
        inputs.append(m.bias(9, bias_scale) if bias else -1)
        m.op("FULLY_CONNECTED", inputs, [m.tensor("int8", *y, scale=s.sum, zero=Y_ZERO)], **options)
        return m.build()

    return build


def _transpose_conv(kernel: int, stride: int, *size: int, **options: object) -> Case:
    """TRANSPOSE_CONV of 4x7 pixels; `size` is the output's height and width."""

    def build(s: Scales) -> bytes:
        m = TfliteBuilder()
        scale = s.w * (1 + np.arange(5) % 3)
        shape, w = m.hold([1, *size, 5]), m.weight(5, kernel, kernel, 3, scale=scale)
        x = m.take("int8", 1, 4, 7, 3, scale=s.x, zero=X_ZERO)
        bias = m.bias(5, np.float32(s.x) * np.float32(scale))
        y = m.tensor("int8", 1, *size, 5, scale=s.sum, zero=Y_ZERO)
        m.op("TRANSPOSE_CONV", [shape, w, x, bias], [y], strideH=stride, strideW=stride, **options)
        return m.build()

    return build


def _fully_connected_16(s: Scales) -> bytes:
    """16-bit activations, whose bias has 64 bits."""
    m = TfliteBuilder()
    x, y = m.take("int16", 7, 31, scale=s.x / 256), m.tensor("int16", 7, 9, scale=s.sum / 256)
    bias = m.hold(m.rng.integers(-90000, 90000, 9), "int64", scale=np.float32(s.x / 256) * np.float32(s.w))
    m.op("FULLY_CONNECTED", [x, m.weight(9, 31, scale=s.w), bias], [y])
    return m.build()


def _binary(
    op: str, right: tuple[int, ...] = (1, 9, 8, 7), *, alike: bool = False, **options: object
) -> Case:
    def build(s: Scales) -> bytes:
        m = TfliteBuilder()
        x = m.take("int8", 1, 9, 8, 7, scale=s.x, zero=X_ZERO)
        second = (s.x, X_ZERO) if alike else (s.w, 9)
        z = m.take("int8", *right, scale=second[0], zero=second[1])
        scale, zero = (s.x, X_ZERO) if alike else (s.y, Y_ZERO)
        m.op(op, [x, z], [m.tensor("int8", 1, 9, 8, 7, scale=scale, zero=zero)], **options)
        return m.build()

    return build


def _unary(
    op: str,
    y: tuple[int, ...] = (1, 9, 8, 7),
    *more: object,
    scale: float | None = None,
    zero: int = Y_ZERO,
    **options: object,
) -> Case:
    """One tensor in, one out; `more` are integer operands. `scale` is the output's, s.y where it is None."""

    def build(s: Scales) -> bytes:
        m = TfliteBuilder()
        x = m.take("int8", 1, 9, 8, 7, scale=s.x, zero=X_ZERO)
        out = m.tensor("int8", *y, scale=s.y if scale is None else scale, zero=zero)
        m.op(op, [x, *(m.hold(value) for value in more)], [out], **options)
        return m.build()

    return build


def _move(op: str, y: tuple[int, ...], *more: object, outputs: int = 1, **options: object) -> Case:
    """An operator that puts elements elsewhere: its output is quantised as its input."""

    def build(s: Scales) -> bytes:
        m = TfliteBuilder()
        x = m.take("int8", 1, 9, 8, 6, scale=s.x, zero=X_ZERO)
        held = [m.hold(value) for value in more]
        ys = [m.tensor("int8", *y, scale=s.x, zero=X_ZERO) for _ in range(outputs)]
        m.op(op, [*held, x] if op == "SPLIT" else [x, *held], ys, **options)
        return m.build()

    return build


def _padv2(s: Scales) -> bytes:
    m = TfliteBuilder()
    x = m.take("int8", 1, 9, 8, 6, scale=s.x, zero=X_ZERO)
    value = m.hold([33], "int8", scale=s.x, zero=X_ZERO)
    y = m.tensor("int8", 1, 10, 11, 6, scale=s.x, zero=X_ZERO)
    m.op("PADV2", [x, m.hold([[0, 0], [0, 1], [2, 1], [0, 0]]), value], [y])
    return m.build()


def _concat(s: Scales) -> bytes:
    m = TfliteBuilder()
    parts = [m.take("int8", 1, 3, 7, scale=s.x, zero=X_ZERO), m.take("int8", 1, 5, 7, scale=s.x, zero=X_ZERO)]
    y = m.tensor("int8", 1, 8, 7, scale=s.x, zero=X_ZERO)
    m.op("CONCATENATION", parts, [y], axis=1)
    return m.build()


def _batch_matmul(s: Scales) -> bytes:
    m = TfliteBuilder()
    a = m.take("int8", 2, 7, 31, scale=s.x, zero=X_ZERO)
    b = m.take("int8", 2, 9, 31, scale=s.w, zero=9)
    m.op("BATCH_MATMUL", [a, b], [m.tensor("int8", 2, 7, 9, scale=s.sum, zero=Y_ZERO)], adjY=True)
    return m.build()


def _quantize(dtype: str) -> Case:
    def build(s: Scales) -> bytes:
        m = TfliteBuilder()
        x = m.take("float32", 3, 31) if dtype == "float32" else m.take(dtype, 3, 31, scale=s.x, zero=131)
        m.op("QUANTIZE", [x], [m.tensor("int8", 3, 31, scale=s.y, zero=Y_ZERO)])
        return m.build()

    return build


def _dequantize(s: Scales) -> bytes:
    m = TfliteBuilder()
    x = m.take("int8", 3, 31, scale=s.x, zero=X_ZERO)
    m.op("DEQUANTIZE", [x], [m.tensor("float32", 3, 31)])
    return m.build()


def _argmax(s: Scales) -> bytes:
    m = TfliteBuilder()
    x = m.take("int8", 3, 31, scale=s.x, zero=X_ZERO)
    m.op("ARG_MAX", [x, m.hold(1)], [m.tensor("int32", 3)], outputType=2)
    return m.build()


# LiteRT's default kernels give these, bit for bit.
EXACT: dict[str, Case] = {
    "conv": _conv(5, 4, strideH=2, strideW=2, padding=SAME, fusedActivationFunction=RELU6),
    "conv_dilated": _conv(5, 7, padding=VALID, dilationHFactor=2),
    "conv_per_tensor": _conv(7, 7, padding=VALID, per_channel=False, fusedActivationFunction=RELU),
    "depthwise": _depthwise(7, 1),
    "depthwise_per_tensor": _depthwise(7, 1, per_channel=False),
    "depthwise_multiplier": _depthwise(3, 2),
    "depthwise_one_channel": _depthwise(1, 5),
    "fully_connected": _fully_connected((7, 31), (7, 9), fusedActivationFunction=RELU),
    "fully_connected_per_channel": _fully_connected((1, 31), (1, 9), per_channel=True),
    "fully_connected_no_bias": _fully_connected((7, 31), (7, 9), bias=""),
    "fully_connected_flattens": _fully_connected((2, 1, 1, 31), (2, 9)),
    "fully_connected_keeps": _fully_connected((2, 3, 31), (2, 3, 9), keepNumDims=True),
    "transpose_conv": _transpose_conv(3, 2, 8, 14, padding=SAME),
    "transpose_conv_apart": _transpose_conv(2, 3, 12, 21, padding=SAME),
    "transpose_conv_whole": _transpose_conv(3, 2, 9, 15, padding=VALID, fusedActivationFunction=RELU),
    "max_pool": _move(
        "MAX_POOL_2D", (1, 5, 4, 6), strideH=2, strideW=2, filterHeight=3, filterWidth=3, padding=SAME
    ),
    "max_pool_relu6": _move(
        "MAX_POOL_2D",
        (1, 9, 8, 6),
        strideH=1,
        strideW=1,
        filterHeight=2,
        filterWidth=2,
        fusedActivationFunction=RELU6,
    ),
    "pad": _move("PAD", (1, 10, 11, 6), [[0, 0], [0, 1], [2, 1], [0, 0]]),
    "padv2": _padv2,
    "reshape": _move("RESHAPE", (8, 54), [8, -1]),
    "squeeze": _move("SQUEEZE", (9, 8, 6)),
    "expand_dims": _move("EXPAND_DIMS", (1, 9, 1, 8, 6), 2),
    "transpose": _move("TRANSPOSE", (1, 6, 9, 8), [0, 3, 1, 2]),
    "strided_slice": _move(
        "STRIDED_SLICE", (4, 8, 6), [0, 1, 0, 0], [1, 9, 8, 6], [1, 2, 1, 1], shrinkAxisMask=1
    ),
    "slice": _move("SLICE", (1, 3, 8, 5), [0, 2, 0, 1], [1, 3, -1, 5]),
    "split": _move("SPLIT", (1, 9, 8, 2), 3, outputs=3, numSplits=3),
    "unpack": _move("UNPACK", (1, 8, 6), outputs=9, num=9, axis=1),
    "gather": _move("GATHER", (1, 3, 8, 6), [5, 0, 8], axis=1),
    "resize_nearest": _move("RESIZE_NEAREST_NEIGHBOR", (1, 18, 16, 6), [18, 16]),
    "concat": _concat,
    "argmax": _argmax,
    "dequantize": _dequantize,
}

# And these within a step.
WITHIN_ONE: dict[str, Case] = {
    "add": _binary("ADD", fusedActivationFunction=RELU),
    "add_broadcast": _binary("ADD", (7,)),
    "sub": _binary("SUB", fusedActivationFunction=RELU_N1_TO_1),
    "mul": _binary("MUL", (1, 1, 1, 7), fusedActivationFunction=RELU6),
    "maximum": _binary("MAXIMUM", alike=True),
    "minimum": _binary("MINIMUM", alike=True),
    "average_pool": _move(
        "AVERAGE_POOL_2D", (1, 5, 4, 6), strideH=2, strideW=2, filterHeight=3, filterWidth=3, padding=SAME
    ),
    "fully_connected_unscaled_bias": _fully_connected((7, 31), (7, 9), bias="unscaled", per_channel=True),
    "fully_connected_16": _fully_connected_16,
    "mean": _unary("MEAN", (1, 7), [1, 2], keepDims=False),
    "mean_kept": _unary("MEAN", (1, 1, 1, 7), [1, 2], keepDims=True),
    "softmax": _unary("SOFTMAX", scale=2.0**-8, zero=-128, beta=1.0),
    "softmax_beta": _unary("SOFTMAX", scale=2.0**-8, zero=-128, beta=0.5),
    "gelu": _unary("GELU"),
    "logistic": _unary("LOGISTIC", scale=2.0**-8, zero=-128),
    "tanh": _unary("TANH", scale=2.0**-7, zero=0),
    "hard_swish": _unary("HARD_SWISH"),
    "leaky_relu": _unary("LEAKY_RELU", alpha=0.1),
    "relu6": _unary("RELU6"),
    "resize_bilinear": _move("RESIZE_BILINEAR", (1, 18, 16, 6), [18, 16], halfPixelCenters=True),
    "resize_bilinear_corners": _move("RESIZE_BILINEAR", (1, 17, 15, 6), [17, 15], alignCorners=True),
    "batch_matmul": _batch_matmul,
    "quantize": _quantize("float32"),
    "requantize": _quantize("uint8"),
}
