# SPDX-License-Identifier: Apache-2.0
"""Import of programs of `torch.export`, from a .pt2 file or from Python.

Upstream's importer sets no spans, and takes attention apart into eleven operators, with a mask that most have not.
Here each call has the name of the node that the program's author sees, and attention stays one product, softmax and
product. Quantised: PT2E's quantize and dequantize become those of the QDQ form.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import tvm
from torch import nn
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, OutputKind
from tvm import relax

from arm_ext.common.errors import ModelError, UsageError
from arm_ext.frontends.common.imported import ImportedModel, TensorSpec
from arm_ext.frontends.common.limits import Site, check_inputs, check_tensor, check_values
from arm_ext.frontends.common.refuse import (
    Shapes,
    misfit,
    reason_of,
    refuse_dynamic_inputs,
    refuse_operators,
    refuse_unknown_inputs,
)
from arm_ext.frontends.common.state import with_states
from arm_ext.frontends.torch import affine
from arm_ext.frontends.torch.archive import SubclassError, UntrustedError, read_program
from arm_ext.frontends.torch.control_limits import check_control_flow
from arm_ext.frontends.torch.decompositions import DECOMPOSITIONS
from arm_ext.frontends.torch.dynamic import quantizes_at_run_time
from arm_ext.frontends.torch.export import quiet
from arm_ext.frontends.torch.names import source_names, source_of
from arm_ext.frontends.torch.promote import dtype_name, promote
from arm_ext.frontends.torch.recurrent import loops_of
from arm_ext.frontends.torch.reference import reference
from arm_ext.frontends.torch.scalars import give_axes
from arm_ext.frontends.torch.state import drop_numbers, take_buffers
from arm_ext.frontends.torch.translator import Translator, holds_complex, operator_of
from relay_passes.programs.merge_modules import MAIN

# Operators that are converted directly, because their decompositions would cost more.
_KEPT = (
    torch.ops.aten.scaled_dot_product_attention.default,
    torch.ops.aten.all.default,
    torch.ops.aten.all.dim,
    torch.ops.aten.all.dims,
    torch.ops.aten.celu.default,
    torch.ops.aten.isfinite.default,
    torch.ops.aten.softplus.default,
)


def import_torch(
    model: str | Path | ExportedProgram | nn.Module, shapes: Shapes | None = None, *, trust: bool = False
) -> ImportedModel:
    """Import an exported program.

    Args:
        model: A .pt2 file, or a program.
        shapes: Input name → static shape, needed for each input with a dynamic dimension.
        trust: Whether a file may run code of its own when it is opened.

    Raises:
        UsageError: The file is no exported program, or one that would run code; nor is the object a program; a shape
            is missing or does not fit.
        ModelError: Operators that cannot be compiled: all of them, with node names and counts.
    """
    program, name, digest = read_exported(model, trust=trust)
    names = source_names(program)
    check_control_flow(program, names)
    nodes = {names[n.name]: operator_of(n) for n in program.graph.nodes if n.op == "call_function"}
    table = {**torch.export.default_decompositions(), **DECOMPOSITIONS}
    kept = (
        *_KEPT,
        *loops_of(program),
        *affine.kept(program),
        *([torch.ops.aten.linear.default] if quantizes_at_run_time(program) else []),
    )
    for operator in kept:
        del table[operator]
    try:
        with quiet():
            plain = program.run_decompositions(table)
    except Exception as err:  # of many types
        raise ModelError(f"torch cannot decompose the program's operators: {reason_of(err, 0)}") from err
    _refuse_checks(plain, names, nodes)
    drop_numbers(plain)
    promote(plain.graph_module)
    give_axes(plain.graph_module)
    buffers = take_buffers(plain)
    _check_sizes(plain, names)
    _check_types(plain)
    translator = Translator(plain, names)
    main = translator.translate()
    translator.program.add(MAIN, main)
    mod = translator.program.module(_static(main[MAIN].params, shapes or {}))
    given = {buffer.input: buffer.name for buffer in buffers}
    inputs = tuple(_spec(given.get(param.name, param.name), param.ty) for param in mod["main"].params)
    check_values(mod, nodes)
    check_inputs(inputs)
    imported = ImportedModel(
        mod=mod,
        name=name,
        format="torch",
        sha256=digest,
        inputs=inputs,
        outputs=_outputs([*(b.output for b in buffers), *returned_names(program)], mod),
        nodes=nodes,
        quantized=any("quantized_decomposed" in operator for operator in nodes.values()),
        reference=lambda values: reference(program, [x.name for x in inputs], values, buffers),
    )
    initial = {
        buffer.name: translator._convert_pytorch_tensor_to_tvm(buffer.value).numpy() for buffer in buffers
    }
    return with_states(imported, {buffer.name: buffer.output for buffer in buffers}, initial)


def _refuse_checks(program: ExportedProgram, names: Mapping[str, str], operators: Mapping[str, str]) -> None:
    """Refuse operators that raise errors at run time for some data, such as `linalg.cholesky`."""
    checked: dict[str, list[str]] = {}
    for node in program.graph.nodes:
        if operator_of(node) == "with_effects":
            name = source_of(node, names)
            checked.setdefault(operators.get(name, name), []).append(name)
    refuse_operators(checked)


def _check_types(program: ExportedProgram) -> None:
    """Refuse inputs, parameters and constants of complex numbers."""
    for node in program.graph.nodes:
        if node.op == "placeholder" and holds_complex(node):
            dtype = dtype_name(node.meta["val"].dtype)
            raise ModelError(
                f"'{node.name}' is of {dtype}, which cannot be compiled: take its real and imaginary parts as one "
                "tensor of floats (torch.view_as_real), and compute with these"
            )


def _check_sizes(program: ExportedProgram, names: Mapping[str, str]) -> None:
    """Refuse values larger than memory: some of them become constants during translation."""
    for node in program.graph.nodes:
        for value in torch.utils._pytree.tree_leaves(node.meta.get("val")):
            if isinstance(value, torch.Tensor):
                # A size that is not known yet is a symbol.
                shape = [size if isinstance(size, int) else 1 for size in value.shape]
                operator = operator_of(node) if node.op == "call_function" else "the program's"
                check_tensor(
                    Site(operator, source_of(node, names)), "its result", shape, value.element_size()
                )


def read_exported(
    model: str | Path | ExportedProgram | nn.Module, *, trust: bool = False
) -> tuple[ExportedProgram, str, str]:
    """Return the program, the model's name and the SHA-256 of its file.

    Raises:
        UsageError: As `import_torch`.
    """
    if isinstance(model, ExportedProgram):
        return model, "model", hashlib.sha256(model.graph_module.code.encode()).hexdigest()
    if not isinstance(model, str | Path):
        raise UsageError(
            f"a {type(model).__name__} is neither a model file nor an exported program; a torch.nn.Module needs "
            "example_inputs, a tuple of its forward's arguments; of a JAX function, pass what "
            "jax.export.export(jax.jit(function))(*arguments) gives"
        )
    path = Path(model)
    if not path.is_file():
        raise UsageError(f"{path}: no such model file")
    try:
        with quiet():
            program = torch.export.load(path) if trust else read_program(path)
            with path.open("rb") as file:
                return program, path.stem, hashlib.file_digest(file, "sha256").hexdigest()
    except SubclassError as err:
        raise UsageError(
            f"{path}: not opened: {err}. Apply torchao.utils.unwrap_tensor_subclass(model) before torch.export, which "
            "stores integers and scales as tensors of their own"
        ) from err
    except UntrustedError as err:
        raise UsageError(
            f"{path}: not opened, since PyTorch would run code of the file: {err}. Export the model again without it, "
            "or, if you trust whoever made the file as you trust a program, add --trust (trust=True)"
        ) from err
    except Exception as err:  # torch, zipfile and json raise many types
        reason = reason_of(err, line=0).partition(" Please check the warnings above")[0].rstrip(".")
        raise UsageError(
            f"{path}: not a program that torch.export.save wrote, or a damaged one: {reason}; "
            "write one with torch.export.save(torch.export.export(model.eval(), example_inputs), path)"
        ) from err


def returned_names(program: ExportedProgram) -> list[str]:
    """Return the names of the tensors that a program returns."""
    returned = [
        spec.arg for spec in program.graph_signature.output_specs if spec.kind is OutputKind.USER_OUTPUT
    ]
    return [arg.name for arg in returned if not isinstance(arg, ConstantArgument)]


def _static(
    inputs: Sequence[relax.Var], shapes: Mapping[str, tuple[int, ...]]
) -> Callable[[tvm.IRModule], tvm.IRModule]:
    """Return a function that gives the dynamic dimensions of a module the sizes in `shapes`.

    Raises:
        UsageError: A shape is of no input or does not fit it, or inputs with dynamic dimensions have none.
    """
    params = {param.name: param for param in inputs}
    refuse_unknown_inputs(shapes, params)
    sizes: dict[str, int] = {}
    dynamic: dict[str, list[int | str]] = {}
    for name, param in params.items():
        dims = list(param.ty.shape.values)
        texts = [int(dim) if isinstance(dim, tvm.tirx.IntImm) else str(dim) for dim in dims]
        wanted = shapes.get(name)
        if wanted is None:
            if not all(isinstance(dim, tvm.tirx.IntImm) for dim in dims):
                dynamic[name] = texts
            continue
        fits = len(wanted) == len(dims)
        for dim, size in zip(dims, wanted, strict=False):
            known = sizes.setdefault(dim.name, size) if isinstance(dim, tvm.tirx.Var) else dim
            fits = fits and int(known) == size
        if not fits:
            raise misfit(name, wanted, ",".join(map(str, texts)))
    refuse_dynamic_inputs({name: dims for name, dims in dynamic.items() if not _bound(params[name], sizes)})
    return relax.transform.BindSymbolicVars(sizes) if sizes else lambda mod: mod


def _bound(param: relax.Var, sizes: Mapping[str, int]) -> bool:
    """Whether the sizes of other inputs determine all sizes of this input."""
    return all(isinstance(dim, tvm.tirx.IntImm) or str(dim) in sizes for dim in param.ty.shape.values)


def _spec(name: str, ty: relax.TensorType) -> TensorSpec:
    return TensorSpec(name, tuple(int(dim) for dim in ty.shape.values), str(ty.dtype))


def _outputs(names: Sequence[Any], mod: tvm.IRModule) -> tuple[TensorSpec, ...]:
    ty = mod["main"].ret_ty
    fields = list(ty.fields) if isinstance(ty, relax.TupleType) else [ty]
    return tuple(
        _spec(str(names[k]) if k < len(names) and names[k] else f"output_{k}", field)
        for k, field in enumerate(fields)
    )
