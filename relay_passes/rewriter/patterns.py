# SPDX-License-Identifier: Apache-2.0
"""Patterns that Relax's dataflow pattern language (dpl) lacks, such as optional steps and operands in either order.

dpl has alternatives (`|`), conjunction (`&`), negation (`~`), `.has_dtype("int8")`, `.has_shape((1, 8))`,
`.has_ty(TensorType(ndim=4, dtype="float32"))` and `.has_attr({"groups": 1})`. Its undocumented properties are:

- `relax.add` and `relax.multiply` match their operands in either order; other operators do not.
- A pattern that is used twice must match the same value twice: `multiply(x, sigmoid(x))` does not match the product of
  two different values.
- Alternatives are tried from left to right, and the first that matches is kept, even if the rest then fails.
- `has_attr` never matches an attribute that is a dtype (`astype`); constrain the call's result by `has_dtype`.
- Patterns below a negation are not bound to values in `check` and `rewrite`.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from operator import or_

import numpy as np
from tvm import relax
from tvm.relax.dpl import DFPattern, is_const, is_expr, wildcard

from relay_passes.ir.sources import sources_of, union
from relay_passes.rewriter.rule import Match

# Ranks of the tensors by which models represent a single number.
_RANKS = range(6)


def maybe(pattern: DFPattern, *steps: Callable[[DFPattern], DFPattern]) -> DFPattern:
    """Match `pattern`, followed by any of the optional `steps`.

    The variant with most steps is tried first; of nested matches a rule uses the longest.

    >>> from tvm.relax.dpl import is_op, wildcard
    >>> biased = maybe(
    ...     is_op("relax.matmul")(wildcard(), wildcard()),
    ...     lambda value: is_op("relax.add")(value, wildcard()),
    ...     lambda value: is_op("relax.nn.relu")(value),
    ... )
    >>> biased.match(relax.op.matmul(_tensor(3, 8), _tensor(8, 7)))
    True
    """
    for step in steps:
        pattern = step(pattern) | pattern
    return pattern


def any_of(*patterns: DFPattern) -> DFPattern:
    """Match the first of `patterns` that matches; alternatives of operators are called with operands.

    >>> from tvm.relax.dpl import is_op, wildcard
    >>> rounding = any_of(is_op("relax.floor"), is_op("relax.ceil"), is_op("relax.round"))(wildcard())
    >>> rounding.match(relax.op.ceil(_tensor(7)))
    True
    """
    return reduce(or_, patterns)


def either_order(operator: DFPattern, left: DFPattern, right: DFPattern) -> DFPattern:
    """Match a call with its two operands in either order, for operators that dpl does not treat as commutative.

    >>> from tvm.relax.dpl import is_const, is_op, wildcard
    >>> lower_bound = either_order(is_op("relax.maximum"), wildcard(), is_const())
    >>> lower_bound.match(relax.op.maximum(relax.const(0.0), _tensor(7)))
    True
    """
    return operator(left, right) | operator(right, left)


def constant(dtype: str | None = None, shape: tuple[int, ...] | None = None) -> DFPattern:
    """Match a constant tensor, with `dtype` and `shape` if these are not None; a rule's check examines its values.

    >>> constant("float32", shape=(7,)).match(relax.const(np.zeros(7, "float32")))
    True
    """
    pattern: DFPattern = is_const()
    if dtype is not None:
        pattern = pattern.has_dtype(dtype)
    return pattern if shape is None else pattern.has_shape(shape)


def scalar(value: float, dtype: str = "float32") -> DFPattern:
    """Match a constant with one element, of rank 5 at most, that equals `value` rounded to `dtype`.

    >>> scalar(0.5).match(relax.const(np.full((1, 1), 0.5, "float32")))
    True
    """
    return any_of(*(is_expr(relax.const(np.full((1,) * rank, value, dtype))) for rank in _RANKS))


def _tensor(*shape: int) -> relax.Var:
    return relax.Var("x", relax.TensorType(shape, "float32"))


def non_consuming(pattern: DFPattern) -> DFPattern:
    """Return a pattern that matches the same expressions as `pattern`, but whose inner values may have other users.

    It is a double negation, below which TVM's matcher binds no values: only the whole pattern is bound.
    """
    return wildcard() & ~(~pattern)


def including(match: Match, part: str) -> Match:
    """Return a copy of a match with the source nodes of a non-consuming part, which the replacement also computes."""
    return replace(match, nodes=union((sources_of(match.values[part]), match.nodes)))
