# SPDX-License-Identifier: Apache-2.0
"""Channels-last versions of operators: renumbered axes and the required operand layouts, or why there is none."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tvm import relax
from tvm.ir import Expr, Var

from relay_passes.ir.calls import BoundCall
from relay_passes.ir.shapes import axes_of, static_shape
from relay_passes.layout.form import Flat, Form

Forms = Mapping[Var, Form]
"""The channels-last form of each value that is computed at run time."""


@dataclass(frozen=True)
class Moved:
    """A call in channels-last form.

    Attributes:
        needs: The form (layout) that each operand must have; None for the model's layout.
        gives: The form of each output.
        build: Returns the new value, from the operands in the forms `needs`.
        copies: Whether the call only moves elements.
    """

    needs: tuple[Form | None, ...]
    gives: tuple[Form, ...]
    build: Callable[[Sequence[Expr]], Expr]
    copies: bool = False


Move = Callable[[BoundCall, Forms], Moved | str]


def form_of(value: Expr, forms: Forms) -> Form:
    """Return the form of a run-time value; constants are in the model's layout."""
    form = forms.get(value) if isinstance(value, Var) else None
    shape = static_shape(value) or ()
    return form or Form.ordered(shape, range(len(shape)))


def _output(node: BoundCall) -> Var:
    return node.outputs[0][1]


def move_broadcast(node: BoundCall, forms: Forms) -> Moved | str:
    """Convert an elementwise call with broadcasting: all operands need the form of the result."""
    out = forms[_output(node)]
    needs = []
    for operand in node.operands:
        need = _aligned(static_shape(operand) or (), out, constant=operand not in forms)
        if need is None:
            return (
                f"an operand of shape {list(static_shape(operand) or ())} is no longer aligned at the right"
            )
        needs.append(need)
    return Moved(tuple(needs), (out,), node.put)


def _aligned(shape: tuple[int, ...], out: Form, *, constant: bool) -> Form | None:
    missing = len(out.shape) - len(shape)
    if missing and shape.count(1) == len(shape):
        return Form.ordered(shape, range(len(shape)))
    if constant:
        shape, missing = (1,) * missing + shape, 0
    order = tuple(axis - missing for axis in out.order[missing:])
    if min(order, default=0) < 0:
        return None
    same_size = zip(shape, out.shape[missing:], out.flats[missing:], strict=True)
    return Form(shape, order, tuple(flat if a == b else None for a, b, flat in same_size))


def move_along(node: BoundCall, forms: Forms) -> Moved | str:
    """Convert a call with an axis attribute, one data tensor, and parameters along this axis."""
    form = forms[_output(node)]
    axis = int(node.call.attrs.axis) % len(form.shape)

    def parameter(value: Expr) -> Form:
        shape = static_shape(value) or ()
        flats = [form.flats[axis] if size == form.shape[axis] else None for size in shape]
        return Form(shape, tuple(range(len(shape))), tuple(flats))

    needs = (form, *map(parameter, node.operands[1:]))
    gives = tuple(form if index in (None, 0) else parameter(var) for index, var in node.outputs)
    return Moved(needs, gives, lambda args: node.put(args, axis=form.position(axis)))


def move_norm(node: BoundCall, forms: Forms) -> Moved | str:
    """Convert a group or instance norm: its channel axis and reduced axes are renumbered."""
    form, attrs = forms[_output(node)], node.call.attrs
    axes = sorted(form.position(int(axis)) for axis in attrs.axes)
    channels = int(attrs.channel_axis) % len(form.shape)
    needs = (form, *(None for _ in node.operands[1:]))
    return _flattened(form, [channels]) or Moved(
        needs, (form,), lambda args: node.put(args, axes=axes, channel_axis=form.position(channels))
    )


