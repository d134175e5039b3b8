# SPDX-License-Identifier: Apache-2.0
"""Kernels that can be candidates: ours, and for loops that none takes the generic ones and MetaSchedule's."""

from schedules.generic import default_schedule, metaschedule_trace
from schedules.kernels.common.contract import Kernel
from schedules.select import KERNELS as OURS

KERNELS: tuple[Kernel, ...] = (*OURS, default_schedule, metaschedule_trace)


def kernel_named(name: str) -> Kernel:
    """The kernel of that name.

    Raises:
        StopIteration: There is none.
    """
    return next(kernel for kernel in KERNELS if name == kernel.NAME)
