# SPDX-License-Identifier: Apache-2.0
"""Small models in plain JAX, as its libraries write them, with their weights inside."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, export, lax

Model = tuple[Callable[..., Any], tuple[int, ...]]


class Weights:
    """Draws weights of which a product with data keeps the data's size."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def __call__(self, *shape: int) -> np.ndarray:
        fan_in = max(1, int(np.prod(shape[:-1])))
        return (self._rng.standard_normal(shape) / np.sqrt(fan_in)).astype(np.float32)


def batch_norm(x: Array, w: Weights) -> Array:
    mean, variance, gain, shift = (w(x.shape[-1]) for _ in range(4))
    return (x - mean) * (lax.rsqrt(abs(variance) + 0.5) * (gain + 1)) + shift


def convolution(x: Array, w: np.ndarray, stride: int = 1, groups: int = 1) -> Array:
    layout = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(
        x, w, (stride, stride), "SAME", dimension_numbers=layout, feature_group_count=groups
    )


def mlp() -> Model:
    w = Weights(1)
    a, b, c, d = w(16, 33), w(33), w(33, 7), w(7)
    return lambda x: jax.nn.softmax(jax.nn.relu(x @ a + b) @ c + d), (3, 16)


def cnn() -> Model:
    def model(x: Array) -> Array:
        w, window = Weights(2), ((1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        y = jax.nn.relu(batch_norm(convolution(x, w(3, 3, 3, 8), 2), w))
        y = jax.nn.relu6(batch_norm(convolution(y, w(3, 3, 1, 8), groups=8), w))
        y = lax.reduce_window(y, -jnp.inf, lax.max, *window)
        y = jax.nn.silu(batch_norm(convolution(y, w(1, 1, 8, 16)), w))
        y = lax.reduce_window(y, 0.0, lax.add, *window) / 4
        return y.mean((1, 2)) @ w(16, 10) + w(10)

    return model, (1, 16, 16, 3)


def layer_norm(x: Array, gain: np.ndarray, shift: np.ndarray) -> Array:
    """As flax writes it: the variance as a difference, the scale at the root."""
    mean = jnp.mean(x, -1)
    variance = jnp.maximum(0.0, jnp.mean(lax.square(x), -1) - lax.square(mean))
    scale = lax.rsqrt(jnp.expand_dims(variance, -1) + 1e-6) * gain
    return (x - jnp.expand_dims(mean, -1)) * scale + shift


def transformer() -> Model:
    width, heads, size = 32, 4, 8

    def model(x: Array) -> Array:
        w = Weights(4)
        y = layer_norm(x, w(width) + 1, w(width))
        q, k, v = (
            jnp.einsum("bsd,dhk->bshk", y, w(width, heads, size) / 4) + w(heads, size) for _ in range(3)
        )
        scores = jnp.einsum("bqhd,bkhd->bhqk", q / np.float32(np.sqrt(size)), k)
        mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
        scores = jax.nn.softmax(jnp.where(mask, scores, jnp.finfo(np.float32).min))
        y = jnp.einsum("bhqk,bkhd->bqhd", scores, v)
        x = x + jnp.einsum("bshk,hkd->bsd", y, w(heads, size, width)) + w(width)
        y = layer_norm(x, w(width) + 1, w(width))
        return x + jax.nn.gelu(y @ w(width, 64) + w(64), approximate=False) @ w(64, width) + w(width)

    return model, (2, 9, width)


def lstm() -> Model:
    w = Weights(5)
    inner, outer, bias, last = w(6, 32), w(8, 32), w(32), w(8, 3)

    def cell(state: tuple[Array, Array], x: Array) -> tuple[tuple[Array, Array], Array]:
        c, h = state
        i, f, u, o = jnp.split(x @ inner + h @ outer + bias, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(u)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (c, h), h

    def model(x: Array) -> tuple[Array, Array]:
        zero = jnp.zeros((x.shape[0], 8))
        (c, _), steps = lax.scan(cell, (zero, zero), x.swapaxes(0, 1))
        return steps.swapaxes(0, 1) @ last, c

    return model, (2, 4, 6)


MODELS: dict[str, Callable[[], Model]] = {"cnn": cnn, "lstm": lstm, "mlp": mlp, "transformer": transformer}


def exported(name: str) -> export.Exported:
    model, shape = MODELS[name]()
    return export.export(jax.jit(model))(jax.ShapeDtypeStruct(shape, np.float32))


def bytecode(function: Callable[..., Any], values: Sequence[Any]) -> bytes:
    """What jax.export writes; CHLO's operators are taken apart in it."""
    return bytes(export.export(jax.jit(function))(*values).mlir_module_serialized)


def text(function: Callable[..., Any], values: Sequence[Any]) -> bytes:
    """MLIR's text, with CHLO's operators, and without the names of operators."""
    return bytes(jax.jit(function, keep_unused=True).lower(*values).as_text().encode())
