# SPDX-License-Identifier: Apache-2.0
"""The contract between a kernel and `select`: what each file under `schedules/kernels` provides."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np
from tvm import tirx

if TYPE_CHECKING:
    from schedules.composites.workload import Workload
    from schedules.cores import Core

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Match:
    """A kernel takes the workload.

    Attributes:
        reason: What it was recognised as.
    """

    reason: str


@dataclass(frozen=True)
class Rejection:
    """A kernel does not take the workload, with the constraint that failed.

    Attributes:
        kernel: The kernel, or "any" where no kernel could take it.
        reason: The constraint, as a sentence without its numbers.
        limit: What the constraint allows.
        actual: What the workload has.
    """

    kernel: str
    reason: str
    limit: str
    actual: str

    @property
    def of_other_composites(self) -> bool:
        """Whether the kernel computes something else altogether, which says nothing about this workload."""
        return self.reason.startswith("composite is no ")


Answer = TypeVar("Answer")


def taken(answer: Answer | Rejection, workload: "Workload") -> Answer:
    """What a kernel read of a workload that it takes.

    Raises:
        ValueError: It does not; callers ask `matches` first.
    """
    if isinstance(answer, Rejection):
        raise ValueError(f"{answer.kernel} does not take {workload}: {answer.reason}")  # noqa: TRY004 (no type is wrong)
    return answer


class Kernel(Protocol):
    """One kernel; a module of `schedules.kernels` is one. `params` are instances of the module's frozen `Params`."""

    NAME: str
    Params: type[Any]

    def matches(self, workload: "Workload", core: "Core") -> Match | Rejection:
        """Whether the kernel computes this workload on this core."""

    def default(self, workload: "Workload", core: "Core") -> Any:
        """The parameters that are good without tuning."""

    def candidates(self, workload: "Workload", core: "Core") -> tuple[Any, ...]:
        """The parameters worth trying."""

    def estimate(self, workload: "Workload", params: Any, core: "Core") -> float:
        """Cycles of one call on one core."""

    def pack(self, workload: "Workload", params: Any, constants: Sequence[Array]) -> tuple[Array, ...]:
        """The constants in the layout that `build` reads, packed at compile time."""

    def build(self, workload: "Workload", params: Any) -> tirx.PrimFunc:
        """The kernel: arguments are the workload's inputs, the packed constants, then the output."""
