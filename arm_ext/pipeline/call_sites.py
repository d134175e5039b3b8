# SPDX-License-Identifier: Apache-2.0
"""The calls of kernels in a lowered module, in execution order."""

import math
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
import tvm
from tvm import relax, tirx

from arm_ext.report.calls import CallSite
from relay_passes.ir.calls import CALL_TIR, name_of
from relay_passes.ir.sources import bindings_of, relax_functions, sources_of

_MAIN = "main"
# Calls, each identified by the name of its result.
_Values = frozenset[str]


def call_sites(mod: tvm.IRModule, elementwise: Collection[str]) -> list[CallSite]:
    """Return the calls that `main` makes, directly or in functions that it calls.

    Args:
        mod: Module whose functions call kernels by call_tir.
        elementwise: Symbols of kernels that read no more elements of an operand than they write, such as a look-up in
            a table of embeddings.
    """
    functions = {gvar.name_hint: func for gvar, func in relax_functions(mod)}
    found: list[CallSite] = []

    def walk(name: str, arguments: Sequence[_Values]) -> _Values:
        """Find the calls of a function; return the calls or arguments from which each of its results comes."""
        held: dict[relax.Var, _Values] = dict(zip(functions[name].params, arguments, strict=True))

        def in_(expr: relax.Expr) -> _Values:
            return _Values().union(*(held.get(var, _Values()) for var in relax.analysis.free_vars(expr)))

        for binding in bindings_of(functions[name]):
            value = binding.value
            callee = getattr(value.op, "name_hint", "") if isinstance(value, relax.Call) else ""
            if callee in functions:
                held[binding.var] = walk(callee, [in_(argument) for argument in value.args])
            elif name_of(value) == CALL_TIR:
                result = str(len(found))
                site = _site(value, "" if name == _MAIN else name, elementwise)
                found.append(replace(site, result=result, reads=tuple(sorted(in_(value), key=int))))
                held[binding.var] = _Values({result})
            else:
                held[binding.var] = in_(value)
        return in_(functions[name].body.body)

    walk(_MAIN, [_Values()] * len(functions[_MAIN].params))
    return found


def _site(call: relax.Call, function: str, elementwise: Collection[str]) -> CallSite:
    symbol, results = str(call.args[0].name_hint), _tensors(call.ty)
    operands = [ty for argument in call.args[1].fields for ty in _tensors(argument.ty)]
    elements = sum(_elements(ty) for ty in results)
    most = elements if symbol in elementwise else None
    first = results[0]
    shape = "x".join(map(str, _dims(first))) or "1"
    more = f" and {len(results) - 1} more" if len(results) > 1 else ""
    return CallSite(
        symbol=symbol,
        sources=tuple(sources_of(call)),
        output=f"{shape} {first.dtype}{more}",
        elements=elements,
        read=sum(_bytes(ty, most) for ty in operands),
        written=sum(_bytes(ty) for ty in results),
        function=function,
    )


def _tensors(ty: relax.Type) -> list[relax.TensorType]:
    """Return the types of the tensors of a value."""
    if isinstance(ty, relax.TupleType):
        return [tensor for field in ty.fields for tensor in _tensors(field)]
    return [ty] if isinstance(ty, relax.TensorType) else []


def _elements(ty: relax.TensorType) -> int:
    """Return the number of elements of a tensor; 0 if it is known only at run time, which packages refuse later."""
    return math.prod(_dims(ty)) if ty.shape is not None else 0


def _dims(ty: relax.TensorType) -> list[int]:
    dims = [] if ty.shape is None else ty.shape.values
    return [int(dim) if isinstance(dim, tirx.IntImm) else 0 for dim in dims]


def _bytes(ty: relax.TensorType, most: int | None = None) -> int:
    count = _elements(ty) if most is None else min(_elements(ty), most)
    return count * np.dtype(str(ty.dtype)).itemsize
