# SPDX-License-Identifier: Apache-2.0
"""Scalar TIR expressions: traversal, substitution, and the stride of an offset along an axis."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tvm import ir, sym, tirx
from tvm.ir.expr import TensorLoad
from tvm.ir.prim import expr as prim

BINARY = (
    *(prim.Add, prim.Sub, prim.Mul, prim.Div, prim.Mod, prim.FloorDiv, prim.FloorMod, prim.Min, prim.Max),
    *(prim.EQ, prim.NE, prim.LT, prim.LE, prim.GT, prim.GE, prim.And, prim.Or),
    *(prim.LShift, prim.RShift, prim.BitwiseAnd, prim.BitwiseOr, prim.BitwiseXor),
)

CONDITIONAL = "if_then_else"

FUNCTIONS = frozenset(
    (
        *("exp", "exp2", "exp10", "log", "log2", "log10", "log1p", "sqrt", "rsqrt", "pow", "sigmoid", "tanh"),
        *("erf", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh"),
        *(
            "atan2",
            "floor",
            "ceil",
            "trunc",
            "round",
            "nearbyint",
            "fabs",
            "isnan",
            "isinf",
            "fmod",
            "copysign",
        ),
        *("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "shift_left", "shift_right"),
        *("if_then_else", "reinterpret", "likely", "popcount"),
    )
)
"""Calls without side effects whose arguments are values."""

Change = Callable[[ir.Expr], ir.Expr | None]


class UnsupportedError(ValueError):
    """The generic schedule does not support an expression or statement of a function; the message names it."""


def call_name(expr: ir.Expr) -> str:
    """Return the name of a call's operator, without its dialect; "" for other expressions."""
    return str(getattr(expr.op, "name", "")).rpartition(".")[2] if isinstance(expr, ir.Call) else ""


_Reader = Callable[[Any], list[ir.Expr]]

_READERS: tuple[tuple[Any, _Reader], ...] = (
    ((ir.Var, prim.IntImm, prim.FloatImm), lambda _: []),
    (BINARY, lambda expr: [expr.a, expr.b]),
    (prim.Not, lambda expr: [expr.a]),
    (prim.Cast, lambda expr: [expr.value]),
    (prim.Select, lambda expr: [expr.condition, expr.true_value, expr.false_value]),
    (TensorLoad, lambda expr: list(expr.indices)),
)


# These tables replace isinstance, which is slow for TVM's abstract base classes.
class _Readers(dict[type, _Reader | None]):
    """Maps a class of expressions to the function that returns their operands; None for calls and unknown classes."""

    def __missing__(self, kind: type) -> _Reader | None:
        self[kind] = next((read for classes, read in _READERS if issubclass(kind, classes)), None)
        return self[kind]


class _Vars(dict[type, bool]):
    """Maps a class of expressions to whether it is a class of variables."""

    def __missing__(self, kind: type) -> bool:
        self[kind] = issubclass(kind, ir.Var)
        return self[kind]


_READER_OF, _IS_VAR = _Readers(), _Vars()


def children(expr: ir.Expr) -> list[ir.Expr]:
    """Return the operands of an expression.

    Raises:
        UnsupportedError: The class of the expression is not supported.
    """
    read = _READER_OF[type(expr)]
    if read is not None:
        return read(expr)
    if call_name(expr) in FUNCTIONS:
        return list(expr.args)
    raise UnsupportedError(f"expression {call_name(expr) or type(expr).__name__}")


def with_children(expr: ir.Expr, new: list[ir.Expr]) -> ir.Expr:
    """Return a copy of an expression with other operands."""
    if isinstance(expr, (*BINARY, prim.Not)):
        return type(expr)(*new)
    if isinstance(expr, prim.Cast):
        return tirx.Cast(str(expr.ty.dtype), new[0])
    if isinstance(expr, prim.Select):
        return tirx.Select(*new)
    if isinstance(expr, TensorLoad):
        return tirx.BufferLoad(expr.source, new)
    if isinstance(expr, ir.Call):
        return tirx.call_intrin(str(expr.ty.dtype), expr.op, *new)
    return expr


def rebuild(expr: ir.Expr, change: Change) -> ir.Expr:
    """Return a copy with the subexpressions replaced for which `change` returns one; replacements are not visited."""
    answer = change(expr)
    if answer is not None:
        return answer
    old = children(expr)
    new = [rebuild(child, change) for child in old]
    same = all(a.same_as(b) for a, b in zip(old, new, strict=True))
    return expr if same else with_children(expr, new)


def substitute(expr: ir.Expr, values: Mapping[ir.Var, ir.Expr]) -> ir.Expr:
    """Return a copy of an expression with variables replaced by values."""
    return rebuild(expr, lambda e: values.get(e) if _IS_VAR[type(e)] else None) if values else expr


def walk(expr: ir.Expr) -> Iterator[ir.Expr]:
    """Yield an expression and all its subexpressions, parents first."""
    left = [expr]
    while left:
        yield (found := left.pop())
        left += reversed(children(found))


def loads(expr: ir.Expr) -> list[TensorLoad]:
    """Return all loads of an expression, including loads inside indices."""
    return [e for e in walk(expr) if isinstance(e, TensorLoad)]


def uses(expr: ir.Expr, var: ir.Var) -> bool:
    """Whether an expression contains a variable."""
    return any(_IS_VAR[type(e)] and e.same_as(var) for e in walk(expr))


def step_of(offset: ir.Expr, var: ir.Var) -> int | None:
    """Return the stride of an offset along `var`; None if it is not a constant."""
    if not uses(offset, var):
        return 0
    found = sym.detect_linear_equation(offset, [var])
    return int(found[0]) if len(found) == 2 and isinstance(found[0], prim.IntImm) else None


def lanes_of(expr: ir.Expr) -> int:
    """Return the number of lanes of a value's dtype; 1 for a scalar."""
    _, separator, lanes = str(expr.ty.dtype).rpartition("x")
    return int(lanes) if separator else 1


def element(expr: ir.Expr) -> str:
    """Return the dtype of one lane."""
    return str(expr.ty.dtype).partition("x")[0]


def bits_of(expr: ir.Expr) -> int:
    """Return the bits of an element of an expression; 8 for Booleans."""
    return int("".join(filter(str.isdigit, element(expr))) or 8)
