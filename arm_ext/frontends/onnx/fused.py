# SPDX-License-Identifier: Apache-2.0
"""Replacements of onnxruntime's fused operators (com.microsoft) by standard operators.

    FusedConv(X, W, B, Z), activation Relu    →    Relu(Conv(X, W, B) + Z)

Source: onnxruntime's contrib operator definitions, version 1 of com.microsoft; the oracle is onnxruntime itself.
"""

import math
from collections.abc import Sequence

import numpy as np

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.expansion import Expansion
from arm_ext.frontends.onnx.opset_forms import add, like, reduce
from arm_ext.frontends.onnx.recurrent_activations import activation

_LAYER_NORM_OPSET = 17
_PADS_BY_INPUTS = 11

# Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.
_TANH_CUBIC = 0.044715
# Default alpha of QuickGelu: the same paper's x sigmoid(1.702 x).
_QUICK = 1.702

_ACTIVATION = ("activation", "activation_params", "activation_alpha", "activation_beta", "activation_gamma")


def conv(e: Expansion, *, channels_last: bool = False) -> None:
    """Replace a fused convolution by Conv, Add and an activation."""
    x, w, bias, z = e.inputs("X W B? Z?")
    last = e.rank(x) - 1 if channels_last else 0
    if channels_last:
        x = e.emit("Transpose", [x], perm=[0, last, *range(1, last)])
    y = e.emit("Conv", [x, w, bias] if bias else [x, w], copied=e.attributes(*_ACTIVATION))
    if channels_last:
        y = e.emit("Transpose", [y], perm=[0, *range(2, last + 1), 1])
    _activate(e, add(e, y, z))


def max_pool_channels_last(e: Expansion) -> None:
    """Replace MaxPool of an image in the layout NHWC."""
    (x,) = e.inputs("x")
    last = e.rank(x) - 1
    image = e.emit("Transpose", [x], perm=[0, last, *range(1, last)])
    y = e.emit("MaxPool", [image], copied=e.attributes())
    e.emit("Transpose", [y], e.node.output[0], perm=[0, *range(2, last + 1), 1])


def gemm(e: Expansion) -> None:
    """Replace a fused Gemm by Gemm and an activation."""
    _activate(e, e.emit("Gemm", e.node.input, copied=e.attributes(*_ACTIVATION)))


def _activate(e: Expansion, value: str) -> None:
    kind = e.text("activation", "")
    params = e.numbers("activation_params") or [
        e.attribute(name, 0.0) for name in _ACTIVATION[2:] if any(a.name == name for a in e.node.attribute)
    ]
    if not kind:
        e.emit("Identity", [value], e.node.output[0])
    elif kind == "Clip":
        bounded = e.emit("Max", [value, like(e, params[0], e.node.input[0])])
        e.emit("Min", [bounded, like(e, params[1], e.node.input[0])], e.node.output[0])
    else:
        activation(e, kind, params, value, e.node.output[0])


def matmul(e: Expansion) -> None:
    """Replace a fused product by a MatMul of transposed operands, and a multiplication by the scale."""
    a, b = e.inputs("A B")
    operands = [_operand(e, value, side) for value, side in ((a, "A"), (b, "B"))]
    alpha, output = e.attribute("alpha", 1.0), e.node.output[0]
    product = e.emit("MatMul", operands, "" if alpha != 1 else output)
    if alpha != 1:
        e.emit("Mul", [product, like(e, alpha, a)], output)


def _operand(e: Expansion, value: str, side: str) -> str:
    rank = e.rank(value)
    order = list(range(rank))
    if rank > 1 and e.attribute(f"transBatch{side}", 0):
        order = [*order[1:-1], 0, order[-1]]
    if rank > 1 and e.attribute(f"trans{side}", 0):
        order[-2:] = order[:-3:-1]
    return value if order == sorted(order) else e.emit("Transpose", [value], perm=order)


def gelu(e: Expansion) -> None:
    """Replace Gelu by 0.5 x (1 + erf(x / √2)); if there is a bias, x is the data plus the bias."""
    x = add(e, *e.inputs("X bias?"))
    inner = e.emit("Erf", [e.emit("Div", [x, _like_input(e, math.sqrt(2))])])
    _gate_half(e, x, inner)


def gelu_tanh(e: Expansion) -> None:
    """Replace FastGelu by 0.5 x (1 + tanh(√(2/π) (x + 0.044715 x³))).

    If there is a bias, x is the data plus the bias.
    """
    x = add(e, *e.inputs("X bias?"))
    cube = e.emit("Mul", [x, e.emit("Mul", [x, x])])
    total = add(e, x, e.emit("Mul", [cube, _like_input(e, _TANH_CUBIC)]))
    _gate_half(e, x, e.emit("Tanh", [e.emit("Mul", [total, _like_input(e, math.sqrt(2 / math.pi))])]))


