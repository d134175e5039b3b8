# SPDX-License-Identifier: Apache-2.0
"""The calls of kernels in a lowered module, in execution order."""

import math
from collections.abc import Collection, Iterator

import numpy as np
import tvm
from tvm import relax

from arm_ext.report.calls import CallSite
from relay_passes.ir.sources import bindings_of, relax_functions, sources_of

_MAIN = "main"


def call_sites(mod: tvm.IRModule, elementwise: Collection[str]) -> list[CallSite]:
    """Return the calls that `main` makes, itself or through functions that it calls.

    Args:
        mod: Its functions call kernels by call_tir; all shapes are static.
        elementwise: Symbols of kernels that read no more elements of an operand than they write, such as a look-up in
            a table of embeddings.
    """
    functions = {gvar.name_hint: func for gvar, func in relax_functions(mod)}

    def calls_of(name: str) -> Iterator[CallSite]:
        for binding in bindings_of(functions[name]):
            call = binding.value
            if not isinstance(call, relax.Call):
                continue
            callee = getattr(call.op, "name_hint", "")
            if callee in functions:
                yield from calls_of(callee)
            elif getattr(call.op, "name", "") == "relax.call_tir":
                yield _site(call, "" if name == _MAIN else name, elementwise)

    return list(calls_of(_MAIN))


def _site(call: relax.Call, function: str, elementwise: Collection[str]) -> CallSite:
    symbol, results = str(call.args[0].name_hint), _tensors(call.ty)
    operands = [ty for argument in call.args[1].fields for ty in _tensors(argument.ty)]
    elements = sum(_elements(ty) for ty in results)
    most = elements if symbol in elementwise else None
    first = results[0]
    shape = "x".join(str(int(dim)) for dim in first.shape.values) or "1"
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
    return math.prod(int(dim) for dim in ty.shape.values)


def _bytes(ty: relax.TensorType, most: int | None = None) -> int:
    count = _elements(ty) if most is None else min(_elements(ty), most)
    return count * np.dtype(str(ty.dtype)).itemsize
