# SPDX-License-Identifier: Apache-2.0
"""The phase `lower`: every call becomes a TensorIR kernel, with a record of its kernel, source nodes and reasons."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

import tvm
from tvm import relax, tirx
from tvm.relax.analysis import free_vars
from tvm.relax.dpl import is_op, wildcard

from arm_ext.common.timings import section
from arm_ext.pipeline.lower_bounded_length import Lengths
from arm_ext.pipeline.lower_fixed import FixedSizes
from arm_ext.report.calls import CHECK, KernelCall, OtherChoice
from arm_ext.target.profiles import Profile
from relay_passes import fold_constants
from relay_passes.bounds import IndexCheck, check_indices
from relay_passes.fusion.split_concat import WIDEST
from relay_passes.ir.calls import tensor_const
from relay_passes.ir.legalize import legalize
from relay_passes.ir.sources import (
    bindings_of,
    function_sources,
    global_callees,
    map_calls,
    relax_functions,
    sources_of,
    with_source,
)
from relay_passes.ir.upstream import run_upstream
from schedules import generic
from schedules.diagnostic import Diagnostic
from schedules.generic.families import GENERIC
from schedules.kernels.common.threads import is_divided
from schedules.lowering.lower import Lowered
from schedules.numerics.routine import KERNEL
from schedules.select import Choice, Choose, Option

# TOpPattern kOpaque: FuseOps does not fuse a hand-written kernel.
_OPAQUE = 8
# Attribute with the name of a kernel whose body is removed during some passes.
_EMPTY = "arm_ext.empty"

Rejected = dict[str, tuple[Diagnostic, ...]]


def lower(
    mod: tvm.IRModule,
    profile: Profile,
    without: Collection[str] = (),
    choose: Choose | None = None,
    sizes: FixedSizes | Lengths | None = None,
) -> tuple[tvm.IRModule, list[KernelCall]]:
    """Lower a fused module: composites by hand-written kernels, the rest by TVM's legalisation and fusion.

    Args:
        mod: The module after the phase `fuse`.
        profile: The target.
        without: Names of kernels that are not to be used.
        choose: Source of better parameters than the kernels' own, as in `schedules.select`.
        sizes: Lowers single functions; by default those whose sizes are all known.

    Returns:
        The module, whose functions call kernels by call_tir only, and a record a kernel, sorted by symbol.
    """
    sizes = sizes or FixedSizes(mod, profile, without)
    fused = fuse_loops(mod, profile, choose, sizes)
    with section("loop schedules"):
        mod, done = _schedule(fused.mod, fused.loops, choose, sizes)
    kernels = fused.kernels + [_scheduled(symbol, fused, *done[symbol]) for symbol in fused.loops]
    kernels = [_indexed(kernel, fused.checks) for kernel in kernels]
    kernels += [_checking(check) for check in fused.checks if check.symbol]
    return mod, sorted(kernels, key=lambda kernel: kernel.symbol)


@dataclass(frozen=True)
class FusedModule:
    """A module with lowered composites, in which all other operators are fused, unscheduled loops.

    Attributes:
        mod: Module whose functions call both by call_tir only.
        kernels: A record for each kernel to which composites were lowered.
        rejected: Source node → the kernels that did not take it, and why.
        sources: Symbol of a kernel → the source nodes that it computes.
        numerics: Symbol of a kernel → its numerics.
        loops: Symbols of the loops.
        checks: How the bounds of run-time indices are checked.
    """

    mod: tvm.IRModule
    kernels: list[KernelCall]
    rejected: Rejected
    sources: Mapping[str, Sequence[str]]
    numerics: Mapping[str, str]
    loops: frozenset[str]
    checks: Sequence[IndexCheck]


# A cast that only a sum reads is a part of it. FuseOps would take it for the end of the loops that compute its operand,
# which would then write a tensor of the wider dtype.
_SUM_OF_CAST = is_op("relax.sum")(is_op("relax.astype")(wildcard()))


def fuse_loops(
    mod: tvm.IRModule, profile: Profile, choose: Choose | None, sizes: FixedSizes | Lengths
) -> FusedModule:
    """Do the first half of `lower`: everything before loops are scheduled.

    Raises:
        OutOfBoundsError: Indices of the model are out of bounds whatever its inputs are.
    """
    with section("hand-written kernels"):
        mod, kernels, rejected = _lower_composites(mod, choose, sizes)
        kernels += _written(mod)
    ours = {kernel.symbol for kernel in kernels}
    # Weights that no kernel reads as integers are folded to floats, which the loops below use.
    mod = fold_constants(mod, keep=())
    mod, bodies = _without_bodies(mod, ours)
    with profile.tvm_target():
        # Sorts and scans need a pass of their own, since LegalizeOps does not lower them.
        mod = run_upstream(mod, relax.transform.FuseOpsByPattern([("sum", _SUM_OF_CAST)]))
        mod = legalize(run_upstream(mod, relax.backend.DispatchSortScan()), generic.LEGALIZE)
        # Add index checks before loops are fused, while all indices of an operator are still one tensor.
        mod, checks = check_indices(mod, ours)
        mod = _wide_alone(run_upstream(mod, relax.transform.AnnotateTIROpPattern()))
        mod = run_upstream(mod, relax.transform.FuseOps())
        sources = function_sources(mod)
        routines = _numerics_of(mod)
        mod = _with_bodies(run_upstream(mod, relax.transform.FuseTIR()), bodies)
    ours |= {check.symbol for check in checks}
    symbols = {gvar.name_hint for gvar, func in mod.functions_items() if isinstance(func, tirx.PrimFunc)}
    numerics = _numerics_of_calls([func for _, func in _callers(mod)], routines)
    return FusedModule(mod, kernels, rejected, sources, numerics, frozenset(symbols - ours), checks)


def _without_bodies(
    mod: tvm.IRModule, symbols: Collection[str]
) -> tuple[tvm.IRModule, dict[str, tirx.PrimFunc]]:
    """Empty kernels, whose bodies other passes would hash, compare and copy; return the bodies, too.

    The attribute keeps kernels of one signature apart: passes merge functions that are equal.
    """
    kernels = {gvar: func for gvar, func in mod.functions_items() if gvar.name_hint in symbols}
    mod = mod.clone()
    for gvar, func in kernels.items():
        mod.update_func(gvar, func.with_body(tirx.Evaluate(0)).with_attr(_EMPTY, gvar.name_hint))
    return mod, {gvar.name_hint: func for gvar, func in kernels.items()}


def _with_bodies(mod: tvm.IRModule, bodies: Mapping[str, tirx.PrimFunc]) -> tvm.IRModule:
    mod = mod.clone()
    for gvar, func in mod.functions_items():
        if func.attrs and _EMPTY in func.attrs:
            mod.update_func(gvar, bodies[str(func.attrs[_EMPTY])])
    return mod


def _wide_alone(mod: tvm.IRModule) -> tvm.IRModule:
    """Keep FuseOps from fusing loops with very many operands, such as a concatenation's."""
    wide = {
        gvar: func.with_attr("op_pattern", _OPAQUE)
        for gvar, func in mod.functions_items()
        if isinstance(func, tirx.PrimFunc) and len(func.params) > WIDEST
    }
    mod = mod.clone() if wide else mod
    for gvar, func in wide.items():
        mod.update_func(gvar, func)
    return mod


