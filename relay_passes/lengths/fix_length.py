# SPDX-License-Identifier: Apache-2.0
"""Substitution of a number for the length variable of a kernel, or of a composite and the routines that it calls."""

from collections.abc import Iterator, Mapping

from tvm import IRModule, relax, sym, tirx
from tvm.ir import BaseFunc, Call, Expr, Op, PrimType, Range, Type, Var
from tvm.ir.prim import expr as prim
from tvm_ffi import structural_map, structural_walk

from relay_passes.ir.sources import bindings_of, global_callees
from relay_passes.programs.merge_modules import add_functions


def length_of(func: BaseFunc) -> Var | None:
    """Return the length variable in the shapes of a function's parameters; None if all shapes are static.

    The function must be a result of `merge_lengths`, which ensures that one parameter has a size that is the variable.
    """
    found: list[Var] = []
    for dims in shapes_of(func):
        for dim in dims:
            structural_walk(dim, [(Var, found.append)])
    return found[0] if found else None


def length_argument(func: BaseFunc) -> Var | None:
    """Return a PrimFunc's length variable, from its shapes or a scalar parameter; None if it has none."""
    of_sizes = length_of(func)
    scalars = (param for param in func.params if isinstance(param.ty, PrimType))
    return next(scalars, None) if of_sizes is None else of_sizes


def shapes_of(func: BaseFunc) -> Iterator[list[Expr]]:
    """Yield the sizes of each parameter."""
    for param in func.params:
        yield dims_of(param.ty)


def dims_of(ty: Type) -> list[Expr]:
    """Return the sizes of a tensor's or buffer's type; none for other types."""
    if isinstance(ty, relax.TensorType):
        return list(ty.shape.values) if ty.shape is not None else []
    return list(ty.shape) if hasattr(ty, "shape") else []


def takes_length(func: BaseFunc) -> bool:
    """Whether the length is a scalar parameter of a PrimFunc."""
    return any(isinstance(param.ty, PrimType) for param in func.params)


def fixed(func: BaseFunc, length: int) -> BaseFunc:
    """Return the function for a given length; a scalar length parameter is removed.

    A function without a length is returned unchanged.
    """
    variable = length_of(func)
    if variable is None:
        return func
    if takes_length(func):
        params = [param for param in func.params if not param.same_as(variable)]
        func = tirx.PrimFunc(params, func.body, func.ret_type, attrs=func.attrs)
    return _folded(func, {variable: tirx.IntImm("int64", length)})


def fixed_composite(mod: IRModule, name: str, length: int) -> IRModule:
    """Return a module whose `main` is the composite for a given length, with the routines that it calls."""
    func = fixed(mod[name], length)
    functions: dict[str, BaseFunc] = {}
    for binding in bindings_of(func):
        call = binding.value
        for routine in global_callees(call) if isinstance(call, relax.Call) else ():
            operands = [*call.args[1].fields, binding.var]
            functions[routine] = fixed(mod[routine], _length_for(mod[routine], operands))
    out = IRModule()
    add_functions(out, {**functions, "main": func})
    return out


def _length_for(routine: BaseFunc, operands: list[Expr]) -> int:
    """Return the length for which a routine's arguments have the operands' shapes."""
    for dims, operand in zip(shapes_of(routine), operands, strict=False):
        for dim, size in zip(dims, dims_of(operand.ty), strict=True):
            if isinstance(dim, Var):
                return int(size)
    return 0


def simplified(mod: IRModule) -> IRModule:
    """Return a copy of the module with simplified sizes of slices; Relax's sizes include cases of negative lengths.

    min(max(if_then_else(n < 0, n * 4, n * 2), 0), n * 2)    →    n * 2
    """
    out = mod.clone()
    for gvar, func in mod.functions_items():
        variable = length_argument(func) if isinstance(func, BaseFunc) else None
        if variable is not None:
            out.update_func(gvar, _for_positive(func, variable))
    return out


def _for_positive(func: BaseFunc, variable: Var) -> BaseFunc:
    analyzer = sym.Analyzer()
    analyzer.bind(variable, Range(0, _MOST))

    def simpler(expr: Expr) -> Expr:
        return analyzer.simplify(expr)

    def chosen(call: Call) -> Call | Expr:
        return analyzer.simplify(call) if call.op.same_as(_IF_THEN_ELSE) else call

    return structural_map(func, [((prim.Max, prim.Min), simpler), (Call, chosen)])


_IF_THEN_ELSE = Op.get("prim.if_then_else")
_MOST = 1 << 31
"""More than any length: products with sizes of other axes do not overflow."""


def _folded(func: BaseFunc, values: Mapping[Var, Expr]) -> BaseFunc:
    changed = structural_map(func, [(Var, lambda var: values.get(var, var))])
    return structural_map(changed, [(_ARITHMETIC, _number)])


_ARITHMETIC = (prim.Add, prim.Sub, prim.Mul, prim.FloorDiv, prim.Max, prim.Min)


def _number(expr: prim.BinaryOpExpr) -> Expr:
    """Fold an expression of numbers only, which occurs after the length was replaced by a number."""
    both = isinstance(expr.a, tirx.IntImm) and isinstance(expr.b, tirx.IntImm)
    return sym.Analyzer().simplify(expr) if both else expr
