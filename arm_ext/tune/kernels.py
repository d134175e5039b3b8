# SPDX-License-Identifier: Apache-2.0
"""Kernels that can be candidates: hand-written ones, and for other loops the generic ones and MetaSchedule's."""

from schedules.generic import default_schedule, metaschedule_trace
from schedules.kernels.common.contract import Kernel
from schedules.select import KERNELS as OURS
from schedules.select import SME_KERNELS

KERNELS: tuple[Kernel, ...] = (*OURS, *SME_KERNELS, default_schedule, metaschedule_trace)


def kernel_named(name: str) -> Kernel:
    """Return the kernel with a name.

    Raises:
        StopIteration: No kernel has this name.
    """
    return next(kernel for kernel in KERNELS if name == kernel.NAME)
