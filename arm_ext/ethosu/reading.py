# SPDX-License-Identifier: Apache-2.0
"""Helpers of the parsers of NPU operators: function context, anchors, variables, shapes and numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from tvm import ir, relax
from tvm.ir import Call, Expr, TupleGetItem, Var

Array = npt.NDArray[Any]


class Reader(Protocol):
    """The context of a call in its function."""

    def single(self, expr: Expr) -> Call | None:
        """Return the call that computes a variable, if the variable has one use; else None."""

    def routine(self, value: Expr) -> Mapping[str, Any] | None:
        """Return the attributes of the routine that a call_tir calls."""


@dataclass(frozen=True)
class Sum:
    """A parsed anchor; `Operator` documents kind and attributes.

    Attributes:
        kind: Of the operator.
        inputs: Tensors of run time.
        attributes: But for those of a sum.
        offset: What its bias holds beyond the graph's: broadcasts to the output.
        reach: Bound of the accumulators without bias.
        macs: Multiply-accumulates.
        covered: Variables that are part of it before the anchor's, and their calls.
    """

    kind: str
    inputs: tuple[Expr, ...]
    attributes: Mapping[str, Any]
    offset: Array
    reach: int
    macs: int
    covered: tuple[tuple[Var, Call], ...] = ()


def reach_of(data: Expr, zero: int, weight: Array, summed: tuple[int, ...]) -> int:
    """Bound |sum (x - zero) w| over all data."""
    return int(np.abs(weight.astype(np.int64)).sum(summed).max(initial=0)) * farthest(data, zero)


def farthest(data: Expr, zero: int) -> int:
    """Return the greatest |x - zero| for the data's dtype."""
    info = np.iinfo(str(data.ty.dtype))
    return max(zero - int(info.min), int(info.max) - zero)


def shape_of(expr: Expr) -> tuple[int, ...]:
    """The static shape of a tensor."""
    return tuple(int(dim) for dim in expr.ty.shape)


def integers(values: Sequence[ir.Expr]) -> list[int]:
    """Attributes of a call as Python integers."""
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
