# SPDX-License-Identifier: Apache-2.0
"""DFT and STFT; what both compute is one operator of our own, which `arm_ext.frontends.ops.fourier` defines.

STFT(signal)[frame, k] = DFT(window[n] signal[frame step + n])[k]
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from tvm import relax

from arm_ext.frontends.onnx.expansion import Expansion
from arm_ext.frontends.onnx.forms import at, stack
from arm_ext.frontends.ops.fourier import Fourier, transformed

FOURIER = "Fourier"
"""Operator in the domain `OWN`, [..., parts, elements] → [..., parts, bins]; its attributes are those of `Fourier`."""

_AXIS_BY_INPUT = 20
"""First opset in which DFT's axis is an input."""


def dft(e: Expansion) -> None:
    """Replace a DFT node over a constant axis."""
    x, length, axis_name = e.inputs("input dft_length? axis?")
    dims = e.dims(x)
    rank = len(dims)
    axis = int(_number(e, axis_name, -2) if e.opset() >= _AXIS_BY_INPUT else e.attribute("axis", 1)) % rank
    inverse, onesided = bool(e.attribute("inverse", 0)), bool(e.attribute("onesided", 0))
    # What one side of a spectrum is of: two signals' lengths have as many bins, and the even one is meant.
    half = inverse and onesided
    size = _number(e, length, 2 * (dims[axis] - 1) if half else dims[axis])
    order = [*(a for a in range(rank - 1) if a != axis), rank - 1, axis]
    bins = size // 2 + 1 if onesided and not inverse else size
    data = e.emit("Transpose", [x], perm=order)
    result = _fourier(e, data, e.dtype(x), [dims[a] for a in order], Fourier(size, bins, inverse, half))
    e.emit("Transpose", [result], e.node.output[0], perm=[order.index(a) for a in range(rank)])


def stft(e: Expansion) -> None:
    """Replace an STFT node whose frames have constant places."""
    signal, step_name, window, length = e.inputs("signal frame_step window? frame_length?")
    batch, samples, *parts = e.dims(signal)
    step = _number(e, step_name, 0)
    size = _number(e, length, e.dims(window)[0] if window else 0)
    count = (samples - size) // step + 1
    index = np.arange(count)[:, None] * step + np.arange(size)[None, :]
    planes = [at(e, signal, k, 2) for k in range(parts[0])] if parts else [signal]
    frames = [e.emit("Gather", [plane, e.constant(index)], axis=1) for plane in planes]
    if window:
        frames = [e.emit("Mul", [frame, window]) for frame in frames]
    bins = size // 2 + 1 if e.attribute("onesided", 1) else size
    shape = [batch, count, len(frames), size]
    result = _fourier(e, stack(e, frames, 2), e.dtype(signal), shape, Fourier(size, bins))
    e.emit("Transpose", [result], e.node.output[0], perm=[0, 1, 3, 2])


def convert_fourier(
    builder: relax.BlockBuilder, node: onnx.NodeProto, inputs: Sequence[relax.Expr | None]
) -> relax.Expr:
    """Convert the operator `FOURIER`."""
    (x,) = inputs
    assert x is not None  # it is written with its input
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    flags = {name: bool(attributes[name]) for name in ("inverse", "half")}
    return transformed(builder.emit, x, Fourier(attributes["length"], attributes["bins"], **flags))


def _fourier(e: Expansion, data: str, dtype: np.dtype[Any], dims: Sequence[int], transform: Fourier) -> str:
    """Add the operator for data [..., parts, elements] of shape `dims`."""
    shape = [*dims[:-2], transform.results, transform.bins]
    flags = {"inverse": int(transform.inverse), "half": int(transform.half)}
    sizes = {"length": transform.length, "bins": transform.bins}
    return e.emit_own(FOURIER, [data], dtype, shape, **sizes, **flags)


def _number(e: Expansion, name: str, default: int) -> int:
    return int(e.known(name).reshape(-1)[0]) if name else default