def move_reduce(node: BoundCall, forms: Forms) -> Moved | str:
    """Convert a sum, mean, maximum, minimum, argmax or argmin over axes."""
    form, attrs = form_of(node.operands[0], forms), node.call.attrs
    rank = len(form.shape)
    old = attrs.axis
    single = isinstance(old, int)
    axes = range(rank) if old is None else [int(axis) % rank for axis in ([old] if single else old)]
    if node.name in PLACES and (old is None or any(form.flats[axis] for axis in axes)):
        return "it gives places among flattened elements"
    positions = sorted(map(form.position, axes))
    if attrs.keepdims:
        flats = tuple(None if axis in axes else flat for axis, flat in enumerate(form.flats))
        gives = Form(static_shape(_output(node)) or (), form.order, flats)
    else:
        kept = [axis for axis in range(rank) if axis not in axes]
        order = tuple(kept.index(axis) for axis in form.order if axis in kept)
        gives = Form(tuple(form.shape[a] for a in kept), order, tuple(form.flats[a] for a in kept))
    axis = None if old is None else positions[0] if single else positions
    return Moved((form,), (gives,), lambda args: node.put(args, axis=axis))


PLACES = ("relax.argmax", "relax.argmin")


def _resized(form: Form, shape: tuple[int, ...], axes: Sequence[int]) -> Form:
    """Return a copy of `form` for a value with other sizes along `axes`."""
    flats = (None if axis in axes else flat for axis, flat in enumerate(form.flats))
    return replace(form, shape=shape, flats=tuple(flats))


def _flattened(form: Form, axes: Sequence[int]) -> str | None:
    axis = next((axis for axis in axes if form.flats[axis]), None)
    return None if axis is None else f"axis {axis} is flattened from several"


def move_concat(node: BoundCall, forms: Forms) -> Moved | str:
    """Convert a concatenation along an axis."""
    if node.call.attrs.axis is None:
        return "it flattens its operands"
    out = forms[_output(node)]
    axis = int(node.call.attrs.axis) % len(out.shape)
    needs = tuple(_resized(out, static_shape(operand) or (), [axis]) for operand in node.operands)
    return _flattened(out, [axis]) or Moved(needs, (out,), lambda a: node.put(a, axis=out.position(axis)))


def move_split(node: BoundCall, forms: Forms) -> Moved | str:
    """Convert a split along an axis into a tuple."""
    form = form_of(node.operands[0], forms)
    axis = int(node.call.attrs.axis) % len(form.shape)
    gives = tuple(_resized(form, static_shape(var) or (), [axis]) for _, var in node.outputs)
    return _flattened(form, [axis]) or Moved(
        (form,), gives, lambda args: node.put(args, axis=form.position(axis))
    )


def move_slice(node: BoundCall, forms: Forms) -> Moved | str:
    """Convert a `strided_slice` with constant bounds."""
    form = form_of(node.operands[0], forms)
    axes, *bounds = ([int(number) for number in arg.fields] for arg in node.call.args[1:])
    axes = [axis % len(form.shape) for axis in axes]
    gives = _resized(form, static_shape(_output(node)) or (), axes)
    inbound = bool(node.call.attrs.assume_inbound)

    def build(args: Sequence[Expr]) -> Expr:
        return relax.op.strided_slice(
            args[0], [form.position(a) for a in axes], *bounds, assume_inbound=inbound
        )

    return _flattened(form, axes) or Moved((form,), (gives,), build)


def move_pad(node: BoundCall, forms: Forms) -> Moved | str:
    """Convert a pad of any axes."""
    form = form_of(node.operands[0], forms)
    widths = [int(width) for width in node.call.attrs.pad_width]
    padded = [axis for axis in range(len(form.shape)) if any(widths[2 * axis : 2 * axis + 2])]
    gives = _resized(form, static_shape(_output(node)) or (), padded)
    new = [width for axis in form.order for width in widths[2 * axis : 2 * axis + 2]]
    return _flattened(form, padded) or Moved((form,), (gives,), lambda args: node.put(args, pad_width=new))


