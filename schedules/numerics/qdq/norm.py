# SPDX-License-Identifier: Apache-2.0
"""Layer norm and RMS norm of 8-bit rows, whose statistics are computed from exact integer sums.

    S = sum of d, T = sum of d**2          int64: the order of summation does not matter
    V = n * T - S**2                       n**2 times the variance; without S**2 in an RMS norm
    m = fl(S / n)                          0 in an RMS norm
    r = fl(n / sqrt(V + b))                in binary64, then rounded once
    q = saturate(rne(fl(fl(fl(fl(d - m) * r) * g[c]) + h[c])) + zy)

    b = n**2 * eps / xs**2 in binary64, g = fl(gamma / ys), h = fl(beta / ys)

A layer norm is invariant under a shift of its input, so d is q itself; in an RMS norm d is q - zx. The scale of x
occurs in b alone, as d and its deviation have the same unit. Float norms on different machines differ in the last bits
of their sums; this definition is exact, and within one unit of a float norm.

LLVM would contract fl(fl(...) * g) + h; max(product, minimum of binary32) prevents this, as in `binary`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tvm import ir, te, tirx

from schedules.numerics.qdq.values import (
    TABLE_DTYPES,
    Array,
    Floats,
    Quantization,
    f32,
    limits,
    saturate,
    saturate_tir,
)
from schedules.numerics.routine import FUSED_ALONE, Routine, routine

LONGEST = 1 << 23
"""Elements of a row: V stays below n**2 * 255**2, which int64 holds."""

_LEAST = float(np.finfo(np.float32).min)


@dataclass(frozen=True)
class Norm:
    """Parameters of a norm.

    Attributes:
        axes: Number of last axes that are normalised together, as one row.
        epsilon: The number that is added to the variance, or to the mean square.
        centred: Whether the mean is subtracted (layer norm); else an RMS norm.
    """

    axes: int
    epsilon: float
    centred: bool

    def spread(self, length: int, x: Quantization) -> float:
        """Return the constant b of the definition for rows of `length` elements."""
        return length * length * self.epsilon / x.scale**2

    def zero(self, x: Quantization) -> int:
        """Return the number that is subtracted from q to get d: 0, or the zero point in an RMS norm."""
        return 0 if self.centred else x.zero_point


def factors(
    gamma: npt.NDArray[np.float64], beta: npt.NDArray[np.float64], y: Quantization
) -> tuple[Floats, Floats]:
    """Return the constants g and h of the definition, for real gamma and beta.

    Raises:
        ValueError: One of them is beyond binary32.
    """
    with np.errstate(over="ignore"):
        pair = [np.asarray(real / np.float64(y.scale)).astype(np.float32) for real in (gamma, beta)]
    if not all(np.isfinite(part).all() for part in pair):
        raise ValueError("gamma or beta, in units of the output, are beyond binary32")
    return pair[0], pair[1]


def norm(q: Array, what: Norm, g: Floats, h: Floats, x: Quantization, y: Quantization) -> Array:
    """Compute the norm of quantised values by the module's definition; g and h have the shape of a row."""
    lead = q.shape[: q.ndim - what.axes]
    length = math.prod(q.shape[q.ndim - what.axes :])
    d = q.astype(np.int64).reshape(-1, length) - what.zero(x)
    total, squares = d.sum(1, keepdims=True), (d * d).sum(1, keepdims=True)
    variance = length * squares - (total * total if what.centred else 0)
    mean = (total / length if what.centred else np.zeros(total.shape)).astype(np.float32)
    rate = (length / np.sqrt(variance.astype(np.float64) + what.spread(length, x))).astype(np.float32)
    scaled = (d.astype(np.float32) - mean) * rate * g.reshape(-1) + h.reshape(-1)
    return saturate(scaled, y.zero_point, *limits(y.dtype), y.dtype).reshape(*lead, *q.shape[len(lead) :])


