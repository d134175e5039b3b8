# SPDX-License-Identifier: Apache-2.0
"""Converters of ONNX's DFT and STFT, built from the operators of `frontends.ops`.

STFT(signal)[frame, k] = DFT(window[n] signal[frame step + n])[k]
"""

import numpy as np

from arm_ext.frontends.graph import Value
from arm_ext.frontends.onnx.node import Node
from arm_ext.frontends.ops.fourier import Fourier, fourier
from arm_ext.frontends.ops.gather_scatter import take_clipped

_AXIS_BY_INPUT = 20
"""First opset in which DFT's axis is an input."""


def dft(node: Node) -> Value:
    """Convert a DFT node over a constant axis."""
    x, rank = node.value(0), len(node.value(0).shape)
    axis = node.whole_number(2, -2) if node.opset >= _AXIS_BY_INPUT else node.attribute("axis", 1)
    axis %= rank
    inverse, onesided = bool(node.attribute("inverse", 0)), bool(node.attribute("onesided", 0))
    # A one-sided spectrum may come from an even or an odd signal length; ONNX means the even one.
    half = inverse and onesided
    size = node.whole_number(1, 2 * (x.shape[axis] - 1) if half else x.shape[axis])
    order = [*(a for a in range(rank - 1) if a != axis), rank - 1, axis]
    bins = size // 2 + 1 if onesided and not inverse else size
    result = fourier(x.permute(order), Fourier(size, bins, inverse, half))
    return result.permute([order.index(a) for a in range(rank)])


def stft(node: Node) -> Value:
    """Convert an STFT node whose frames have constant indices: [batch, samples, parts] → [batch, frames, bins, 2]."""
    signal, window = node.value(0), node.optional(2)
    batch, samples, *_ = signal.shape
    planes = signal.reshape((batch, samples, signal.shape[2] if len(signal.shape) > 2 else 1))
    step, size = node.whole_number(1, 0), node.whole_number(3, window.shape[0] if window else 0)
    index = np.arange((samples - size) // step + 1)[:, None] * step + np.arange(size)[None, :]
    frames = take_clipped(planes, signal.graph.hold_constant(index), 1).permute([0, 1, 3, 2])
    frames = frames * window if window else frames
    bins = size // 2 + 1 if node.attribute("onesided", 1) else size
    return fourier(frames, Fourier(size, bins)).permute([0, 1, 3, 2])
