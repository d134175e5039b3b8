# SPDX-License-Identifier: Apache-2.0
"""The `main` of a model with a bounded length: it checks the length, and memory is planned for the maximum length.

    main(x: [1, n, 8]) = k(x)    →    main(x: [1, n, 8]): check(n); copy(k(copy(x)))

Kernels that process rows in chunks read and write a whole chunk even if there are fewer rows. The memory plan reserves
space for a chunk in each activation. Arguments and results may not have this space, so they are copied.
"""

from collections.abc import Iterator, Sequence

from tvm import IRModule, relax, tirx
from tvm.ir import Call, Expr, PrimType, Type, Var
from tvm.s_tir.stmt import SBlock, SBlockRealize
from tvm_ffi import structural_map

from relay_passes.ir.sources import sources_of, with_source
from relay_passes.lengths.fix_length import dims_of, fixed, length_of, takes_length
from relay_passes.programs.shape_dispatch import checking

CHECK, COPY = "check_length", "copy"


def copy_ends(mod: IRModule) -> IRModule:
    """Insert copies of the inputs and outputs of `main` whose size is only known at run time.

    Args:
        mod: Module whose `main` is one dataflow block of calls by call_tir; it returns a tensor or a tuple of them.
    """
    builder = relax.BlockBuilder(mod)
    main = mod["main"]
    length = length_of(main)
    (block,) = main.body.blocks
    sources = [sources_of(binding.value) for binding in block.bindings]

    def copied(value: Var, name: str, names: tuple[str, ...]) -> relax.VarBinding:
        func = _copy(value.ty, length)
        args = [value, relax.prim_value(length)] if takes_length(func) else [value]
        call = with_source(relax.call_tir(builder.add_func(func, COPY), args, value.ty), names)
        return relax.VarBinding(Var(name, value.ty), call)

    before = [copied(p, f"{p.name}_copy", sources[0]) for p in main.params if _is_open(p.ty)]
    inside = {binding.value.args[1].fields[0]: binding.var for binding in before}
    body = structural_map(block, [(Var, lambda var: inside.get(var, var))])
    result, bindings = _result(main.body.body, body.bindings)
    after = [
        copied(var, f"{var.name}_copy", sources[-1])
        for var in dict.fromkeys(_results(result))
        if _is_open(var.ty)
    ]
    outside = {binding.value.args[1].fields[0]: binding.var for binding in after}
    result = structural_map(result, [(Var, lambda var: outside.get(var, var))])
    blocks = [relax.DataflowBlock([*before, *bindings, *after])]
    new = relax.Function(main.params, relax.SeqExpr(blocks, result), main.ret_ty, main.is_pure, main.attrs)
    builder.update_func(mod.get_global_var("main"), new)
    return relax.transform.Normalize()(builder.get())


def _result(value: Expr, bindings: Sequence[relax.VarBinding]) -> tuple[Expr, Sequence[relax.VarBinding]]:
    """Return the result of `main`, a tuple expression instead of its variable, and the other bindings."""
    (found,) = [b.value for b in bindings if b.var.same_as(value)] or [value]
    if not isinstance(found, relax.Tuple):
        return value, bindings
    return found, [binding for binding in bindings if not binding.var.same_as(value)]


def _results(value: Expr) -> Iterator[Var]:
    if isinstance(value, relax.Tuple):
        for field in value.fields:
            yield from _results(field)
    else:
        yield value


def _is_open(ty: Type) -> bool:
    return any(not isinstance(dim, tirx.IntImm) for dim in dims_of(ty))


def _copy(ty: relax.TensorType, length: Var | None) -> tirx.PrimFunc:
    """Return a PrimFunc that copies a tensor by a loop which passes do not replace by a view, as they do for a reshape.

    If no size of the tensor is the length itself, as in [1, n + 2, 8], the function has the length as a parameter.
    """
    dims = dims_of(ty)
    is_bound = any(isinstance(dim, Var) for dim in dims)
    buffers = [tirx.decl_buffer(dims, str(ty.dtype), name) for name in ("x", "y")]
    loops = [tirx.Var(f"i{axis}", "int64") for axis in range(len(dims))]
    stmt: tirx.Stmt = tirx.BufferStore(buffers[1], tirx.BufferLoad(buffers[0], loops), loops)
    for var, dim in reversed(list(zip(loops, dims, strict=True))):
        stmt = tirx.For(var, tirx.IntImm("int64", 0), dim, tirx.ForKind.SERIAL, stmt)
    root = SBlockRealize([], True, SBlock([], [], [], "root", stmt))
    params = buffers if is_bound else [buffers[0], length, buffers[1]]
    return tirx.PrimFunc(params, root, attrs=None).with_attr("tirx.noalias", True)


def bounded(mod: IRModule, least: int, largest: int, refusal: str) -> IRModule:
    """Make `main` reject lengths outside of the bounds, and set the upper bound for the memory planner.

    Args:
        mod: Module whose `main` has a length that is only known at run time.
        least: The minimum length.
        largest: The maximum length.
        refusal: Message of the error.
    """
    main = mod["main"]
    variable = length_of(main)
    if variable is None:
        return mod
    fits = tirx.And(variable >= tirx.IntImm("int64", least), variable <= tirx.IntImm("int64", largest))
    argument = tirx.Var(variable.name, "int64")
    fits = structural_map(fits, [(Var, lambda var: argument if var.same_as(variable) else var)])
    builder = relax.BlockBuilder(mod)
    check = builder.add_func(checking([argument], fits, refusal), CHECK)
    checked = Call(check, [relax.prim_value(variable)], ret_ty=PrimType("bool"))
    first = relax.BindingBlock([relax.VarBinding(Var("checked", checked.ty), checked)])
    body = relax.SeqExpr([first, *main.body.blocks], main.body.body)
    new = relax.Function(main.params, body, main.ret_ty, is_pure=False, attrs=main.attrs)
    builder.update_func(mod.get_global_var("main"), new)
    return builder.get()


def at_length(mod: IRModule, length: int) -> IRModule:
    """Return a copy of the module in which the length of every function is the given number."""
    out = mod.clone()
    for gv, func in mod.functions_items():
        out.update_func(gv, fixed(func, length))
    return out
