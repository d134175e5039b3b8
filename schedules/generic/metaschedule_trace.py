# SPDX-License-Identifier: Apache-2.0
"""Loops scheduled by MetaSchedule's rules, behind the interface of a kernel: its parameters are a trace.

Rules and postprocessors are TVM's for CPUs, in TVM's order. Each random seed samples one trace of every design space:
tile sizes, compute locations, rfactors. Traces that a postprocessor rejects are no candidates.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import tvm
from tvm import target, tirx
from tvm.ir.prim import expr as prim
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms
from tvm.s_tir.schedule import Trace

from schedules.composites.workload import Workload
from schedules.cores import Core
from schedules.diagnostic import Diagnostic
from schedules.generic import default_schedule, loop_workload
from schedules.kernels.common.contract import Array, KernelMatch
from schedules.kernels.common.threads import PARALLEL_CYCLES

NAME = "metaschedule"

DRAWS = 24
"""Number of seeds; for pools, sums and the like they give 20 to 70 distinct traces."""

_MAIN = "main"

_VECTOR_ELEMENTS = 64
_JOBS = 16
_UNROLLINGS = [0, 16, 64, 512]
"""Largest vectorized extent, tasks a core, steps to unroll: as upstream has them for LLVM."""


# The steps that rules and postprocessors for CPUs use; a trace may contain no others, since some of TVM's steps can
# bring code along: the annotation pragma_import_llvm links an LLVM module into model.so.
_ANNOTATING = ("Annotate", "Unannotate")
_STEPS = """
    Annotate Unannotate CacheRead CacheWrite ComputeAt ComputeInline DecomposeReduction EnterPostproc Fuse
    GetChildBlocks GetConsumers GetLoops GetOutputBlocks GetProducers GetSBlock Parallel RFactor Reorder
    ReverseComputeAt ReverseComputeInline SampleCategorical SampleComputeLocation SamplePerfectTile Split Unroll
    Vectorize
""".split()  # noqa: SIM905 - a list of words
_ANNOTATIONS = (
    "meta_schedule.parallel",
    "meta_schedule.random_compute_producer",
    "meta_schedule.tiling_structure",
    "meta_schedule.unroll_explicit",
    "meta_schedule.unroll_implicit",
    "meta_schedule.vectorize",
    "pragma_auto_unroll_max_step",
    "pragma_unroll_explicit",
)


@dataclass(frozen=True)
class Params:
    """A MetaSchedule trace.

    Attributes:
        trace: The trace of MetaSchedule, with the steps of postprocessors, as JSON.
    """

    trace: str


def matches(workload: Workload, core: Core) -> KernelMatch | Diagnostic:
    """Accept every workload of generic loops."""
    return loop_workload.matches(NAME, workload)


def default(workload: Workload, core: Core) -> Params:
    """Return the first trace that the rules sample."""
    return candidates(workload, core)[0]


@lru_cache(maxsize=64)
def candidates(workload: Workload, core: Core) -> tuple[Params, ...]:
    """Return the distinct traces that the rules sample, which are deterministic for a workload and core."""
    func = loop_workload.function_of(workload)
    parallel = default_schedule.estimate(workload, default_schedule.Params(), core) >= PARALLEL_CYCLES
    found = (
        trace
        for seed in range(1, DRAWS + 1)
        for trace in _draw(func, _target(workload, core), parallel, seed)
    )
    return tuple(Params(trace) for trace in dict.fromkeys(found))


def estimate(workload: Workload, params: Params, core: Core) -> float:
    """Return the estimate of the default schedule, because traces have no cost model."""
    return default_schedule.estimate(workload, default_schedule.Params(), core)


def pack(workload: Workload, params: Params, constants: Sequence[Array]) -> tuple[Array, ...]:
    """Return no arrays: loops read their constants as ordinary inputs."""
    return ()


def build(workload: Workload, params: Params) -> tirx.PrimFunc:
    """Return a copy of the workload's function with the trace applied.

    Raises:
        ValueError: The trace does not fit this function.
    """
    schedule = Schedule(_module(loop_workload.function_of(workload)))
    try:
        trace = json.loads(params.trace)
    except ValueError as error:
        raise ValueError(f"the trace does not fit the function: it is no JSON ({error})") from error
    _check(trace)
    try:
        Trace.apply_json_to_schedule(trace, schedule)
    except Exception as error:  # each of TVM's primitives raises its own exceptions
        raise ValueError(
            f"the trace does not fit the function: {str(error).strip().splitlines()[-1]}"
        ) from error
    return schedule.mod[_MAIN].with_attr("global_symbol", NAME)


def _check(trace: Any) -> None:
    """Check that a trace has only the steps of CPU rules; it may come from an untrusted database file.

    Raises:
        ValueError: The trace has another step, or is no trace.
    """
    try:
        steps = [(str(kind), attributes) for kind, _, attributes, _ in trace[0]]
    except (TypeError, ValueError, IndexError, KeyError) as error:
        raise ValueError(f"it is no trace: {str(trace)[:100]}") from error
    for kind, attributes in steps:
        if kind not in _STEPS or (
            kind in _ANNOTATING and attributes not in [[name] for name in _ANNOTATIONS]
        ):
            raise ValueError(f"the trace has {kind} {attributes}, which no rule draws")


def _draw(func: tirx.PrimFunc, on: target.Target, parallel: bool, seed: int) -> Iterator[str]:
    generator = ms.space_generator.PostOrderApply(
        sch_rules=_rules(parallel), postprocs=ms.postproc.Postproc.create("llvm"), mutator_probs={}
    )
    # TuneContext's constructor takes a minute to import TVM's tensor intrinsics, which CPU rules do not use.
    context = ms.TuneContext.__new__(ms.TuneContext)
    context.__init_handle_by_constructor__(
        ms._ffi_api.TuneContext, _module(func), on, generator, None, _MAIN, 1, seed, None
    )
    ms._ffi_api.TuneContextInitialize(context)
    for design in context.generate_design_space():
        if all(postproc.apply(design) for postproc in generator.postprocs):
            yield json.dumps(_plain(design.trace.as_json()))


def _rules(parallel: bool) -> list[Any]:
    """Return TVM's rules for LLVM, without rules for single operators; the rule for threads only if `parallel`."""
    threads = ms.schedule_rule.ParallelizeVectorizeUnroll(
        max_jobs_per_core=_JOBS if parallel else -1,
        max_vectorize_extent=_VECTOR_ELEMENTS,
        unroll_max_steps=_UNROLLINGS,
        unroll_explicit=True,
    )
    rules = ms.schedule_rule.ScheduleRule.create("llvm")
    return [
        threads if isinstance(rule, ms.schedule_rule.ParallelizeVectorizeUnroll) else rule
        for rule in rules
        if not isinstance(rule, ms.schedule_rule.ApplyCustomRule)
    ]


def _target(workload: Workload, core: Core) -> target.Target:
    """Return a target with one core, because numbers of threads are not searched."""
    triple = f"{loop_workload.machine_of(workload)}-linux-gnu"
    return target.Target({"kind": "llvm", "mtriple": triple, "num-cores": 1})


def _module(func: tirx.PrimFunc) -> tvm.IRModule:
    return tvm.IRModule({_MAIN: func.with_attr("global_symbol", _MAIN)})


def _plain(value: Any) -> Any:
    """Convert TVM's containers and numbers to Python's, for JSON."""
    if isinstance(value, (str, bool, int, float)) or value is None:
        return value
    if isinstance(value, (prim.IntImm, prim.FloatImm)):
        return value.value
    return [_plain(each) for each in value]
