# SPDX-License-Identifier: Apache-2.0
"""Limit and actual value of the rejections of a kernel, for tests of near misses."""

from collections.abc import Callable

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import Kernel


def refusals_of(kernel: Kernel, core: Core) -> Callable[..., tuple[str, str]]:
    """Return a function that asserts that a kernel declines a workload, and returns the limit and the actual value.

    Args:
        kernel: The kernel.
        core: The core by default; the function takes another one as its second argument.
    """

    def refused(workload: Workload, other: Core = core) -> tuple[str, str]:
        answer = kernel.matches(workload, other)
        assert isinstance(answer, Diagnostic)
        return answer.limit, answer.actual

    return refused
