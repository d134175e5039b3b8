# SPDX-License-Identifier: Apache-2.0
"""A pad before a convolution or pooling becomes part of the operator's padding.

    conv2d(pad(x, 0), W)          →    conv2d(x, W, padding), also conv1d
    max_pool2d(pad(x, -∞))        →    max_pool2d(x, padding)
    avg_pool2d(pad(x, 0))         →    avg_pool2d(x, padding, count_include_pad)

Only if the pad's value is the value of the operator's padding, and on spatial axes alone. Exact: the same products and
sums, except that a maximum is not below the lowest finite number if x contains -∞.

Quantised: applies to float values between `dequantize` and `quantize`; a pad that is quantised separately is not
changed.
"""

from collections.abc import Callable

import ml_dtypes
from tvm import relax
from tvm.ir import Call, Expr
from tvm.relax.dpl import is_op, wildcard

from relay_passes.rewriter.rule import Match, Rule
from schedules.diagnostic import Diagnostic

_x, _weight = wildcard(), wildcard()
_pad = is_op("relax.nn.pad")(_x)
_conv = is_op("relax.nn.conv1d")(_pad, _weight) | is_op("relax.nn.conv2d")(_pad, _weight)
_max, _average = is_op("relax.nn.max_pool2d")(_pad), is_op("relax.nn.avg_pool2d")(_pad)
_root = _conv | _max | _average

_SPATIAL = "HW"

_MAKE: dict[str, Callable[..., Expr]] = {
    "relax.nn.conv1d": relax.op.nn.conv1d,
    "relax.nn.conv2d": relax.op.nn.conv2d,
    "relax.nn.max_pool2d": relax.op.nn.max_pool2d,
    "relax.nn.avg_pool2d": relax.op.nn.avg_pool2d,
}


def check(match: Match) -> Match | Diagnostic:
    """Check that the operator's padding can have the pad's axes and value."""
    pad = match.values["pad"].attrs
    if pad.pad_mode != "constant":
        return match.reject("pad mode is not constant", limit="constant", actual=pad.pad_mode)
    widths = _widths(match)
    others = {axis: width for axis, width in widths.items() if axis not in _SPATIAL}
    if any(width != (0, 0) for width in others.values()):
        return match.reject("an axis that is not spatial is padded", limit=0, actual=others)
    if any(width < 0 for pair in widths.values() for width in pair):
        return match.reject("a width is negative", limit=0, actual=widths)
    return _check_max(match) if "max" in match.values else _check_zero(match)


def _check_zero(match: Match) -> Match | Diagnostic:
    value, attrs = float(match.values["pad"].attrs.pad_value), match.values["root"].attrs
    if value != 0:
        return match.reject("pad value is not 0", limit=0, actual=value)
    if "average" in match.values:
        if any(attrs.padding) and not attrs.count_include_pad:
            return match.reject("the average counts the pad, and not its own padding")
        # Elements after the padding, which are read with ceil_mode only, do not count in an average.
        if attrs.ceil_mode:
            return match.reject("ceil_mode counts the pad by rules of its own")
    return match


def _check_max(match: Match) -> Match | Diagnostic:
    value, attrs = float(match.values["pad"].attrs.pad_value), match.values["root"].attrs
    lowest = float(ml_dtypes.finfo(str(match.operands["x"].ty.dtype)).min)
    if value > lowest:
        return match.reject("pad value is not -inf", limit=lowest, actual=value)
    spans = [(int(n) - 1) * int(d) + 1 for n, d in zip(attrs.pool_size, attrs.dilation, strict=True)]
    padding = _padding(match)
    if any(width >= span for width, span in zip(padding, spans * 2, strict=True)):
        return match.reject("a window may lie in the padding alone", limit=spans, actual=padding)
    return match


def rewrite(match: Match) -> Expr:
    """Return the operator with the pad's widths added to its padding."""
    root = match.values["root"]
    attrs = {field.name: getattr(root.attrs, field.name) for field in root.attrs.__tvm_ffi_type_info__.fields}
    attrs["padding"] = _padding(match)
    if "average" in match.values:
        attrs["count_include_pad"] = True
    operands = (match.operands["x"], *root.args[1:])
    return _MAKE[str(root.op.name)](*operands, **attrs)


def _layout(root: Call) -> str:
    return str(getattr(root.attrs, "data_layout", None) or root.attrs.layout)


def _widths(match: Match) -> dict[str, tuple[int, int]]:
    """Return the pad's widths (before, after) of each axis, by the axis's letter in the layout."""
    flat = [int(width) for width in match.values["pad"].attrs.pad_width]
    return {axis: (flat[2 * i], flat[2 * i + 1]) for i, axis in enumerate(_layout(match.values["root"]))}


def _padding(match: Match) -> list[int]:
    """Return the sum of the operator's padding and the pad's widths: before each spatial axis, then after each."""
    root, widths = match.values["root"], _widths(match)
    added = [widths[axis][side] for side in (0, 1) for axis in _layout(root) if axis in _SPATIAL]
    return [int(own) + new for own, new in zip(root.attrs.padding, added, strict=True)]


RULE = Rule(
    name="fold_pad",
    pattern=_root,
    parts={"x": _x, "pad": _pad, "max": _max, "average": _average, "root": _root},
    check=check,
    rewrite=rewrite,
)
