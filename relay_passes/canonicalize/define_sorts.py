# SPDX-License-Identifier: Apache-2.0
"""Sorts of floats, booleans and small or unsigned integers as sorts of int32 or int64.

    keys(x)       an integer per element, with the elements' order, and NaN above all numbers
    argsort(x)    →    argsort(keys(x))
    topk(x, k)    →    (gathered(x, i), i = topk(keys(x), k, indices))
    sort(x)       →    gathered(x, argsort(keys(x)))

This is the order of numpy, PyTorch and JAX: NaN of either sign is last in ascending and first in descending order; 0
and -0 are equal, and sorts are stable. TVM's runtime compares floats by <, which does not sort a row with a NaN. It
misinterprets bfloat16, and rejects booleans and all integers except int32 and int64. An argmax or argmin of bfloat16 or
booleans is computed in float32, which represents all their values:

    argmax(x)     →    argmax(astype(x, float32))
"""

from tvm import IRModule, relax, te, tirx
from tvm.ir import Call, Expr, Op
from tvm.relax import Var

from relay_passes.ir.rewrite_calls import rewrite_calls
from relay_passes.ir.sources import bindings_of, map_calls, relax_functions, sources_of, with_source
from relay_passes.ir.upstream import run_upstream

_SORT, _ARGSORT, _TOPK = map(Op.get, ("relax.sort", "relax.argsort", "relax.topk"))
_PLACES = tuple(Op.get(f"relax.{name}") for name in ("argmax", "argmin"))
_NARROW = ("bfloat16", "bool")
_SORTED = ("int32", "int64")
_OF_64_BITS = ("float64", "uint32", "uint64")


def define_sorts(mod: IRModule) -> IRModule:
    """Rewrite sorts of all dtypes except int32 and int64, and argmax and argmin of bfloat16 and booleans.

    Args:
        mod: Module whose Relax functions are in A-normal form.
    """
    mod = rewrite_calls(mod, _is_search, _of_float32)
    sorting = {gv: f for gv, f in relax_functions(mod) if any(_is_sort(b.value) for b in bindings_of(f))}
    if not sorting:
        return mod
    builder = relax.BlockBuilder(mod.clone())
    for gv, func in sorting.items():
        sorter = _Sorter(builder)
        builder.update_func(gv, map_calls(func, sorter.changed))
    return run_upstream(builder.get(), relax.transform.Normalize())


def _is_search(value: Expr) -> bool:
    return _calls(value, _PLACES) and str(value.args[0].ty.dtype) in _NARROW


def _is_sort(value: Expr) -> bool:
    if not _calls(value, (_SORT, _ARGSORT, _TOPK)):
        return False
    return str(value.args[0].ty.dtype) not in _SORTED


def _calls(value: Expr, operators: tuple[Op, ...]) -> bool:
    return isinstance(value, Call) and any(value.op.same_as(op) for op in operators)


def _of_float32(call: Call) -> Call:
    wide = with_source(relax.op.astype(call.args[0], "float32"), sources_of(call))
    return with_source(Call(call.op, [wide], call.attrs), sources_of(call))


class _Sorter:
    """Rewrites the sorts of a function."""

    def __init__(self, builder: relax.BlockBuilder) -> None:
        self._builder = builder

    def changed(self, _: Var, call: Call) -> Expr:
        """Return the replacement of a sort; return other calls unchanged."""
        if not _is_sort(call):
            return call
        (x,), attrs, names = call.args, call.attrs, sources_of(call)
        order = with_source(self._builder.call_te(keys, x, primfunc_name_hint="keys"), names)
        places = with_source(_places(call, order), names)
        if call.op.same_as(_ARGSORT) or (call.op.same_as(_TOPK) and attrs.ret_type == "indices"):
            return places
        # A nested call has no type before normalisation, so the kernel is built for a variable with its type.
        keyed = Var("keys", relax.TensorType(x.ty.shape, _key_dtype(str(x.ty.dtype))))
        found = Var("places", self._builder.normalize(_places(call, keyed)).ty)
        axis = int(attrs.axis) % len(x.ty.shape)
        kernel = self._builder.call_te(gathered, x, found, axis, primfunc_name_hint="gathered")
        ty = relax.TensorType(found.ty.shape, x.ty.dtype)
        values = with_source(relax.call_tir(kernel.args[0], [x, places], ty), names)
        is_both = call.op.same_as(_TOPK) and attrs.ret_type == "both"
        return relax.Tuple([values, places]) if is_both else values


def _places(call: Call, order: Expr) -> Call:
    """Return the argsort or top-k of integer keys that computes the indices of a sort."""
    attrs = call.attrs
    if call.op.same_as(_TOPK):
        return relax.op.topk(order, attrs.k, attrs.axis, "indices", attrs.largest, attrs.dtype)
    dtype = attrs.dtype if call.op.same_as(_ARGSORT) else "int32"
    return relax.op.argsort(order, attrs.axis, attrs.descending, dtype)


def _key_dtype(dtype: str) -> str:
    return "int64" if dtype in _OF_64_BITS else "int32"


def keys(data: te.Tensor, total: bool = False) -> te.Tensor:
    """Return integer keys with the same order as the elements.

    Args:
        data: Floats, booleans or integers.
        total: Whether the order is IEEE 754's totalOrder, in which a negative NaN is below all numbers and -0 below 0;
            else a NaN is above all numbers, and 0 and -0 are equal.
    """
    dtype = str(data.dtype)
    of = _key_dtype(dtype)
    wide = of.replace("int", "float")
    most = tirx.max_value(of)

    def key(*at: tirx.Var) -> Expr:
        if dtype == "uint64":
            return tirx.reinterpret(of, data(*at)) ^ tirx.min_value(of)
        if "float" not in dtype:
            return data(*at).astype(of)
        x = data(*at).astype(wide)
        number = tirx.reinterpret(of, x)
        # Of two negative floats, the greater has the smaller bit pattern.
        number = tirx.Select(number < tirx.const(0, of), number ^ most, number)
        if total:
            return number
        number = tirx.Select(tirx.EQ(x, tirx.const(0, wide)), tirx.const(0, of), number)
        return tirx.Select(tirx.isnan(x), most, number)

    return te.compute(data.shape, key, "keys")


def gathered(data: te.Tensor, places: te.Tensor, axis: int) -> te.Tensor:
    """Return the elements at `places` along an axis.

    Args:
        data: The tensor.
        places: Indices, which must be in bounds; they are clamped to the bounds, so that `check_indices` can prove it.
        axis: The axis.
    """
    size = data.shape[axis]

    def element(*at: tirx.Var) -> Expr:
        place = places(*at).astype(size.ty.dtype)
        place = tirx.max(tirx.min(place, size - 1), tirx.const(0, size.ty.dtype))
        return data(*at[:axis], place, *at[axis + 1 :])

    return te.compute(places.shape, element, "gathered")
