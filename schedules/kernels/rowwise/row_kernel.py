# SPDX-License-Identifier: Apache-2.0
"""The kernel interface of row-by-row kernels: which workloads they take, and when threads pay."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any, Protocol, TypeVar

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.kernels.common import threads
from schedules.kernels.common.contract import Match, declined

Params = TypeVar("Params", bound=Any)


class Rows(Protocol):
    """The rows of a tensor."""

    @property
    def count(self) -> int:
        """Number of rows."""

    @property
    def length(self) -> int:
        """Elements of a row."""


def matched(kernel: str, core: Core, rows: Rows | Diagnostic, what: str) -> Match | Diagnostic:
    """Return a kernel's answer for rows that were parsed, or for the rejection in their place.

    Args:
        kernel: Who is asked.
        core: For which core; it needs NEON.
        rows: The rows.
        what: Is computed of them.
    """
    if not core.neon:
        return declined(kernel, "the core lacks a feature", "neon", core.name)
    if isinstance(rows, Diagnostic):
        return rows
    return Match(f"{what} of {rows.count} rows of {rows.length}")


def refused(
    workload: Workload, kernel: str, what: str, composites: Collection[str], dtypes: Collection[str]
) -> Diagnostic | None:
    """Return why a row-by-row kernel does not take a workload, or None.

    Args:
        workload: Any.
        kernel: Who asks.
        what: The composites are.
        composites: That it takes.
        dtypes: Dtypes of data and result.
    """
    if workload.composite not in composites:
        return declined(
            kernel, f"composite is no {what}", ", ".join(composites), workload.composite, unfit=True
        )
    x, output = workload.operands[0], workload.output_dtype
    if not {x.dtype, output} <= set(dtypes):
        reason = "data or result have another dtype"
        return declined(kernel, reason, " or ".join(dtypes), f"{x.dtype}, {output}", unfit=True)
    if 0 in x.shape:
        return declined(kernel, "a dimension is 0", "1 or more", str(x.shape))
    return None


def spread(params: Params, rows: Rows, cycles: float) -> Params:
    """Return the parameters with `parallel` set if the call is long enough and has several rows."""
    return replace(params, parallel=rows.count > 1 and cycles >= threads.PARALLEL_CYCLES)