def norm_routine(
    shape: Sequence[int],
    what: Norm,
    gamma: npt.NDArray[np.float64],
    beta: npt.NDArray[np.float64],
    x: Quantization,
    y: Quantization,
) -> Routine:
    """Return a routine that computes `norm` for a shape; g and h are its constants.

    Its attributes are axes, spread (b), zero (q - d), and the quantisation of y.

    Args:
        shape: Shape of the tensor.
        what: Kind of the norm.
        gamma: Real gamma, in the shape of a row.
        beta: Real beta, in the shape of a row; None for no beta.
        x: Quantisation of the tensor.
        y: Quantisation of the output.

    Raises:
        ValueError: x is not of 8 bits, a row is too long, epsilon is not positive, or gamma or beta are too large.
    """
    lead, row = tuple(shape[: len(shape) - what.axes]), tuple(shape[len(shape) - what.axes :])
    length = math.prod(row)
    _check(x, length, what)
    g, h = factors(np.broadcast_to(gamma, row), np.broadcast_to(beta, row), y)
    q, gs, hs = (
        te.placeholder(shape, x.dtype, "q"),
        te.placeholder(row, "float32", "g"),
        te.placeholder(row, "float32", "h"),
    )
    zero = tirx.IntImm("int64", what.zero(x))

    def moment(power: int, name: str) -> te.Tensor:
        """Return the TE expression of the sum over a row of d (power 1) or d**2 (power 2)."""
        k = [te.reduce_axis((0, extent), f"{name}_{axis}") for axis, extent in enumerate(row)]

        def value(*i: ir.Expr) -> ir.Expr:
            d = tirx.Cast("int64", q(*i, *k)) - zero
            return te.sum(d if power == 1 else d * d, axis=k)

        return te.compute(lead or (1,), value if lead else lambda _: value(), name)

    total, squares = moment(1, "total"), moment(2, "squares")

    def rate_of(*i: ir.Expr) -> ir.Expr:
        variance = squares(*i) * tirx.IntImm("int64", length)
        if what.centred:
            variance = variance - total(*i) * total(*i)
        wide = tirx.Cast("float64", variance) + tirx.FloatImm("float64", what.spread(length, x))
        return tirx.Cast("float32", tirx.Div(tirx.FloatImm("float64", length), tirx.sqrt(wide)))

    rate = te.compute(lead or (1,), rate_of, "rate")

    def value(*i: ir.Expr) -> ir.Expr:
        outer, inner = i[: len(lead)] or (0,), i[len(lead) :]
        d = tirx.Cast("float32", tirx.Cast("int32", q(*i)) - tirx.IntImm("int32", what.zero(x)))
        if what.centred:
            mean = tirx.Div(tirx.Cast("float64", total(*outer)), tirx.FloatImm("float64", length))
            d = d - tirx.Cast("float32", mean)
        product = tirx.max(d * rate(*outer) * gs(*inner), f32(_LEAST))
        return saturate_tir(product + hs(*inner), y.zero_point, *limits(y.dtype), y.dtype)

    out = te.compute(tuple(shape), value, "norm")
    return routine(
        "qdq.layer_norm" if what.centred else "qdq.rms_norm",
        [q, gs, hs, out],
        [g, h],
        pattern=FUSED_ALONE,
        axes=what.axes,
        spread=what.spread(length, x),
        zero=what.zero(x),
        y_zero_point=y.zero_point,
    )


def _check(x: Quantization, length: int, what: Norm) -> None:
    if x.dtype not in TABLE_DTYPES:
        raise ValueError(f"a norm is defined for {', '.join(TABLE_DTYPES)} and not for {x.dtype}")
    if not 0 < length <= LONGEST:
        raise ValueError(f"a row has {length} elements; 1 to {LONGEST} are defined")
    rate = length / math.sqrt(what.spread(length, x)) if what.epsilon > 0 else math.inf
    if rate > float(np.finfo(np.float32).max):
        raise ValueError("epsilon is not positive, or too small for binary32")
