# SPDX-License-Identifier: Apache-2.0
"""DFT and STFT as products with constant matrices of cosines and sines.

    X[k] = Σ_n x[n] (cos(2 pi k n / N) - i sin(2 pi k n / N))

A frame of N samples takes N² products, which suits the lengths of speech features (400 or 512).
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from arm_ext.frontends.common.maths import waves
from arm_ext.frontends.onnx.expansion import Expansion
from arm_ext.frontends.onnx.forms import at, part, stack

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
    halved = inverse and onesided
    size = _number(e, length, 2 * (dims[axis] - 1) if halved else dims[axis])
    order = [a for a in range(rank - 1) if a != axis] + [axis]
    parts = [e.emit("Transpose", [at(e, x, k, rank - 1)], perm=order) for k in range(dims[-1])]
    taken = min(size // 2 + 1 if halved else size, dims[axis])
    parts = [part(e, value, 0, taken) for value in parts]
    bins = size // 2 + 1 if onesided and not inverse else size
    matrices = waves(taken, size, bins, inverse, e.dtype(x))
    if halved:
        # The other half of the spectrum is the conjugate of this one: all but its ends count twice.
        twice = np.where(np.arange(taken) % size % -(-size // 2) == 0, 1, 2)[:, None].astype(e.dtype(x))
        matrices = matrices[0] * twice, matrices[1] * twice
    results = _transformed(e, parts, matrices)
    back = [order.index(a) for a in range(rank - 1)]
    outputs = [e.emit("Transpose", [value], perm=back) for value in results[: 1 if halved else 2]]
    stack(e, outputs, rank - 1, e.node.output[0])


def stft(e: Expansion) -> None:
    """Replace an STFT node whose frames have constant places."""
    signal, step_name, window, length = e.inputs("signal frame_step window? frame_length?")
    _, samples, *_ = dims = e.dims(signal)
    step = _number(e, step_name, 0)
    size = _number(e, length, e.dims(window)[0] if window else 0)
    count = (samples - size) // step + 1
    index = np.arange(count)[:, None] * step + np.arange(size)[None, :]
    planes = [at(e, signal, k, 2) for k in range(dims[2])] if len(dims) > 2 else [signal]
    frames = [e.emit("Gather", [plane, e.constant(index)], axis=1) for plane in planes]
    if window:
        frames = [e.emit("Mul", [frame, window]) for frame in frames]
    bins = size // 2 + 1 if e.attribute("onesided", 1) else size
    outputs = _transformed(e, frames, waves(size, size, bins, False, e.dtype(signal)))
    stack(e, outputs, 3, e.node.output[0])


def _transformed(
    e: Expansion, parts: list[str], waves: tuple[npt.NDArray[Any], npt.NDArray[Any]]
) -> tuple[str, str]:
    """Real and imaginary part of the transform along the last axis of one or two parts."""
    cosines, sines = (e.constant(wave) for wave in waves)
    real, imaginary = (e.emit("MatMul", [parts[0], wave]) for wave in (cosines, sines))
    if len(parts) == 1:
        return real, imaginary
    crossed = e.emit("MatMul", [parts[1], sines])
    return e.emit("Sub", [real, crossed]), e.emit("Add", [imaginary, e.emit("MatMul", [parts[1], cosines])])


def _number(e: Expansion, name: str, default: int) -> int:
    return int(e.known(name).reshape(-1)[0]) if name else default
