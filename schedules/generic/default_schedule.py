# SPDX-License-Identifier: Apache-2.0
"""Loops as they are scheduled without tuning: `schedules.generic`, in the form of a kernel."""

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import target, tirx

from schedules import generic
from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.generic import loop_workload
from schedules.generic.families import GENERIC
from schedules.kernels.common.contract import Array, Match, Rejection

NAME = GENERIC


@dataclass(frozen=True)
class Params:
    """There is one schedule."""


def matches(workload: Workload, core: Core) -> Match | Rejection:
    """Takes all loops."""
    return loop_workload.matches(NAME, workload)


def default(workload: Workload, core: Core) -> Params:
    """The one schedule."""
    return Params()


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """The one schedule."""
    return (Params(),)


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Cycles on one core, roughly; 0 where it stays as it is, of which nothing is known."""
    return scheduled(workload).cycles or 0.0


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Loops read constants as they are, as inputs."""
    return ()


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """The function, scheduled."""
    return scheduled(workload).func.with_attr("global_symbol", NAME)


def scheduled(workload: Workload) -> generic.Scheduled:
    """What `schedules.generic` makes of it."""
    kind = {"kind": "llvm", "mtriple": f"{loop_workload.machine_of(workload)}-linux-gnu"}
    return generic.schedule(loop_workload.function_of(workload), target.Target(kind))
