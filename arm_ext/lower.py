# SPDX-License-Identifier: Apache-2.0
"""The phase that makes every call a TensorIR kernel, and notes which kernel took which source nodes, and why."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import tvm
from tvm import relax, tirx
from tvm.relax.analysis import free_vars

import schedules
from arm_ext.report import Alternative, KernelCall, RunnerUp
from arm_ext.target.profiles import Profile
from relay_passes import fold_constants
from relay_passes.sources import (
    bindings_of,
    function_sources,
    global_callees,
    map_calls,
    relax_functions,
    sources_of,
    with_source,
)
from relay_passes.upstream import run_upstream
from schedules import generic
from schedules.generic.families import GENERIC
from schedules.select import Choose

# TOpPattern kOpaque: FuseOps leaves a hand-written kernel alone.
_OPAQUE = 8

Rejected = dict[str, tuple[Alternative, ...]]


def lower(
    mod: tvm.IRModule, profile: Profile, without: Collection[str] = (), choose: Choose | None = None
) -> tuple[tvm.IRModule, list[KernelCall]]:
    """Lower a fused module: composites by our kernels, the rest by TVM's legalisation and fusion.

    Args:
        mod: As `fuse` leaves it.
        profile: The target.
        without: Names of kernels that are not to be used.
        choose: See `schedules.select`.

    Returns:
        The module, whose functions call kernels by call_tir only, and a record a kernel, sorted by symbol.
    """
    mod, kernels, rejected = _lower_composites(mod, profile, without, choose)
    # Integer weights that no kernel took as they are become the floats that the loops below compute with.
    mod = fold_constants(mod, keep=())
    with profile.tvm_target():
        for upstream in (
            # Sorts and scans, for which LegalizeOps has nothing.
            relax.backend.DispatchSortScan(),
            relax.transform.LegalizeOps(generic.LEGALIZE),
            relax.transform.AnnotateTIROpPattern(),
            relax.transform.FuseOps(),
        ):
            mod = run_upstream(mod, upstream)
        sources = function_sources(mod)
        routines = _numerics_of(mod)
        mod = run_upstream(mod, relax.transform.FuseTIR())
    ours = {kernel.symbol for kernel in kernels}
    symbols = {gvar.name_hint for gvar, func in mod.functions_items() if isinstance(func, tirx.PrimFunc)}
    numerics = _numerics_of_calls([func for _, func in _callers(mod)], routines)
    mod, done = _schedule(mod, symbols - ours, profile)
    kernels += [
        _scheduled(symbol, sources.get(symbol, ()), numerics.get(symbol, "-"), rejected, done[symbol])
        for symbol in symbols - ours
    ]
    return mod, sorted(kernels, key=lambda kernel: kernel.symbol)


def _numerics_of(mod: tvm.IRModule) -> dict[str, str]:
    """For each function that `main` calls and that a numerics defines part of: the name of that numerics."""
    found = {
        gvar.name_hint: str(func.attrs["numerics"]).split(".")[0]
        for gvar, func in mod.functions_items()
        if func.attrs and "numerics" in func.attrs
    }
    for gvar, func in relax_functions(mod):
        if func.attrs and "Primitive" in func.attrs:
            calls = (b.value for b in bindings_of(func) if isinstance(b.value, relax.Call))
            for callee in (name for call in calls for name in global_callees(call) if name in found):
                found[gvar.name_hint] = found[callee]
    return found


def _numerics_of_calls(callers: Iterable[relax.Function], routines: Mapping[str, str]) -> dict[str, str]:
    """What each kernel computes in: a numerics, "float" if a tensor that it reads or writes is, or both."""
    found: dict[str, str] = {}
    for binding in (binding for func in callers for binding in bindings_of(func)):
        if not isinstance(binding.value, relax.Call):
            continue
        tensors = [binding.var, *free_vars(binding.value)]
        is_float = any("float" in str(getattr(tensor.ty, "dtype", "")) for tensor in tensors)
        for symbol in global_callees(binding.value):
            parts = [routines[symbol]] if symbol in routines else []
            found[symbol] = "+".join(parts + ["float"] * is_float) or "integer"
    return found


def _schedule(
    mod: tvm.IRModule, symbols: Iterable[str], profile: Profile
) -> tuple[tvm.IRModule, dict[str, generic.Scheduled]]:
    """Make vector code of the loops that no kernel takes; returns for each function what was done."""
    mod, done = mod.clone(), {}
    for symbol in sorted(symbols):
        scheduled = generic.schedule(mod[symbol], profile.tvm_target())
        mod.update_func(mod.get_global_var(symbol), scheduled.func)
        done[symbol] = scheduled
    return mod, done


def _scheduled(
    symbol: str, sources: Sequence[str], numerics: str, rejected: Rejected, done: generic.Scheduled
) -> KernelCall:
    alternatives = tuple(dict.fromkeys(a for source in sources for a in rejected.get(source, ())))
    is_generic = done.kernel == GENERIC
    return KernelCall(
        symbol=symbol,
        sources=tuple(sources),
        kernel=done.kernel,
        numerics=numerics,
        reason=f"no hand-written kernel for this operator; {done.done}"
        if is_generic and not alternatives
        else done.done,
        rejected=(*alternatives, *_alternatives(done.rejected)),
        estimated_cycles=None if done.cycles is None else round(done.cycles),
    )


def _lower_composites(
    mod: tvm.IRModule, profile: Profile, without: Collection[str], choose: Choose | None
) -> tuple[tvm.IRModule, list[KernelCall], Rejected]:
    """Replace composites by our kernels; put back the calls of those that no kernel takes."""
    target = profile.tvm_target()
    sources, numerics = function_sources(mod), _numerics_of(mod)
    routines = {gvar.name_hint: f for gvar, f in mod.functions_items() if isinstance(f, tirx.PrimFunc)}
    builder = relax.BlockBuilder(mod)
    placed: dict[str, _Placed] = {}
    kernels: dict[str, KernelCall] = {}
    inlined: dict[str, relax.Function] = {}
    rejected: Rejected = {}
    for composite, func in _composites(mod):
        names = sources.get(composite, ())
        outcome = schedules.lower(func, target, profile.core, choose, routines, without)
        if isinstance(outcome, schedules.Lowered):
            placed[composite] = _place(builder, outcome)
            # Composites of one workload share one kernel.
            symbol = placed[composite].gvar.name_hint
            before = kernels[symbol].sources if symbol in kernels else ()
            kernels[symbol] = _ours(
                symbol, (*before, *names), outcome.choice, numerics.get(composite, "float")
            )
        else:
            inlined[composite] = func
            rejected.update(dict.fromkeys(names, _alternatives(outcome.rejections)))
    mod = builder.get()
    if inlined:
        for gvar, func in _callers(mod):
            mod.update_func(gvar, func.inline_functions(inlined))
        mod = run_upstream(mod, relax.transform.CanonicalizeBindings())
    for gvar, func in _callers(mod):
        mod.update_func(gvar, map_calls(func, lambda _var, call: _redirect(call, placed)))
    for upstream in (relax.transform.Normalize(), relax.transform.DeadCodeElimination(["main"])):
        mod = run_upstream(mod, upstream)
    return mod, list(kernels.values()), rejected


@dataclass(frozen=True)
class _Placed:
    """A kernel that stands in the module, with its packed constants."""

    gvar: tvm.ir.GlobalVar
    constants: tuple[tvm.ir.GenericConst, ...]


def _alternatives(rejections: Sequence[schedules.Rejection]) -> tuple[Alternative, ...]:
    return tuple(
        Alternative(kernel=r.kernel, reason=f"{r.reason}: {r.actual} (limit {r.limit})") for r in rejections
    )


def _composites(mod: tvm.IRModule) -> list[tuple[str, relax.Function]]:
    return [
        (gvar.name_hint, func)
        for gvar, func in relax_functions(mod)
        if func.attrs and "Composite" in func.attrs
    ]


def _callers(mod: tvm.IRModule) -> list[tuple[tvm.ir.GlobalVar, relax.Function]]:
    """`main`, and what it calls that is neither a composite nor a group of TVM's."""
    return [
        (gvar, func)
        for gvar, func in relax_functions(mod)
        if not (func.attrs and {"Composite", "Primitive"} & set(func.attrs.keys()))
    ]