def _schedule(
    mod: tvm.IRModule, symbols: Iterable[str], choose: Choose | None, sizes: FixedSizes | Lengths
) -> tuple[tvm.IRModule, dict[str, tuple[generic.Scheduled, str]]]:
    """Vectorise loops; return, for each function, its schedule and the tuning record that decided it, if any."""
    mod, done = mod.clone(), {}
    for symbol in sorted(symbols):
        scheduled, known = sizes.schedule(mod[symbol], choose)
        mod.update_func(mod.get_global_var(symbol), scheduled.func)
        done[symbol] = scheduled, known
    return mod, done


def _scheduled(symbol: str, fused: FusedModule, done: generic.Scheduled, known: str) -> KernelCall:
    sources = tuple(fused.sources.get(symbol, ()))
    alternatives = tuple(dict.fromkeys(a for source in sources for a in fused.rejected.get(source, ())))
    is_generic = done.kernel == GENERIC
    return KernelCall(
        symbol=symbol,
        sources=sources,
        kernel=done.kernel,
        numerics=fused.numerics.get(symbol, "-"),
        reason=f"no hand-written kernel for this operator; {done.done}"
        if is_generic and not alternatives
        else done.done,
        rejected=(*alternatives, *_alternatives(done.rejected)),
        selection_cost=None if done.cycles is None else round(done.cycles),
        tuned=known,
        divided=is_divided(done.func),
        moves=done.moves,
    )


