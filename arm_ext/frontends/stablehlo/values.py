# SPDX-License-Identifier: Apache-2.0
"""Values of a StableHLO program during translation, with lazy broadcasting.

StableHLO broadcasts by an operator of its own, to tensors of full size; a reduction never keeps the axis that it sums
over. Relax's kernels and rules know `x + scalar`, `x + row` and `keepdims`. So a value is held unbroadcast until an
operator needs its full shape.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax, te
from tvm.ir import Constant, Expr, Var

Array = npt.NDArray[Any]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Held:
    """A value that is broadcast, by numpy's rules, from a smaller expression.

    Attributes:
        expr: The variable or constant that the value is broadcast from, by numpy's rules.
        shape: Shape of the value.
        kept: The axes of `expr` that the value has, if `expr` has further axes of length 1. Then nothing is
            broadcast.
    """

    expr: Expr
    shape: Shape
    kept: tuple[int, ...] | None = None

    @property
    def dtype(self) -> str:
        """Dtype of the elements."""
        return str(self.expr.ty.dtype)

    @property
    def small(self) -> Shape:
        """Shape of `expr`."""
        return tuple(int(size) for size in self.expr.ty.shape)

    def constant(self) -> Array | None:
        """Return the array of a constant, of shape `small`; None for a run-time value."""
        if not isinstance(self.expr, Constant):
            return None
        return np.asarray(self.expr.value.numpy())

    def scalar(self) -> float | int | bool | None:
        """Return the number that all elements equal, if it is known; else None."""
        value = self.constant()
        return value.reshape(-1)[0].item() if value is not None and value.size == 1 else None


@dataclass(frozen=True)
class Complex:
    """A complex value as real and imaginary part."""

    real: Held
    imag: Held

    @property
    def shape(self) -> Shape:
        """Shape of the value."""
        return self.real.shape


class Values:
    """Emits Relax calls, and broadcasts, reshapes and transposes values.

    Attributes:
        builder: Builder of the function, in a dataflow block.
        names: Variable → the source node that is being converted.
        node: Name of the source node that is being converted.
    """

    def __init__(self) -> None:
        self.builder = relax.BlockBuilder()
        self.names: dict[Var, str] = {}
        self.node = ""

    def emit(self, expr: Expr) -> Expr:
        """Bind a call to a variable; return a constant or variable unchanged."""
        expr = self.builder.normalize(expr)
        if isinstance(expr, Constant | Var):
            return expr
        variable = self.builder.emit(expr)
        self.names[variable] = self.node
        return variable

    def emit_kernel(self, name: str, compute: Callable[..., te.Tensor], *args: Expr) -> Expr:
        """Bind a call of a TE kernel, for operators that Relax lacks."""
        variable = self.builder.emit_te(compute, *args, primfunc_name_hint=name)
        self.names[variable] = self.node
        return variable

    def hold(self, expr: Expr, shape: Sequence[int] | None = None) -> Held:
        """Bind a call, whose result is the value or is broadcast to `shape`."""
        value = self.emit(expr)
        return Held(value, tuple(shape) if shape is not None else tuple(int(n) for n in value.ty.shape))

    def keep(self, value: Array, shape: Sequence[int] | None = None) -> Held:
        """Return a constant as a value; as a scalar if all elements are equal."""
        value = np.asarray(value)
        whole = tuple(shape) if shape is not None else value.shape
        if value.size > 1 and not any(value.strides):  # a splat, which takes no memory
            value = value[(0,) * value.ndim]
        first, last = (value.reshape(-1)[k].tobytes() if value.size else b"" for k in (0, -1))
        if value.size > 1 and first == last and value.tobytes() == first * value.size:
            value = value.reshape(-1)[0]
        value = np.asarray(value)
        if value.size == 1:
            value = value.reshape(())
        return Held(relax.const(np.array(value, order="C"), str(value.dtype)), whole)

    def bound(self, held: Held) -> Expr:
        """Return the call that a value is bound to, or the expression itself."""
        is_variable = isinstance(held.expr, Var) and held.expr in self.names
        return self.builder.lookup_binding(held.expr) if is_variable else held.expr

    def aligned(self, held: Held) -> Expr:
        """Return the expression that broadcasts to the value by numpy's rules."""
        if held.kept is None:
            return held.expr
        return self.reshaped(held.expr, held.shape)

    def full(self, held: Held) -> Expr:
        """Return the value, broadcast to its shape."""
        expr = self.aligned(held)
        if tuple(int(n) for n in expr.ty.shape) == held.shape:
            return expr
        if math.prod(int(n) for n in expr.ty.shape) == math.prod(held.shape):
            return self.reshaped(expr, held.shape)
        return self.emit(relax.op.broadcast_to(expr, held.shape))

    def reshaped(self, expr: Expr, shape: Sequence[int]) -> Expr:
        """Reshape, unless the shape is the same."""
        if tuple(int(n) for n in expr.ty.shape) == tuple(shape):
            return expr
        if isinstance(expr, Constant):
            return relax.const(expr.value.numpy().reshape(shape), str(expr.ty.dtype))
        return self.emit(relax.op.reshape(expr, list(shape)))

    def permuted(self, expr: Expr, axes: Sequence[int]) -> Expr:
        """Permute axes, unless they are in order."""
        if list(axes) == sorted(axes):
            return expr
        return self.emit(relax.op.permute_dims(expr, list(axes)))

    def number(self, value: float, like: Expr | Held) -> Expr:
        """Return a constant scalar of another value's dtype."""
        return relax.const(value, like.dtype if isinstance(like, Held) else str(like.ty.dtype))

    def together(self, operands: Sequence[Held]) -> tuple[list[Expr], tuple[int, ...] | None]:
        """Return an elementwise operator's operands, not yet broadcast, and the axes that all of them keep, or None."""
        kept = {(held.kept, len(held.small)) for held in operands if held.small}
        if len(kept) == 1 and (only := kept.pop()[0]) is not None:
            return [held.expr for held in operands], only
        return [self.aligned(held) for held in operands], None

    def broadcast(self, held: Held, axes: Sequence[int], shape: Shape) -> Held:
        """Broadcast along new axes, and axes of length 1.

        Args:
            held: The value to broadcast.
            axes: Axis of the result that each axis of the value becomes.
            shape: Shape of the result.
        """
        if not held.small:
            return Held(held.expr, shape)
        if held.kept == tuple(axes) and len(held.small) == len(shape):
            return Held(held.expr, shape)
        expr = self.aligned(held)
        small = [1] * (len(held.shape) - len(expr.ty.shape)) + [int(n) for n in expr.ty.shape]
        order = sorted(range(len(axes)), key=lambda axis: axes[axis])
        expr = self.permuted(self.reshaped(expr, small), order) if order != sorted(order) else expr
        whole = [1] * len(shape)
        for axis, to in enumerate(axes):
            whole[to] = small[axis]
        # A row is a vector: what biases and scales are in all other formats.
        first = next((axis for axis, size in enumerate(whole) if size != 1), len(whole))
        return Held(self.reshaped(expr, whole[first:]), shape)

    def as_shape(self, held: Held, shape: Shape) -> Held:
        """Return the value reshaped."""
        if not held.small:
            return Held(held.expr, shape)
        if held.small == shape and held.kept is not None:
            return Held(held.expr, shape)
        return Held(self.reshaped(self.full(held), shape), shape)
