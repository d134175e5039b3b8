# SPDX-License-Identifier: Apache-2.0
"""Reductions along axes, softmax and running sums. Booleans are reduced as int8, for which TVM has all reductions."""

import math
from collections.abc import Callable, Sequence

from tvm import relax
from tvm.ir import Expr

from arm_ext.frontends.graph import Value
from arm_ext.frontends.ops.arithmetic import absolute, cast, different, equal, is_finite, where
from arm_ext.frontends.ops.maths import exp, in_float32, log, sqrt

R = relax.op

Axes = Sequence[int] | None
"""Axes that a reduction is along; None for all of them."""


def _along(function: Callable[..., Expr]) -> Callable[..., Value]:
    """Return a function on values that emits a Relax reduction."""

    def reduced(x: Value, axes: Axes = None, keepdims: bool = False) -> Value:
        along = None if axes is None else list(axes)
        if x.dtype == "bool":
            return cast(reduced(cast(x, "int8"), axes, keepdims), "bool")
        return x.graph.hold(function(x.full, along, keepdims))

    return reduced


greatest, least, mean, product, total = map(_along, (R.max, R.min, R.mean, R.prod, R.sum))


def index_of(x: Value, axis: int, keepdims: bool = False, *, greatest: bool) -> Value:
    """Return the index (int64) of the first maximum or minimum along an axis; NaN counts as the maximum or minimum."""
    function = R.argmax if greatest else R.argmin
    return x.graph.hold(function(x.full, axis, keepdims))


def variance(
    x: Value, axes: Axes = None, keepdims: bool = False, correction: float = 0
) -> tuple[Value, Value]:
    """Return variance and mean; the sum of squares is divided by (number of elements - `correction`)."""
    middle = mean(x, axes, True)
    difference = x - middle
    squares = total(difference * difference, axes, keepdims)
    count = math.prod(x.shape) // max(1, math.prod(squares.shape))
    # TVM cannot lower a division by the constant 0.
    scale = 1 / (count - correction) if count > correction else math.inf
    return squares * scale, middle if keepdims else middle.reshape(squares.shape)


@in_float32
def vector_norm(x: Value, order: float, axes: Axes, keepdims: bool) -> Value:
    """Return the norm of the given order along axes; the norm of order 0 is the number of elements other than 0."""
    size = absolute(x)
    if order == 0:
        return total(cast(different(x, 0), x.dtype), axes, keepdims)
    if math.isinf(order):
        return (greatest if order > 0 else least)(size, axes, keepdims)
    if order == 1:
        return total(size, axes, keepdims)
    if order == 2:
        return sqrt(total(x * x, axes, keepdims))
    powers = total(x.graph.apply(R.power, size, order), axes, keepdims)
    return x.graph.apply(R.power, powers, 1 / order)


def softmax(x: Value, axis: int = -1) -> Value:
    """Return exp(x) divided by its sum along an axis."""
    return x.graph.hold(R.nn.softmax(x.full, axis % len(x.shape)))


def log_softmax(x: Value, axis: int = -1) -> Value:
    """Return the logarithm of softmax."""
    return x.graph.hold(R.nn.log_softmax(x.full, axis % len(x.shape)))


def _running(function: Callable[..., Expr]) -> Callable[..., Value]:
    """Return a function on values that emits a running sum or product along an axis.

    `exclusive` leaves out each element itself, and `reverse` begins at the last element.
    """

    def running(x: Value, axis: int, exclusive: bool = False, *, reverse: bool = False) -> Value:
        graph = x.graph
        flipped = graph.hold(R.flip(x.full, axis)) if reverse else x
        found = graph.hold(function(flipped.full, axis, x.dtype, exclusive))
        return graph.hold(R.flip(found.full, axis)) if reverse else found

    return running


running_sum, running_product = map(_running, (R.cumsum, R.cumprod))


def log_sum_exp(x: Value, axes: Axes = None, keepdims: bool = False) -> Value:
    """Return m + log(sum(exp(x - m))) with m = max(x), or m = 0 where that is infinite, so that the result is, too."""
    top = greatest(x, axes, True)
    shift = where(is_finite(top), top, 0)
    found = log(total(exp(x - shift), axes, True)) + shift
    return found if keepdims else total(found, axes, False)


def lp_normalize(x: Value, axis: int, order: float) -> Value:
    """Return x divided by its norm along an axis; 0 where the norm is 0."""
    norm = vector_norm(x, order, [axis], True)
    return where(equal(norm, 0), 0, x / norm)
