# SPDX-License-Identifier: Apache-2.0
"""`main` with other results or with more parameters, to see or to set the values inside it."""

from collections.abc import Sequence

import tvm
from tvm import relax
from tvm.ir import Var
from tvm_ffi import structural_map

from relay_passes.ir.calls import name_of


def returned(mod: tvm.IRModule) -> list[relax.Expr]:
    """Return the results of `main` one by one."""
    body = mod["main"].body
    bound = {binding.var: binding.value for block in body.blocks for binding in block.bindings}
    value = bound.get(body.body, body.body)
    return list(value.fields) if isinstance(value, relax.Tuple) else [body.body]


def returning(mod: tvm.IRModule, variables: Sequence[relax.Var]) -> tvm.IRModule:
    """Return the module with a `main` that returns these variables of its one dataflow block."""
    main = mod["main"]
    (block,) = main.body.blocks
    fields = relax.Tuple(list(variables))
    result = relax.Var("values", relax.TupleType([variable.ty for variable in variables]))
    bindings = [*block.bindings, relax.VarBinding(result, fields)]
    return _with_main(mod, main.params, bindings, result)


def fed(mod: tvm.IRModule, variables: Sequence[relax.Var], *, dequantized: bool) -> tvm.IRModule:
    """Return the module with a `main` that returns these variables, and reads none of them.

    It has more parameters behind its own: one for each variable, which every reader reads instead; and with
    `dequantized` one in float for each of its own and each variable, which stands for what `dequantize` makes of it.
    """
    main = mod["main"]
    (block,) = main.body.blocks
    given = {var: relax.Var(f"{var.name}_given", var.ty) for var in variables}
    floats = {
        var: relax.Var(f"{var.name}_float", relax.TensorType(var.ty.shape, "float32"))
        for var in (*main.params, *variables)
        if dequantized
    }
    bindings, read = [], dict[Var, Var](given)
    for binding in block.bindings:
        value = binding.value
        if name_of(value) == "relax.dequantize" and value.args[0] in floats:
            read[binding.var] = floats[value.args[0]]
            continue
        changed = structural_map(value, [(Var, lambda var: read.get(var, var))])
        bindings.append(relax.VarBinding(binding.var, changed))
    result = relax.Var("values", relax.TupleType([variable.ty for variable in variables]))
    bindings.append(relax.VarBinding(result, relax.Tuple(list(variables))))
    return _with_main(mod, [*main.params, *given.values(), *floats.values()], bindings, result)


def _with_main(
    mod: tvm.IRModule, params: Sequence[relax.Var], bindings: Sequence[relax.VarBinding], result: relax.Var
) -> tvm.IRModule:
    main = mod["main"]
    body = relax.SeqExpr([relax.DataflowBlock(list(bindings))], result)
    changed = mod.clone()
    changed["main"] = relax.Function(list(params), body, result.ty, main.is_pure, main.attrs)
    return relax.transform.DeadCodeElimination(["main"])(relax.transform.Normalize()(changed))
