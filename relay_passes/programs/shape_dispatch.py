# SPDX-License-Identifier: Apache-2.0
"""Dispatch by shape: a `main` that calls the function which was compiled for the shapes of the arguments.

    main_8(x: [1, 8]), main_16(x: [1, 16])    →    main(x: [1, n]) = check_shapes(n)
                                                                     if n == 8: main_8(x) else: main_16(x)

`check_shapes` raises an error if no function fits, before any computation.
"""

from collections.abc import Iterable, Sequence
from functools import reduce

from tvm import IRModule, relax, tirx
from tvm.ir import Call, Expr, GlobalVar, PrimType, StringImm, TupleType, Type, Var
from tvm.relax import TensorType

CHECK = "check_shapes"

VARIANTS, REFUSAL = "variants", "refusal"
"""Attributes of `main`: the names of the functions that it calls, and the message of its error."""

_Fits = list[tuple[Expr, int]]


def dispatch_by_shape(mod: IRModule, names: Sequence[str], refusal: str, symbol: str = "main") -> IRModule:
    """Add a function that calls the function for the shapes of its arguments.

    Args:
        mod: Module without a function of that name.
        names: Names of the functions. Their parameters and results are tensors or tuples of tensors, whose types differ
            in sizes only. No two functions have the same parameter shapes.
        refusal: Message of the error.
        symbol: Name of the function.
    """
    functions = [mod[name] for name in names]
    params = [
        Var(p.name, _open([f.params[k].ty for f in functions], f"{p.name}_"))
        for k, p in enumerate(functions[0].params)
    ]
    result = _open([func.ret_ty for func in functions])
    fits = [_fits(params, func) for func in functions]
    sizes = list(dict.fromkeys(dim for each in fits for dim, _ in each))
    builder = relax.BlockBuilder(mod)
    check = builder.add_func(_check(sizes, fits, refusal), CHECK)
    calls = [called(Call(mod.get_global_var(name), params, ret_ty=result)) for name in names]
    body = calls.pop()
    for condition, call in zip(reversed(fits[:-1]), reversed(calls), strict=True):
        body = _branch(condition, call, body, result)
    checked = Call(check, [relax.prim_value(dim) for dim in sizes], ret_ty=PrimType("bool"))
    first = relax.BindingBlock([relax.VarBinding(Var("checked", checked.ty), checked)])
    body = relax.SeqExpr([first, *body.blocks], body.body)
    main = relax.Function(params, body, result, is_pure=False)
    out = builder.get()
    gvar = GlobalVar(symbol)
    relax.expr._update_type(gvar, main.ty)
    attributes = {"global_symbol": symbol, "num_input": len(params), VARIANTS: list(names), REFUSAL: refusal}
    out[gvar] = main.with_attrs(attributes)
    return out


def _open(types: Sequence[Type], name: str = "") -> Type:
    """Return a type of which all given types are instances.

    Differing sizes become variables named after the axis, or are unknown if there is no name.
    """
    first = types[0]
    if isinstance(first, TupleType):
        return TupleType([_open(fields) for fields in zip(*(ty.fields for ty in types), strict=True)])
    axes = list(zip(*(ty.shape.values for ty in types), strict=True))
    static = [len({str(dim) for dim in axis}) == 1 and isinstance(axis[0], tirx.IntImm) for axis in axes]
    if not all(static) and not name:
        return TensorType(dtype=first.dtype, ndim=len(axes))
    dims = [
        axis[0] if same else tirx.Var(f"{name}{k}", "int64")
        for k, (axis, same) in enumerate(zip(axes, static, strict=True))
    ]
    return TensorType(dims, first.dtype)


def _fits(params: Sequence[Var], func: relax.Function) -> _Fits:
    """Return the conditions, (size variable, number), on the sizes of `main`'s arguments for calling a function."""
    pairs = [
        (dim, wanted)
        for param, own in zip(params, func.params, strict=True)
        for dim, wanted in zip(param.ty.shape.values, own.ty.shape.values, strict=True)
    ]
    return [
        (dim, int(wanted))
        for dim, wanted in pairs
        if isinstance(dim, tirx.Var) and isinstance(wanted, tirx.IntImm)
    ]


def _all(fits: _Fits) -> Expr:
    return reduce(tirx.And, (dim == tirx.IntImm("int64", size) for dim, size in fits))


def _check(sizes: Sequence[Expr], fits: Iterable[_Fits], refusal: str) -> tirx.PrimFunc:
    """Return a PrimFunc of sizes that returns true, or raises an error if no function fits the sizes."""
    return checking(sizes, reduce(tirx.Or, map(_all, fits)), refusal)


def checking(values: Sequence[Expr], fits: Expr, refusal: str) -> tirx.PrimFunc:
    """Return a PrimFunc of scalars that returns true, or raises ValueError with `refusal` if `fits` is false."""
    body = tirx.SeqStmt(
        [
            # The Python names of the first two parameters of AssertStmt's constructor, kind and condition, are swapped.
            tirx.AssertStmt(fits, StringImm("ValueError"), [StringImm(refusal)]),
            tirx.Return(tirx.IntImm("bool", 1)),
        ]
    )
    return tirx.PrimFunc(list(values), body, PrimType("bool"))


def called(call: Call) -> relax.SeqExpr:
    """Return an expression that binds a call's result and returns it, such as the body of a branch."""
    value = Var("value", call.ty)
    return relax.SeqExpr([relax.BindingBlock([relax.VarBinding(value, call)])], value)


def _branch(fits: _Fits, then: relax.SeqExpr, other: relax.SeqExpr, result: Type) -> relax.SeqExpr:
    condition = Var("fits", PrimType("bool"))
    chosen = Var("chosen", result)
    bindings = [
        relax.VarBinding(condition, relax.prim_value(_all(fits))),
        relax.VarBinding(chosen, relax.If(condition, then, other)),
    ]
    return relax.SeqExpr([relax.BindingBlock(bindings)], chosen)
