# SPDX-License-Identifier: Apache-2.0
"""Lowering of functions with static shapes."""

from collections.abc import Collection, Sequence

import tvm
from tvm import relax, tirx

from arm_ext.target.profiles import Profile
from schedules import generic
from schedules.generic import loop_workload, metaschedule_trace
from schedules.generic.families import GENERIC
from schedules.kernels.common.contract import Kernel
from schedules.lowering.lower import Cached, Lowered, lower
from schedules.select import Choose, Rejected


def by_trace(
    func: tirx.PrimFunc, scheduled: generic.Scheduled, profile: Profile, choose: Choose
) -> tuple[generic.Scheduled, str]:
    """Return a function's schedule, by a tuning record if there is one; also the record's source, or "".

    Args:
        func: Fused loops, as FuseTIR returns them.
        scheduled: The function as scheduled without tuning.
        profile: The target.
        choose: Asked for parameters of `metaschedule` or `default_schedule`.
    """
    workload = loop_workload.workload_of(func, profile.core.isa.machine)
    known = None if workload is None else choose(workload, profile.core)
    if workload is None or known is None:
        return scheduled, ""
    if not isinstance(known.params, metaschedule_trace.Params):
        return scheduled, known.source
    # Restore the function's own attributes, since a trace's result has those of the workload.
    traced = metaschedule_trace.build(workload, known.params).without_attr("global_symbol")
    for name in func.attrs.keys() if func.attrs else ():
        traced = traced.with_attr(name, func.attrs[name])
    return generic.Scheduled(
        traced, f"by {known.source}", metaschedule_trace.NAME, scheduled.cycles
    ), known.source


class FixedSizes:
    """Lowers the functions of one module."""

    def __init__(
        self,
        mod: tvm.IRModule,
        profile: Profile,
        without: Collection[str] = (),
        more: Sequence[Kernel] = (),
        cached: Cached | None = None,
    ) -> None:
        """Store what `Lengths` needs, the user's kernels, and the cache of choices and stubs."""
        self._mod, self._profile, self._without, self._more = mod, profile, without, more
        self._cached = cached
        self._routines = {gv.name_hint: f for gv, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)}

    def lower(self, name: str, choose: Choose | None) -> Lowered | Rejected:
        """Lower a composite by a hand-written kernel."""
        profile = self._profile
        target, routines = profile.tvm_target(), self._routines
        more, cached = self._more, self._cached
        return lower(self._mod[name], target, profile.core, choose, routines, self._without, more, cached)

    def schedule(self, func: tirx.PrimFunc, choose: Choose | None) -> tuple[generic.Scheduled, str]:
        """Schedule loops that no kernel takes; also return the source of the tuning record used, or ""."""
        scheduled = generic.schedule(func, self._profile.core.isa)
        if choose is not None and scheduled.kernel == GENERIC:
            return by_trace(func, scheduled, self._profile, choose)
        return scheduled, ""

    def as_called(self, name: str) -> relax.Function:
        """Return a composite for inlining."""
        return self._mod[name]

    def inlined(self, caller: relax.Function) -> relax.Function:
        """Return a function with inlined composites unchanged."""
        return caller
