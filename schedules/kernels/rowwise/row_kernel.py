# SPDX-License-Identifier: Apache-2.0
"""The common implementation of kernels that compute row by row: accepted workloads, threads and estimates."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.kernels.common import threads
from schedules.kernels.common.contract import KernelMatch, declined, missing_feature, taken


class Rows(Protocol):
    """The rows of a tensor."""

    @property
    def count(self) -> int:
        """Number of rows."""

    @property
    def length(self) -> int:
        """Number of elements of a row."""


@dataclass(frozen=True)
class Params:
    """Parameters of a kernel without tuning parameters.

    Attributes:
        parallel: Whether rows are spread over the runtime's threads.
    """

    parallel: bool = False


R = TypeVar("R", bound=Rows)
P = TypeVar("P", bound=Any)


@dataclass(frozen=True)
class RowKernel(Generic[R, P]):
    """Common interface of row-by-row kernels.

    Attributes:
        name: Name of the kernel.
        read: Parses a workload.
        what: Returns a description of a workload's computation, for reports.
        serial: Returns the parameters for a core and one thread.
        cycles: Estimates one call on one core with all loads in L1.
        portable: Whether vectors of any instruction set do, such as those of the machine that compiles.
    """

    name: str
    read: Callable[[Workload], R | Diagnostic]
    what: Callable[[Workload], str]
    serial: Callable[[Core], P]
    cycles: Callable[[Workload, R, P, Core], float]
    portable: bool = False

    def matches(self, workload: Workload, core: Core) -> KernelMatch | Diagnostic:
        """Accept the workloads that can be parsed, on cores with NEON, or without if the kernel is portable."""
        rows = self.read(workload)
        if not (core.neon or self.portable):
            return missing_feature(self.name, "neon", core)
        if isinstance(rows, Diagnostic):
            return rows
        return KernelMatch(f"{self.what(workload)} of {rows.count} rows of {rows.length}")

    def rows(self, workload: Workload) -> R:
        """Return the parsed rows of a workload that `matches` accepts."""
        return taken(self.read(workload), workload)

    def default(self, workload: Workload, core: Core) -> P:
        """Return the parameters for a core; long calls of several rows are parallel."""
        serial = self.serial(core)
        long = self.estimate(workload, serial, core) >= threads.PARALLEL_CYCLES
        params: P = replace(serial, parallel=self.rows(workload).count > 1 and long)
        return params

    def candidates(self, workload: Workload, core: Core) -> tuple[P, ...]:
        """Return the default: there is nothing to tune."""
        return (self.default(workload, core),)

    def estimate(self, workload: Workload, params: P, core: Core) -> float:
        """Return the cycles of one call on one core with all loads in L1."""
        return self.cycles(workload, self.rows(workload), params, core)


def rejection_of(
    workload: Workload, kernel: str, what: str, composites: Collection[str], dtypes: Collection[str]
) -> Diagnostic | None:
    """Return why a row-by-row kernel declines a workload; None if it accepts composite, dtypes and shape.

    Args:
        workload: Any workload.
        kernel: Name of the kernel, for the rejection.
        what: Name of the computation, for messages.
        composites: Names of the composites that the kernel accepts.
        dtypes: Accepted dtypes of data and result.
    """
    if workload.composite not in composites:
        return declined(
            kernel, f"composite is no {what}", ", ".join(composites), workload.composite, unfit=True
        )
    x, output = workload.operands[0], workload.output_dtype
    if not {x.dtype, output} <= set(dtypes):
        reason = "dtype of data or result is not supported"
        return declined(kernel, reason, " or ".join(dtypes), f"{x.dtype}, {output}", unfit=True)
    if 0 in x.shape:
        return declined(kernel, "a dimension is 0", "1 or more", str(x.shape))
    return None
