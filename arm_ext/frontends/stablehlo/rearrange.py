# SPDX-License-Identifier: Apache-2.0
"""StableHLO operators that move or create elements."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax, te, tirx
from tvm.ir import Expr

from arm_ext.common.errors import ModelError
from arm_ext.frontends.graph import Graph, Shape, Value
from arm_ext.frontends.ops.move import concatenate
from arm_ext.frontends.stablehlo.attributes import ints, tensor_of
from arm_ext.frontends.stablehlo.translator import Convert, Translator

R = relax.op


def result_shape(op: Any) -> Shape:
    """Return the shape of an operator's first result."""
    tensor = tensor_of(op.results[0].type)
    assert tensor is not None  # operators with other types have been refused earlier
    return tensor.shape


def _broadcast_in_dim(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    return [operands[0].broadcast(ints(op, "broadcast_dimensions"), result_shape(op))]


def _broadcast(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    shape = result_shape(op)
    first = len(shape) - len(operands[0].shape)
    return [operands[0].broadcast(range(first, len(shape)), shape)]


def _reshape(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    return [operands[0].reshape(result_shape(op))]


def _transpose(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    (x,), shape = operands, result_shape(op)
    if not x.small:
        return [Value(t, x.expr, shape)]
    expr = x.aligned
    whole = [1] * (len(shape) - len(expr.ty.shape)) + [int(n) for n in expr.ty.shape]
    return [Value(t, t.permuted(t.reshaped(expr, whole), ints(op, "permutation")), shape)]


def _concatenate(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    shape = result_shape(op)
    if len(operands) == 1:
        return operands
    if all(x.scalar() is not None for x in operands) and len({x.scalar() for x in operands}) == 1:
        return [Value(t, operands[0].expr, shape)]
    return [concatenate(operands, ints(op, "dimension")[0])]


def sliced(
    t: Graph,
    x: Expr,
    start: Sequence[int],
    limit: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Expr:
    """Return the slice from `start` to `limit`; no slice is emitted for axes that stay complete."""
    sizes = [int(n) for n in x.ty.shape]
    steps = strides or [1] * len(sizes)
    cut = [a for a, n in enumerate(sizes) if (start[a], limit[a], steps[a]) != (0, n, 1)]
    if not cut:
        return x
    pick = [[values[a] for a in cut] for values in (start, limit, steps)]
    return t.emit(R.strided_slice(x, cut, *pick))


def _slice(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    (x,), shape = operands, result_shape(op)
    if not x.small:
        return [Value(t, x.expr, shape)]
    start, limit, strides = (ints(op, name) for name in ("start_indices", "limit_indices", "strides"))
    return [Value(t, sliced(t, x.full, start, limit, strides), shape)]


def _reverse(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    (x,) = operands
    if not x.small:
        return operands
    return [Value(t, flipped(t, x.full, ints(op, "dimensions")), x.shape)]


def flipped(t: Translator, x: Expr, axes: Sequence[int]) -> Expr:
    """Return a tensor with some axes reversed."""
    for axis in axes:
        if int(x.ty.shape[axis]) > 1:
            x = t.emit(R.flip(x, axis))
    return x


def _iota(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    tensor = tensor_of(op.results[0].type)
    assert tensor is not None  # operators with other types have been refused earlier
    (axis,) = ints(op, "iota_dimension")
    counted = np.arange(tensor.shape[axis]).astype(tensor.dtype)
    row = t.keep(counted)
    return [row.broadcast([axis], tensor.shape)]


def _pad(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    x, value = operands
    shape, number = result_shape(op), value.scalar()
    low, high, inner = (
        ints(op, name) for name in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    y = padded(t, x.full, 0 if number is None else number, low, high, inner)
    if number is None:
        ones = relax.const(np.ones(x.shape, "bool"), "bool")
        y = t.emit(R.where(padded(t, ones, False, low, high, inner), y, value.expr))
    return [Value(t, y, shape)]


def padded(
    t: Translator,
    x: Expr,
    number: float,
    low: Sequence[int],
    high: Sequence[int],
    inner: Sequence[int] | None = None,
) -> Expr:
    """Insert a number before, after and between the elements of each axis; negative widths crop."""
    for axis, gap in enumerate(inner or ()):
        if gap:
            x = _spread(t, x, number, axis, gap)
    sizes = [int(n) for n in x.ty.shape]
    cut = [max(0, -n) for n in low], [n + min(0, more) for n, more in zip(sizes, high, strict=True)]
    x = sliced(t, x, *cut)
    widths = [max(0, n) for pair in zip(low, high, strict=True) for n in pair]
    return _surrounded(t, x, widths, number) if any(widths) else x


def _spread(t: Translator, x: Expr, number: float, axis: int, gap: int) -> Expr:
    shape = [int(n) for n in x.ty.shape]
    x = t.reshaped(x, [*shape[: axis + 1], 1, *shape[axis + 1 :]])
    widths = [0] * (2 * len(shape) + 2)
    widths[2 * axis + 3] = gap
    x = _surrounded(t, x, widths, number)
    long = [*shape[:axis], shape[axis] * (gap + 1), *shape[axis + 1 :]]
    ends = [*long[:axis], max(0, long[axis] - gap), *long[axis + 1 :]]
    return sliced(t, t.reshaped(x, long), [0] * len(long), ends)


def _surrounded(t: Translator, x: Expr, widths: list[int], number: float) -> Expr:
    dtype = str(x.ty.dtype)
    if dtype == "bool":  # TVM's pad would convert Booleans to integers
        return t.emit(
            R.astype(t.emit(R.nn.pad(t.emit(R.astype(x, "int8")), widths, "constant", number)), dtype)
        )
    return t.emit(R.nn.pad(x, widths, "constant", number))


def _bitcast(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    tensor, (x,) = tensor_of(op.results[0].type), operands
    assert tensor is not None  # operators with other types have been refused earlier
    constant = x.constant()
    if tensor.dtype == x.dtype:
        return operands
    if constant is not None:
        whole = np.broadcast_to(constant, x.shape).tobytes()
        # Sizes in bytes may differ: here a Boolean is one byte, and a quantised value is the float that it
        # represents.
        if len(whole) != math.prod(tensor.shape) * np.dtype(tensor.dtype).itemsize:
            raise ModelError(
                f"it reinterprets the bits of {op.operands[0].type} as {op.results[0].type}, which has another "
                "number of bits"
            )
        return [t.keep(np.frombuffer(whole, tensor.dtype).reshape(tensor.shape))]
    if np.dtype(tensor.dtype).itemsize != np.dtype(x.dtype).itemsize:
        raise ModelError(
            f"it reinterprets the bits of {x.dtype} as {tensor.dtype}, which has another number of bits"
        )

    def bits(data: te.Tensor) -> te.Tensor:
        return te.compute(data.shape, lambda *at: tirx.reinterpret(tensor.dtype, data(*at)), "bits")

    return [Value(t, t.emit_kernel("bits", bits, x.expr), x.shape, x.kept)]


def _set_dimension_size(t: Translator, op: Any, operands: list[Value]) -> list[Value]:
    x, size = operands
    (axis,) = ints(op, "dimension")
    if size.scalar() != x.shape[axis]:
        raise ModelError(
            f"it changes the size of axis {axis}, which is {x.shape[axis]}, at run time, which is not supported"
        )
    return [x]


# Operator → its converter.
CONVERTERS: dict[str, Convert] = {
    "stablehlo.bitcast_convert": _bitcast,
    "stablehlo.broadcast": _broadcast,
    "stablehlo.broadcast_in_dim": _broadcast_in_dim,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.iota": _iota,
    "stablehlo.pad": _pad,
    "stablehlo.reshape": _reshape,
    "stablehlo.reverse": _reverse,
    "stablehlo.set_dimension_size": _set_dimension_size,
    "stablehlo.slice": _slice,
    "stablehlo.transpose": _transpose,
}
