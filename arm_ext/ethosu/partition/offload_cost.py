# SPDX-License-Identifier: Apache-2.0
"""The offload cost of a region: Vela's estimate plus the hand-over, compared with the estimates of CPU kernels.

    on_npu = NPU cycles / NPU clock + hand-over + bytes in and out / (CPU clock * bytes a cycle)
    on_cpu = CPU cycles / CPU clock

These are estimates for one core and a memory without other traffic. None was measured on a board with an NPU: hand-over
and bytes per cycle are assumptions, and the clocks are those of one chip of each family. Users can set hand-over and
clocks by options.
"""

import math
from dataclasses import dataclass

import numpy as np

from arm_ext.ethosu.options import HANDOVER_US
from arm_ext.ethosu.partition.parts import NpuPart
from schedules.diagnostic import Diagnostic

COPY_BYTES = 8
"""Assumed bytes per CPU cycle of copies into and out of the arena, cache maintenance included."""


@dataclass(frozen=True)
class Clocks:
    """Clock rates and hand-over time, which convert cycles to seconds.

    Attributes:
        cpu: Clock of the CPU in MHz.
        npu: Clock of the NPU in MHz.
        handover: Time of one region's submission and completion in microseconds.
    """

    cpu: float
    npu: float
    handover: float = HANDOVER_US


ESTIMATES = "estimates of Vela and of the kernels"
"""The source of the answer whether an operator or a region is faster on the CPU, as diagnostics name it."""


@dataclass(frozen=True)
class OffloadCost:
    """Estimated seconds of one inference of a region: `on_cpu` on the CPU, `on_npu` on the NPU."""

    on_cpu: float
    on_npu: float

    @property
    def gains(self) -> bool:
        """Whether the region is faster on the NPU."""
        return self.on_npu < self.on_cpu

    def loss(self) -> Diagnostic:
        """Return why a region that does not gain stays on the CPU."""
        return Diagnostic(
            "the hand-over costs more than its region saves",
            f"below {1e6 * self.on_cpu:.1f} us, as on the CPU",
            f"{1e6 * self.on_npu:.1f} us",
            asked=ESTIMATES,
            hint="offload its neighbours too, or name it in --npu-ops",
        )


def dearer(npu_cycles: int, cpu_cycles: float, clocks: Clocks) -> Diagnostic | None:
    """Return why an operator that is slower on the NPU stays on the CPU; None if it is faster there.

    Args:
        npu_cycles: Vela's estimate for the operator.
        cpu_cycles: The kernels' estimate for the operator.
        clocks: Clock rates of CPU and NPU.
    """
    on_npu, on_cpu = npu_cycles / clocks.npu, cpu_cycles / clocks.cpu
    if on_npu <= on_cpu:
        return None
    return Diagnostic(
        "it takes longer on the NPU, where its region does not gain",
        f"at most {on_cpu:.1f} us, as on the CPU",
        f"{on_npu:.1f} us",
        asked=ESTIMATES,
        hint="name it in --npu-ops",
    )


def offload_cost(part: NpuPart, npu_cycles: int, cpu_cycles: float, clocks: Clocks) -> OffloadCost:
    """Return the estimated times of a part on the CPU and on the NPU.

    Args:
        part: The operators; inputs and outputs of the part are copied.
        npu_cycles: Vela's estimate for the part.
        cpu_cycles: The sum of the kernels' estimates for its operators.
        clocks: Clock rates and hand-over time.
    """
    moved = sum(
        math.prod(tensor.shape) * np.dtype(tensor.dtype).itemsize for tensor in (*part.inputs, *part.outputs)
    )
    copies = moved / COPY_BYTES / clocks.cpu
    on_npu = 1e-6 * (npu_cycles / clocks.npu + copies + clocks.handover)
    return OffloadCost(1e-6 * cpu_cycles / clocks.cpu, on_npu)
