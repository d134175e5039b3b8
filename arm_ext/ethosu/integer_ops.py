# SPDX-License-Identifier: Apache-2.0
"""Relax's own integer and boolean calls as NPU operators: data movement, selection and arithmetic.

    astype(argmax(x), "int32")                                   →    one argmax, whose indices are of 32 bits
    astype(right_shift(astype(x, "uint32"), amounts), "int32")    →    one logical_right_shift of int32

Arithmetic on accumulators belongs to their sum, and is none here.
"""

from collections.abc import Callable, Sequence

from tvm.ir import Call, Expr, GenericConst, Var

_BORDERS = ("call_tir", "quantize", "dequantize")
_ARITHMETIC = ("add", "subtract", "multiply", "maximum", "minimum")
_SUMS = ("matmul", "sum", "nn.conv1d", "nn.conv2d", "nn.conv3d")
INDICES = ("argmax", "argmin")
LONG = ("int64", "uint64")
IN_64_BITS = "it counts in more bits than an NPU"
"""Why a call on `LONG` integers is no operator."""


def name_of(expr: Expr | None) -> str:
    """The Relax operator of a call without "relax."; "" of anything else."""
    return str(getattr(expr.op, "name", "")).removeprefix("relax.") if isinstance(expr, Call) else ""


def kind_of(call: Call, reads: Sequence[Expr | None], readers: Sequence[Expr]) -> str | None:
    """Return the operator kind of a call; None for calls that belong to a sum of products.

    Args:
        call: The call.
        reads: What computes each variable that it reads; None of the graph's inputs.
        readers: What reads its result.
    """
    name = name_of(call)
    if name in (*_BORDERS, *_SUMS):
        return None
    of_sums = any(name_of(value) in (*_SUMS, "call_tir") and _is_wide(value) for value in reads)
    if name == "astype" and (of_sums or any(name_of(reader) in _SUMS for reader in readers)):
        return None
    if name in _ARITHMETIC:
        return None if of_sums else f"integer_{name}"
    return name


def index_of(call: Call, single: Callable[[Expr], Call | None]) -> tuple[Var, Call] | None:
    """Return the argmax or argmin that a cast to int32 narrows, with its variable; None for other casts."""
    if name_of(call) != "astype" or str(call.attrs.dtype) != "int32":
        return None
    index = single(call.args[0])
    return (call.args[0], index) if name_of(index) in INDICES and index is not None else None


def bits_shifted(call: Call, single: Callable[[Expr], Call | None]) -> tuple[Call, tuple[Var, Var]] | None:
    """Return the logical right shift that casts to and from uint32 surround, with their variables; None for others."""
    if name_of(call) != "astype" or str(call.attrs.dtype) != "int32":
        return None
    shift = single(call.args[0])
    if shift is None or name_of(shift) != "right_shift" or not isinstance(shift.args[1], GenericConst):
        return None
    bits = single(shift.args[0])
    if bits is None or name_of(bits) != "astype" or str(shift.ty.dtype) != "uint32":
        return None
    return (shift, (shift.args[0], call.args[0])) if str(bits.args[0].ty.dtype) == "int32" else None


def _is_wide(value: Expr | None) -> bool:
    return value is not None and str(value.ty.dtype) in ("int32", "int64")
