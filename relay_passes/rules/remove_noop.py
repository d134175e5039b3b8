# SPDX-License-Identifier: Apache-2.0
"""Calls that return their operand unchanged are removed.

    astype(x) to the dtype of x            reshape, squeeze, … to the shape of x      broadcast_to(x) its own shape
    permute_dims(x) that moves no axis     strided_slice(x) of everything             concat((x,))
    dropout(x), which does nothing in inference            tile or repeat once        resize2d(x) to the size of x

    →    x

Exact. Quantised: moves nothing across `quantize` or `dequantize`.
"""

from functools import reduce
from operator import or_

from tvm.ir import Expr
from tvm.relax.dpl import is_op, is_tuple, is_tuple_get_item, wildcard

from relay_passes.ir.shapes import axes_of
from relay_passes.rewriter.rule import Match, Rule
from schedules.diagnostic import Diagnostic

_x = wildcard()
# Indices of the operands of relax.strided_slice: data, axes, begin, end, and optional strides.
_STRIDES = 4
# Operators whose result equals x if the result has the type of x.
_BY_TYPE = ("astype", "reshape", "squeeze", "expand_dims", "flatten", "broadcast_to", "tile", "repeat")
_by_type = reduce(or_, (is_op(f"relax.{op}")(_x, varg_default_wildcard=True) for op in _BY_TYPE))
_resized = is_op("relax.image.resize2d")(_x, varg_default_wildcard=True)
# Coordinate transformations that are the identity if the size does not change; others would shift the image.
_WHOLE = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
_permuted = is_op("relax.permute_dims")(_x)
_sliced = is_op("relax.strided_slice")(_x, varg_default_wildcard=True)
_single = is_op("relax.concat")(is_tuple([_x]))
_dropped = is_tuple_get_item(is_op("relax.nn.dropout")(_x), 0)
_call = _by_type | _resized | _permuted | _sliced | _single | _dropped


def check(match: Match) -> Match | Diagnostic:
    """Check that the result has the type of x, and the elements of x in the same order."""
    x, call = match.operands["x"], match.values["call"]
    if x.ty != call.ty:
        return match.reject("the result's type is not the input's", limit=x.ty, actual=call.ty)
    if "permuted" in match.values:
        order = axes_of(call)
        if order != sorted(order):
            return match.reject("axes change places", actual=order)
    if "resized" in match.values and (mode := str(call.attrs.coordinate_transformation_mode)) not in _WHOLE:
        return match.reject("its coordinates shift the image", limit=", ".join(_WHOLE), actual=mode)
    # A slice as long as its axis is the identity, or a reversal if its stride is negative.
    if "sliced" in match.values and len(call.args) > _STRIDES:
        backwards = [int(stride) for stride in call.args[_STRIDES].fields if int(stride) < 0]
        if backwards:
            return match.reject("the slice runs backwards", limit=1, actual=backwards[0])
    return match


def rewrite(match: Match) -> Expr:
    """Return the operand of the operator without effect."""
    return match.operands["x"]


RULE = Rule(
    name="remove_noop",
    pattern=_call,
    parts={"x": _x, "call": _call, "resized": _resized, "permuted": _permuted, "sliced": _sliced},
    check=check,
    rewrite=rewrite,
)
