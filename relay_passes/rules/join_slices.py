# SPDX-License-Identifier: Apache-2.0
"""A concatenation of adjacent slices of one value becomes one slice of this value.

    concat(x[a:b], x[b:c], …, x[y:z])    →    x[a:z]        along the sliced axis, with stride 1

A slice of the whole value is then removed by `remove_noop`. Up to eight slices. Exact. Quantised: moves nothing across
`quantize` or `dequantize`.
"""

from functools import reduce
from itertools import pairwise
from operator import or_

from tvm import relax
from tvm.ir import Call, Expr
from tvm.relax.dpl import is_op, is_tuple, wildcard

from relay_passes.ir.shapes import shape_of, static_shape
from relay_passes.rewriter.rule import Match, Rule
from schedules.diagnostic import Diagnostic

_MOST = 8
# Indices of the operands of relax.strided_slice: data, axes, begin, end, and optional strides.
_STRIDES = 4
_x = wildcard()
_slices = [is_op("relax.strided_slice")(_x, varg_default_wildcard=True) for _ in range(_MOST)]
_concat = reduce(or_, (is_op("relax.concat")(is_tuple(_slices[:count])) for count in range(2, _MOST + 1)))


def check(match: Match) -> Match | Diagnostic:
    """Check that each slice is along the concatenated axis and starts where the slice before it ends."""
    if static_shape(match.operands["x"]) is None:
        return match.reject("shape is not static")
    for call in _calls(match):
        axes, strides = _numbers(call.args[1]), [n for arg in call.args[_STRIDES:] for n in _numbers(arg)]
        if [axis % call.args[0].ty.ndim for axis in axes] != [_axis(match)] or strides not in ([], [1]):
            return match.reject("a slice is not of the concatenated axis in steps of 1", limit=_axis(match))
    for (_, end), (begin, _) in pairwise(_ranges(match)):
        if begin != end:
            return match.reject("slices are not adjacent", limit=end, actual=begin)
    return match


def rewrite(match: Match) -> Expr:
    """Return one slice from the start of the first to the end of the last slice."""
    ranges = _ranges(match)
    return relax.op.strided_slice(match.operands["x"], [_axis(match)], [ranges[0][0]], [ranges[-1][1]])


def _axis(match: Match) -> int:
    return int(match.values["concat"].attrs.axis) % int(match.operands["x"].ty.ndim)


def _calls(match: Match) -> list[Call]:
    return [match.values[f"slice{i}"] for i in range(_MOST) if f"slice{i}" in match.values]


def _ranges(match: Match) -> list[tuple[int, int]]:
    """Return (begin, end) of each slice, clamped to the axis."""
    size = shape_of(match.operands["x"])[_axis(match)]
    bounds = ([_numbers(group)[0] for group in call.args[2:_STRIDES]] for call in _calls(match))
    return [(_clamped(begin, size), _clamped(end, size)) for begin, end in bounds]


def _clamped(index: int, size: int) -> int:
    return min(max(index + size if index < 0 else index, 0), size)


def _numbers(group: Expr) -> list[int]:
    return [int(number) for number in group.fields]


RULE = Rule(
    name="join_slices",
    pattern=_concat,
    parts={"x": _x, "concat": _concat} | {f"slice{i}": part for i, part in enumerate(_slices)},
    check=check,
    rewrite=rewrite,
)