def gelu_quick(e: Expansion) -> None:
    """Replace QuickGelu by x sigmoid(alpha x)."""
    (x,) = e.inputs("X")
    alpha = e.attribute("alpha", _QUICK)
    scaled = x if alpha == 1 else e.emit("Mul", [x, _like_input(e, alpha)])
    e.emit("Mul", [x, e.emit("Sigmoid", [scaled])], e.node.output[0])


def _gate_half(e: Expansion, x: str, inner: str) -> None:
    gate = e.emit("Add", [inner, _like_input(e, 1)])
    e.emit("Mul", [e.emit("Mul", [x, gate]), _like_input(e, 0.5)], e.node.output[0])


def _like_input(e: Expansion, value: float) -> str:
    return like(e, value, e.node.input[0])


def skip_norm(e: Expansion, *, simplified: bool = False) -> None:
    """Replace SkipLayerNormalization or its simplified form by a sum of values, and the sum's normalisation."""
    x, skip, gamma, *beta, bias = e.inputs(
        "input skip gamma bias?" if simplified else "input skip gamma beta? bias?"
    )
    _, *statistics, sums = [*e.node.output, "", "", ""][:4]
    _check_norm(e, statistics)
    total = add(e, x, skip, bias)
    if sums:
        e.emit("Identity", [total], sums)
    epsilon = e.attribute("epsilon", 1e-12)
    if simplified:
        rms_norm(e, total, gamma, epsilon)
    else:
        layer_norm(e, total, gamma, beta[0], epsilon)


def simplified_norm(e: Expansion) -> None:
    """Replace SimplifiedLayerNormalization: division by the root of the mean square along the last axis."""
    x, scale = e.inputs("X scale")
    _check_norm(e, e.node.output[1:])
    rms_norm(e, x, scale, e.attribute("epsilon", 1e-5))


def _check_norm(e: Expansion, statistics: Sequence[str]) -> None:
    if any(statistics):
        raise ModelError(
            "its outputs include mean or deviation, which only training needs; remove these outputs"
        )
    if int(e.attribute("axis", -1)) not in (-1, e.rank(e.node.input[0]) - 1):
        raise ModelError("it normalises along several axes; only the last axis is supported")


def plain_norm(e: Expansion) -> None:
    """Replace LayerNormalization along the last axis."""
    x, gamma, beta = e.inputs("X Scale B?")
    _check_norm(e, e.node.output[1:])
    layer_norm(e, x, gamma, beta, e.attribute("epsilon", 1e-5))


def layer_norm(e: Expansion, x: str, gamma: str, beta: str, epsilon: float) -> None:
    """Write the node's first output: layer normalisation along the last axis."""
    output = e.node.output[0]
    if e.opset() >= _LAYER_NORM_OPSET:
        e.emit(
            "LayerNormalization", [x, gamma, beta] if beta else [x, gamma], output, axis=-1, epsilon=epsilon
        )
        return
    last = e.rank(x) - 1
    centred = e.emit("Sub", [x, reduce(e, "ReduceMean", x, [last])])
    variance = reduce(e, "ReduceMean", e.emit("Mul", [centred, centred]), [last])
    root = e.emit("Sqrt", [e.emit("Add", [variance, like(e, epsilon, gamma)])])
    scaled = e.emit("Mul", [e.emit("Div", [centred, root]), gamma], "" if beta else output)
    if beta:
        e.emit("Add", [scaled, beta], output)


def rms_norm(e: Expansion, x: str, gamma: str, epsilon: float) -> None:
    """Write the node's first output: normalisation by the root of the mean square along the last axis."""
    mean = reduce(e, "ReduceMean", e.emit("Mul", [x, x]), [e.rank(x) - 1])
    root = e.emit("Sqrt", [e.emit("Add", [mean, like(e, epsilon, gamma)])])
    e.emit("Mul", [e.emit("Div", [x, root]), gamma], e.node.output[0])


def pad(e: Expansion) -> None:
    """Replace a Pad of the contributed domain, whose widths are an input, by the standard one."""
    data, pads, value = e.inputs("data pads value?")
    widths = e.known(pads).reshape(-1)
    mode = {"mode": e.text("mode", "constant")}
    if e.opset() >= _PADS_BY_INPUTS:
        widths_name = e.constant(widths.astype(np.int64))
        e.emit("Pad", [data, widths_name, value] if value else [data, widths_name], e.node.output[0], **mode)
        return
    number = float(e.known(value).reshape(-1)[0]) if value else 0.0
    e.emit("Pad", [data], e.node.output[0], pads=widths.tolist(), value=number, **mode)


NORMS = ("GroupNormalization", "LayerNormalization", "SimplifiedLayerNormalization")
"""onnxruntime's optimiser writes the latter into the standard domain of opsets that have none; onnx took the first of
opset 18 back."""
