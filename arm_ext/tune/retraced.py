# SPDX-License-Identifier: Apache-2.0
"""Loops that no kernel takes, scheduled as a record has it."""

from tvm import tirx

from arm_ext.target.profiles import Profile
from arm_ext.tune import loops, metaschedule
from schedules import generic
from schedules.select import Choose


def retraced(
    func: tirx.PrimFunc, scheduled: generic.Scheduled, profile: Profile, choose: Choose
) -> tuple[generic.Scheduled, str]:
    """A function's schedule, and where that is known from; "" if no record has decided.

    Args:
        func: As FuseTIR leaves it.
        scheduled: As it is without tuning.
        profile: The target.
        choose: Asked for parameters of `metaschedule` or `as_lowered`.
    """
    workload = loops.workload_of(func, loops.machine(profile.triple))
    known = None if workload is None else choose(workload, profile.core)
    if workload is None or known is None:
        return scheduled, ""
    if not isinstance(known.params, metaschedule.Params):
        return scheduled, known.source
    # By its own names, as a trace has those of the workload.
    traced = metaschedule.build(workload, known.params).without_attr("global_symbol")
    for name in func.attrs.keys() if func.attrs else ():
        traced = traced.with_attr(name, func.attrs[name])
    return generic.Scheduled(traced, f"by {known.source}", metaschedule.NAME, scheduled.cycles), known.source
