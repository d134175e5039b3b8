# SPDX-License-Identifier: Apache-2.0
"""Sizes that depend on a length known at run time, as C expressions, and their maxima.

[1, (n - 1) // 2 + 1, 8] of float32    →    32 * (quotient(length - 1, 2) + 1)
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import tirx
from tvm.ir import Expr, Var
from tvm.ir.prim import expr as prim

from arm_ext.common.errors import ModelError
from relay_passes.ir.sizes import greatest

VARIABLE = "length"
"""Name of the length in C, an int64_t."""

_OPERATORS = {
    prim.Add: "({0} + {1})",
    prim.Sub: "({0} - {1})",
    prim.Mul: "{0} * {1}",
    prim.FloorDiv: "quotient({0}, {1})",
    prim.Max: "({0} > {1} ? {0} : {1})",
    prim.Min: "({0} < {1} ? {0} : {1})",
}


@dataclass(frozen=True)
class Length:
    """The length that a kernel takes as its last argument, and its maximum.

    Attributes:
        text: The length as a C expression.
        most: The greatest value of the length.
    """

    text: str
    most: int


def is_open(dims: Sequence[Expr]) -> bool:
    """Whether any of the sizes is known only at run time."""
    return any(not isinstance(dim, tirx.IntImm) for dim in dims)


def c_text(size: Expr, length: str = VARIABLE) -> str:
    """Return a size as a C expression.

    Args:
        size: An expression of one variable.
        length: The variable's value, in C.

    Raises:
        ModelError: The expression has another operator than +, -, *, a quotient, a maximum or a minimum.
    """
    if isinstance(size, tirx.IntImm):
        return str(int(size))
    if isinstance(size, Var):
        return length
    if isinstance(size, tirx.Cast):
        return c_text(size.value, length)
    if type(size) not in _OPERATORS:
        raise ModelError(
            f"a C library does not support the size {size}, which is known only at run time; list sizes in place "
            "of a bound"
        )
    return _OPERATORS[type(size)].format(c_text(size.a, length), c_text(size.b, length))


def product_text(dims: Sequence[Expr], factor: int, length: str = VARIABLE) -> str:
    """Return the product of sizes and a number as a C expression."""
    for dim in dims:
        factor *= int(dim) if isinstance(dim, tirx.IntImm) else 1
    texts = [c_text(dim, length) for dim in dims if not isinstance(dim, tirx.IntImm)]
    return " * ".join([str(factor), *texts])


def most(dims: Sequence[Expr], largest: int) -> int:
    """Return the maximum of the product of sizes.

    Raises:
        ModelError: A size is known at run time and has no bound, or is negative for some length.
    """
    if largest == 0 and is_open(dims):
        sizes = ", ".join(map(str, dims))
        raise ModelError(
            f"a C library does not support tensors of shape [{sizes}], whose size is known only at run time; "
            "compile a package"
        )
    try:
        return greatest(dims, largest)
    except ValueError as err:
        raise ModelError(f"{err}; list the sizes that occur instead of a bound") from err
