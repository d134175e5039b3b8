# SPDX-License-Identifier: Apache-2.0
"""LegalizeOps with source names, with legalisations that correct TVM's results, and without its warning about indices.

For `take` in mode "fast", TVM prints a warning for each call ("Fast mode segfaults when there are out-of-bounds
indices"). It does not apply here: `check_indices` proves all indices to be in bounds, or checks them.

TVM marks each `take` as opaque, so that FuseOps does not fuse it. A `take` of whole rows by constant indices is marked
as injective here, so that it is fused: its rows are read as vectors from the table.

TVM simplifies the negation of a comparison to the opposite comparison, !(a >= b) to a < b, which is wrong for NaN, and
x == x to true. Its loops for `full` do not support infinity and NaN, and its loops for `negative` and `sign` use -1,
which is no unsigned integer. It does not support power, remainder, isnan and isinf of bfloat16, grid_sample and
batch_norm of 16-bit floats, and erf of float64, for which libm is called here.
"""

import math
from collections.abc import Callable, Mapping

import numpy as np
from tvm import IRModule, ir, relax, te, tirx, topi
from tvm.ir import Constant

from relay_passes.ir.extrema import extremum, place_of_extremum
from relay_passes.ir.shapes import static_shape
from relay_passes.ir.upstream import run_upstream

Legalize = Callable[[relax.BlockBuilder, ir.Call], ir.Expr]

_TAKE = "relax.take"

_HALVES = ("bfloat16", "float16")

_INJECTIVE = 2
"""TOpPattern kInjective: FuseOps may fuse it with its producers and consumers."""


def legalize(mod: IRModule, others: Mapping[str, Legalize] | None = None) -> IRModule:
    """Replace operators by calls of PrimFuncs with their loops.

    Args:
        mod: Module whose Relax functions are in A-normal form and their calls named.
        others: Legalisations that replace TVM's, by operator name.
    """
    return run_upstream(mod, relax.transform.LegalizeOps({**_OURS, **(others or {})}))


def _take(builder: relax.BlockBuilder, call: ir.Call) -> ir.Expr:
    x, indices = call.args
    # If the attribute axis is None, the data has only one axis.
    at = int(call.attrs.axis or 0) % len(x.ty.shape)
    if _takes_rows(x, indices, at):
        data, index = (te.placeholder(static_shape(each), str(each.ty.dtype)) for each in (x, indices))
        func = te.create_prim_func([data, index, _taken(data, index, at)], index_dtype_override="int64")
        # No symbol is set, because the module to which the function is added sets it.
        func = func.without_attr("global_symbol").with_attr("op_pattern", _INJECTIVE)
        symbol = builder.add_func(func, "take")
        return relax.call_tir(symbol, [x, indices], call.ty)
    if str(call.attrs.mode) != "fast":
        return ir.Op.get(_TAKE).get_attr("FLegalize")(builder, call)
    return builder.call_te(_taken, x, indices, at, primfunc_name_hint="take")


def _takes_rows(x: ir.Expr, indices: ir.Expr, at: int) -> bool:
    """Whether a take selects whole rows by a vector of constant indices that are in bounds."""
    shape = static_shape(x)
    if shape is None or at == len(shape) - 1 or not isinstance(indices, Constant):
        return False
    places = indices.value.numpy()
    return bool(places.ndim == 1 and places.size and places.min() >= 0 and places.max() < shape[at])


def _taken(data: te.Tensor, index: te.Tensor, at: int) -> te.Tensor:
    """Return the TE expression of the elements at indices, which are in bounds, along an axis.

    Indices are widened to 64 bits, like those of the functions with which this may be fused.
    """
    rank = len(index.shape)

    def at_place(*place: ir.Expr) -> ir.Expr:
        found = index(*place[at : at + rank]).astype("int64")
        return data(*place[:at], found, *place[at + rank :])

    return te.compute(
        (*data.shape[:at], *index.shape, *data.shape[at + 1 :]),
        at_place,
        name="T_take",
        tag="injective",
    )


def _full(builder: relax.BlockBuilder, call: ir.Call) -> ir.Expr:
    value = call.args[1]
    if not isinstance(value, Constant) or np.isfinite(value.value.numpy()):
        return call.op.get_attr("FLegalize")(builder, call)
    number = tirx.const(float(value.value.numpy()), str(call.ty.dtype))
    shape = list(call.ty.shape)
    return builder.call_te(lambda: te.compute(shape, lambda *_: number, "T_full"), primfunc_name_hint="full")


def _not(builder: relax.BlockBuilder, call: ir.Call) -> ir.Expr:
    (x,) = call.args
    if str(x.ty.dtype) != "bool":
        return call.op.get_attr("FLegalize")(builder, call)
    return builder.call_te(topi.bitwise_xor, x, tirx.const(True, "bool"), primfunc_name_hint="logical_not")


def _negative(builder: relax.BlockBuilder, call: ir.Call) -> ir.Expr:
    (x,) = call.args
    dtype = str(x.ty.dtype)
    if not dtype.startswith("uint"):
        return call.op.get_attr("FLegalize")(builder, call)
    # Negate without a subtraction, because TVM assumes that differences of unsigned integers do not wrap around.
    negated = lambda x: topi.add(topi.bitwise_not(x), tirx.const(1, dtype))  # noqa: E731
    return builder.call_te(negated, x, primfunc_name_hint="negative")


