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
    """The answer that a kernel takes a workload.

    Attributes:
        reason: Description of the recognised workload.
    """

    reason: str


def declined(kernel: str, reason: str, limit: str, actual: str, unfit: bool = False) -> Diagnostic:
    """Return the answer that a kernel does not take a workload, with the constraint that failed.

    Args:
        kernel: The kernel, or "any" where no kernel could take it.
        reason: The constraint, as a sentence without its numbers.
        limit: The value that the constraint allows.
        actual: The workload's value.
        unfit: Whether the kernel computes another kind of workload: no other size, core or option would make it take
            this one.
    """
    return Diagnostic(reason, limit, actual, asked=kernel, unfit=unfit)


def lacking(kernel: str, feature: str, core: "Core") -> Diagnostic:
    """Return the answer that a kernel needs a feature of the instruction set which the core does not have."""
    return Diagnostic(f"{core.name} has no {feature}", asked=kernel)


Answer = TypeVar("Answer")


def taken(answer: Answer | Diagnostic, workload: "Workload") -> Answer:
    """Return the record that a kernel parsed from a workload that it takes.

    Raises:
        ValueError: The kernel does not take the workload; callers ask `matches` first.
    """
    if isinstance(answer, Diagnostic):
        raise ValueError(f"{answer.asked} does not take {workload}: {answer.reason}")  # noqa: TRY004 (no type is wrong)
    return answer


class Kernel(Protocol):
    """The interface of a kernel, which is a module; `params` are instances of its frozen dataclass `Params`."""

    NAME: str
    Params: type[Any]

    def matches(self, workload: "Workload", core: "Core") -> KernelMatch | Diagnostic:
        """Return whether the kernel computes this workload on this core, with the reason."""

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
