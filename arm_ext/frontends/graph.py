# SPDX-License-Identifier: Apache-2.0
"""Construction of Relax by front ends: `Graph` binds calls, and a `Value` is an operand or a result.

A format's importer holds one `Graph`, wraps what an operator reads as `Value`, and calls the vocabulary (`ops`), which
computes with values as with numpy arrays:

    size = absolute(x)
    far = log(size) + math.log(2)

Values broadcast lazily. StableHLO broadcasts by an operator of its own, to tensors of full size, and a reduction never
keeps the axis that it sums over; Relax's kernels and rules know `x + scalar`, `x + row` and `keepdims`. So a value is
held unbroadcast until an operator needs its full shape.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import relax, te, tirx
from tvm.ir import Call, Constant, Expr, Op, Var

from relay_passes.canonicalize.define_casts import cast
from relay_passes.canonicalize.define_division import quotient, remainder

Array = npt.NDArray[Any]
Shape = tuple[int, ...]
R = relax.op

_FOLDED_ELEMENTS = 64
"""Most elements of a constant that is computed with at once: loops count with such, and shapes are made of them."""


def _divided(x: Array, y: Array) -> Array:
    return np.asarray(x / y) if x.dtype.kind == "f" else quotient(x, y)


def _floored(integers: Callable[..., Array], floats: Callable[..., Array]) -> Callable[[Array, Array], Array]:
    return lambda x, y: floats(x, y) if x.dtype.kind == "f" else integers(x, y, floor=True)


_EXACT: dict[str, Callable[..., Any]] = {
    "relax.abs": np.abs,
    "relax.add": np.add,
    "relax.astype": lambda x: x,
    "relax.bitwise_and": np.bitwise_and,
    "relax.bitwise_not": np.invert,
    "relax.bitwise_or": np.bitwise_or,
    "relax.bitwise_xor": np.bitwise_xor,
    "relax.ceil": np.ceil,
    "relax.divide": _divided,
    "relax.equal": np.equal,
    "relax.floor": np.floor,
    "relax.floor_divide": _floored(quotient, np.floor_divide),
    "relax.floor_mod": _floored(remainder, np.mod),
    "relax.greater": np.greater,
    "relax.greater_equal": np.greater_equal,
    "relax.less": np.less,
    "relax.less_equal": np.less_equal,
    "relax.logical_and": np.logical_and,
    "relax.logical_not": np.logical_not,
    "relax.logical_or": np.logical_or,
    "relax.logical_xor": np.logical_xor,
    "relax.maximum": np.maximum,
    "relax.minimum": np.minimum,
    "relax.mod": lambda x, y: np.fmod(x, y) if x.dtype.kind == "f" else remainder(x, y),
    "relax.multiply": np.multiply,
    "relax.negative": np.negative,
    "relax.not_equal": np.not_equal,
    "relax.sqrt": np.sqrt,
    "relax.subtract": np.subtract,
    "relax.where": np.where,
}
"""Relax operator → its numpy function, of which all machines give the same bits."""


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor of a graph; its expression has the same shape, or a smaller one that broadcasts to it by numpy's rules.

    `+ - * / & | ^ ~ << >>` and the comparisons `< <= > >=` bind Relax calls; a Python number on either side is a
    scalar of the other side's dtype. `ops.arithmetic` has all other elementwise operators.

    Attributes:
        graph: The graph that the value is computed in.
        expr: The variable or constant that the value is broadcast from.
        shape: Shape of the value; a size that is symbolic is one of TVM's expressions.
        kept: The axes of `expr` that the value has, if `expr` has further axes of length 1. Then nothing is
            broadcast.
    """

    graph: "Graph"
    expr: Expr
    shape: Shape
    kept: tuple[int, ...] | None = None

    @property
    def dtype(self) -> str:
        """Dtype of the elements."""
        return str(self.expr.ty.dtype)

    @property
    def small(self) -> Shape:
        """Shape of `expr`, which broadcasts to the value's shape."""
        return sizes_of(self.expr)

    @property
    def aligned(self) -> Expr:
        """The expression that broadcasts to the value by numpy's rules."""
        return self.expr if self.kept is None else self.graph.reshaped(self.expr, self.shape)

    @property
    def full(self) -> Expr:
        """The value as an expression with the value's own shape."""
        expr = self.aligned
        if sizes_of(expr) == self.shape:
            return expr
        if math.prod(sizes_of(expr)) == math.prod(self.shape):
            return self.graph.reshaped(expr, self.shape)
        return self.graph.emit(R.broadcast_to(expr, self.shape))

    @property
    def call(self) -> Expr:
        """The call that the value's variable is bound to, or the expression itself."""
        is_variable = isinstance(self.expr, Var) and self.expr in self.graph.names
        return self.graph.builder.lookup_binding(self.expr) if is_variable else self.expr

    def constant(self) -> Array | None:
        """Return the array of a constant, in the shape `small`; None for a run-time value."""
        if not isinstance(self.expr, Constant):
            return None
        return np.asarray(self.expr.value.numpy())

    def scalar(self) -> float | int | bool | None:
        """Return the number that all elements equal; None if it is not known."""
        value = self.constant()
        return value.reshape(-1)[0].item() if value is not None and value.size == 1 else None

    def number(self, value: float) -> "Value":
        """Return a number as a scalar of this value's dtype."""
        return Value(self.graph, self.graph.number(value, self), ())

    def reshape(self, shape: Shape) -> "Value":
        """Return the value with another shape of as many elements."""
        if not self.small or (self.small == shape and self.kept is not None):
            return Value(self.graph, self.expr, shape)
        return Value(self.graph, self.graph.reshaped(self.full, shape), shape)

    def permute(self, axes: Sequence[int]) -> "Value":
        """Return the value with its axes in another order."""
        return self.graph.hold(self.graph.permuted(self.full, axes))

    def broadcast(self, axes: Sequence[int], shape: Shape) -> "Value":
        """Return the value broadcast to `shape`, with its axes moved to `axes`.

        Args:
            axes: Axis of the result that each axis of the value becomes.
            shape: Shape of the result.
        """
        if not self.small or (self.kept == tuple(axes) and len(self.small) == len(shape)):
            return Value(self.graph, self.expr, shape)
        expr, graph = self.aligned, self.graph
        small = [1] * (len(self.shape) - len(expr.ty.shape)) + list(sizes_of(expr))
        order = sorted(range(len(axes)), key=lambda axis: axes[axis])
        expr = graph.permuted(graph.reshaped(expr, small), order) if order != sorted(order) else expr
        whole = [1] * len(shape)
        for axis, to in enumerate(axes):
            whole[to] = small[axis]
        # Leading axes of length 1 are dropped, because biases and scales are vectors in all other formats.
        first = next((axis for axis, size in enumerate(whole) if size != 1), len(whole))
        return Value(graph, graph.reshaped(expr, whole[first:]), shape)

    def __add__(self, other: "Operand") -> "Value":
        return self.graph.apply(R.add, self, other)

    def __radd__(self, other: float) -> "Value":
        return self.graph.apply(R.add, other, self)

    def __sub__(self, other: "Operand") -> "Value":
        return self.graph.apply(R.subtract, self, other)

    def __rsub__(self, other: float) -> "Value":
        return self.graph.apply(R.subtract, other, self)

    def __mul__(self, other: "Operand") -> "Value":
        return self.graph.apply(R.multiply, self, other)

    def __rmul__(self, other: float) -> "Value":
        return self.graph.apply(R.multiply, other, self)

    def __truediv__(self, other: "Operand") -> "Value":
        return self.graph.apply(R.divide, self, other)

    def __rtruediv__(self, other: float) -> "Value":
        return self.graph.apply(R.divide, other, self)

    def __neg__(self) -> "Value":
        return self.graph.apply(R.negative, self)

    def __and__(self, other: "Operand") -> "Value":
        return self.graph.apply(R.logical_and if self.dtype == "bool" else R.bitwise_and, self, other)

    def __or__(self, other: "Operand") -> "Value":
        return self.graph.apply(R.logical_or if self.dtype == "bool" else R.bitwise_or, self, other)

    def __xor__(self, other: "Operand") -> "Value":
        return self.graph.apply(R.logical_xor if self.dtype == "bool" else R.bitwise_xor, self, other)

    def __invert__(self) -> "Value":
        return self.graph.apply(R.logical_not if self.dtype == "bool" else R.bitwise_not, self)

    def __lshift__(self, other: "Operand") -> "Value":
        return self.graph.apply(R.left_shift, self, other)

    def __rshift__(self, other: "Operand") -> "Value":
        return self.graph.apply(R.right_shift, self, other)

    def __lt__(self, other: "Operand") -> "Value":
        return self.graph.apply(R.less, self, other)

    def __le__(self, other: "Operand") -> "Value":
        return self.graph.apply(R.less_equal, self, other)

    def __gt__(self, other: "Operand") -> "Value":
        return self.graph.apply(R.greater, self, other)

    def __ge__(self, other: "Operand") -> "Value":
        return self.graph.apply(R.greater_equal, self, other)


