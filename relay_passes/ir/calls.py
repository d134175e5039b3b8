# SPDX-License-Identifier: Apache-2.0
"""Utilities to read calls, and to rebuild them with other operands and attributes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax
from tvm.ir import Attrs, Call, Expr, GenericConst, Op, Tuple, TupleGetItem, Var, make_node
from tvm.relax.analysis import free_vars

from relay_passes.ir.sources import bindings_of

# Operators that change the shape, but neither the elements nor their order.
SHAPE_ONLY = (
    "relax.reshape",
    "relax.squeeze",
    "relax.expand_dims",
    "relax.flatten",
    "relax.nn.batch_flatten",
)

CALL_TIR = "relax.call_tir"
"""Name of the operator that calls a PrimFunc."""


def name_of(expr: Expr) -> str:
    """Return the full name of the operator that `expr` calls, such as "relax.add"; "" for other expressions."""
    return str(expr.op.name) if isinstance(expr, Call) and isinstance(expr.op, Op) else ""


def tensor_const(value: npt.NDArray[Any]) -> GenericConst:
    """Return a constant with the array's dtype; `relax.const` without a dtype would narrow 64 bits to 32."""
    return relax.const(value, str(value.dtype))


def array_of(constant: GenericConst) -> npt.NDArray[Any]:
    """Return the value of a constant tensor: a read-only view, or a copy if dlpack lacks the dtype (bfloat16)."""
    try:
        view: npt.NDArray[Any] = np.from_dlpack(constant.value)
    except RuntimeError:
        return np.asarray(constant.value.numpy())
    return view


def with_attrs(call: Call, args: Sequence[Expr] | None = None, **changes: Any) -> Call:
    """Return a copy of a call with other attributes and, optionally, operands; it has no type and no source names."""
    return Call(call.op, call.args if args is None else args, _changed(call.attrs, changes), call.ty_args)


def _changed(attrs: Attrs | None, changes: dict[str, Any]) -> Attrs | None:
    if attrs is None or not changes:
        return attrs
    info = type(attrs).__tvm_ffi_type_info__
    fields = {field.name: getattr(attrs, field.name) for field in info.fields}
    return make_node(info.type_key, **(fields | changes))


@dataclass(frozen=True)
class BoundCall:
    """A call bound to a variable, with its tensor operands and outputs as flat tuples.

    Attributes:
        var: The variable that the call is bound to, a tensor or a tuple.
        call: The call.
        operands: The tensors that the call reads, with tuples flattened.
        outputs: (variable, index in the result tuple) of each computed tensor; the index is None if the result is a
            tensor. Empty if the tuple itself is used.
    """

    var: Var
    call: Call
    operands: tuple[Expr, ...]
    outputs: tuple[tuple[int | None, Var], ...]

    @property
    def name(self) -> str:
        """The full name of the operator."""
        return name_of(self.call)

    def put(self, tensors: Sequence[Expr], **attrs: Any) -> Call:
        """Return a copy of the call on other tensors, in the order of `operands`."""
        left = iter(tensors)

        def take(arg: Expr) -> Expr:
            if isinstance(arg, Tuple) and _is_tensors(arg):
                return Tuple([next(left) for _ in arg.fields])
            return next(left) if isinstance(arg.ty, relax.TensorType) else arg

        return with_attrs(self.call, [take(arg) for arg in self.call.args], **attrs)


def nodes_of(func: relax.Function) -> list[BoundCall]:
    """Return the bound calls of a function in program order."""
    bindings = bindings_of(func)
    items: dict[Var, list[tuple[int | None, Var]]] = {}
    whole = set(free_vars(func.body.body))
    for b in bindings:
        if isinstance(b.value, TupleGetItem) and isinstance(b.value.tuple_value, Var):
            items.setdefault(b.value.tuple_value, []).append((int(b.value.index), b.var))
        else:
            whole.update(free_vars(b.value))
    for var in whole:
        items.pop(var, None)
    return [
        BoundCall(
            b.var,
            b.value,
            tuple(_tensors(b.value.args)),
            ((None, b.var),) if isinstance(b.var.ty, relax.TensorType) else tuple(items.get(b.var, ())),
        )
        for b in bindings
        if isinstance(b.value, Call)
    ]


def _is_tensors(value: Tuple) -> bool:
    return bool(value.fields) and all(isinstance(field.ty, relax.TensorType) for field in value.fields)


def _tensors(args: Sequence[Expr]) -> Iterator[Expr]:
    for arg in args:
        if isinstance(arg, Tuple) and _is_tensors(arg):
            yield from arg.fields
        elif isinstance(arg.ty, relax.TensorType):
            yield arg
