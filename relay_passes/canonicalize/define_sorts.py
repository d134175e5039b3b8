# SPDX-License-Identifier: Apache-2.0
"""Sorts and places of bfloat16, which TVM's runtime takes for other numbers, and of booleans, which it refuses.

    sort(x)       →    astype(sort(astype(x, float32)), bfloat16)
    argsort(x)    →    argsort(astype(x, float32))    so argmax and argmin

A binary32 holds all of them, so that their order is the same. Both results of `topk` are those of an argsort, too:

    topk(x, k)    →    (astype(topk(astype(x, float32), k, values), bfloat16), topk(astype(x, float32), k, indices))
"""

from tvm import IRModule, relax
from tvm.ir import Call, Expr, Op

from relay_passes.ir.rewrite_calls import rewrite_calls
from relay_passes.ir.sources import sources_of, with_source

_SORT, _TOPK = map(Op.get, ("relax.sort", "relax.topk"))
_OTHERS = tuple(Op.get(f"relax.{name}") for name in ("argsort", "argmax", "argmin"))


def define_sorts(mod: IRModule) -> IRModule:
    """Rewrite sorts, and searches of places, of bfloat16 and of booleans.

    Args:
        mod: Its Relax functions are in A-normal form.
    """
    return rewrite_calls(mod, _is_narrow, _rewritten)


def _is_narrow(value: Expr) -> bool:
    is_sort = isinstance(value, Call) and any(value.op.same_as(op) for op in (_SORT, _TOPK, *_OTHERS))
    return is_sort and str(value.args[0].ty.dtype) in ("bfloat16", "bool")


def _rewritten(call: Call) -> Expr:
    names = sources_of(call)

    def emit(expr: Call) -> Call:
        return with_source(expr, names)

    def wide(attrs: object) -> Call:
        return emit(Call(call.op, [emit(relax.op.astype(call.args[0], "float32"))], attrs))

    def narrow(values: Call) -> Call:
        return emit(relax.op.astype(values, str(call.args[0].ty.dtype)))

    attrs = call.attrs
    if not call.op.same_as(_TOPK):
        return narrow(wide(attrs)) if call.op.same_as(_SORT) else wide(attrs)

    def one(kind: str) -> Call:
        x = emit(relax.op.astype(call.args[0], "float32"))
        return emit(relax.op.topk(x, attrs.k, attrs.axis, kind, attrs.largest, attrs.dtype))

    if attrs.ret_type == "indices":
        return one("indices")
    values = narrow(one("values"))
    return values if attrs.ret_type == "values" else relax.Tuple([values, one("indices")])
