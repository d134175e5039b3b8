# SPDX-License-Identifier: Apache-2.0
"""Layout changes, at compile time, of constants and of integer constants under `dequantize`.

    reshape(dequantize(c, axis=0), [1, C, 1, 1])  in NHWC    →    dequantize(c', axis=3)  with c' of shape [1, 1, 1, C]

Integer constants remain integer constants: the operand of `dequantize` is reordered, and the attribute axis (and the
scales, if elements along this axis are reordered) adjusted.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tvm.ir import Attrs, Call, Expr, GenericConst, Op, Var

from relay_passes.ir.calls import SHAPE_ONLY, array_of, name_of, tensor_const, with_attrs
from relay_passes.ir.shapes import axes_of, static_shape
from relay_passes.ir.sources import Names, sources_of, union
from relay_passes.layout.form import Form

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Static:
    """A tensor that is known at compile time.

    Attributes:
        data: The constant: the value itself, or the integer operand of `dequantize`.
        scale: Scales of the `dequantize`: one, or one per index of `axis`. None for a constant without `dequantize`.
        zero_point: Zero points: one, or one per index of `axis`. None for a constant without `dequantize`.
        axis: Axis of `data` that the scales and zero points belong to, if there are several.
        attrs: Attributes of the `dequantize`.
        nodes: Source names of the calls that computed the tensor.
    """

    data: Array
    scale: Array | None = None
    zero_point: Array | None = None
    axis: int = 0
    attrs: Attrs | None = None
    nodes: Names = ()

    @property
    def is_per_axis(self) -> bool:
        """Whether there is more than one scale or zero point."""
        return any(value is not None and value.size > 1 for value in (self.scale, self.zero_point))

    def moved(self, form: Form) -> "Static":
        """Return a copy in the layout `form`, whose shape may have additional leading axes of size 1."""
        new = replace(self, data=form.array(self.data), axis=0)
        if not self.is_per_axis:
            return new
        axis = self.axis + len(form.shape) - self.data.ndim
        scale, zero_point = (_reordered(value, form, axis) for value in (self.scale, self.zero_point))
        return replace(new, scale=scale, zero_point=zero_point, axis=form.position(axis))

    def expr(self) -> Expr:
        """Return the constant, or the `dequantize` of the constant."""
        if self.scale is None:
            return tensor_const(self.data)
        parts = [tensor_const(np.asarray(value)) for value in (self.data, self.scale, self.zero_point)]
        return with_attrs(Call(Op.get("relax.dequantize"), parts, self.attrs), axis=self.axis)


def static_of(value: Expr, statics: Mapping[Var, Static]) -> Static | None:
    """Return the compile-time value of an operand; None if it is computed at run time."""
    if isinstance(value, GenericConst):
        return Static(array_of(value))
    return statics.get(value) if isinstance(value, Var) else None


def static_call(call: Call, statics: Mapping[Var, Static]) -> Static | None:
    """Return the compile-time result of a `dequantize` of constants, or of a reshape of one; None for others."""
    name, nodes = name_of(call), sources_of(call)
    if name == "relax.dequantize" and all(isinstance(arg, GenericConst) for arg in call.args):
        data, scale, zero_point = (arg.value.numpy() for arg in call.args)
        axis = int(call.attrs.axis) % max(data.ndim, 1)
        return Static(data, scale, zero_point, axis, call.attrs, nodes)
    source = statics.get(call.args[0]) if call.args and isinstance(call.args[0], Var) else None
    shape = static_shape(call)
    if source is None or shape is None:
        return None
    nodes = union((source.nodes, nodes))
    if name == "relax.permute_dims":
        form = Form.ordered(source.data.shape, axes_of(call))
        return replace(source.moved(form), nodes=nodes)
    if name in SHAPE_ONLY:
        return _reshaped(source, shape, nodes)
    return None


def _reshaped(source: Static, shape: tuple[int, ...], nodes: Names) -> Static | None:
    """Return a reshaped constant; None if the reshape merges or splits the axis of its scales."""
    new = replace(source, data=source.data.reshape(shape), nodes=nodes)
    if not source.is_per_axis:
        return replace(new, axis=0)
    before, size = math.prod(source.data.shape[: source.axis]), source.data.shape[source.axis]
    for axis, length in enumerate(shape):
        if length == size and math.prod(shape[:axis]) == before:
            return replace(new, axis=axis)
    return None


def _reordered(parameter: Array | None, form: Form, axis: int) -> Array | None:
    flat = form.flats[axis]
    if parameter is None or flat is None or parameter.size == 1:
        return parameter
    return np.ascontiguousarray(parameter.reshape(flat.sizes).transpose(flat.order)).reshape(-1)