def move_spatial(node: BoundCall, forms: Forms) -> Moved | str:
    """Convert a pool or resize, by its layout attribute."""
    out, layout = forms[_output(node)], str(node.call.attrs.layout)
    if layout != "NCHW":
        return f"its layout is {layout}"
    changes = {name: "NHWC" for name in ("layout", "out_layout") if hasattr(node.call.attrs, name)}
    shape = static_shape(node.operands[0]) or ()
    form = Form.ordered(shape, [layout.index(axis) for axis in "NHWC"])
    gives = replace(form, shape=out.shape)
    return Moved((form,), (gives,), lambda args: node.put(args, **changes))


def move_conv(node: BoundCall, forms: Forms) -> Moved | str:
    """Convert a (transposed) conv1d or conv2d with constant weights, to data NHWC or NWC and weights OHWI or OWI."""
    data, weight = node.operands
    attrs = node.call.attrs
    layouts = str(attrs.data_layout), str(attrs.kernel_layout), str(attrs.out_layout or attrs.data_layout)
    spatial = "HW" if len(form_of(data, forms).shape) == len("NHWC") else "W"
    wanted = (f"N{spatial}C", f"O{spatial}I", f"N{spatial}C")
    for layout, letters in zip(layouts, wanted, strict=True):
        if sorted(layout) != sorted(letters):
            return f"its layout is {layout}"
    if weight in forms:
        return "its weights are computed at run time"
    shapes = (static_shape(value) or () for value in (data, weight, _output(node)))
    x, w, y = (
        Form.ordered(shape, [layout.index(axis) for axis in letters])
        for shape, layout, letters in zip(shapes, layouts, wanted, strict=True)
    )
    changes = dict(zip(("data_layout", "kernel_layout", "out_layout"), wanted, strict=True))
    return Moved((x, w), (y,), lambda args: node.put(args, **changes))


def move_reshape(node: BoundCall, forms: Forms) -> Moved | str:
    """Convert a reshape, if a reshape of the channels-last value gives the same order of elements."""
    form, out = form_of(node.operands[0], forms), forms[_output(node)]
    if form.strides != out.strides:
        return f"a reshape from {list(form.shape)} to {list(out.shape)} mixes channels with positions"
    return Moved((form,), (out,), lambda args: _reshaped(args[0], out.physical))


def _reshaped(value: Expr, shape: tuple[int, ...]) -> Expr:
    return value if static_shape(value) == shape else relax.op.reshape(value, shape)


def move_permute(node: BoundCall, forms: Forms) -> Moved | str:
    """Convert a `permute_dims` to the permutation between the forms of its operand and its result."""
    form, out = form_of(node.operands[0], forms), forms[_output(node)]
    if any(form.flats) or any(out.flats):
        return "one of its axes is flattened from several"
    axes = axes_of(node.call)
    rest = [form.position(axes[axis]) for axis in out.order]
    moved = Form.ordered(form.physical, rest)

    def build(args: Sequence[Expr]) -> Expr:
        if moved.is_view:
            return _reshaped(args[0], out.physical)
        return relax.op.permute_dims(args[0], rest)

    return Moved((form,), (out,), build, copies=not moved.is_view)


def move_matmul(node: BoundCall, forms: Forms) -> Moved | str:
    """Convert a linear layer, by permuting the rows or columns of its constant weights."""
    data, weight = node.operands
    form, out, shape = form_of(data, forms), forms[_output(node)], static_shape(weight) or ()
    if weight in forms or len(shape) != 2:
        return "its second operand is no constant matrix"
    if len(form.shape) < 2 or form.order[-1] != len(form.shape) - 1:
        return "the axis that it sums over comes last no longer"
    rows, columns = form.flats[-1], out.flats[-1]
    gives = Form(out.shape, form.order, (*form.flats[:-1], columns))
    flats: tuple[Flat | None, Flat | None] = (rows, columns)
    return Moved((form, Form(shape, (0, 1), flats)), (gives,), node.put)
