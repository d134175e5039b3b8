# SPDX-License-Identifier: Apache-2.0
"""A resize with aligned corners to one row or column is a slice of a resize to two.

    resize2d(x, [1, w], align_corners)    →    strided_slice(resize2d(x, [2, w], align_corners), rows 0 to 1)

TVM's kernel divides by the number of output pixels minus one, which is 0 for one pixel. The first of two rows is the
first row of x, and all formats define the single row as the first row of x.

Exact. Quantised: moves nothing across `quantize` or `dequantize`.
"""

from tvm import relax
from tvm.ir import Call, Expr
from tvm.relax.dpl import is_op, wildcard

from relay_passes.ir.calls import with_attrs
from relay_passes.ir.shapes import static_shape
from relay_passes.rewriter.rule import Match, Rule
from schedules.diagnostic import Diagnostic

_x = wildcard()
_root = is_op("relax.image.resize2d")(_x, varg_default_wildcard=True)

_ALIGNED = "align_corners"


def check(match: Match) -> Match | Diagnostic:
    """Check that corners are aligned, and that the result has one pixel along an axis."""
    call = match.values["root"]
    if (mode := str(call.attrs.coordinate_transformation_mode)) != _ALIGNED:
        return match.reject("corners are not aligned", _ALIGNED, mode)
    sizes = _sizes(call)
    if sizes is None or 1 not in sizes.values():
        return match.reject("no axis of the result has one pixel", 1, sizes)
    return match


def _sizes(call: Call) -> dict[int, int] | None:
    """Return the number of pixels of a resize's result along each spatial axis; None if one is not static."""
    shape = static_shape(call)
    return None if shape is None else {axis: shape[axis] for axis in map(str(call.attrs.layout).index, "HW")}


def rewrite(match: Match) -> Expr:
    """Return the slice of a resize to two pixels."""
    call, sizes = match.values["root"], _sizes(match.values["root"])
    assert sizes is not None  # by `check`
    pixels = relax.ShapeExpr([max(size, 2) for size in sizes.values()])
    resized = with_attrs(call, [match.operands["x"], pixels])
    axes = [axis for axis, size in sizes.items() if size == 1]
    return relax.op.strided_slice(resized, axes, [0] * len(axes), [1] * len(axes))


RULE = Rule(
    name="resize_to_one",
    pattern=_root,
    parts={"x": _x, "root": _root},
    check=check,
    rewrite=rewrite,
)