def _place(builder: relax.BlockBuilder, lowered: schedules.Lowered) -> _Placed:
    """Add a kernel to the module; its name becomes a symbol of model.so."""
    name = str(lowered.func.attrs["global_symbol"])
    func = lowered.func.with_attr("op_pattern", _OPAQUE).without_attr("global_symbol")
    return _Placed(builder.add_func(func, name), tuple(relax.const(array) for array in lowered.constants))


def _redirect(call: relax.Call, placed: Mapping[str, _Placed]) -> relax.Call:
    kernel = placed.get(getattr(call.op, "name_hint", ""))
    if kernel is None:
        return call
    new = relax.call_tir(kernel.gvar, [*call.args, *kernel.constants], call.ty)
    return with_source(new, sources_of(call))


def _ours(symbol: str, sources: Sequence[str], choice: schedules.Choice, numerics: str) -> KernelCall:
    return KernelCall(
        symbol=symbol,
        sources=tuple(sources),
        kernel=choice.kernel,
        numerics=numerics,
        reason=choice.reason,
        rejected=_alternatives(choice.rejected),
        params=asdict(choice.params),
        estimated_cycles=round(choice.estimate),
        runner_up=None if choice.runner_up is None else _runner_up(choice.runner_up),
        tuned=choice.known,
    )


def _runner_up(option: schedules.Option) -> RunnerUp:
    return RunnerUp(
        kernel=option.kernel, params=asdict(option.params), estimated_cycles=round(option.estimate)
    )
