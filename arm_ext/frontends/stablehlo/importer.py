# SPDX-License-Identifier: Apache-2.0
"""Import of StableHLO: programs of JAX and PyTorch/XLA, as MLIR text or as the bytecode that jax.export writes.

Upstream's importer is no base to build on: it takes 20 operators, of which it knows one form (a convolution is NHWC
and without padding to one side, a broadcast has no dimensions, a dot_general is a matmul, a pool is padded by 1), one
function and one result, asks for jax, and reads attributes that StableHLO no longer has. So this one is our own:
jaxlib's MLIR reads, verifies and fixes shapes; tables of converters translate.

Parameters that are arguments of the program are inputs here. Export a function that has them inside
(`functools.partial`, a closure) for weights that are packed at compile time.
"""

import contextlib
import hashlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import tvm
from jaxlib.mlir import ir
from tvm import relax
from tvm.ir import Var

from arm_ext.common.errors import ModelError, UsageError
from arm_ext.frontends.common.imported import ImportedModel, TensorSpec
from arm_ext.frontends.common.limits import check_inputs, check_values
from arm_ext.frontends.common.refuse import (
    Shapes,
    misfit,
    not_imported,
    refuse_dynamic_inputs,
    refuse_unknown_inputs,
)
from arm_ext.frontends.graph import Value
from arm_ext.frontends.stablehlo.attributes import Tensor, outline_of, tensor_of, type_text, word
from arm_ext.frontends.stablehlo.module import UnreadableError, fix_shapes, read_module, take_apart
from arm_ext.frontends.stablehlo.operators import (
    CONVERTERS,
    converter_of,
    name_of,
    named_operators,
    operator_name,
    refuse_unsupported,
)
from arm_ext.frontends.stablehlo.reference import reference
from arm_ext.frontends.stablehlo.translator import Translator, functions_of
from relay_passes.programs.merge_modules import MAIN


def import_stablehlo(data: bytes, name: str, shapes: Shapes | None = None) -> ImportedModel:
    """Import a StableHLO program, its function `main` or its only public one.

    Args:
        data: A file's bytes.
        name: The file, or the model's name.
        shapes: Input name → static shape, needed for each input with a dynamic dimension.

    Raises:
        UsageError: The file is damaged or no StableHLO program; a shape is missing or does not fit.
        ModelError: Operators that cannot be compiled: all of them, with node names and counts.
    """
    try:
        module = read_module(data)
    except UnreadableError as err:
        raise UsageError(f"{name}: not StableHLO that jaxlib {_version()} can read: {err}") from err
    with module.context:
        entry = _entry(module, name)
        inputs = _fixed(module, entry, shapes or {})
        # Operators that these passes cannot decompose are refused later, by name.
        with contextlib.suppress(UnreadableError):
            if any(name.startswith("chlo.") for name in _unknown(module, entry)):
                take_apart(module)
            if _unknown(module, entry):
                fix_shapes(module, [str(argument.type) for argument in entry.regions[0].blocks[0].arguments])
        operators = named_operators(module, entry)
        refuse_unsupported(operators)
        outputs = _named(
            entry, "res_attrs", "jax.result_info", ir.FunctionType(_function_type(entry)).results
        )
        if not outputs:
            raise UsageError(f"{name}: it has no output: its function returns no value")
        nodes = {node: operator_name(op) for op, node in operators.items()}
        mod = _translated(module, entry, operators, inputs)
        check_values(mod, nodes)
        quantized = "!quant.uniform" in outline_of(module)
    taken = tuple(TensorSpec(key, tensor.shape, tensor.stored) for key, tensor in inputs.items())
    check_inputs(taken)
    return ImportedModel(
        mod=mod,
        name=Path(name).stem,
        format="stablehlo",
        sha256=hashlib.sha256(data).hexdigest(),
        inputs=taken,
        outputs=tuple(TensorSpec(key, tensor.shape, tensor.stored) for key, tensor in outputs),
        nodes=nodes,
        quantized=quantized,
        reference=partial(reference, module),
    )


def _unknown(module: Any, entry: Any) -> list[str]:
    """Return names of operators without a converter, such as those whose sizes are computed from constants."""
    return [operator_name(op) for op in named_operators(module, entry) if converter_of(op) is None]


