# SPDX-License-Identifier: Apache-2.0
"""The table of operators with a channels-last version: relations between axes, and the functions that convert calls."""

from collections.abc import Callable
from dataclasses import dataclass

from tvm.ir import Var

from relay_passes.ir.calls import SHAPE_ONLY, BoundCall
from relay_passes.ir.shapes import axes_of, static_shape
from relay_passes.layout import moves
from relay_passes.layout.form import Role
from relay_passes.layout.roles import Relations, blocks

_LETTERS: dict[str, Role] = {"N": "N", "C": "C", "H": "S", "W": "S"}


@dataclass(frozen=True)
class LayoutRules:
    """The layout rules of one operator.

    Attributes:
        relate: Returns the relations between the axes of a call's tensors; the caller ignores relations of constants.
        move: Returns the channels-last version of a call.
        anchor: Whether calls of the operator are always converted if possible.
    """

    relate: Callable[[BoundCall], Relations]
    move: moves.Move
    anchor: bool = False


def _rank(value: object) -> int:
    return len(static_shape(value) or ())


def _right_aligned(node: BoundCall) -> Relations:
    out, found = node.outputs[0][1], Relations()
    for operand in node.operands:
        rank, missing = _rank(operand), _rank(out) - _rank(operand)
        found.pair(operand, out, ((axis, axis + missing) for axis in range(rank)))
    return found


def _same_axes(node: BoundCall) -> Relations:
    found = Relations()
    for index, out in node.outputs[:1]:
        if index in (None, 0):
            found.pair(node.operands[0], out, ((axis, axis) for axis in range(_rank(out))))
    return found


def _all_same_axes(node: BoundCall) -> Relations:
    found = Relations()
    for operand in node.operands:
        for _, out in node.outputs:
            found.pair(operand, out, ((axis, axis) for axis in range(_rank(out))))
    return found


def _reduced(node: BoundCall) -> Relations:
    data, out, attrs = node.operands[0], node.outputs[0][1], node.call.attrs
    rank = _rank(data)
    axes = [attrs.axis] if isinstance(attrs.axis, int) else range(rank) if attrs.axis is None else attrs.axis
    gone = {int(axis) % rank for axis in axes} if rank and not attrs.keepdims else set()
    return Relations().pair(
        data, out, ((a, i) for i, a in enumerate(a for a in range(rank) if a not in gone))
    )


def _concatenated(node: BoundCall) -> Relations:
    if node.call.attrs.axis is None:
        return Relations()
    out, found = node.outputs[0][1], Relations()
    along = int(node.call.attrs.axis) % _rank(out)
    for operand in node.operands:
        found.pair(operand, out, ((axis, axis) for axis in range(_rank(out)) if axis != along))
        if isinstance(operand, Var):
            found.alike.append(((operand, along), (out, along)))
    return found


def _spatial(node: BoundCall) -> Relations:
    found = _same_axes(node)
    found.facts = [((node.outputs[0][1], axis), role) for axis, role in _roles(str(node.call.attrs.layout))]
    return found


def _conv(node: BoundCall) -> Relations:
    data, out, attrs = node.operands[0], node.outputs[0][1], node.call.attrs
    found = Relations()
    if isinstance(data, Var):
        found.facts += [((data, axis), role) for axis, role in _roles(str(attrs.data_layout))]
    layout = str(attrs.out_layout or attrs.data_layout)
    found.facts += [((out, axis), role) for axis, role in _roles(layout)]
    return found


def _roles(layout: str) -> list[tuple[int, Role]]:
    known = sorted(layout) in (sorted("NCHW"), sorted("NCW"))
    return [(axis, _LETTERS[letter]) for axis, letter in enumerate(layout)] if known else []


def _reshaped(node: BoundCall) -> Relations:
    data, out = node.operands[0], node.outputs[0][1]
    found = Relations()
    if not isinstance(data, Var):
        return found
    for before, after in blocks(static_shape(data) or (), static_shape(out) or ()):
        old, new = [(data, axis) for axis in before], [(out, axis) for axis in after]
        if len(old) == len(new) == 1:
            found.pairs.append((old[0], new[0]))
        elif len(new) == 1:
            found.merges.append((new[0], tuple(old)))
        elif len(old) == 1:
            found.merges.append((old[0], tuple(new)))
    return found


def _permuted(node: BoundCall) -> Relations:
    data, out = node.operands[0], node.outputs[0][1]
    if not isinstance(data, Var):
        return Relations()
    return Relations(alike=[((data, axis), (out, index)) for index, axis in enumerate(axes_of(node.call))])


def _multiplied(node: BoundCall) -> Relations:
    (data, weight), out = node.operands, node.outputs[0][1]
    last = _rank(out) - 1
    if not isinstance(data, Var) or _rank(data) != _rank(out) or _rank(weight) != 2:
        return Relations()
    found = Relations(alike=[((data, last), (out, last))])
    return found.pair(data, out, ((axis, axis) for axis in range(last)))


_ELEMENTWISE = (
    "abs acos acosh add asin asinh astype atan atanh bitwise_and bitwise_not bitwise_or bitwise_xor ceil clip cos "
    "cosh divide equal erf exp floor floor_divide floor_mod greater greater_equal isfinite isinf isnan left_shift "
    "less less_equal log logical_and logical_not logical_or logical_xor maximum minimum mod multiply negative "
    "nn.gelu nn.gelu_tanh nn.leakyrelu nn.relu nn.selu nn.silu nn.softplus not_equal power right_shift "
    "round rsqrt sigmoid sign sin sinh sqrt square subtract tan tanh trunc where"
)
_ALONG = "dequantize nn.batch_norm nn.log_softmax nn.prelu nn.softmax quantize"
_NORMS = "nn.group_norm nn.instance_norm"
_REDUCTIONS = "argmax argmin max mean min prod std sum variance"
_SPATIAL = "image.resize2d nn.adaptive_avg_pool2d nn.avg_pool2d nn.max_pool2d"

OPERATORS: dict[str, LayoutRules] = {
    **dict.fromkeys(_ELEMENTWISE.split(), LayoutRules(_right_aligned, moves.move_broadcast)),
    **dict.fromkeys(_ALONG.split(), LayoutRules(_same_axes, moves.move_along)),
    **dict.fromkeys(_NORMS.split(), LayoutRules(_same_axes, moves.move_norm)),
    **dict.fromkeys(_REDUCTIONS.split(), LayoutRules(_reduced, moves.move_reduce)),
    **dict.fromkeys(_SPATIAL.split(), LayoutRules(_spatial, moves.move_spatial)),
    **dict.fromkeys(
        (name.removeprefix("relax.") for name in SHAPE_ONLY), LayoutRules(_reshaped, moves.move_reshape)
    ),
    "concat": LayoutRules(_concatenated, moves.move_concat),
    "matmul": LayoutRules(_multiplied, moves.move_matmul),
    "nn.conv1d": LayoutRules(_conv, moves.move_conv, anchor=True),
    "nn.conv2d": LayoutRules(_conv, moves.move_conv, anchor=True),
    "nn.conv2d_transpose": LayoutRules(_conv, moves.move_conv, anchor=True),
    "nn.pad": LayoutRules(_all_same_axes, moves.move_pad),
    "permute_dims": LayoutRules(_permuted, moves.move_permute),
    "split": LayoutRules(_all_same_axes, moves.move_split),
    "strided_slice": LayoutRules(_all_same_axes, moves.move_slice),
}
"""Operators by name without "relax."; all others keep the model's layout."""
