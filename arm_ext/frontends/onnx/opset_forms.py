# SPDX-License-Identifier: Apache-2.0
"""Helpers that emit common operators in the form that the model's opset requires."""

from collections.abc import Iterable, Sequence

import numpy as np
from onnx import defs

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.expansion import Expansion

# From these opsets on, an operator has its starts, axes or sizes as inputs; before, as attributes.
_SLICE_BY_INPUTS = 10
_AXES_BY_INPUTS = 13
_REDUCE_BY_INPUTS = 18


def ints(e: Expansion, *values: int) -> str:
    """Add a constant int64 vector of these values; return its name."""
    return e.constant(np.array(values, np.int64))


def like(e: Expansion, value: float, other: str) -> str:
    """Add a constant scalar in another value's dtype; return its name."""
    return e.constant(np.array(value, e.dtype(other)))


def up_to(e: Expansion, value: str, most: int) -> str:
    """Return integers from 0 to `most`; at run time, other values are reported as indices out of bounds.

    Raises:
        ModelError: The value is constant and out of range.
    """
    known = e.value(value)
    if known is not None:
        wrong = known[(known < 0) | (known > most)]
        if wrong.size:
            raise ModelError(
                f"its input '{value}' has {wrong[0]}, which is out of bounds: it is from 0 to {most}"
            )
        return value
    dtype = e.dtype(value)
    outside = e.constant(np.array(most + 1, dtype))
    index = e.emit("Where", [e.emit("Less", [value, like(e, 0, value)]), outside, value])
    return e.emit("Gather", [e.constant(np.arange(most + 1, dtype=dtype)), index], axis=0)


def reshape(e: Expansion, value: str, *dims: int, output: str = "") -> str:
    """Add a Reshape."""
    return e.emit("Reshape", [value, ints(e, *dims)], output)


def at(e: Expansion, value: str, index: int, axis: int = 0) -> str:
    """Add a selection of one element along an axis, which is removed."""
    return e.emit("Gather", [value, e.constant(np.array(index, np.int64))], axis=axis)


def part(e: Expansion, value: str, start: int, end: int, axis: int = -1, output: str = "") -> str:
    """Add a slice along an axis, from `start` to before `end`."""
    if e.opset() < _SLICE_BY_INPUTS:
        axis = axis if axis >= 0 else axis + e.rank(value)
        return e.emit("Slice", [value], output, axes=[axis], starts=[start], ends=[end])
    return e.emit("Slice", [value, *(ints(e, number) for number in (start, end, axis))], output)


def stack(e: Expansion, values: Iterable[str], axis: int = 0, output: str = "") -> str:
    """Add a concatenation of values along a new axis."""
    if e.opset() < _AXES_BY_INPUTS:
        rows = [e.emit("Unsqueeze", [value], axes=[axis]) for value in values]
    else:
        rows = [e.emit("Unsqueeze", [value, ints(e, axis)]) for value in values]
    return e.emit("Concat", rows, output, axis=axis)


def reduce(
    e: Expansion, kind: str, value: str, axes: Sequence[int], *, keepdims: bool = True, output: str = ""
) -> str:
    """Add one of the Reduce… operators."""
    by_inputs = _AXES_BY_INPUTS if kind == "ReduceSum" else _REDUCE_BY_INPUTS
    if e.opset() < by_inputs:
        return e.emit(kind, [value], output, axes=list(axes), keepdims=int(keepdims))
    return e.emit(kind, [value, ints(e, *axes)], output, keepdims=int(keepdims))


def add(e: Expansion, *values: str) -> str:
    """Add the sum of the non-empty names; an empty name stands for an absent operand."""
    total, *others = [value for value in values if value]
    for value in others:
        total = e.emit("Add", [total, value])
    return total


def standard(e: Expansion) -> None:
    """Replace a node by the operator of the same name in the standard domain.

    Raises:
        ModelError: The model's opset has no such operator.
    """
    name = e.node.op_type
    if not defs.has(name, e.opset()):
        newest = defs.get_schema(name).since_version
        raise ModelError(
            f"the standard operator of this name exists from opset {newest} on, and the model's opset is "
            f"{e.opset()}"
        )
    e.emit(name, e.node.input, e.node.output[0], e.attributes())
