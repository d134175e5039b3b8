# SPDX-License-Identifier: Apache-2.0
"""What one node between quantised tensors computes by the numerics `qdq`; None where no definition fits.

What rounds stands in `schedules.numerics.qdq`; here stand only the sums and moves.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from schedules.numerics.qdq import multiplier, requantize
from schedules.numerics.qdq.binary import binary
from schedules.numerics.qdq.norm import Norm, factors, norm
from schedules.numerics.qdq.softmax import softmax
from schedules.numerics.qdq.table import look_up, table
from schedules.numerics.qdq.values import TABLE_DTYPES, integer_bounds, quantize
from tests.fuzz import integer_ops
from tests.fuzz.groups import Array, Bounds, Call, Group, Per, Quantized, in_float


def _requantized(acc: Array, xs: float, ws: Any, y: Per, bounds: Bounds, count: Any = 1) -> Array:
    return requantize(
        acc, multiplier(xs, ws, y.scale, count), y.zero_point, y.dtype, integer_bounds(y, bounds)
    )


def _product(
    sums: Callable[[Array, Array, dict[str, Any]], Array], channel_axis: int
) -> Callable[..., Array | None]:
    """Sums of products of a tensor and weights, with a bias along an axis of the result."""

    def form(call: Call, y: Per, bounds: Bounds) -> Array | None:
        x, w, bias = call.tensor(0), call.tensor(1), call.leaf(2)
        if x is None or w is None:
            return None
        acc = sums(x.centred, w.centred, call.attributes)
        along = [-1 if axis == channel_axis % acc.ndim else 1 for axis in range(acc.ndim)]
        ws = w.per.scales.reshape(along) if w.per.scales.size > 1 else w.per.scales.reshape(())
        if bias is not None:
            units = _units(bias, x, w)
            acc = acc + units.reshape(along if units.size > 1 else ())
        return _requantized(acc, x.per.scale, ws, y, bounds)

    return form


def _units(bias: Quantized | Array, x: Quantized, w: Quantized) -> Array:
    """A bias in units of the accumulator."""
    real = (bias.real if isinstance(bias, Quantized) else bias).astype(np.float64)
    unit = np.float32(x.per.scale) * w.per.scales.astype(np.float32).reshape(-1)
    return np.rint(real.reshape(-1) / unit).astype(np.int64)


def _gemm_sums(x: Array, w: Array, a: dict[str, Any]) -> Array:
    return np.asarray((x.T if a.get("transA") else x) @ (w.T if a.get("transB") else w))


def _gemm(call: Call, y: Per, bounds: Bounds) -> Array | None:
    scaled = call.attributes.get("alpha", 1.0) != 1 or call.attributes.get("beta", 1.0) != 1
    return None if scaled else _product(_gemm_sums, -1)(call, y, bounds)


def _binary(name: str) -> Callable[..., Array | None]:
    def form(call: Call, y: Per, bounds: Bounds) -> Array | None:
        leaves = [call.leaf(0), call.leaf(1)]
        if any(leaf is None for leaf in leaves) or call.tensor(0) is call.tensor(1) is None:
            return None
        if name == "divide" and call.tensor(1) is not None:
            return None  # the divisor may be 0
        a, b = (leaf.real if isinstance(leaf, Quantized) else np.asarray(leaf, np.float32) for leaf in leaves)
        return binary(name, a, b, y, bounds)  # type: ignore[arg-type]

    return form


def _move(call: Call, y: Per, bounds: Bounds) -> Array | None:
    """Integers moved as they are, then of another scale where that differs."""
    x = call.tensor(0)
    if x is None or call.attributes.get("mode") == b"linear":
        return None
    moved = _ran(call, x.q.astype(np.float32)).astype(x.q.dtype)
    return _rescaled(Quantized(moved, x.per), y, bounds)


def _rescaled(x: Quantized, y: Per, bounds: Bounds) -> Array:
    low, high = (
        (-math.inf if bounds[0] is None else bounds[0]),
        (math.inf if bounds[1] is None else bounds[1]),
    )
    if x.q.dtype.itemsize > 1:
        return quantize(np.clip(x.real, low, high).astype(np.float32), y)
    return look_up(table(lambda r: np.clip(r, low, high), x.per, y), x.q)


def _ran(call: Call, *tensors: Array) -> Array:
    """The node on other values in place of its quantised ones."""
    operands = iter(tensors)
    leaves = {
        name: next(operands) if isinstance(leaf, Quantized) else leaf
        for name, leaf in call.group.leaves.items()
    }
    return in_float(Group((call.node,), call.group.output, leaves))


def _concat(call: Call, y: Per, bounds: Bounds) -> Array | None:
    parts = [call.tensor(i) for i in range(len(call.node.input))]
    if any(part is None for part in parts):
        return None
    return np.concatenate([_rescaled(p, y, bounds) for p in parts if p is not None], call.attributes["axis"])


def _global_average(call: Call, y: Per, bounds: Bounds) -> Array | None:
    return _mean_over(call, (2, 3), True, y, bounds)


def _reduce_mean(call: Call, y: Per, bounds: Bounds) -> Array | None:
    a = call.attributes
    return _mean_over(call, tuple(a["axes"]), bool(a.get("keepdims", 1)), y, bounds)


def _mean_over(call: Call, axes: tuple[int, ...], keep: bool, y: Per, bounds: Bounds) -> Array | None:
    x = call.tensor(0)
    if x is None:
        return None
    count = math.prod(x.q.shape[axis] for axis in axes)
    return _requantized(x.centred.sum(axes, keepdims=keep), x.per.scale, 1, y, bounds, count)


def _average_pool(call: Call, y: Per, bounds: Bounds) -> Array | None:
    x = call.tensor(0)
    if x is None:
        return None
    sums, counts = integer_ops.window_sums(x.centred, call.attributes)
    return _requantized(sums, x.per.scale, 1, y, bounds, counts)


def _softmax(call: Call, y: Per, bounds: Bounds) -> Array | None:
    x = call.tensor(0)
    if x is None or bounds != (None, None) or x.q.dtype.itemsize > 1:
        return None
    return softmax(x.q, call.attributes.get("axis", -1), x.per, y)


def _layer_norm(call: Call, y: Per, bounds: Bounds) -> Array | None:
    x, *pair = call.tensor(0), call.leaf(1), call.leaf(2)
    if x is None or bounds != (None, None) or x.per.dtype not in TABLE_DTYPES:
        return None
    gamma, beta = (
        leaf.centred * leaf.per.scales.astype(np.float64) if isinstance(leaf, Quantized) else leaf
        for leaf in pair
    )
    axes = x.q.ndim - call.attributes.get("axis", -1) % x.q.ndim
    what = Norm(axes, call.attributes.get("epsilon", 1e-5), centred=True)
    return norm(x.q, what, *factors(gamma, beta, y), x.per, y)


_MOVES = (
    "Reshape",
    "Split",
    "Transpose",
    "Slice",
    "Squeeze",
    "Unsqueeze",
    "Flatten",
    "MaxPool",
    "GlobalMaxPool",
    "Resize",
)


FORMS: dict[str, Callable[..., Array | None]] = {
    "Conv": _product(integer_ops.conv, 1),
    "ConvTranspose": _product(integer_ops.conv_transpose, 1),
    "MatMul": _product(lambda x, w, _a: np.asarray(x @ w), -1),
    "Gemm": _gemm,
    "Add": _binary("add"),
    "Sub": _binary("subtract"),
    "Mul": _binary("multiply"),
    "Div": _binary("divide"),
    "Max": _binary("maximum"),
    "Min": _binary("minimum"),
    "Concat": _concat,
    "GlobalAveragePool": _global_average,
    "ReduceMean": _reduce_mean,
    "AveragePool": _average_pool,
    "Softmax": _softmax,
    "LayerNormalization": _layer_norm,
} | dict.fromkeys(_MOVES, _move)
