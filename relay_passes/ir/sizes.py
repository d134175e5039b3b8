# SPDX-License-Identifier: Apache-2.0
"""Evaluation of sizes that are expressions of one variable, the length."""

import re
from collections.abc import Iterable

from tvm import sym, tirx
from tvm.ir import Expr, Var
from tvm_ffi import structural_map, structural_walk

_TYPED = re.compile(r"T\.int64\((-?\d+)\)")
"""A number as TVM prints it in an expression, such as T.int64(2)."""


def text_of(dim: Expr) -> str:
    """Return a size expression as text for users, such as "(n + 1) // 2"."""
    return _TYPED.sub(r"\1", str(dim))


def value_of(dim: Expr, length: int) -> int:
    """Return the value of a size expression for a given length."""
    fixed = structural_map(dim, [(Var, lambda _var: tirx.IntImm("int64", length))])
    return int(sym.Analyzer().simplify(fixed))


def greatest(dims: Iterable[Expr], largest: int) -> int:
    """Return an upper bound of the product of sizes for lengths from 1 to `largest`.

    Args:
        dims: Sizes; each must be a monotonic function of the length, like those of `merge_lengths`.
        largest: The maximum length.

    Raises:
        ValueError: A size is negative for some length.
    """
    product = 1
    for dim in dims:
        values = [int(dim)] if isinstance(dim, tirx.IntImm) else [value_of(dim, n) for n in (1, largest)]
        if min(values) < 0:
            raise ValueError(f"a size of {dim} is negative for a length of 1 or {largest}")
        product *= max(values)
    return product


def is_of_arguments(size: Expr, func: tirx.PrimFunc) -> bool:
    """Whether a size is an expression of the size variables of a function's arguments alone."""
    used: list[Var] = []
    structural_walk(size, [(Var, used.append)])
    known: list[Var] = []
    for param in func.params:
        structural_walk(list(getattr(param.ty, "shape", [])), [(Var, known.append)])
    return all(any(var.same_as(each) for each in known) for var in used)
