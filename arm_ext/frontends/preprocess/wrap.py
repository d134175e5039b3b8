# SPDX-License-Identifier: Apache-2.0
"""Insertion of operations before and after an imported model's `main`, whose inputs and outputs change accordingly."""

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import numpy.typing as npt
import tvm
from tvm import relax
from tvm.ir import Call, Expr, GlobalVar, TupleGetItem, Var
from tvm_ffi import structural_map

from arm_ext.common.errors import UsageError
from arm_ext.frontends.common.imported import ImportedModel, Reference, TensorSpec
from arm_ext.frontends.preprocess.options import Preprocess
from arm_ext.frontends.preprocess.postprocess_plan import plan_output
from arm_ext.frontends.preprocess.preprocess_plan import OperationChain, plan_input
from relay_passes.ir.sources import bindings_of, identifier, name_bindings, with_source
from relay_passes.ir.upstream import run_upstream
from relay_passes.programs.control_flow import has_control_flow
from relay_passes.programs.merge_modules import add_functions

Array = npt.NDArray[Any]


def preprocessed(model: ImportedModel, spec: Preprocess | None) -> ImportedModel:
    """Return a model whose inputs are frames and whose outputs are post-processed, as `spec` says.

    Raises:
        UsageError: An input or output that the model lacks; steps that do not fit it.
    """
    if spec is None:
        return model
    check_names("inputs", spec.inputs, model.inputs)
    check_names("outputs", spec.outputs, model.outputs)
    before = [
        plan_input(x, spec.inputs[x.name], quantized=model.quantized)
        if x.name in spec.inputs
        else OperationChain(x, (), x)
        for x in model.inputs
    ]
    after = [plan_output(y, spec.outputs.get(y.name, [])) for y in model.outputs]
    ahead = {_name("pre", name): _steps(step.key for step in x.steps) for name, x in spec.inputs.items()}
    behind = {_name("post", name): _steps(step.key for step in y) for name, y in spec.outputs.items()}
    return replace(
        model,
        mod=_wrapped(model.mod, before, after),
        inputs=tuple(chain.source for chain in before),
        outputs=tuple(chain.result for chains in after for chain in chains),
        nodes=ahead | model.nodes | behind,
        reference=partial(_reference, before, after, model.reference),
        float_reference=model.float_reference and partial(_reference, before, after, model.float_reference),
    )


def check_names(section: str, given: Iterable[str], specs: Sequence[TensorSpec]) -> None:
    """Refuse names of inputs or outputs that the model does not have.

    Raises:
        UsageError: A name is none of the model's.
    """
    known = [spec.name for spec in specs]
    for name in given:
        if name not in known:
            raise UsageError(
                f"preprocess: {section}.{name}: the model has no such name; it has {', '.join(known)}"
            )


def _name(when: str, tensor: str) -> str:
    return f"{when}process:{tensor}"


def _steps(keys: Iterable[str]) -> str:
    return " ".join(keys) or "cast"


def _reference(
    before: list[OperationChain], after: list[list[OperationChain]], source: Reference, inputs: list[Array]
) -> tuple[list[Array], str]:
    """Run the source's own runtime, with the operations before and after it in numpy."""
    outputs, name = source([_computed(chain, x) for chain, x in zip(before, inputs, strict=True)])
    if not outputs:
        return outputs, name
    values = [_computed(chain, y) for chains, y in zip(after, outputs, strict=True) for chain in chains]
    return values, f"{name}, preprocess in numpy"


def _computed(chain: OperationChain, x: Array) -> Array:
    for operation in chain.operations:
        x = operation.compute(x)
    return x


def _wrapped(
    mod: tvm.IRModule, before: list[OperationChain], after: list[list[OperationChain]]
) -> tvm.IRModule:
    main = mod["main"]
    params = [_param(param, chain) for param, chain in zip(main.params, before, strict=True)]
    builder = relax.BlockBuilder()
    # In a model with control flow, `main` only calls other functions, so the operations become functions, too.
    functions: dict[str, relax.Function] | None = {} if has_control_flow(mod) else None
    with builder.function("main", params):
        inputs = [
            _emitted(builder, chain, x, "pre", functions) for chain, x in zip(before, params, strict=True)
        ]
        result = _inlined(builder, main, inputs)
        with builder.dataflow():
            single = not isinstance(result.ty, relax.TupleType)
            outputs = [
                builder.emit_output(result if single else TupleGetItem(result, i)) for i in range(len(after))
            ]
        results = [
            _emitted(builder, chain, y, "post", functions)
            for chains, y in zip(after, outputs, strict=True)
            for chain in chains
        ]
        with builder.dataflow():
            returned = builder.emit_output(results[0] if len(results) == 1 else relax.Tuple(results))
        builder.emit_func_output(returned)
    out = mod.clone()
    func = builder.get()["main"]
    func = func.with_attrs(main.attrs) if main.attrs else func
    if functions is None:
        out.update_func(mod.get_global_var("main"), func)
    else:
        del out["main"]
        add_functions(out, {**functions, "main": func})
    # This pass also merges adjacent dataflow blocks.
    return run_upstream(out, relax.transform.CanonicalizeBindings())


def _param(param: Var, chain: OperationChain) -> Var:
    if not chain.operations:
        return param
    return Var(str(param.name), relax.TensorType(chain.source.shape, chain.source.dtype))


def _emitted(
    builder: relax.BlockBuilder,
    chain: OperationChain,
    value: Expr,
    when: str,
    functions: dict[str, relax.Function] | None,
) -> Expr:
    """Emit a chain of operations, named after the tensor at the model's border.

    If `functions` is given, as a function.
    """
    if not chain.operations:
        return value
    name = _name(when, chain.source.name)
    x = Var("x", relax.TensorType(chain.source.shape, chain.source.dtype))
    inner = relax.BlockBuilder()
    with inner.function("main", [x]):
        with inner.dataflow():
            y: Expr = x
            for operation in chain.operations:
                y = inner.emit(operation.emit(y))
            y = inner.emit_output(y)
        inner.emit_func_output(y)
    func = inner.get()["main"]
    func = name_bindings(func, dict.fromkeys((b.var for b in bindings_of(func)), name))
    if functions is None:
        return _inlined(builder, func, [value])
    symbol = f"{identifier(name)}_{len(functions)}"
    functions[symbol] = func.without_attr("global_symbol")
    return builder.emit(with_source(Call(GlobalVar(symbol), [value], ret_ty=func.ret_ty), [name]))


def _inlined(builder: relax.BlockBuilder, func: relax.Function, arguments: list[Expr]) -> Expr:
    given = dict(zip(func.params, arguments, strict=True))
    body = structural_map(func.body, [(Var, lambda var: given.get(var, var))])
    for block in body.blocks:
        with builder.dataflow() if isinstance(block, relax.DataflowBlock) else nullcontext():
            for binding in block.bindings:
                builder.emit_normalized(binding)
    return body.body