def _sign(builder: relax.BlockBuilder, call: ir.Call) -> ir.Expr:
    (x,) = call.args
    dtype = str(x.ty.dtype)
    if not dtype.startswith("uint"):
        return call.op.get_attr("FLegalize")(builder, call)
    signs = lambda x: topi.cast(topi.not_equal(x, tirx.const(0, dtype)), dtype)  # noqa: E731
    return builder.call_te(signs, x, primfunc_name_hint="sign")


def in_float32(*dtypes: str) -> Legalize:
    """Return a legalisation that computes an operator in float32 if its result has one of the given dtypes.

    It is for operators for which TVM does not support these dtypes, or computes other results.
    """

    def legalized(builder: relax.BlockBuilder, call: ir.Call) -> ir.Expr:
        dtype = str(call.ty.dtype)
        if dtype not in dtypes:
            return call.op.get_attr("FLegalize")(builder, call)
        operands = [_emitted(builder, relax.op.astype(x, "float32")) for x in call.args]
        computed = _emitted(builder, ir.Call(call.op, operands, call.attrs))
        cast = builder.normalize(relax.op.astype(computed, dtype))
        return cast.op.get_attr("FLegalize")(builder, cast)

    return legalized


def _batch_norm(builder: relax.BlockBuilder, call: ir.Call) -> ir.Expr:
    dtype = str(call.args[0].ty.dtype)
    if dtype not in _HALVES:
        return call.op.get_attr("FLegalize")(builder, call)
    operands = [_emitted(builder, relax.op.astype(x, "float32")) for x in call.args]
    computed = _emitted(builder, ir.Call(call.op, operands, call.attrs))
    parts = (builder.emit(relax.TupleGetItem(computed, index)) for index in range(len(call.ty.fields)))
    return relax.Tuple([_emitted(builder, relax.op.astype(part, dtype)) for part in parts])


def _emitted(builder: relax.BlockBuilder, call: ir.Call) -> ir.Expr:
    call = builder.normalize(call)
    return builder.emit(call.op.get_attr("FLegalize")(builder, call))


def _of_itself(is_equal: bool) -> Legalize:
    """Return a legalisation of x == x or x != x of floats (tests for NaN), which TVM simplifies to constants."""

    def legalized(builder: relax.BlockBuilder, call: ir.Call) -> ir.Expr:
        x, y = call.args
        dtype = str(x.ty.dtype)
        if not x.same_as(y) or "float" not in dtype:
            return call.op.get_attr("FLegalize")(builder, call)

        def loops(x: te.Tensor) -> te.Tensor:
            found = topi.isnan(topi.cast(x, "float32") if dtype == "bfloat16" else x)
            return topi.bitwise_xor(found, tirx.const(True, "bool")) if is_equal else found

        return builder.call_te(loops, x, primfunc_name_hint="equal" if is_equal else "not_equal")

    return legalized


def _of_bfloat16(of: Callable[[te.Tensor], te.Tensor], name: str) -> Legalize:
    """Return a legalisation of a test of bfloat16 numbers that TVM supports for other floats only."""

    def legalized(builder: relax.BlockBuilder, call: ir.Call) -> ir.Expr:
        (x,) = call.args
        if str(x.ty.dtype) != "bfloat16":
            return call.op.get_attr("FLegalize")(builder, call)
        return builder.call_te(lambda x: of(topi.cast(x, "float32")), x, primfunc_name_hint=name)

    return legalized


def _by_libm(of: Callable[[ir.Expr], ir.Expr], name: str) -> Legalize:
    """Return a legalisation of a float64 function by a call of libm."""

    def legalized(builder: relax.BlockBuilder, call: ir.Call) -> ir.Expr:
        (x,) = call.args
        if str(x.ty.dtype) != "float64":
            return call.op.get_attr("FLegalize")(builder, call)

        def loops(x: te.Tensor) -> te.Tensor:
            return te.compute(x.shape, lambda *at: of(x(*at)), f"T_{name}")

        return builder.call_te(loops, x, primfunc_name_hint=name)

    return legalized


def _erf(x: ir.Expr) -> ir.Expr:
    return tirx.call_pure_extern("float64", "erf", x)


def _gelu(x: ir.Expr) -> ir.Expr:
    return x * 0.5 * (_erf(x * math.sqrt(0.5)) + 1.0)


_OURS: dict[str, Legalize] = {
    "relax.erf": _by_libm(_erf, "erf"),
    "relax.nn.gelu": _by_libm(_gelu, "gelu"),
    "relax.equal": _of_itself(is_equal=True),
    "relax.not_equal": _of_itself(is_equal=False),
    "relax.image.grid_sample": in_float32(*_HALVES),
    "relax.nn.batch_norm": _batch_norm,
    **dict.fromkeys(("relax.log_add_exp", "relax.mod", "relax.power"), in_float32("bfloat16")),
    "relax.isfinite": _of_bfloat16(topi.isfinite, "isfinite"),
    "relax.isinf": _of_bfloat16(topi.isinf, "isinf"),
    "relax.isnan": _of_bfloat16(topi.isnan, "isnan"),
    "relax.negative": _negative,
    "relax.sign": _sign,
    _TAKE: _take,
    "relax.full": _full,
    "relax.full_like": _full,
    "relax.logical_not": _not,
    "relax.max": extremum,
    "relax.min": extremum,
    "relax.argmax": place_of_extremum,
    "relax.argmin": place_of_extremum,
}
