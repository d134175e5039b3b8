# SPDX-License-Identifier: Apache-2.0
"""Casts of float32 to bfloat16 and back, replaced by a kernel that rounds the bits.

    cast(cast(x, bfloat16), float32)    →    rounded(x)

TVM computes bfloat16 in float32: if both casts are in one kernel, TVM removes them, and x is not rounded.
"""

from tvm import IRModule, relax, te, tirx
from tvm.ir import Call, Expr, Op
from tvm.relax import Var

from relay_passes.ir.sources import bindings_of, map_calls, relax_functions, sources_of, with_source
from relay_passes.ir.upstream import run_upstream

_ASTYPE = Op.get("relax.astype")
_DROPPED = 16
"""Number of bits of the mantissa of float32 that bfloat16 does not have."""


def define_rounding(mod: IRModule) -> IRModule:
    """Rewrite casts of float32 to bfloat16 and back, so that they round.

    Args:
        mod: Module whose Relax functions are in A-normal form.
    """
    found = {gv: (func, pairs) for gv, func in relax_functions(mod) if (pairs := _round_trips(func))}
    if not found:
        return mod
    builder = relax.BlockBuilder(mod.clone())
    for gv, (func, pairs) in found.items():
        builder.update_func(gv, _with_kernels(func, pairs, builder))
    return run_upstream(builder.get(), relax.transform.Normalize())


def _with_kernels(
    func: relax.Function, pairs: dict[Var, Expr], builder: relax.BlockBuilder
) -> relax.Function:
    def changed(var: Var, call: Call) -> Call:
        if var not in pairs:
            return call
        kernel = builder.call_te(rounded, pairs[var], _DROPPED, primfunc_name_hint="rounded")
        return with_source(kernel, sources_of(call))

    return map_calls(func, changed)


def _round_trips(func: relax.Function) -> dict[Var, Expr]:
    """Return the original value of each variable that is cast from float32 to bfloat16 and back."""
    narrow: dict[Var, Expr] = {}
    pairs: dict[Var, Expr] = {}
    for binding in bindings_of(func):
        call = binding.value
        if not isinstance(call, Call) or not call.op.same_as(_ASTYPE):
            continue
        (x,) = call.args
        types = (str(x.ty.dtype), str(call.ty.dtype))
        if types == ("float32", "bfloat16"):
            narrow[binding.var] = x
        elif types == ("bfloat16", "float32") and x in narrow:
            pairs[binding.var] = narrow[x]
    return pairs


def rounded(data: te.Tensor, dropped: int) -> te.Tensor:
    """Return float32 numbers rounded half to even to a shorter mantissa; NaN is not changed.

    Args:
        data: The tensor.
        dropped: Number of mantissa bits that are removed.
    """

    def element(*at: tirx.Var) -> Expr:
        x = data(*at)
        bits = tirx.reinterpret("uint32", x)
        odd = (bits >> tirx.const(dropped, "uint32")) & tirx.const(1, "uint32")
        half = tirx.const(2 ** (dropped - 1) - 1, "uint32")
        kept = tirx.const(2**32 - 2**dropped, "uint32")
        return tirx.if_then_else(tirx.isnan(x), x, tirx.reinterpret("float32", (bits + odd + half) & kept))

    return te.compute(data.shape, element, "rounded")
