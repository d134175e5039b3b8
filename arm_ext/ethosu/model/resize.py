# SPDX-License-Identifier: Apache-2.0
"""NPU_OP_RESIZE of U85: bilinear, nearest, and the preceding sample."""

from dataclasses import dataclass

import numpy as np

from arm_ext.ethosu.model.errors import StreamError
from arm_ext.ethosu.model.machine import Machine
from arm_ext.ethosu.model.memory import Integers
from arm_ext.ethosu.model.output import ofm_rounding, ofm_shape, store
from arm_ext.ethosu.model.registers import Registers, signed
from arm_ext.ethosu.model.scaling import rescale
from arm_ext.ethosu.model.window import read_input

_BILINEAR, _REPLICATE, _NEAREST = range(3)
_OFFSET_BITS = 12
_FRACTION_SHIFT = 16  # sums are shifted left by this many bits in addition to the bits of the fractions


@dataclass(frozen=True)
class _AxisSamples:
    """Samples along an axis: index of the element before, distance to it in units of 1 / scale, index of the next."""

    before: Integers
    fraction: Integers
    after: Integers
    scale: int

    @classmethod
    def of(cls, registers: Registers, axis: str, samples: int, extent: int) -> "_AxisSamples":
        scale = registers.get(f"resize_{axis}_scale_n_m1") + 1
        step = registers.get(f"resize_{axis}", "one_int") * scale + registers.get(f"resize_{axis}", "one_mod")
        offset = signed(registers.get(f"resize_{axis}_offset"), _OFFSET_BITS)
        at = np.arange(samples, dtype=np.int64) * step + offset
        whole = at // scale
        return cls(
            np.clip(whole, 0, extent - 1), at - whole * scale, np.clip(whole + 1, 0, extent - 1), scale
        )

    def nearest(self) -> Integers:
        """Return the index of the element nearest to each sample; in the middle, the next one."""
        return np.where(2 * self.fraction >= self.scale, self.after, self.before)


def resize(machine: Machine) -> None:
    """Run NPU_OP_RESIZE: sample the input at fractional steps."""
    registers, mode = machine.registers, machine.running.operand
    rows, columns, depth = ofm_shape(registers)
    shape = registers.size("kernel_height"), registers.size("kernel_width"), depth
    values = read_input(machine, "ifm", shape)
    y = _AxisSamples.of(registers, "y", rows, shape[0])
    x = _AxisSamples.of(registers, "x", columns, shape[1])
    if mode == _BILINEAR:
        sampled = _bilinear(values, y, x)
    elif mode == _NEAREST:
        sampled = values[y.nearest()][:, x.nearest()]
    elif mode == _REPLICATE:
        sampled = values[y.before][:, x.before]
    else:
        raise StreamError(f"resize mode {mode} is unknown")
    scale, shift = registers.get("ofm_scale", "scale"), registers.get("ofm_scale", "shift")
    store(machine, rescale(sampled << _FRACTION_SHIFT, scale, shift, ofm_rounding(registers)))


def _bilinear(values: Integers, y: _AxisSamples, x: _AxisSamples) -> Integers:
    down, across = y.fraction[:, None, None], x.fraction[:, None]
    above, below = values[y.before], values[y.after]
    above = above[:, x.before] * x.scale + (above[:, x.after] - above[:, x.before]) * across
    below = below[:, x.before] * x.scale + (below[:, x.after] - below[:, x.before]) * across
    return np.asarray(above * y.scale + (below - above) * down)