def _version() -> str:
    import jaxlib

    return str(jaxlib.__version__)


def _entry(module: Any, name: str) -> Any:
    functions = functions_of(module)
    public = [f for f in functions.values() if "private" not in str(f.attributes.get("sym_visibility", ""))]
    entry = functions.get("main") or (public[0] if len(public) == 1 else None)
    if entry is None or not entry.regions[0].blocks:
        raise UsageError(
            f"{name}: there is no function 'main'; its functions: {', '.join(functions) or 'none'}"
        )
    return entry


def _function_type(function: Any) -> Any:
    return ir.TypeAttr(function.attributes["function_type"]).value


def _named(function: Any, attributes: str, key: str, types: Any) -> list[tuple[str, Tensor]]:
    """Return inputs or results with the names that jax gives them, or else with their numbers."""
    given = list(function.attributes[attributes]) if attributes in function.attributes else [{}] * len(types)
    names = [str(a[key]).strip('"') if key in a else f"output_{k}" for k, a in enumerate(given)]
    unique = names if len(set(names)) == len(names) else [f"output_{k}" for k in range(len(names))]
    return [
        (name or f"output_{k}", _taken(f"result {k}", ty))
        for k, (name, ty) in enumerate(zip(unique, types, strict=True))
    ]


def _taken(what: str, ty: Any) -> Tensor:
    tensor = tensor_of(ty)
    if tensor is None or tensor.is_complex:
        raise ModelError(f"{what} of the program is of type {ty}, which cannot be compiled")
    return tensor


def _fixed(module: Any, entry: Any, shapes: Shapes) -> dict[str, Tensor]:
    """Give the module's inputs static shapes, and return them by name.

    Raises:
        UsageError: A shape is of no input or does not fit it, or inputs with dynamic dimensions have none.
    """
    block = entry.regions[0].blocks[0]
    found = [name_of(argument.location) for argument in block.arguments]
    names = [f"arg{k}" if not name or name.startswith("line ") else name for k, name in enumerate(found)]
    if len(set(names)) < len(names):
        names = [f"arg{k}" for k in range(len(names))]
    types = [argument.type for argument in block.arguments]
    inputs = {name: _taken(f"input '{name}'", ty) for name, ty in zip(names, types, strict=True)}
    refuse_unknown_inputs(shapes, inputs)
    dynamic: dict[str, list[int | str]] = {}
    for name, tensor in inputs.items():
        dims: list[int | str] = ["?" if size < 0 else size for size in tensor.shape]
        wanted = shapes.get(name, tensor.shape)
        if len(wanted) != len(tensor.shape) or any(
            has not in (-1, asked) for has, asked in zip(tensor.shape, wanted, strict=True)
        ):
            raise misfit(name, wanted, ",".join(map(str, dims)))
        if min(wanted, default=0) < 0:
            dynamic[name] = dims
    refuse_dynamic_inputs(dynamic)
    if all(min(tensor.shape, default=0) >= 0 for tensor in inputs.values()):
        return inputs
    wanted_types = [
        type_text(shapes.get(name, tensor.shape), ty)
        for (name, tensor), ty in zip(inputs.items(), types, strict=True)
    ]
    try:
        fix_shapes(module, wanted_types)
    except UnreadableError as err:
        raise UsageError(f"--shape does not fit the program: {err}") from err
    return {name: _taken(name, argument.type) for name, argument in zip(names, block.arguments, strict=True)}


def _translated(
    module: Any, entry: Any, operators: Mapping[Any, str], inputs: Mapping[str, Tensor]
) -> tvm.IRModule:
    translator = Translator(module, converter_of, CONVERTERS, operators)
    params = [Var(name, relax.TensorType(x.shape, x.stored)) for name, x in inputs.items()]
    held = [Value(translator, param, x.shape) for param, x in zip(params, inputs.values(), strict=True)]

    def convert() -> list[Value]:
        results = translator.call(word(entry, "sym_name"), held)
        translator.node = "output"
        return results

    try:
        translator.function(MAIN, params, convert)
    except Exception as err:
        nodes = {name: operator_name(op) for op, name in operators.items()}
        raise not_imported(translator.node, nodes, err) from err
    return translator.program.module()
