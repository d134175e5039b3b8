# SPDX-License-Identifier: Apache-2.0
"""Dispatch by CPU: a `main` that calls the function for the newest instruction-set level that the CPU has.

    base(x), dotprod(x), i8mm(x)    →    main(x) = if has_i8mm(): i8mm(x)
                                                   else if has_dotprod(): dotprod(x) else: base(x)

`has_…` reads the CPU's feature flags, which Linux gives a program by getauxval(3).
"""

from collections.abc import Sequence
from typing import TypeAlias

from tvm import IRModule, relax, tirx
from tvm.ir import Call, GlobalVar, PrimType, Type, Var
from tvm_ffi import structural_map

from relay_passes.programs.shape_dispatch import VARIANTS, called

NEEDS = "needs"
"""Attribute of `main`: the flags that each of `VARIANTS` needs."""

Flags: TypeAlias = tuple[int, int]
"""Flags of a CPU in AT_HWCAP and AT_HWCAP2."""

# Entries of the auxiliary vector (linux/auxvec.h), in the order of `Flags`.
_ENTRIES = (16, 26)
_BOOL = PrimType("bool")


def dispatch_by_cpu(
    mod: IRModule, names: Sequence[str], needs: Sequence[Flags], symbol: str = "main"
) -> IRModule:
    """Add a function that calls one of several functions: the last one whose flags the CPU has.

    Args:
        mod: Module without a function of that name.
        names: Names of the functions, which have the same parameters and results.
        needs: Flags of each; those of the first are 0, and each has those of the function before it.
        symbol: Name of the function.
    """
    assert not any(needs[0]), names[0]
    params, result = _signature(mod[names[0]])
    builder = relax.BlockBuilder(mod)

    def call(name: str) -> relax.SeqExpr:
        return called(Call(mod.get_global_var(name), params, ret_ty=result))

    body = call(names[0])
    for number, (name, flags) in enumerate(zip(names[1:], needs[1:], strict=True), 1):
        check = builder.add_func(_check(flags), f"has_level_{number}")
        has, chosen = Var("has", _BOOL), Var("chosen", result)
        bindings = [
            relax.VarBinding(has, Call(check, [], ret_ty=_BOOL)),
            relax.VarBinding(chosen, relax.If(has, call(name), body)),
        ]
        body = relax.SeqExpr([relax.BindingBlock(bindings)], chosen)
    function = relax.Function(params, body, result, is_pure=False)
    out, gvar = builder.get(), GlobalVar(symbol)
    relax.expr._update_type(gvar, function.ty)
    of_call = {"global_symbol": symbol, "num_input": len(params)}
    of_levels = {VARIANTS: list(names), NEEDS: [list(flags) for flags in needs]}
    out[gvar] = function.with_attrs(of_call | of_levels)
    return out


def _signature(func: relax.Function) -> tuple[list[Var], Type]:
    """Return copies of a function's parameters and result type, with new size variables."""
    sizes: dict[tirx.Var, tirx.Var] = {}

    def own(ty: Type) -> Type:
        return structural_map(ty, [(tirx.Var, lambda n: sizes.setdefault(n, tirx.Var(n.name, n.ty)))])

    return [Var(str(param.name), own(param.ty)) for param in func.params], own(func.ret_ty)


def _check(flags: Flags) -> tirx.PrimFunc:
    """Return a PrimFunc without parameters that returns whether the CPU has all flags."""
    fits = tirx.IntImm("bool", 1)
    for entry, wanted in zip(_ENTRIES, flags, strict=True):
        told = tirx.call_extern("uint64", "getauxval", tirx.IntImm("uint64", entry))
        mask = tirx.IntImm("uint64", wanted)
        fits = tirx.And(fits, tirx.bitwise_and(told, mask) == mask) if wanted else fits
    return tirx.PrimFunc([], tirx.Return(fits), _BOOL)
