# SPDX-License-Identifier: Apache-2.0
"""Floor divisions and modulos in offsets that decrease along a loop, in a form that TVM's passes keep.

FlattenBuffer of TVM 0.27 rewrites (c - i) // d, where i is a loop variable, to i // -d + c // d, and (c - i) % d
likewise: that is another element if c is no multiple of d. It only rewrites floor divisions, so these become truncated
ones, which are equal for numbers that are not negative.
"""

from collections.abc import Sequence

from tvm import ir, sym, tirx
from tvm.ir.prim import expr as prim

from schedules.generic.expressions import loads, rebuild, step_of, uses
from schedules.generic.stages import Axis

_TRUNCATED = {prim.FloorDiv: prim.Div, prim.FloorMod: prim.Mod}


def truncated(offset: ir.Expr, axes: Sequence[Axis], analyzer: sym.Analyzer) -> ir.Expr:
    """Rewrite floor division and modulo by constants, where the dividend may decrease along an axis, as truncated ones.

    `analyzer` knows the bounds of the axes.
    """

    def change(expr: ir.Expr) -> ir.Expr | None:
        if type(expr) not in _TRUNCATED or not isinstance(expr.b, prim.IntImm) or not _falls(expr.a, axes):
            return None
        if loads(expr.a):
            return None  # FlattenBuffer does not rewrite inside indices that contain loads
        lowest = int(analyzer.const_int_bound(expr.a).min_value)
        if lowest == sym.ConstIntBound.NEG_INF:
            return None  # if_then_else has no bounds, and FlattenBuffer does not rewrite inside it either
        inside, dtype, divisor = rebuild(expr.a, change), str(expr.ty.dtype), int(expr.b)
        # Add as many divisors as make the dividend non-negative.
        times = max(0, -(lowest // divisor))
        raised = inside + tirx.IntImm(dtype, times * divisor)
        quotient = _TRUNCATED[type(expr)](raised, expr.b)
        return quotient - tirx.IntImm(dtype, times) if isinstance(expr, prim.FloorDiv) else quotient

    return rebuild(offset, change)


def _falls(dividend: ir.Expr, axes: Sequence[Axis]) -> bool:
    """Whether the dividend decreases, or may decrease, as some axis grows."""
    steps = [step_of(dividend, axis.var) for axis in axes if uses(dividend, axis.var)]
    return any(step is None or step < 0 for step in steps)
