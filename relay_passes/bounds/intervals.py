# SPDX-License-Identifier: Apache-2.0
"""Interval analysis of integer TensorIR expressions, including wrap-around.

x: int8 → x + 128    [0, 255]    in int32
x: int32 → x + 1     all int32   it may wrap around, which TVM's analysis ignores
max(min(x, 9), 0)    [0, 9]      of any x
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from tvm import ir
from tvm.ir.expr import TensorLoad
from tvm.ir.prim import expr as prim
from tvm_ffi import structural_equal


@dataclass(frozen=True)
class Interval:
    """The integers from `low` to `high`; empty if `low` > `high`."""

    low: int
    high: int

    @property
    def empty(self) -> bool:
        """Whether the interval contains no integer."""
        return self.low > self.high

    def union(self, other: "Interval") -> "Interval":
        """Return the smallest interval that contains both intervals."""
        if self.empty or other.empty:
            return other if self.empty else self
        return Interval(min(self.low, other.low), max(self.high, other.high))

    def cut(self, other: "Interval") -> "Interval":
        """Return the intersection with another interval."""
        return Interval(max(self.low, other.low), min(self.high, other.high))

    def within(self, other: "Interval") -> bool:
        """Whether `other` contains this interval."""
        return self.empty or (other.low <= self.low and self.high <= other.high)


NOTHING = Interval(0, -1)
_BOOL = Interval(0, 1)

Facts = tuple[tuple[ir.Expr, Interval], ...]
"""Expressions, and the values that they have where a condition holds."""


def of_dtype(dtype: str) -> Interval | None:
    """Return the range of an integer dtype; None for floats."""
    if dtype == "bool":
        return _BOOL
    if not dtype.startswith(("int", "uint")) or "x" in dtype:
        return None
    limits = np.iinfo(dtype)
    return Interval(int(limits.min), int(limits.max))


def dtype_of(value: ir.Expr) -> str:
    """Return the dtype of an expression, or of a buffer's elements; "" if it has none."""
    return str(getattr(value.ty, "dtype", ""))


@dataclass(frozen=True)
class Scope:
    """The ranges and conditions that hold where an expression is evaluated.

    Attributes:
        variables: Intervals of the variables of loops and shapes; other variables may have any value.
        bound: Definitions of the variables that are bound to an expression.
        load: Returns the interval of a load's possible values; None for any value.
        facts: Bounds that are implied by the conditions that hold here.
    """

    variables: Mapping[ir.Var, Interval]
    bound: Mapping[ir.Var, ir.Expr]
    load: Callable[[TensorLoad], Interval | None]
    facts: Facts = ()

    def where(self, condition: ir.Expr, holds: bool = True) -> "Scope":
        """Return a copy of the scope in which a condition is true or, if not `holds`, false."""
        found = tuple(_facts(self, condition, holds))
        return Scope(self.variables, self.bound, self.load, (*self.facts, *found)) if found else self


def interval(expr: ir.Expr, scope: Scope) -> Interval | None:
    """Return the range of an integer expression; None for other expressions."""
    every = of_dtype(dtype_of(expr))
    if every is None:
        return None
    found = _found(expr, scope)
    # A result that may exceed its type wraps around, and may be any value of the type.
    result = found if found is not None and found.within(every) else every
    for known, values in scope.facts:
        if structural_equal(known, expr):
            result = result.cut(values)
    return result


def _found(expr: ir.Expr, scope: Scope) -> Interval | None:
    match expr:
        case prim.IntImm():
            return Interval(int(expr.value), int(expr.value))
        case ir.Var():
            if expr in scope.bound:
                return interval(scope.bound[expr], scope)
            return scope.variables.get(expr)
        case TensorLoad():
            return scope.load(expr)
        case prim.Cast():
            return interval(expr.value, scope)
        case prim.Select():
            return _chosen(expr.condition, expr.true_value, expr.false_value, scope)
        case prim.Not():
            return _not(interval(expr.a, scope))
        case ir.Call():
            return _of_call(expr, scope)
    rule = _RULES.get(type(expr))
    if rule is None:
        return None
    a, b = interval(expr.a, scope), interval(expr.b, scope)
    if a is None or b is None:
        return None
    if a.empty or b.empty:
        return NOTHING
    return rule(a, b)


def _chosen(condition: ir.Expr, yes: ir.Expr, no: ir.Expr, scope: Scope) -> Interval | None:
    truth = interval(condition, scope) or _BOOL
    branches = [
        interval(value, scope.where(condition, holds))
        for value, holds in ((yes, True), (no, False))
        if truth.low <= holds <= truth.high
    ]
    found = NOTHING
    for branch in branches:
        if branch is None:
            return None
        found = found.union(branch)
    return found


