# SPDX-License-Identifier: Apache-2.0
"""Rewrite of integer casts that may wrap around, so that TVM's simplifier cannot bound their values.

    cast(x, int8)    →    reinterpret(reinterpret(cast(x, int8), uint8), int8)        x: uint8

TVM bounds a cast by the intersection of the operand's range and the new type's: for int8(x) with x of uint8 that is
[0, 127], although 255 becomes -1. By such a bound it replaces floor divisions and remainders by truncating ones, and
decides comparisons. A reinterpretation is bounded by its type alone, and costs no instruction. Casts whose operand
provably fits the new type, such as clipped values and loop variables, are not changed.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tvm import ir, sym, tirx
from tvm.ir.prim import expr as prim
from tvm_ffi import structural_map


@dataclass(frozen=True)
class _Limits:
    """The minimum and maximum of an integer type."""

    low: int
    high: int


_INTEGERS = {
    **{f"int{bits}": _Limits(-(1 << bits - 1), (1 << bits - 1) - 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": _Limits(0, (1 << bits) - 1) for bits in (8, 16, 32, 64)},
}
"""Scalar integer dtype → its limits."""


def hide_wrapping_casts(expr: ir.Expr, ranges: Iterable[tuple[ir.Var, ir.Range]] = ()) -> ir.Expr:
    """Return an equal scalar expression in which each cast that may wrap around is hidden by reinterpretations.

    Args:
        expr: Expression before vectorisation.
        ranges: Ranges of the loop variables in `expr`.
    """
    analyzer = sym.Analyzer()
    for var, values in ranges:
        analyzer.bind(var, values)

    def hide(node: prim.Cast) -> ir.Expr:
        if not _changes_range(node) or _fits(node, analyzer):
            return node
        dtype = str(node.ty.dtype)
        other = dtype.removeprefix("u") if dtype.startswith("u") else f"u{dtype}"
        return tirx.reinterpret(dtype, tirx.reinterpret(other, node))

    return structural_map(expr, [(prim.Cast, hide)])


def _changes_range(node: prim.Cast) -> bool:
    """Whether a cast is between integer types and the new type does not hold all numbers of the old one."""
    old, new = (_INTEGERS.get(str(value.ty.dtype)) for value in (node.value, node))
    return old is not None and new is not None and (new.low > old.low or new.high < old.high)


def _fits(node: prim.Cast, analyzer: sym.Analyzer) -> bool:
    """Whether the analysis proves that all values of a cast's operand fit the new type."""
    limits, bound = _INTEGERS[str(node.ty.dtype)], analyzer.const_int_bound(node.value)
    return bool(limits.low <= bound.min_value and bound.max_value <= min(limits.high, bound.POS_INF - 1))