Operand = Value | float | int | bool
"""An operand of an elementwise operator: a value, or a number of the other operands' dtype."""


class Graph:
    """Emits Relax calls, and broadcasts, reshapes and transposes values.

    Attributes:
        builder: Builder of the function, in a dataflow block.
        names: Variable → the source node that is being converted.
        node: Name of the source node that is being converted.
    """

    def __init__(self, builder: relax.BlockBuilder | None = None) -> None:
        """Start a graph that emits in a builder.

        Args:
            builder: The builder of a function that another importer has open; by default a new one.
        """
        self.builder = relax.BlockBuilder() if builder is None else builder
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

    def apply(self, function: Callable[..., Expr], *operands: Operand) -> Value:
        """Bind an elementwise Relax operator of values and numbers.

        Args:
            function: Relax operator, such as `relax.op.add`, or a function of expressions that gives a call of it.
            operands: Operands, one value at least; a number has the dtype of the first value.
        """
        like = next(operand for operand in operands if isinstance(operand, Value))
        values = [operand if isinstance(operand, Value) else like.number(operand) for operand in operands]
        exprs, kept = self.together(values)
        result = self.emit(self.folded(function(*exprs)))
        if all(value.kept is None and value.small == value.shape for value in values):
            return Value(self, result, sizes_of(result))
        return Value(self, result, np.broadcast_shapes(*(value.shape for value in values)), kept)

    def folded(self, expr: Expr) -> Expr:
        """Return the constant result of a call on small constants if numpy computes it exactly; else the call."""
        expr = self.builder.normalize(expr)
        compute = _EXACT.get(expr.op.name) if isinstance(expr, Call) and isinstance(expr.op, Op) else None
        operands = [each.value.numpy() for each in expr.args if isinstance(each, Constant)] if compute else []
        if not compute or len(operands) < len(expr.args) or any(x.size > _FOLDED_ELEMENTS for x in operands):
            return expr
        with np.errstate(all="ignore"):
            return relax.const(cast(np.asarray(compute(*operands)), str(expr.ty.dtype)), str(expr.ty.dtype))

    def kernel(self, name: str, compute: Callable[..., te.Tensor], value: Value) -> Value:
        """Bind an elementwise TE kernel of one value, for operators that Relax lacks."""
        return Value(self, self.emit_kernel(name, compute, value.expr), value.shape, value.kept)

    def hold(self, expr: Expr, shape: Sequence[int] | None = None) -> Value:
        """Bind a call, and return its result as a value, broadcast to `shape` if that is given."""
        result = self.emit(expr)
        return Value(self, result, tuple(shape) if shape is not None else sizes_of(result))

    def hold_constant(self, value: Array) -> Value:
        """Return an array as a value of the same shape; `keep` makes a scalar of equal elements."""
        return Value(self, relax.const(np.array(value, order="C"), str(value.dtype)), value.shape)

    def keep(self, value: Array, shape: Sequence[int] | None = None) -> Value:
        """Return a constant as a value; if all elements are equal, the value's expression is a scalar."""
        value = np.asarray(value)
        whole = tuple(shape) if shape is not None else value.shape
        if value.size > 1 and not any(value.strides):  # a splat (all strides 0), which takes no memory
            value = value[(0,) * value.ndim]
        first, last = (value.reshape(-1)[k].tobytes() if value.size else b"" for k in (0, -1))
        if value.size > 1 and first == last and value.tobytes() == first * value.size:
            value = value.reshape(-1)[0]
        value = np.asarray(value)
        if value.size == 1:
            value = value.reshape(())
        return Value(self, relax.const(np.array(value, order="C"), str(value.dtype)), whole)

    def reshaped(self, expr: Expr, shape: Sequence[int]) -> Expr:
        """Reshape, unless the shape is the same."""
        if sizes_of(expr) == tuple(shape):
            return expr
        if isinstance(expr, Constant):
            return relax.const(expr.value.numpy().reshape(shape), str(expr.ty.dtype))
        return self.emit(R.reshape(expr, list(shape)))

    def permuted(self, expr: Expr, axes: Sequence[int]) -> Expr:
        """Permute axes, unless they are in order."""
        if list(axes) == sorted(axes):
            return expr
        return self.emit(R.permute_dims(expr, list(axes)))

    def number(self, value: float, like: Expr | Value) -> Expr:
        """Return a constant scalar of another value's dtype."""
        return relax.const(value, like.dtype if isinstance(like, Value) else str(like.ty.dtype))

    def together(self, operands: Sequence[Value]) -> tuple[list[Expr], tuple[int, ...] | None]:
        """Return an elementwise operator's operands, not broadcast, and the attribute `kept` that they share.

        Else None for it.
        """
        kept = {(value.kept, len(value.small)) for value in operands if value.small}
        if len(kept) == 1 and (only := kept.pop()[0]) is not None:
            return [value.expr for value in operands], only
        return [value.aligned for value in operands], None


def sizes_of(expr: Expr) -> Shape:
    """Return the shape of an expression; symbolic sizes are TVM expressions."""
    return tuple(int(size) if isinstance(size, int | tirx.IntImm) else size for size in expr.ty.shape)
