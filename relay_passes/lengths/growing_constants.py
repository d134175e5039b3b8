# SPDX-License-Identifier: Apache-2.0
"""Constants that depend on the length are replaced by expressions of constants that do not.

    length 40: x + positions[40, 8], length 48: x + positions[48, 8]
        →    length 40: x + strided_slice(positions[48, 8], end = 40), length 48: x + strided_slice(…, end = 48)
    length 40: i + [40, 8], length 48: i + [48, 8]
        →    length 40: i + ([0, 8] + [1, 0] * arange(40, 41)), length 48: i + ([0, 8] + [1, 0] * arange(48, 49))

Examples of the first rewrite are position embeddings and causal masks; of the second, the offset that is added to
indices that count from the end of an axis. Exact.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import IRModule, relax
from tvm.ir import Call, Expr, GenericConst, Var
from tvm.runtime import Tensor
from tvm.tirx import IntImm
from tvm_ffi import structural_map

from relay_passes.ir.sources import bindings_of, map_calls, relax_functions, sources_of, with_source


def end_slices_inside(mod: IRModule) -> IRModule:
    """Return a copy of the module in which slices that end after their axis end at its size, which the length defines.

    Models often express a slice to the end of an axis by the maximum integer.
    """
    out = mod.clone()
    for gvar, func in relax_functions(mod):
        out.update_func(gvar, map_calls(func, lambda _, call: _inside(call)))
    return out


def _inside(call: Call) -> Call:
    if getattr(call.op, "name", "") != "relax.strided_slice":
        return call
    x, axes, begin, end = call.args[:4]
    if not all(isinstance(number, IntImm) for group in (axes, end) for number in group.fields):
        return call
    sizes = [int(x.ty.shape.values[int(axis)]) for axis in axes.fields]
    ends = [min(int(number), size) for number, size in zip(end.fields, sizes, strict=True)]
    if ends == [int(number) for number in end.fields]:
        return call
    new = relax.Tuple([relax.prim_value(number) for number in ends])
    return Call(
        call.op, [x, axes, begin, new, *call.args[4:]], call.attrs, call.ty_args, call.span, ret_ty=call.ty
    )


def slice_growing(modules: Mapping[int, IRModule]) -> dict[int, IRModule]:
    """Return copies of the modules with growing constants replaced by slices, and linear constants by sums.

    Args:
        modules: The module for each length; each `main` is one dataflow block. Other differences are kept.
    """
    largest = max(modules)
    grown: dict[int, dict[tuple[int, int], Call]] = {length: {} for length in modules}
    each = {length: bindings_of(mod["main"]) for length, mod in modules.items()}
    for at, group in enumerate(zip(*each.values(), strict=False)):
        found = [tensors_of(binding.value) for binding in group]
        if len({len(constants) for constants in found}) > 1:
            break
        for position, values in enumerate(zip(*found, strict=True)):
            by_length = dict(zip(each, values, strict=True))
            if _grows(by_length, by_length[largest]):
                for length, value in by_length.items():
                    grown[length][at, position] = _beginning(by_length[largest], value)
            elif (form := _linear(by_length)) is not None:
                for length in by_length:
                    grown[length][at, position] = _sum(form, length)
    return {length: _replaced(mod, grown[length]) for length, mod in modules.items()}


def tensors_of(value: Expr) -> list[GenericConst]:
    """Return the constant tensors among the arguments of a call, in their order."""
    if not isinstance(value, Call):
        return []
    fields = [
        field for arg in value.args for field in (arg.fields if isinstance(arg, relax.Tuple) else [arg])
    ]
    return [field for field in fields if isinstance(field, GenericConst) and isinstance(field.value, Tensor)]


def equal_tensors(mine: Sequence[GenericConst], others: Sequence[GenericConst]) -> bool:
    """Whether two lists of constant tensors are equal bit by bit."""
    pairs = [(a.value.numpy(), b.value.numpy()) for a, b in zip(mine, others, strict=False)]
    return len(mine) == len(others) and all(
        a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() for a, b in pairs
    )


def _grows(values: Mapping[int, GenericConst], longest: GenericConst) -> bool:
    arrays = [value.value.numpy() for value in values.values()]
    whole = longest.value.numpy()
    if all(array.shape == whole.shape for array in arrays):
        return False
    return all(
        array.ndim == whole.ndim
        and array.dtype == whole.dtype
        and all(mine <= most for mine, most in zip(array.shape, whole.shape, strict=True))
        and np.array_equal(array, whole[tuple(map(slice, array.shape))], equal_nan=array.dtype.kind == "f")
        for array in arrays
    )


def _beginning(longest: GenericConst, value: GenericConst) -> Call:
    sizes = [int(size) for size in value.ty.shape.values]
    return relax.op.strided_slice(
        longest, list(range(len(sizes))), [0] * len(sizes), sizes, assume_inbound=True
    )


@dataclass(frozen=True)
class _Linear:
    """An array of integers as a linear function of the length, plus + times * length."""

    plus: np.ndarray[Any, Any]
    times: np.ndarray[Any, Any]


def _linear(values: Mapping[int, GenericConst]) -> _Linear | None:
    """Return integers, given for each length, as a linear function of the length; None if they are not linear."""
    arrays = {length: value.value.numpy() for length, value in values.items()}
    first, second, *_ = arrays
    one, other = arrays[first], arrays[second]
    alike = all(array.dtype == one.dtype and array.shape == one.shape for array in arrays.values())
    if one.dtype.kind != "i" or not alike or np.array_equal(one, other):
        return None
    times = (one - other) // (first - second)
    form = _Linear(one - times * first, times)
    fits = all(np.array_equal(form.plus + times * length, array) for length, array in arrays.items())
    return form if fits else None


def _sum(form: _Linear, length: int) -> Call:
    dtype = str(form.plus.dtype)
    value = relax.op.arange(length, length + 1, dtype=dtype)
    if form.plus.shape == ():
        value = relax.op.reshape(value, [])
    if (form.times != 1).any():
        value = relax.op.multiply(relax.const(form.times, dtype), value)
    if form.plus.any():
        value = relax.op.add(relax.const(form.plus, dtype), value)
    return value


def _steps(value: Call, names: Sequence[str]) -> list[relax.VarBinding]:
    """Return bindings of all nested calls of an expression, and of the expression as the last one."""
    bindings: list[relax.VarBinding] = []
    args: list[Expr] = []
    for arg in value.args:
        if isinstance(arg, Call):
            bindings += _steps(arg, names)
            args.append(bindings[-1].var)
        else:
            args.append(arg)
    call = relax.BlockBuilder().normalize(Call(value.op, args, value.attrs))
    var = relax.DataflowVar("of_length", call.ty)
    return [*bindings, relax.VarBinding(var, with_source(call, names))]


def _replaced(mod: IRModule, grown: Mapping[tuple[int, int], Call]) -> IRModule:
    if not grown:
        return mod
    main = mod["main"]
    (block,) = main.body.blocks
    bindings: list[relax.Binding] = []
    for at, binding in enumerate(block.bindings):
        constants = tensors_of(binding.value)
        inside: list[tuple[GenericConst, Var]] = []
        for position, constant in enumerate(constants):
            if (at, position) in grown:
                bindings += _steps(grown[at, position], sources_of(binding.value))
                inside.append((constant, bindings[-1].var))
        bindings.append(_reading(binding, inside) if inside else binding)
    body = relax.SeqExpr([relax.DataflowBlock(bindings)], main.body.body)
    out = mod.clone()
    new = relax.Function(main.params, body, main.ret_ty, main.is_pure, main.attrs)
    out.update_func(mod.get_global_var("main"), new)
    return out


def _reading(binding: relax.VarBinding, inside: Sequence[tuple[GenericConst, Var]]) -> relax.VarBinding:
    def read(constant: GenericConst) -> Expr:
        return next((var for old, var in inside if constant.same_as(old)), constant)

    value = structural_map(binding.value, [(GenericConst, read)])
    return relax.VarBinding(binding.var, value, binding.span)