_SAID = {
    "checked": "its indices are checked at run time",
    "proven": "its indices are in bounds, whatever the inputs are",
    "clamped": "indices that it makes itself are clamped",
}


def _indexed(kernel: KernelCall, checks: Sequence[IndexCheck]) -> KernelCall:
    """Return the record of a kernel, extended by how indices of its nodes are kept in bounds."""
    said = {name: _SAID[check.how] for check in checks for name in check.sources if name in kernel.sources}
    return kernel.model_copy(update={"indices": said}) if said else kernel


def _checking(check: IndexCheck) -> KernelCall:
    limits = " and ".join(f"less than {limit}" for limit in check.limits)
    return KernelCall(
        symbol=check.symbol,
        sources=check.sources,
        kernel=CHECK,
        numerics="-",
        reason=f"compares indices: 0 and more, {limits}",
    )


def _lower_composites(
    mod: tvm.IRModule, choose: Choose | None, sizes: FixedSizes | Lengths
) -> tuple[tvm.IRModule, list[KernelCall], Rejected]:
    """Replace composites by this project's kernels.

    Inline composites that no kernel supports as calls of their operators.
    """
    sources, numerics = function_sources(mod), _numerics_of(mod)
    builder = relax.BlockBuilder(mod)
    placed: dict[str, _Placed] = {}
    added: dict[tirx.PrimFunc, tvm.ir.GlobalVar] = {}
    kernels: dict[str, KernelCall] = {}
    inlined: dict[str, relax.Function] = {}
    rejected: Rejected = {}
    for composite in _composites(mod):
        names = sources.get(composite, ())
        outcome = sizes.lower(composite, choose)
        if isinstance(outcome, Lowered):
            placed[composite] = _place(builder, outcome, added)
            # Composites of the same workload share one kernel.
            symbol = placed[composite].gvar.name_hint
            before = kernels[symbol].sources if symbol in kernels else ()
            kernels[symbol] = _ours(symbol, (*before, *names), outcome, numerics.get(composite, "float"))
        else:
            inlined[composite] = sizes.as_called(composite)
            rejected.update(dict.fromkeys(names, _alternatives(outcome.rejections)))
    mod = builder.get()
    if inlined:
        for gvar, func in _callers(mod):
            mod.update_func(gvar, sizes.inlined(func.inline_functions(inlined)))
        mod = run_upstream(mod, relax.transform.CanonicalizeBindings())
    for gvar, func in _callers(mod):
        mod.update_func(gvar, map_calls(func, lambda _var, call: _redirect(call, placed)))
    for upstream in (relax.transform.Normalize(), relax.transform.DeadCodeElimination(["main"])):
        mod = run_upstream(mod, upstream)
    return mod, list(kernels.values()), rejected


@dataclass(frozen=True)
class _Placed:
    """A kernel in the module, with its packed constants."""

    gvar: tvm.ir.GlobalVar
    constants: tuple[tvm.ir.GenericConst, ...]


