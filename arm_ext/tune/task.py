# SPDX-License-Identifier: Apache-2.0
"""The tasks of a model: each workload that a hand-written kernel computes, once, with its number of calls.

Composites are asked of the pipeline up to `fuse`, as `lower` gets them. What no kernel takes becomes loops of TVM's,
which are tasks too where no schedule was written for them: see `loop_tasks`.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import tvm
from tvm import relax, tirx
from tvm.ir import GenericConst
from tvm.relax.analysis import has_reshape_pattern

from arm_ext.pipeline.lower import FusedModule, fuse_loops
from arm_ext.pipeline.lower_fixed import FixedSizes
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, last, run_phases
from arm_ext.target.profiles import Profile
from arm_ext.tune.candidate import Candidate, key_of
from relay_passes.ir.sources import bindings_of, function_sources, global_callees, relax_functions
from schedules.composites.one_axis import widened
from schedules.composites.workload import Workload
from schedules.diagnostic import Diagnostic
from schedules.generic import default_schedule, loop_workload, metaschedule_trace
from schedules.generic.families import GENERIC
from schedules.kernels.common.contract import Array
from schedules.lowering.lower import read
from schedules.select import KERNELS, Rejected, select


@dataclass(frozen=True)
class Task:
    """A workload to be tuned for a core.

    Attributes:
        name: Short name for tables, unique in a run.
        workload: The workload as kernels are given it, with two spatial axes.
        constants: Constants of the first composite with this workload; their values matter, since kernels
            rely on bounds that are proven from them.
        fixed: For loops, the values of those inputs that are constants in the model, by index.
        composite: The first composite with this workload, or a call of the loops with the inputs that are not
            fixed.
        routines: Routines that it calls by call_tir, by name.
        profile: The target.
        default: The candidate that `select` chooses without tuning.
        estimate: Cycles of one call of the default, by the kernel's own model.
        kernels: Names of all kernels that take the workload.
        times: Number of calls in one inference.
        sources: Source nodes that it computes.
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
    fixed: Mapping[int, Array] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def key(self) -> str:
        """Return the workload's key in the database, which is the same in each run."""
        return key_of(self.workload)


def extract(mod: tvm.IRModule, options: PhaseOptions) -> list[Task]:
    """Return the tasks of a model, in the model's order.

    Args:
        mod: As a front end returned it.
        options: Options of the pipeline, the target among them.
    """
    fused = last(run_phases(PhaseResult(mod), options, until="fuse")).mod
    return [*tasks_of(fused, options), *loop_tasks(fused, options)]


def tasks_of(fused: tvm.IRModule, options: PhaseOptions) -> list[Task]:
    """Return the tasks of a module after the phase `fuse`, except those of loops."""
    # In a model with control flow, functions count once each, whatever is decided at run time.
    bindings = (b for _, func in relax_functions(fused) for b in bindings_of(func))
    calls = [b.value for b in bindings if isinstance(b.value, relax.Call)]
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
        task = _task(func, routines, options)
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


def loop_tasks(fused: tvm.IRModule, options: PhaseOptions) -> list[Task]:
    """Return the tasks of a module after the phase `fuse` for loops that our schedules do not vectorise."""
    lowered = fuse_loops(fused, options.profile, None, FixedSizes(fused, options.profile, options.without))
    callers = [func for _, func in relax_functions(lowered.mod)]
    calls = [b.value for func in callers for b in bindings_of(func) if isinstance(b.value, relax.Call)]
    found: dict[Workload, Task] = {}
    for call in calls:
        for symbol in lowered.loops.intersection(global_callees(call)):
            task = _task_of_loops(call, symbol, lowered, options)
            if task is not None:
                known = found.setdefault(task.workload, replace(task, name=f"loops.{len(found) + 1}"))
                sources = dict.fromkeys((*known.sources, *task.sources))
                found[task.workload] = replace(known, times=known.times + 1, sources=tuple(sources))
    return list(found.values())


def _task_of_loops(call: relax.Call, symbol: str, lowered: FusedModule, options: PhaseOptions) -> Task | None:
    """Return the task of a call of loops, without name and count; None for scheduled loops or several results."""
    func, core = lowered.mod[symbol], options.profile.core
    if has_reshape_pattern(func):  # it becomes a view
        return None
    workload = loop_workload.workload_of(func, core.isa.machine)
    arguments = list(call.args[1]) if len(call.args) > 1 else []
    if (
        workload is None
        or len(arguments) + 1 != len(func.params)
        or default_schedule.scheduled(workload).kernel != GENERIC
    ):
        return None
    fixed = {
        index: argument.value.numpy()
        for index, argument in enumerate(arguments)
        if isinstance(argument, GenericConst)
    }
    return Task(
        "",
        workload,
        (),
        _calling(call, symbol, func),
        {symbol: func},
        options.profile,
        Candidate(default_schedule.NAME, default_schedule.Params()),
        default_schedule.estimate(workload, default_schedule.Params(), core),
        (default_schedule.NAME, metaschedule_trace.NAME),
        0,
        tuple(lowered.sources.get(symbol, ())),
        fixed,
    )


def _calling(call: relax.Call, symbol: str, func: tirx.PrimFunc) -> relax.Function:
    """Return a function whose only call is the given call of loops, with the variables that it reads as parameters."""
    builder = relax.BlockBuilder()
    gvar = builder.add_func(func, symbol)
    given = [argument for argument in call.args[1] if isinstance(argument, relax.Var)]
    params = [relax.Var(f"x{index}", argument.ty) for index, argument in enumerate(given)]
    left = iter(params)
    arguments = [next(left) if isinstance(argument, relax.Var) else argument for argument in call.args[1]]
    with builder.function("main", params):
        with builder.dataflow():
            result = builder.emit_output(relax.call_tir(gvar, arguments, call.ty))
        builder.emit_func_output(result)
    return builder.get()["main"]


def _task(
    composite: relax.Function, routines: dict[str, tirx.PrimFunc], options: PhaseOptions
) -> Task | None:
    """Return the task of a composite, without name, count and sources; None if no kernel supports it."""
    parsed = read(composite, routines)
    if isinstance(parsed, Diagnostic):
        return None
    wide, core = widened(parsed), options.profile.core
    choice = select(wide.workload, core, without=options.without)
    if isinstance(choice, Rejected):
        return None
    refused = {rejection.asked for rejection in choice.rejected}
    kernels = tuple(kernel.NAME for kernel in KERNELS if kernel.NAME not in refused)
    default = Candidate.of(choice)
    return Task(
        "",
        wide.workload,
        wide.constants,
        composite,
        routines,
        options.profile,
        default,
        choice.estimate,
        kernels,
        0,
        (),
    )