def _of_call(call: ir.Call, scope: Scope) -> Interval | None:
    name = str(getattr(call.op, "name", "")).rpartition(".")[2]
    if name == "if_then_else":
        condition, yes, no = call.args
        return _chosen(condition, yes, no, scope)
    if name == "likely":
        return interval(call.args[0], scope)
    if name not in ("bitwise_and", "shift_right", "popcount"):
        return None
    found = [interval(arg, scope) for arg in call.args]
    values = [value for value in found if value is not None]
    if len(values) < len(found) or any(value.empty for value in values):
        return None
    if name == "popcount":
        return Interval(0, 64)
    a, b = values
    if name == "bitwise_and":
        masks = [value.high for value in (a, b) if value.low >= 0]
        return Interval(0, min(masks)) if masks else None
    return Interval(min(a.low, a.low >> b.low), max(a.high, a.high >> b.low)) if b.low >= 0 else None


def _not(value: Interval | None) -> Interval:
    return _BOOL if value is None else Interval(1 - value.high, 1 - value.low)


def _corners(combine: Callable[[int, int], int]) -> Callable[[Interval, Interval], Interval]:
    def rule(a: Interval, b: Interval) -> Interval:
        values = [combine(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
        return Interval(min(values), max(values))

    return rule


def _quotient(divide: Callable[[int, int], int]) -> Callable[[Interval, Interval], Interval | None]:
    """Return the interval version of a division; it returns None if the divisor may change its sign."""
    rule = _corners(divide)
    return lambda a, b: None if b.low <= 0 <= b.high else rule(a, b)


def _truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _floor_mod(a: Interval, b: Interval) -> Interval | None:
    if b.low <= 0:
        return None
    return a if a.low >= 0 and a.high < b.low else Interval(0, b.high - 1)


def _truncated_mod(a: Interval, b: Interval) -> Interval | None:
    if b.low <= 0:
        return None
    most = b.high - 1
    return Interval(max(a.low, -most) if a.low < 0 else 0, min(a.high, most) if a.high > 0 else 0)


def _less(a: Interval, b: Interval) -> Interval:
    return Interval(int(a.high < b.low), int(a.low < b.high))


def _at_most(a: Interval, b: Interval) -> Interval:
    return Interval(int(a.high <= b.low), int(a.low <= b.high))


def _equal(a: Interval, b: Interval) -> Interval:
    return Interval(int(a == b and a.low == a.high), int(not a.cut(b).empty))


_RULES: Mapping[type, Callable[[Interval, Interval], Interval | None]] = {
    prim.Add: _corners(lambda a, b: a + b),
    prim.Sub: _corners(lambda a, b: a - b),
    prim.Mul: _corners(lambda a, b: a * b),
    prim.Min: _corners(min),
    prim.Max: _corners(max),
    prim.Div: _quotient(_truncated),
    prim.FloorDiv: _quotient(lambda a, b: a // b),
    prim.Mod: _truncated_mod,
    prim.FloorMod: _floor_mod,
    prim.LT: _less,
    prim.LE: _at_most,
    prim.GT: lambda a, b: _less(b, a),
    prim.GE: lambda a, b: _at_most(b, a),
    prim.EQ: _equal,
    prim.NE: lambda a, b: _not(_equal(a, b)),
    prim.And: _corners(min),
    prim.Or: _corners(max),
}

_MIRRORED = {prim.LT: prim.GT, prim.LE: prim.GE, prim.GT: prim.LT, prim.GE: prim.LE, prim.EQ: prim.EQ}
_NEGATED = {prim.LT: prim.GE, prim.LE: prim.GT, prim.GT: prim.LE, prim.GE: prim.LT, prim.NE: prim.EQ}


def _facts(scope: Scope, condition: ir.Expr, holds: bool) -> Facts:
    """Return the bounds that a condition (or its negation) implies for the expressions that it compares."""
    while isinstance(condition, prim.Not):
        condition, holds = condition.a, not holds
    if isinstance(condition, prim.And if holds else prim.Or):
        return _facts(scope, condition.a, holds) + _facts(scope, condition.b, holds)
    if isinstance(condition, ir.Call) and str(getattr(condition.op, "name", "")).endswith("likely"):
        return _facts(scope, condition.args[0], holds)
    kind = type(condition) if holds else _NEGATED.get(type(condition))
    if kind not in _MIRRORED:
        return ()
    found = []
    for expr, other, how in (
        (condition.a, condition.b, kind),
        (condition.b, condition.a, _MIRRORED[kind]),
    ):
        limit = None if isinstance(expr, prim.IntImm) else interval(other, scope)
        every = of_dtype(dtype_of(expr))
        if limit is None or every is None:
            continue
        low = {prim.GT: limit.low + 1, prim.GE: limit.low, prim.EQ: limit.low}.get(how, every.low)
        high = {prim.LT: limit.high - 1, prim.LE: limit.high, prim.EQ: limit.high}.get(how, every.high)
        found.append((expr, Interval(low, high)))
    return tuple(found)
