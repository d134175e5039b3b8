# SPDX-License-Identifier: Apache-2.0
"""Copies of `main` with other results or more parameters, to observe or to set intermediate values."""

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
    """Return a module whose `main` returns the given variables of its single dataflow block."""
    main = mod["main"]
    (block,) = main.body.blocks
    fields = relax.Tuple(list(variables))
    result = relax.Var("values", relax.TupleType([variable.ty for variable in variables]))
    bindings = [*block.bindings, relax.VarBinding(result, fields)]
    return _with_main(mod, main.params, bindings, result)


def fed(mod: tvm.IRModule, variables: Sequence[relax.Var], *, dequantized: bool) -> tvm.IRModule:
    """Return a module whose `main` returns the given variables, and in which parameters replace them as operands.

    After the original parameters, there is one parameter per variable, which all its users read instead. With
    `dequantized`, further float parameters follow, one per original parameter and per variable, which replace the
    results of `dequantize` of these.
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
