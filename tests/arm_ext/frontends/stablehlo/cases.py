# SPDX-License-Identifier: Apache-2.0
"""Functions of JAX that together use the operators of StableHLO in the forms that models use, and their inputs."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

Values = tuple[np.ndarray, ...]
CASES: dict[str, tuple[Callable[..., list[Array]], Values]] = {}
_rng = np.random.default_rng(0)


def case(*values: np.ndarray) -> Callable[[Callable[..., list[Array]]], Callable[..., list[Array]]]:
    def add(function: Callable[..., list[Array]]) -> Callable[..., list[Array]]:
        CASES[function.__name__] = function, values
        return function

    return add


def floats(*shape: int) -> np.ndarray:
    return _rng.standard_normal(shape).astype(np.float32)


def ints(low: int, high: int, *shape: int, dtype: str = "int32") -> np.ndarray:
    return _rng.integers(low, high, shape).astype(dtype)


def window(
    x: Array, initial: Any, join: Any, size: Any, stride: Any, padding: Any = "VALID", **more: Any
) -> Array:
    return lax.reduce_window(x, initial, join, size, stride, padding, **more)


@case(floats(3, 7))
def unary(x):
    p = jnp.abs(x) + 0.1
    plain = (lax.abs, lax.neg, lax.sign, lax.floor, lax.ceil, lax.exp, lax.sin, lax.cos, lax.tan, lax.tanh)
    positive = (lax.log, lax.sqrt, lax.rsqrt)
    return (
        [f(x) for f in (*plain, lax.logistic, lax.cbrt)] + [f(p) for f in positive] + [lax.is_finite(1 / x)]
    )


@case(floats(7) * 1e-3, floats(7))
def inexact(s, x):
    return [lax.log1p(s), lax.expm1(s), lax.erf(x), lax.erfc(x), jnp.arctan2(x, s * 1e3), jnp.cosh(x)]


@case(floats(7) * 1e-3, floats(7))
def inverse(s, x):
    u = jnp.tanh(x) * 0.99
    roots = [f(v) for f in (jnp.arcsinh, jnp.arctanh) for v in (s, u)]
    return [*roots, jnp.arccosh(jnp.abs(x) + 1), jnp.arcsin(u), jnp.arccos(u), jnp.sinh(s), jnp.expm1(x)]


@case(
    floats(2, 5),
    np.array([[-2.5, -1.5, -0.5, 0.5, 1.5], [2.5, 0.49999997, -0.49999997, 3.7, -0.0]], "float32"),
)
def binary(x, y):
    rounded = [
        lax.round(y, way) for way in (lax.RoundingMethod.AWAY_FROM_ZERO, lax.RoundingMethod.TO_NEAREST_EVEN)
    ]
    return [
        x + y, x - y, x * y, x / (y + 9), jnp.maximum(x, y), jnp.minimum(x, y), lax.rem(x, y + 9), x > y, x == x,
        x != y, jnp.where(x > 0, x, y), jnp.clip(x, -0.5, 0.5), lax.clamp(y, x, y + 1), lax.pow(jnp.abs(x), y), x % 3,
        *rounded,
    ]  # fmt: skip


@case(ints(-50, 50, 20), ints(1, 9, 20), ints(0, 40, 20), ints(0, 255, 20, dtype="uint8"))
def integers(a, b, s, u):
    return [
        a + b, a * b, lax.div(a, b), lax.rem(a, b), a // b, a % b, a & b, a | b, a ^ b, ~a, jnp.sign(a), -a,
        lax.shift_left(a, s), lax.shift_right_arithmetic(a, s), lax.shift_right_logical(a, s), u >> 1, u + u,
        u.astype(int), a.astype(float), a.astype("int8"), a.astype(bool), lax.population_count(u), lax.clz(u),
    ]  # fmt: skip


@case(ints(0, 2, 4, 5, dtype="bool"), ints(0, 2, 4, 5, dtype="bool"))
def booleans(a, b):
    return [
        a & b,
        a | b,
        a ^ b,
        ~a,
        a == b,
        a != b,
        a.astype(float),
        jnp.where(a, 1, 2),
        a.all(1),
        a.any(0),
        a.sum(),
    ]


@case(floats(2, 3, 4))
def rearrange(x):
    return [
        x.transpose(2, 0, 1), x.reshape(6, 4), x[:, 1:3, ::2], jnp.flip(x, (1, 2)), jnp.concatenate([x, x * 2], 1),
        lax.pad(x, 0.0, ((1, 0, 0), (0, 1, 1), (-1, 2, 2))), lax.pad(x, 2.0, ((0, 0, 0), (-1, -1, 0), (0, 0, 1))),
        jnp.tile(x, (1, 2, 1)), jnp.repeat(x, 2, 1), lax.broadcasted_iota("float32", (3, 4), 1) + x[0], jnp.tril(x),
        jnp.broadcast_to(x[:, :1], (2, 3, 4)), jnp.roll(x, 1, 1), lax.pad(x > 0, True, ((0, 1, 0),) * 3),
    ]  # fmt: skip


@case(floats(5, 6), np.array(2, "int32"), np.array(7, "int32"), np.array(-3, "int32"))
def slices(x, at, behind, before):
    return [
        lax.dynamic_slice(x, (at, at), (2, 3)), lax.dynamic_slice(x, (behind, before), (2, 3)),
        lax.dynamic_slice(x, (1, at), (2, 3)), lax.dynamic_update_slice(x, x[:2, :2] * 2, (at, at)),
        lax.dynamic_update_slice(x, x[:2] * 2, (behind, 0)), lax.dynamic_update_slice(x, x[:, :1] * 2, (0, at)),
        lax.dynamic_update_slice(x, x[:2] * 2, (1, 0)), x[at], x[:, before],
    ]  # fmt: skip


@case(floats(5, 6), ints(-5, 5, 4), ints(0, 9, 2, 3), floats(2, 5, 6), ints(0, 5, 2, 2))
def gathers(x, i, k, b, m):
    return [
        jnp.take(x, i, axis=0), jnp.take(x, i, axis=1, mode="clip"), x[:, i], x[k % 5, k % 6], jnp.take(x, k, axis=0),
        jax.vmap(lambda b, m: b[m])(b, m), jax.vmap(lambda b, m: lax.dynamic_slice(b, (m[0], m[1]), (2, 3)))(b, m),
        x[(1, 2), (3, 4)], b[:, m[0], 1:3],
    ]  # fmt: skip


@case(
    floats(5, 6),
    ints(-5, 5, 4),
    floats(4, 6),
    np.array([[0, 1], [9, 2]], "int32"),
    floats(2, 5, 6),
    ints(0, 5, 2),
)
def scatters(x, i, u, outside, b, m):
    return [
        x.at[jnp.array([0, 3, 2, 4])].set(u), x.at[i].add(u), x.at[i].max(u), x.at[outside[:, 0], outside[:, 1]].set(5),
        x.at[1:3, 2:4].set(0.0), jax.vmap(lambda b, m: b.at[m].set(1.0))(b, m), jax.nn.one_hot(i, 6),
    ]  # fmt: skip


@case(floats(2, 3, 5), floats(5, 4), floats(3, 5), floats(2, 4, 3, 5), floats(5, 2, 3), floats(5))
def products(x, w, m, q, h, v):
    return [
        x @ w, jnp.einsum("bsd,dhk->bshk", x, h), jnp.einsum("bqhd,bkhd->bhqk", q, q), x @ v, v @ v, v @ w,
        jnp.einsum("ij,kj->ki", m, m), jnp.einsum("bsd,bsd->bs", x, x),
        lax.dot_general(x, m, (((1, 2), (0, 1)), ((), ()))),
    ]  # fmt: skip


@case(ints(-128, 127, 3, 8, dtype="int8"), ints(-128, 127, 8, 5, dtype="int8"))
def integer_product(a, b):
    return [lax.dot_general(a, b, (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32)]


@case(floats(1, 7, 6, 4), floats(1, 7, 4))
def convolutions(x, z):
    rng = np.random.default_rng(3)

    def conv(x: Array, shape: Any, axes: str, stride: Any = (1, 1), pad: Any = "SAME", **more: Any) -> Array:
        w = rng.standard_normal(shape).astype("float32")
        return lax.conv_general_dilated(x, w, stride, pad, dimension_numbers=axes.split(), **more)

    nhwc = "NHWC HWIO NHWC"
    return [
        conv(x, (3, 3, 4, 6), nhwc, (2, 1), ((1, 0), (2, 3)), rhs_dilation=(2, 1)),
        conv(x.transpose(0, 3, 1, 2), (6, 2, 3, 3), "NCHW OIHW NCHW", (2, 2), feature_group_count=2),
        conv(x, (3, 3, 4, 6), nhwc, pad=((-1, 0), (1, -1))),
        conv(x.transpose(3, 1, 2, 0), (3, 3, 4, 6), "CHWN HWIO HWNC"),
        conv(x, (4, 4, 4, 3), nhwc, pad=((2, 2), (1, 3)), lhs_dilation=(2, 2)),
        conv(x, (3, 3, 4, 6), nhwc, (2, 2), ((2, 2), (2, 2)), lhs_dilation=(2, 3)),
        conv(z, (3, 4, 5), "NWC WIO NWC", (2,), ((2, 0),)),
    ]  # fmt: skip


@case(floats(2, 3, 5), ints(-9, 9, 4, 6), floats(2, 1, 3))
def reductions(x, a, one):
    return [
        x.sum(), x.sum((0, 2)), x.max(1), x.min(0), x.prod(-1), x.mean((0, 1), keepdims=True), x.var(-1), a.sum(1),
        a.max(0), jnp.argmax(x, -1), jnp.argmin(x, 1), jnp.argmax(a, 0), jnp.argmax(x), one.max(1),
        lax.reduce(x, np.float32(3), lax.add, (1,)),
    ]  # fmt: skip


@case(floats(1, 8, 9, 3), floats(3, 8), ints(-9, 9, 3, 8))
def windows(x, z, a):
    two, three, step = (1, 2, 2, 1), (1, 3, 3, 1), (1, 1, 1, 1)
    total = window(x, 0.0, lax.add, three, step, "SAME")
    return [
        window(x, -jnp.inf, lax.max, three, two, "SAME"), window(x, 0.0, lax.add, two, two) / 4, total,
        total / window(jnp.ones_like(x), 0.0, lax.add, three, step, "SAME"), window(x, jnp.inf, lax.min, two, step),
        window(x.transpose(0, 3, 1, 2), -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), ((0, 0),) * 2 + ((1, 1),) * 2),
        jnp.cumsum(z, 1), jnp.cumsum(a, 1), jnp.cumprod(z, 1), lax.cumsum(z, 1, reverse=True), lax.cummax(z, 1),
        window(z, 0.0, lax.add, (1, 2), (1, 1), ((0, 0), (1, 2)), base_dilation=(1, 2), window_dilation=(1, 2)),
    ]  # fmt: skip


@case(floats(3, 8), ints(0, 4, 3, 8))
def sorts(x, a):
    return [
        jnp.sort(x, 0), jnp.argsort(a, -1), jnp.argsort(a, -1, descending=True), *lax.top_k(x, 3), *lax.top_k(a, 4),
        *lax.sort((a, x), num_keys=1),
    ]  # fmt: skip


@case(floats(4, 5), np.array(True), np.array(2, "int32"))
def control(x, which, k):
    return [
        lax.cond(which, lambda x: x + 1, lambda x: x * 2, x), lax.cond(True, lambda x: x + 1, lambda x: x * 2, x),
        lax.switch(k, [lambda x: x, lambda x: x * 2, lambda x: -x], x), lax.fori_loop(0, 3, lambda i, c: c * 2 + i, x),
        *lax.scan(lambda c, v: (c * 0.5 + v, c.sum()), jnp.zeros(5), x),
        *lax.scan(lambda c, v: (c + v, c * v), jnp.zeros(5), x, reverse=True),
    ]  # fmt: skip


@case(floats(2, 4, 6))
def activations(x):
    return [
        jax.nn.log_softmax(x),
        jax.nn.leaky_relu(x),
        jax.nn.hard_swish(x),
        jax.nn.standardize(x),
        jax.nn.glu(x),
    ]


@case(floats(2, 3, 12), floats(2, 3, 12))
def complexes(x, y):
    z = lax.complex(x, y)
    rows = jnp.concatenate([z[:, 1:], z[:, :1]], 1).transpose(0, 2, 1)
    weights = np.array([1 + 2j, -1j, 0.5], np.complex64)
    spectrum = jnp.fft.rfft(x)
    return [
        abs(z), (z * z / (z - 2)).real, jnp.angle(z), jnp.exp(rows * weights).imag, abs(spectrum),
        jnp.fft.irfft(spectrum), jnp.fft.irfft(spectrum, 11),
        jnp.fft.ifft2(jnp.fft.fft2(z)).imag, jnp.fft.fft(z[..., :7]).real,
    ]  # fmt: skip


@case(*(floats(2, 3, length) for length in (7, 60, 75)), floats(12, 16))
def transforms(*rows):
    *signals, plane = rows
    spectra = [jnp.fft.rfft(x) for x in signals]
    spectrum = jnp.fft.fft2(lax.complex(plane, plane[::-1]))
    return [
        *(part for z in spectra for part in (z.real, z.imag)),
        *(jnp.fft.irfft(z, x.shape[-1]) for x, z in zip(signals, spectra, strict=True)),
        spectrum.real, jnp.fft.ifft2(spectrum).imag, jnp.fft.irfft2(jnp.fft.rfft2(plane)),
    ]  # fmt: skip


@case(
    floats(3, 5),
    np.array(1.5, "float32"),
    ints(0, 3, 9),
    floats(9),
    ints(-9, 9, 9),
    ints(0, 2, 3, 5, dtype="bool"),
)
def rest(x, value, a, b, i, m):
    p = jnp.abs(x) + 0.1
    return [
        lax.pad(x, value, ((1, 0, 1), (0, -1, 0))), *lax.sort((a, b, i), num_keys=2), lax.lgamma(p), jnp.argmax(m, 1),
        lax.bitcast_convert_type(x, "int32"), lax.bitcast_convert_type(i * 9 + 2**30, "float32"),
        *(lax.reduce_precision(x, *bits) for bits in ((8, 7), (8, 10), (8, 22), (8, 23), (5, 10))),
    ]  # fmt: skip


@case(floats(2, 4, 6).astype("float16"))
def half(x):
    return [x + x, x * 2, x.astype(float), x.sum(-1), x @ x.transpose(0, 2, 1)]
