# SPDX-License-Identifier: Apache-2.0
"""The default schedule of generic loops, `schedules.generic.schedule`, behind the interface of a kernel."""

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import tirx

from schedules import generic
from schedules.composites.workload import Workload
from schedules.cores import A64, X86_64, Core
from schedules.diagnostic import Diagnostic
from schedules.generic import loop_workload
from schedules.generic.families import GENERIC
from schedules.kernels.common.contract import Array, KernelMatch

NAME = GENERIC

_ISAS = {isa.machine: isa for isa in (A64, X86_64)}
"""The instruction sets that tuning knows, by machine."""


@dataclass(frozen=True)
class Params:
    """Parameters of the default schedule: none."""


def matches(workload: Workload, core: Core) -> KernelMatch | Diagnostic:
    """Accept every workload of generic loops."""
    return loop_workload.matches(NAME, workload)


def default(workload: Workload, core: Core) -> Params:
    """Return the empty parameters."""
    return Params()


def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Return the empty parameters alone: there is nothing to tune."""
    return (Params(),)


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Return a rough estimate in cycles on one core; 0.0 for a function that the schedule does not change."""
    return scheduled(workload).cycles or 0.0


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return no arrays: loops read their constants as ordinary inputs."""
    return ()


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Return the scheduled function under the kernel's name."""
    return scheduled(workload).func.with_attr("global_symbol", NAME)


def scheduled(workload: Workload) -> generic.Scheduled:
    """Schedule the function of a workload by `schedules.generic.schedule` for the workload's architecture."""
    return generic.schedule(loop_workload.function_of(workload), _ISAS[loop_workload.machine_of(workload)])
