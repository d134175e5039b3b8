# SPDX-License-Identifier: Apache-2.0
"""The interface between a kernel and `select`, which each kernel module under `schedules/kernels` implements."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from tvm import tirx

from schedules.diagnostic import Diagnostic

if TYPE_CHECKING:
    from schedules.composites.workload import Workload
    from schedules.cores import Core

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class KernelMatch:
    """The result of `matches` if the kernel accepts a workload.

    Attributes:
        reason: Description of the recognised workload.
    """

    reason: str


def declined(kernel: str, reason: str, limit: str, actual: str, unfit: bool = False) -> Diagnostic:
    """Return the diagnostic that a kernel declines a workload, with the constraint that failed.

    Args:
        kernel: Name of the kernel, or "any" if no kernel can accept the workload.
        reason: The constraint, as a sentence without its numbers.
        limit: The value that the constraint allows.
        actual: The workload's value.
        unfit: Whether the kernel is for other kinds of workloads, so that no other size, core or option would help.
    """
    return Diagnostic(reason, limit, actual, asked=kernel, unfit=unfit)


def missing_feature(kernel: str, feature: str, core: "Core") -> Diagnostic:
    """Return the diagnostic that a kernel needs an instruction set feature which the core does not have."""
    return Diagnostic(f"{core.name} has no {feature}", asked=kernel)


Answer = TypeVar("Answer")


def taken(answer: Answer | Diagnostic, workload: "Workload") -> Answer:
    """Return `answer`, a workload as a kernel parsed it, if it is no diagnostic.

    Raises:
        ValueError: The kernel declined the workload; callers must check `matches` first.
    """
    if isinstance(answer, Diagnostic):
        raise ValueError(f"{answer.asked} does not take {workload}: {answer.reason}")  # noqa: TRY004 (no type is wrong)
    return answer


class Kernel(Protocol):
    """The interface of a kernel, which is a module; `params` is an instance of its frozen dataclass `Params`."""

    NAME: str
    Params: type[Any]

    def matches(self, workload: "Workload", core: "Core") -> KernelMatch | Diagnostic:
        """Return a match if the kernel can compute this workload on this core, else a rejection with the reason."""

    def default(self, workload: "Workload", core: "Core") -> Any:
        """Return the parameters that are used without tuning."""

    def candidates(self, workload: "Workload", core: "Core") -> tuple[Any, ...]:
        """Return the parameters that tuning may try."""

    def estimate(self, workload: "Workload", params: Any, core: "Core") -> float:
        """Return the modelled cycles of one call on one core."""

    def pack(self, workload: "Workload", params: Any, constants: Sequence[Array]) -> tuple[Array, ...]:
        """Pack the workload's constants, at compile time, into the layout that `build` reads."""

    def build(self, workload: "Workload", params: Any) -> tirx.PrimFunc:
        """Build the PrimFunc: its arguments are the workload's inputs, the packed constants, then the output."""
