# SPDX-License-Identifier: Apache-2.0
"""Helpers of the parsers of NPU operators: bindings, variables, shapes, operator names and constants."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from tvm import ir, relax
from tvm.ir import Call, Expr, GenericConst, TupleGetItem, Var

from arm_ext.ethosu.ops.common.operators import RunTimeTensor

Array = npt.NDArray[Any]
LONG = ("int64", "uint64")


class Reader(Protocol):
    """Look-up of bindings and uses in the function that is parsed."""

    def value(self, expr: Expr) -> Expr | None:
        """Return the value that a variable is bound to; None for a parameter, or an expression that is no variable."""

    def single(self, expr: Expr) -> Call | None:
        """Return the call that computes a variable, if the variable has one use; else None."""

    def routine(self, value: Expr) -> Mapping[str, Any] | None:
        """Return the attributes of the routine that a call_tir calls; None for any other value."""

    def stands_alone(self, var: Var, call: Call) -> bool:
        """Whether a Relax call reads integers and is not part of a sum with requantisation."""


def name_of(expr: Expr | None) -> str:
    """Return the name of a call's Relax operator without "relax."; "" for any other expression."""
    return str(getattr(expr.op, "name", "")).removeprefix("relax.") if isinstance(expr, Call) else ""


def tensor_of(var: Expr) -> RunTimeTensor:
    """Return the `RunTimeTensor` of a variable."""
    return RunTimeTensor(var, shape_of(var), dtype_of(var))


def dtype_of(expr: Expr) -> str:
    """Return the element dtype of a tensor; "" for any other expression."""
    return str(getattr(expr.ty, "dtype", ""))


def is_integer(expr: Expr) -> bool:
    """Whether an expression is a tensor of bools, or of integers of at most 32 bits."""
    dtype = dtype_of(expr)
    whole = dtype == "bool" or ("int" in dtype and dtype not in LONG)
    return whole and isinstance(expr.ty, relax.TensorType)


def constant(expr: Expr) -> Array | None:
    """Return the value of a constant; None for any other expression."""
    return np.asarray(expr.value.numpy()) if isinstance(expr, GenericConst) else None


def constants(exprs: Sequence[Expr]) -> tuple[Array | None, ...]:
    """Return the value of each operand that is constant, and None for each that is computed at run time."""
    return tuple(constant(expr) for expr in exprs)


def reach_of(data: Expr, zero: int, weight: Array, summed: tuple[int, ...]) -> int:
    """Return a bound of |sum over `summed` of (x - zero) * w| for all values x of the data's dtype."""
    return int(np.abs(weight.astype(np.int64)).sum(summed).max(initial=0)) * farthest(data, zero)


def farthest(data: Expr, zero: int) -> int:
    """Return the maximum of |x - zero| over all values x of the data's dtype."""
    info = np.iinfo(str(data.ty.dtype))
    return max(zero - int(info.min), int(info.max) - zero)


def shape_of(expr: Expr) -> tuple[int, ...]:
    """Return the static shape of a tensor."""
    return tuple(int(dim) for dim in expr.ty.shape)


def axis_of(call: Call) -> int:
    """Return the axis attribute of a call, counted from the first; 0 for None, which stands for flattened data."""
    axis = call.attrs.axis
    return 0 if axis is None else int(axis) % len(shape_of(call.args[0]))


def integers(values: Sequence[ir.Expr]) -> list[int]:
    """Convert attributes of a call to Python integers."""
    return [int(value) for value in values]


def read_by(value: Expr) -> list[Var]:
    """Return the variables that a bound value reads, in order, with repetitions."""
    if isinstance(value, Call):
        return list(variables(value.args))
    if isinstance(value, TupleGetItem):
        return list(variables([value.tuple_value]))
    return list(variables([value]))


def variables(exprs: Sequence[Expr]) -> list[Var]:
    """Return the variables among expressions and inside tuples of them, in order."""
    found: list[Var] = []
    for expr in exprs:
        if isinstance(expr, Var):
            found.append(expr)
        elif isinstance(expr, relax.Tuple):
            found += variables(list(expr.fields))
    return found
