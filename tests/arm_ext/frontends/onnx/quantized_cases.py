# SPDX-License-Identifier: Apache-2.0
"""Each quantised ONNX operator in the forms it comes in."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.arm_ext.frontends.onnx.one_node import OneNode


@dataclass(frozen=True)
class Scales:
    """Scales to quantise with.

    Attributes:
        x: Of the first input.
        w: Of the second, or of the weights.
        y: Of the output.
        sum: Of an output that is a sum of products.
        ties: Share of outputs that may lie so near a tie that onnxruntime's kernels round them to the other side.
    """

    x: float
    w: float
    y: float
    sum: float
    ties: float


SCALES = {
    "pow2": Scales(0.0625, 0.03125, 0.125, 2.0, ties=0.5),
    "decimal": Scales(0.1, 0.013, 0.07, 2.3, ties=0.02),
}

Case = Callable[[Scales], OneNode]

# Odd, and off the middle.
ZERO = {"uint8": 131, "int8": -7}


def _conv(x: str, w: str, *, per_channel: bool, bias: bool, **attributes: object) -> Case:
    def build(s: Scales) -> OneNode:
        m = OneNode("QLinearConv", "", outputs=(x,), attributes=attributes)
        m.take(x, 1, 7, 9, 8).params(s.x, ZERO[x], x)
        channels = 1 if "group" in attributes else 7
        scale, zero = (s.w, ZERO[w]) if not per_channel else (s.w * (1 + np.arange(7) % 3), np.zeros(7))
        m.weight(w, 7, channels, 3, 3).params(scale, zero, w).params(s.sum, ZERO[x], x)
        return m.hold(m.rng.integers(-9000, 9000, 7), "int32") if bias else m

    return build


def _conv_channels_last(s: Scales) -> OneNode:
    m = OneNode("QLinearConv", attributes={"channels_last": 1, "pads": [1, 0, 1, 2]})
    # Weights of uint8, as onnxruntime saturates sums of u8 x s8 here on processors without VNNI.
    m.take("uint8", 1, 9, 8, 3).params(s.x, 131, "uint8").weight("uint8", 5, 3, 3, 3)
    return m.params(s.w, 120, "uint8").params(s.sum, 7, "uint8")


def _matmul(dtype: str, *shape: int) -> Case:
    def build(s: Scales) -> OneNode:
        m = OneNode("QLinearMatMul", "", outputs=(dtype,)).take(dtype, *shape).params(s.x, ZERO[dtype], dtype)
        m.weight("int8", shape[-1], 9).params(s.w * (1 + np.arange(9) % 3), np.zeros(9), "int8")
        return m.params(s.sum, ZERO[dtype], dtype)

    return build


def _matmul_run_time(s: Scales) -> OneNode:
    m = OneNode("QLinearMatMul", "").take("uint8", 2, 7, 31).params([s.x], [131], "uint8")
    return m.take("uint8", 2, 31, 9).params(s.w, 7, "uint8").params(s.sum, 129, "uint8")


def _gemm(*, quantized: bool, bias: bool, **attributes: object) -> Case:
    def build(s: Scales) -> OneNode:
        m = OneNode("QGemm", outputs=("int8" if quantized else "float32",), attributes=attributes)
        m.take("int8", *((31, 7) if "transA" in attributes else (7, 31))).params(s.x, -7, "int8")
        m.weight("int8", *((9, 31) if "transB" in attributes else (31, 9)))
        m.params(s.w * (1 + np.arange(9) % 3), np.zeros(9), "int8")
        m = m.hold(m.rng.integers(-9000, 9000, 9), "int32") if bias else m.skip()
        return m.params(s.sum, 5, "int8") if quantized else m

    return build


def _unary(op: str, dtype: str, *shape: int, shrink: int = 1, **attributes: object) -> Case:
    def build(s: Scales) -> OneNode:
        m = OneNode(op, outputs=(dtype,), attributes=attributes)
        m.take(dtype, *shape).params(s.x, ZERO[dtype], dtype)
        return m.params(s.y / shrink, ZERO[dtype] - 2, dtype)

    return build


def _no_zero_points(s: Scales) -> OneNode:
    m = OneNode("QLinearLeakyRelu", outputs=("int8",)).take("int8", 3, 31)
    # onnxruntime crashes where the last is not even named.
    return m.hold(s.x).skip().hold(s.y).skip()


def _binary(op: str, dtype: str) -> Case:
    def build(s: Scales) -> OneNode:
        m = OneNode(op, outputs=(dtype,)).take(dtype, 1, 7, 9, 8).params(s.x, ZERO[dtype], dtype)
        return m.take(dtype, 9, 1).params(s.w, ZERO[dtype] + 4, dtype).params(s.y, 3, dtype)

    return build


def _concat(s: Scales) -> OneNode:
    m = OneNode("QLinearConcat", attributes={"axis": 1}).params(s.y, 131, "uint8")
    return m.take("uint8", 1, 3, 7).params(s.x, 7, "uint8").take("uint8", 1, 5, 7).params(s.w, 9, "uint8")


def _where(s: Scales) -> OneNode:
    m = OneNode("QLinearWhere").take("bool", 7, 9).take("uint8", 7, 9).params(s.x, 7, "uint8")
    return m.take("uint8", 1, 9).params(s.w, 9, "uint8").params(s.y, 131, "uint8")


def _quantize(s: Scales) -> OneNode:
    return OneNode("QuantizeLinear").take("float32", 3, 31).params(s.x, 131, "uint8")


def _dequantize(s: Scales) -> OneNode:
    m = OneNode("DequantizeLinear", outputs=("float32",), attributes={"axis": 1}).take("int8", 5, 3)
    return m.params([s.x, 2 * s.x, 3 * s.x], [1, -3, 5], "int8")


_IMAGE = (1, 7, 9, 8)

CASES: dict[str, Case] = {
    "conv_s8": _conv("int8", "int8", per_channel=True, bias=True, pads=[1, 1, 1, 1], strides=[2, 2]),
    "conv_u8": _conv("uint8", "uint8", per_channel=False, bias=False, pads=[0, 1, 2, 1], dilations=[2, 1]),
    "conv_u8_s8": _conv("uint8", "int8", per_channel=False, bias=True),
    "depthwise": _conv("uint8", "int8", per_channel=True, bias=True, group=7, auto_pad="SAME_UPPER"),
    "depthwise_uint8": _conv("uint8", "uint8", per_channel=False, bias=True, group=7, pads=[1, 1, 1, 1]),
    "conv_channels_last": _conv_channels_last,
    "matmul_s8": _matmul("int8", 7, 31),
    "matmul_u8": _matmul("uint8", 2, 1, 31),
    "matmul_run_time": _matmul_run_time,
    "gemm": _gemm(quantized=True, bias=True, transB=1),
    "gemm_transposed": _gemm(quantized=True, bias=False, transA=1, alpha=0.5),
    "gemm_to_float": _gemm(quantized=False, bias=True),
    "leaky_relu": _unary("QLinearLeakyRelu", "uint8", *_IMAGE, alpha=0.1),
    "no_zero_points": _no_zero_points,
    "sigmoid": _unary("QLinearSigmoid", "int8", *_IMAGE, shrink=16),
    "softmax": _unary("QLinearSoftmax", "uint8", 3, 31, shrink=64, axis=-1, opset=17),
    "softmax_inner": _unary("QLinearSoftmax", "uint8", 1, 7, 9, shrink=64, axis=1, opset=17),
    "softmax_older": _unary("QLinearSoftmax", "uint8", 3, 31, shrink=64, axis=1, opset=11),
    "global_pool": _unary("QLinearGlobalAveragePool", "uint8", *_IMAGE, shrink=16),
    "global_pool_channels_last": _unary(
        "QLinearGlobalAveragePool", "int8", *_IMAGE, shrink=16, channels_last=1
    ),
    "pool": _unary(
        "QLinearAveragePool", "uint8", *_IMAGE, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1]
    ),
    "pool_channels_last": _unary("QLinearAveragePool", "int8", *_IMAGE, kernel_shape=[3, 3], channels_last=1),
    "pool_with_padding": _unary(
        "QLinearAveragePool", "uint8", *_IMAGE, kernel_shape=[3, 3], pads=[1] * 4, count_include_pad=1
    ),
    "add": _binary("QLinearAdd", "int8"),
    "mul": _binary("QLinearMul", "uint8"),
    "concat": _concat,
    "where": _where,
    "quantize": _quantize,
    "dequantize": _dequantize,
}
