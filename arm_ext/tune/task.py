# SPDX-License-Identifier: Apache-2.0
"""The tasks of a model: each workload that a kernel of ours computes, once, with how often it occurs.

Composites are asked of the pipeline up to `fuse`, as `lower` would get them. What no kernel takes is no task here.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property

import tvm
from tvm import relax, tirx

from arm_ext.pipeline import Context, run_phases
from arm_ext.target.profiles import Profile
from arm_ext.tune.candidate import Candidate, key_of
from relay_passes.sources import bindings_of, function_sources, global_callees, relax_functions
from schedules.kernel import Array, Rejection
from schedules.lower import read
from schedules.one_axis import widened
from schedules.select import KERNELS, Rejected, select
from schedules.workload import Workload


@dataclass(frozen=True)
class Task:
    """A workload to be tuned for a core.

    Attributes:
        name: Short, unique in a run, for tables.
        workload: As kernels are asked: with two spatial axes.
        constants: Of the first composite that has it; the values matter, as kernels rely on bounds proven of them.
        composite: That composite.
        routines: What it calls by call_tir, by name.
        profile: The target.
        default: What `select` takes without tuning.
        estimate: Cycles of one call of that, by the kernel's own model.
        kernels: Names of all that take it.
        times: Calls of it in one inference.
        sources: The model's nodes that are computed by it.
    """

    name: str
    workload: Workload
    constants: tuple[Array, ...] = field(compare=False, repr=False)
    composite: relax.Function = field(compare=False, repr=False)
    routines: dict[str, tirx.PrimFunc] = field(compare=False, repr=False)
    profile: Profile
    default: Candidate
    estimate: float
    kernels: tuple[str, ...]
    times: int
    sources: tuple[str, ...]

    @cached_property
    def key(self) -> str:
        """The workload's name in the database; it holds over runs."""
        return key_of(self.workload)


def extract(mod: tvm.IRModule, context: Context) -> list[Task]:
    """The tasks of a model, in the order of the model.

    Args:
        mod: As a front end returned it.
        context: The target, and what else the pipeline is told.
    """
    fused = next(done for name, done in run_phases(mod, context) if name == "fuse")
    return tasks_of(fused, context)


def tasks_of(fused: tvm.IRModule, context: Context) -> list[Task]:
    """The tasks of a module as `fuse` leaves it."""
    calls = [b.value for b in bindings_of(fused["main"]) if isinstance(b.value, relax.Call)]
    order = list(dict.fromkeys(name for call in calls for name in global_callees(call)))
    times = Counter(name for call in calls for name in global_callees(call))
    sources = function_sources(fused)
    routines = {g.name_hint: f for g, f in fused.functions_items() if isinstance(f, tirx.PrimFunc)}
    functions = {gvar.name_hint: func for gvar, func in relax_functions(fused)}
    found: dict[Workload, Task] = {}
    names: Counter[str] = Counter()
    for name in order:
        func = functions.get(name)
        if func is None or not func.attrs or "Composite" not in func.attrs:
            continue
        task = _task(func, routines, context)
        if task is None:
            continue
        known = found.get(task.workload)
        if known is None:
            short = task.workload.composite.removeprefix("arm.")
            names[short] += 1
            task = known = replace(task, name=f"{short}.{names[short]}")
        found[task.workload] = replace(
            known, times=known.times + times[name], sources=(*known.sources, *sources.get(name, ()))
        )
    return list(found.values())


def _task(composite: relax.Function, routines: dict[str, tirx.PrimFunc], context: Context) -> Task | None:
    """The task of one composite, without name, times and sources; None if no kernel takes it."""
    parsed = read(composite, routines)
    if isinstance(parsed, Rejection):
        return None
    wide, core = widened(parsed), context.profile.core
    choice = select(wide.workload, core, without=context.without)
    if isinstance(choice, Rejected):
        return None
    refused = {rejection.kernel for rejection in choice.rejected}
    kernels = tuple(kernel.NAME for kernel in KERNELS if kernel.NAME not in refused)
    default = Candidate.of(choice)
    return Task(
        "",
        wide.workload,
        wide.constants,
        composite,
        routines,
        context.profile,
        default,
        choice.estimate,
        kernels,
        0,
        (),
    )
