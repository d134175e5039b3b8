# SPDX-License-Identifier: Apache-2.0
"""NPU_OP_POOL: maximum, average, sums, positions of maxima, and copies."""

import functools

import numpy as np

from arm_ext.ethosu.model.convolution import accumulate
from arm_ext.ethosu.model.errors import StreamError
from arm_ext.ethosu.model.machine import Machine
from arm_ext.ethosu.model.memory import Integers
from arm_ext.ethosu.model.output import ofm_rounding, ofm_shape, scale_output, store
from arm_ext.ethosu.model.scaling import rescale
from arm_ext.ethosu.model.window import SlidingWindow, read_window

_MAX, _AVERAGE, _REDUCE_SUM, _SUM, _NONE, _MIN, _ARGMAX_X, _ARGMAX_Y = range(8)
_FAR = 1 << 62  # beyond every value
_VALUE_BITS = 16
_RECIPROCAL_BITS = {"u55": 31, "u65": 31, "u85": 30}  # width of a scale register minus 1


def pool(machine: Machine) -> None:
    """Run NPU_OP_POOL; U55 and U65 support only maximum, average and sum."""
    registers, mode = machine.registers, machine.running.operand
    if registers.family != "u85" and mode > _REDUCE_SUM:
        raise StreamError(f"pooling mode {mode} is not one of Ethos-{registers.family.upper()}")
    if mode == _NONE:
        accumulate(machine, np.zeros(ofm_shape(registers), np.int64))
        return
    reduces = mode == _REDUCE_SUM
    window = read_window(machine, registers.size("ifm_depth" if reduces else "ofm_depth"))
    if reduces:
        accumulate(machine, _sum(window).sum(axis=2, keepdims=True))
    elif mode == _SUM:
        accumulate(machine, _sum(window))
    elif mode == _AVERAGE:
        _average(machine, window)
    elif mode in (_MAX, _MIN):
        sign, joined = (1, np.maximum) if mode == _MAX else (-1, np.minimum)
        accumulate(machine, _extreme(window, sign), joined)
    else:
        _positions(machine, window)


def _sum(window: SlidingWindow) -> Integers:
    return functools.reduce(np.add, (tap for *_, tap in window.taps(window.padded())))


def _extreme(window: SlidingWindow, sign: int) -> Integers:
    taps = (tap for *_, tap in window.taps(window.padded(-sign * _FAR)))
    return functools.reduce(np.maximum if sign > 0 else np.minimum, taps)


def _positions(machine: Machine, window: SlidingWindow) -> None:
    """Compute the index of each window's first maximum, stored above the 16 bits of the maximum itself."""
    _, width = window.kernel.size
    best: Integers = np.full((*window.steps, window.values.shape[2]), -_FAR)
    found = np.zeros_like(best)
    for y, x, tap in window.taps(window.padded(-_FAR)):
        found = np.where(tap > best, y * width + x, found)
        best = np.maximum(tap, best)
    accumulate(machine, found << _VALUE_BITS | best & (1 << _VALUE_BITS) - 1)


def _average(machine: Machine, window: SlidingWindow) -> None:
    """Return an average: by NPU_SET_OFM_SCALE (U55 and U65 without padding), else over the inputs inside the window.

    The division is a multiplication by a reciprocal, TOSA's `reciprocal_scale`.
    """
    registers = machine.registers
    total = _sum(window)
    padded = any(registers.get(f"ifm_pad_{side}") for side in ("top", "left", "bottom", "right"))
    if not padded and registers.family != "u85":
        store(machine, scale_output(registers, total, None))
        return
    scale, shift = registers.get("ofm_scale", "scale"), registers.get("ofm_scale", "shift")
    if scale != 1 << shift:
        raise StreamError(
            f"an average over the inputs inside a window is scaled by {scale} / 2^{shift}, which is not modelled"
        )
    count = window.coverage()
    bits = np.frexp((count - 1).astype(np.float64))[1].astype(np.int64)
    precision = _RECIPROCAL_BITS[registers.family]
    reciprocal = ((np.int64(1) << precision) + 1 << bits) // np.maximum(count, 1)
    store(machine, rescale(total, reciprocal, precision + bits, ofm_rounding(registers)))
