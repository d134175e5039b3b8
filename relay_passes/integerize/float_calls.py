# SPDX-License-Identifier: Apache-2.0
"""The calls of a quantised function that `integerize` leaves in float, with the reasons."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tvm import relax
from tvm.ir import Call, Var
from tvm.relax.analysis import free_vars

from relay_passes.integerize.context import Context, operator
from relay_passes.ir.sources import bindings_of, sources_of
from schedules.diagnostic import Diagnostic

# Conversions between float and integers are part of the integer forms and not reported.
_BORDERS = ("quantize", "dequantize")
_OUTPUT = "the model's output"


def remaining_float(func: relax.Function, context: Context) -> Iterator[Diagnostic]:
    """Yield a diagnostic for each float call of `func` without an integer form."""
    bindings = bindings_of(func)
    quantized = {
        operand for b in bindings if operator(b.value) == "quantize" for operand in free_vars(b.value)
    }
    readers = _readers(func)
    for binding in bindings:
        call = binding.value
        if not isinstance(call, Call) or operator(call) in _BORDERS:
            continue
        # Check the operands, too: a comparison reads floats but returns Booleans.
        if not any(_is_float(var.ty) for var in (binding.var, *free_vars(call))):
            continue
        if binding.var in context.created:
            continue
        why = context.refusals.get(binding.var) or _default(binding.var, quantized, readers)
        yield replace(why, nodes=sources_of(call), operator=operator(call), asked="integerize")


def _readers(func: relax.Function) -> Mapping[Var, list[str]]:
    """Return the consumers of each variable, by name: operators, or the function's result."""
    found: dict[Var, list[str]] = {var: [_OUTPUT] for var in free_vars(func.body.body)}
    results = set(found)
    for binding in bindings_of(func):
        reader = operator(binding.value) or (_OUTPUT if binding.var in results else "a tuple")
        for operand in free_vars(binding.value):
            found.setdefault(operand, []).append(reader)
    return found


def _default(var: Var, quantized: set[Var], readers: Mapping[Var, list[str]]) -> Diagnostic:
    if var not in quantized:
        actual = ", ".join(sorted(set(readers.get(var, ()))))
        return Diagnostic.of("its result is not quantised", "quantize as its reader", actual or None)
    return Diagnostic.of("it has no integer form")


def _is_float(ty: relax.Type) -> bool:
    if isinstance(ty, relax.TupleType):
        return any(_is_float(field) for field in ty.fields)
    return isinstance(ty, relax.TensorType) and str(ty.dtype).startswith("float")
