# SPDX-License-Identifier: Apache-2.0
"""What candidates are of: our kernels, and for the loops that none takes how they are and what MetaSchedule makes."""

from arm_ext.tune import as_lowered, metaschedule
from schedules.kernels.common.contract import Kernel
from schedules.select import KERNELS as OURS

KERNELS: tuple[Kernel, ...] = (*OURS, as_lowered, metaschedule)


def kernel_named(name: str) -> Kernel:
    """The kernel of that name.

    Raises:
        StopIteration: There is none.
    """
    return next(kernel for kernel in KERNELS if name == kernel.NAME)