def _alternatives(rejections: Sequence[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Return the rejections by kernels for this kind of workload, without those by kernels for other kinds."""
    return tuple(rejection for rejection in rejections if not rejection.unfit)


def _composites(mod: tvm.IRModule) -> list[str]:
    return [gvar.name_hint for gvar, func in relax_functions(mod) if func.attrs and "Composite" in func.attrs]


def _callers(mod: tvm.IRModule) -> list[tuple[tvm.ir.GlobalVar, relax.Function]]:
    """Return `main` and the functions that it calls, except composites and groups that TVM's FuseOps made."""
    return [
        (gvar, func)
        for gvar, func in relax_functions(mod)
        if not (func.attrs and {"Composite", "Primitive"} & set(func.attrs.keys()))
    ]


def _place(
    builder: relax.BlockBuilder, lowered: Lowered, added: dict[tirx.PrimFunc, tvm.ir.GlobalVar]
) -> _Placed:
    """Add a kernel to the module, unless it was added; its name becomes a symbol of model.so."""
    if lowered.func not in added:  # `add_func` would compare the function with all others
        name = str(lowered.func.attrs["global_symbol"])
        func = lowered.func.with_attr("op_pattern", _OPAQUE).without_attr("global_symbol")
        added[lowered.func] = builder.add_func(func, name)
    return _Placed(added[lowered.func], tuple(map(tensor_const, lowered.constants)))


def _redirect(call: relax.Call, placed: Mapping[str, _Placed]) -> relax.Call:
    kernel = placed.get(getattr(call.op, "name_hint", ""))
    if kernel is None:
        return call
    new = relax.call_tir(kernel.gvar, [*call.args, *kernel.constants], call.ty)
    return with_source(new, sources_of(call))


def _written(mod: tvm.IRModule) -> list[KernelCall]:
    """Return a record of each function that the front end wrote as a kernel."""
    sources, numerics = function_sources(mod), _numerics_of(mod)
    return [
        KernelCall(
            symbol=symbol,
            sources=sources[symbol],
            kernel=str(func.attrs[KERNEL]),
            numerics=numerics.get(symbol, "float"),
            reason="the only kernel for this operator",
            divided=is_divided(func),
        )
        for symbol, func in ((gvar.name_hint, func) for gvar, func in mod.functions_items())
        if symbol in sources and func.attrs and KERNEL in func.attrs
    ]


def _ours(symbol: str, sources: Sequence[str], lowered: Lowered, numerics: str) -> KernelCall:
    choice = lowered.choice
    params = asdict(choice.params)
    return KernelCall(
        symbol=symbol,
        sources=tuple(sources),
        kernel=choice.kernel,
        numerics=numerics,
        reason=choice.reason,
        rejected=_alternatives(choice.rejected),
        params=params,
        selection_cost=round(choice.estimate),
        others=tuple(_other(option, choice, params) for option in choice.others),
        tuned=choice.known,
        divided=is_divided(lowered.func),
    )


def _other(option: Option, choice: Choice, chosen: Mapping[str, object]) -> OtherChoice:
    params = asdict(option.params)
    if option.kernel == choice.kernel:
        params = {name: value for name, value in params.items() if chosen.get(name) != value}
    return OtherChoice(
        kernel=option.kernel,
        params=params,
        selection_cost=round(option.estimate),
        lost=_why_lost(option, choice),
    )


def _why_lost(option: Option, choice: Choice) -> str:
    ratio = option.estimate / (choice.estimate or 1)
    price = f"{ratio:.2f} times the selection cost"
    if choice.known:
        return f"{price}, and a tuning record decides"
    return price if ratio > 1 else f"{price}: a tie within the estimate's error"


def _numerics_of(mod: tvm.IRModule) -> dict[str, str]:
    """Return the numerics of each function that has one and is called by `main`: name → "qdq" or "tosa"."""
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
    """Return the numerics of each kernel by symbol, plus "float" if it reads or writes a float tensor: "qdq+float"."""
    found: dict[str, str] = {}
    for binding in (binding for func in callers for binding in bindings_of(func)):
        if not isinstance(binding.value, relax.Call):
            continue
        tensors = [binding.var, *free_vars(binding.value)]
        is_float = any("float" in str(getattr(tensor.ty, "dtype", "")) for tensor in tensors)
        for symbol in global_callees(binding.value):
            parts = [routines[symbol]] if symbol in routines else []
            found[symbol] = "+".join(dict.fromkeys(parts + ["float"] * is_float)) or "integer"
    return found
