# SPDX-License-Identifier: Apache-2.0
"""Activation functions, written as the patterns that `relay_passes` and the kernels match.

Those of exponentials, but softplus, have an error of 2^-22 of max(1, |result|) in binary32.
"""

import math

import numpy as np
from tvm import relax

from arm_ext.frontends.graph import Value
from arm_ext.frontends.ops.arithmetic import absolute, clip, elementwise, where
from arm_ext.frontends.ops.maths import exp, tanh

R = relax.op

gelu, gelu_tanh, relu, silu = map(elementwise, (R.nn.gelu, R.nn.gelu_tanh, R.nn.relu, R.nn.silu))

_SOFTPLUS_IS_X = 17
"""From there on binary32 rounds softplus to x: exp(-17) is less than half of the last bit of 17."""

SELU = 1.67326319217681884765625, 1.05070102214813232421875
"""Alpha and gamma of SELU, ONNX's defaults."""


def elu(x: Value, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Value:
    """Return scale · (max(x, 0) - alpha · max(1 - exp(input_scale · x), 0))."""
    inner = x if input_scale == 1 else x * input_scale
    below, above = relu(1 - exp(inner)), relu(x)
    return -alpha * scale * below + (above if scale == 1 else above * scale)


def selu(x: Value, alpha: float = SELU[0], gamma: float = SELU[1]) -> Value:
    """Return gamma · elu(x)."""
    return elu(x, alpha, gamma)


def celu(x: Value, alpha: float = 1.0) -> Value:
    """Return max(x, 0) + min(alpha · (exp(x / alpha) - 1), 0)."""
    return elu(x, alpha, 1.0, 1 / alpha)


def hard_sigmoid(x: Value, alpha: float = 0.2, beta: float = 0.5) -> Value:
    """Return alpha · x + beta, limited to [0, 1]."""
    return clip(x * alpha + beta, 0, 1)


def hard_swish(x: Value) -> Value:
    """Return x · min(max(x + 3, 0), 6) / 6."""
    return x * (clip(x + 3, 0, 6) / 6)


def leaky_relu(x: Value, alpha: float = 0.01) -> Value:
    """Return x, or alpha · x where it is negative; alpha is rounded to binary32."""
    return x.graph.apply(lambda e: R.nn.leakyrelu(e, float(np.float32(alpha))), x)


def relu6(x: Value) -> Value:
    """Return x limited to [0, 6]."""
    return clip(x, 0, 6)


def mish(x: Value) -> Value:
    """Return x · tanh(softplus(x))."""
    return x * tanh(softplus(x))


def softplus(x: Value, beta: float = 1.0, threshold: float = math.inf) -> Value:
    """Return log(1 + exp(beta · x)) / beta, and x where beta · x is above the threshold.

    The absolute error is 2^-21 of max(1, |result|).
    """
    inner = x if beta == 1 else x * beta
    result = x.graph.apply(R.nn.softplus, inner)
    result = result if beta == 1 else result / beta
    return result if threshold >= _SOFTPLUS_IS_X else where(inner > threshold, x, result)


def softsign(x: Value) -> Value:
    """Return x / (1 + |x|)."""
    return x / (absolute(x) + 1)


def thresholded_relu(x: Value, alpha: float = 1.0) -> Value:
    """Return x if it is above alpha, and 0 elsewhere, also where x is NaN."""
    return where(x > alpha, x, 0)
