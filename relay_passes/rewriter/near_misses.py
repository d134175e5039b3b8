# SPDX-License-Identifier: Apache-2.0
"""Near misses: expressions that match a pattern except for one or two subpatterns, with the actual values.

TVM's matcher only returns whether a pattern matches. Here it is called for every subpattern, from the root down, and
the search continues after a mismatch, so that an unexpected operator at the root of a long pattern is a near miss, too.
A near miss is reported if at least two operators match, more match than do not, and at most two subpatterns fail: a
single `add` is no near miss of all patterns that end with an `add`. Of alternatives and orders of operands, the one
with the best partial match is used.

A near miss is a `Diagnostic`: its nodes are those of the matching operators, in program order; the limit describes the
subpattern, and the actual value, with its nodes, the expression found instead.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache

from tvm import IRModule, relax
from tvm.ir import Call, Expr, Op, Tuple, TupleGetItem, Var
from tvm.relax.analysis import get_var2val
from tvm.relax.dpl import (
    AndPattern,
    CallPattern,
    DFPattern,
    ExprPattern,
    NotPattern,
    OrPattern,
    TupleGetItemPattern,
    TuplePattern,
)

from relay_passes.ir.sources import Names, bindings_of, relax_functions, sources_of, union
from relay_passes.rewriter.pattern_text import CONSTRAINTS, constraint, either, expected, found
from schedules.diagnostic import Diagnostic

_FEWEST_MATCHED = 2
_MOST_MISSES = 2  # with more misses the model computes something else
# Misses at which a match is abandoned. With a limit as low as _MOST_MISSES, operands in the wrong order would seem to
# match better.
_MISSES_TRIED = 4


@dataclass(frozen=True)
class Miss:
    """A subpattern that does not match.

    Attributes:
        expected: Description of the subpattern, one text per alternative.
        found: Description of the expression found instead.
        at: Source nodes of this expression, or of its consumer if it is a constant or an input.
    """

    expected: tuple[str, ...]
    found: str
    at: Names


@dataclass(frozen=True)
class PartialMatch:
    """A partial match: values of subpatterns, matching operators, and misses."""

    bound: Mapping[DFPattern, Expr]
    matched: tuple[Expr, ...] = ()
    missing: int = 0
    misses: tuple[Miss, ...] = ()

    @property
    def is_near(self) -> bool:
        """Whether the partial match is close enough to be reported."""
        enough = len(self.matched) >= max(_FEWEST_MATCHED, self.missing + 1)
        return enough and 0 < len(self.misses) <= _MOST_MISSES

    @property
    def rank(self) -> tuple[int, int]:
        """Sort key; better partial matches have greater keys."""
        return len(self.matched) - self.missing, -len(self.misses)

    def with_match(self, value: Expr) -> "PartialMatch":
        """Return a copy of the partial match with one more matching operator."""
        return replace(self, matched=(*self.matched, value))

    def missed(self, miss: Miss, missing: int = 0) -> "PartialMatch | None":
        """Return a copy with one more miss, which skips `missing` operators; None if there are too many misses."""
        if len(self.misses) == _MISSES_TRIED:
            return None
        return replace(self, misses=(*self.misses, miss), missing=self.missing + missing)

    def or_missed(self, other: Miss) -> "PartialMatch":
        """Return a copy with the expectation of `other` added to the last miss, if both concern the same value."""
        *before, last = self.misses
        if (last.found, last.at) != (other.found, other.at):
            return self
        both = replace(last, expected=tuple(dict.fromkeys(last.expected + other.expected)))
        return replace(self, misses=(*before, both))


def best_of(fits: Iterable[PartialMatch | None]) -> PartialMatch | None:
    """Return the first partial match of the maximum rank, with the expectations of all matches of this rank."""
    best: PartialMatch | None = None
    for fit in fits:
        if fit is None:
            continue
        if best is None or fit.rank > best.rank:
            best = fit
        elif fit.rank == best.rank and fit.misses:
            best = best.or_missed(fit.misses[-1])
    return best


# Classes of patterns for values computed inside of a match; a wildcard matches a value from outside.
INNER = (CallPattern, TupleGetItemPattern, TuplePattern)

# Operators whose operands TVM's matcher accepts in either order.
_COMMUTATIVE = ("relax.add", "relax.multiply")


def near_misses(
    mod: IRModule, pattern: DFPattern, parts: Mapping[str, DFPattern] | None = None
) -> tuple[Diagnostic, ...]:
    """Return every near miss of `pattern` in the Relax functions of `mod`, in program order.

    Args:
        mod: Module whose functions are in A-normal form.
        pattern: The root pattern.
        parts: Names of subpatterns, for the reasons.
    """
    names = {subpattern: name for name, subpattern in (parts or {}).items()}
    return tuple(
        miss for _, func in relax_functions(mod) for miss in _NearMissSearch(func, names).over(pattern)
    )


class _NearMissSearch:
    """Matches patterns with the values of one function, up to one or two subpatterns."""

    def __init__(self, func: relax.Function, names: Mapping[DFPattern, str]) -> None:
        self._bindings = bindings_of(func)
        self._map = get_var2val(func)
        self._values = {b.var: b.value for b in self._bindings}
        self._names = names
        self._size = cache(_size)

    def over(self, pattern: DFPattern) -> Iterator[Diagnostic]:
        order = {b.value.id_: index for index, b in enumerate(self._bindings)}
        for binding in self._bindings:
            if isinstance(binding.value, Var):
                continue  # matching looks through an alias at its value, which has a separate binding
            fit = self._align(pattern, binding.value, PartialMatch({}), ())
            if fit is not None and fit.is_near:
                matched = sorted(fit.matched, key=lambda value: order.get(value.id_, 0))
                yield _diagnostic(union(map(sources_of, matched)), fit.misses)

    def _align(self, pattern: DFPattern, expr: Expr, fit: PartialMatch, user: Names) -> PartialMatch | None:
        """Return the partial match `fit` extended by matching `pattern` with `expr`; None if there are too many misses.

        `user` has the source nodes of the call that reads `expr`.
        """
        value = expr
        while isinstance(value, Var) and value in self._values:
            value = self._values[value]
        at = sources_of(value) or user
        if pattern in fit.bound:
            earlier = fit.bound[pattern]
            again = f"{found(earlier)} again"
            return fit if earlier.same_as(value) else fit.missed(Miss((again,), found(value), at))
        whole = pattern.extract_matched_expr(value, self._map)
        if whole is not None and all(fit.bound.get(p, e).same_as(e) for p, e in whole.items()):
            new = tuple(e for p, e in whole.items() if isinstance(p, INNER) and p not in fit.bound)
            return replace(fit, bound={**fit.bound, **whole}, matched=fit.matched + new)
        result = self._partly(pattern, value, fit, at)
        return result and replace(result, bound={**result.bound, pattern: value})

    def _partly(self, pattern: DFPattern, value: Expr, fit: PartialMatch, at: Names) -> PartialMatch | None:
        """Return the partial match of a pattern that does not fully match."""
        match pattern:
            case OrPattern():
                return best_of(self._align(side, value, fit, at) for side in (pattern.left, pattern.right))
            case AndPattern():
                left = self._align(pattern.left, value, fit, at)
                return left and self._align(pattern.right, value, left, at)
            case NotPattern() if isinstance(pattern.reject, NotPattern):
                # not(not(pattern)) inspects a value without consuming it.
                return self._align(pattern.reject.reject, value, fit, at)
            case CallPattern() if isinstance(value, Call):
                return self._call(pattern, value, fit, at)
            case TuplePattern() if isinstance(value, Tuple) and len(value.fields) == len(pattern.fields):
                return self._all(pattern.fields, value.fields, fit.with_match(value), at)
            case TupleGetItemPattern() if isinstance(value, TupleGetItem) and (
                pattern.index in (-1, value.index)
            ):
                return self._align(pattern.tuple, value.tuple_value, fit.with_match(value), at)
            case _ if isinstance(pattern, CONSTRAINTS):
                inner = self._align(pattern.pattern, value, fit, at)
                if inner is None or inner.misses != fit.misses or pattern.match(value, self._map):
                    return inner
                wanted, actual = constraint(pattern, value)
                return inner.missed(Miss((wanted,), actual, at))
        return fit.missed(Miss(expected(pattern, self._names), found(value), at), self._size(pattern))

    def _call(self, pattern: CallPattern, value: Call, fit: PartialMatch, at: Names) -> PartialMatch | None:
        other = Miss(expected(pattern, self._names), found(value), at)
        is_op = pattern.op.match(value.op)
        is_root = not fit.matched and not fit.misses
        if not (is_op or _stands_in(pattern, value, is_root)):
            return fit.missed(other, self._size(pattern))
        count, actual = len(pattern.args), len(value.args)
        # Only the text of a pattern, ending in "...", shows that it accepts any further operands; it has no field for
        # this.
        if actual < count or (actual > count and not str(pattern).endswith("...)")):
            if is_op:
                other = Miss((f"{count} operands of {found(value)}",), str(actual), at)
            return fit.missed(other, self._size(pattern))
        start = fit.with_match(value) if is_op else fit.missed(other, missing=1)
        if start is None:
            return None
        orders = [list(value.args)]
        if found(value) in _COMMUTATIVE:
            orders.append(orders[0][::-1])
        result = best_of(self._all(pattern.args, args, start, at) for args in orders)
        if is_op or (result is not None and len(result.matched) > len(fit.matched)):
            return result
        # If the operands do not match either, count one miss instead of several.
        return fit.missed(other, self._size(pattern))

    def _all(
        self, patterns: Iterable[DFPattern], exprs: Iterable[Expr], fit: PartialMatch, user: Names
    ) -> PartialMatch | None:
        result: PartialMatch | None = fit
        for pattern, expr in zip(patterns, exprs, strict=False):
            result = result and self._align(pattern, expr, result, user)
        return result


def _diagnostic(nodes: Names, misses: tuple[Miss, ...]) -> Diagnostic:
    """Return the near miss as a diagnostic; `nodes` are those of the matching operators."""
    wanted = ", and ".join(either(miss.expected) for miss in misses)
    actual = ", and ".join(f"{m.found} at {', '.join(m.at)}" if m.at else m.found for m in misses)
    reason = f"{len(misses)} parts of the pattern do" if len(misses) > 1 else "a part of the pattern does"
    return Diagnostic.of(f"{reason} not match", wanted, actual, nodes=nodes)


def _stands_in(pattern: CallPattern, value: Call, is_root: bool) -> bool:
    """Whether a call of an operator that the pattern does not have counts as a near miss.

    Examples are another activation, or subtract instead of add, but no convolution instead of a product. Since calls
    with two operands are frequent in a graph, another such operator at the root of a pattern is no near miss.
    """
    if len(value.args) == 1:
        return True
    return not is_root and isinstance(value.op, Op) and value.op.attrs_type_key in _attributes(pattern.op)


def _attributes(callee: DFPattern) -> set[str]:
    """Return the kinds of attributes that the operators of a pattern have."""
    match callee:
        case OrPattern():
            return _attributes(callee.left) | _attributes(callee.right)
        case ExprPattern() if isinstance(callee.expr, Op):
            return {str(callee.expr.attrs_type_key)}
    return set()


def _size(pattern: DFPattern) -> int:
    """Return the number of operators that every match of `pattern` has."""
    match pattern:
        case CallPattern():
            return 1 + sum(map(_size, pattern.args))
        case TuplePattern():
            return 1 + sum(map(_size, pattern.fields))
        case TupleGetItemPattern():
            return 1 + _size(pattern.tuple)
        case OrPattern():
            return min(_size(pattern.left), _size(pattern.right))
        case AndPattern():
            return _size(pattern.left) + _size(pattern.right)
        case _ if isinstance(pattern, CONSTRAINTS):
            return _size(pattern.pattern)
    return 0
