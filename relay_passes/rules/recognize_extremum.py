# SPDX-License-Identifier: Apache-2.0
"""A maximum or minimum over stacked tensors, as TVM imports ONNX Max and Min, becomes a chain of binary operators.

    max(stack((a, b, …), 0), axis=0)    →    maximum(maximum(a, b), …)
    min(stack((a, b, …), 0), axis=0)    →    minimum(minimum(a, b), …)

Exact, also for NaN: both forms return NaN.

Quantised: matches only if neither the stack nor the reduction is followed by a separate `quantize`.
"""

from functools import reduce

from tvm import relax
from tvm.ir import Expr, Tuple
from tvm.relax.dpl import is_op, wildcard

from relay_passes.rewriter.rule import Match, Rule
from schedules.diagnostic import Diagnostic

_tensors = wildcard()
_stack = is_op("relax.stack")(_tensors)
_max, _min = is_op("relax.max")(_stack), is_op("relax.min")(_stack)
_extremum = _max | _min


def check(match: Match) -> Match | Diagnostic:
    """Check that only the axis of the stack is reduced."""
    stack, extremum = match.values["stack"], match.values["extremum"]
    if not isinstance(stack.args[0], Tuple):
        return match.reject("the operands of the stack are not known")
    if extremum.attrs.keepdims:
        return match.reject("the reduced axis is kept")
    rank = int(stack.ty.ndim)
    axis, axes = int(stack.attrs.axis) % rank, extremum.attrs.axis
    reduced = None if axes is None else [int(a) % rank for a in axes]
    if reduced != [axis]:
        return match.reject("other axes than the stack's are reduced", limit=[axis], actual=reduced)
    return match


def rewrite(match: Match) -> Expr:
    """Return a chain of binary operators."""
    operator = relax.op.maximum if "max" in match.values else relax.op.minimum
    return reduce(operator, match.values["stack"].args[0].fields)


RULE = Rule(
    name="recognize_extremum",
    pattern=_extremum,
    parts={"stack": _stack, "max": _max, "extremum": _extremum},
    check=check,
    rewrite=rewrite,
)
