# SPDX-License-Identifier: Apache-2.0
"""A decoder in numpy, by the definitions: what the compiled model is compared with."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from arm_ext.frontends.decoder.config import Array, Decoder, Matrix
from schedules.numerics.blocks import BlockWeights, linear_blocks

MOST_ROWS = 8
"""Most tokens of a call: numpy takes half a second for each, of 135 million weights."""

if TYPE_CHECKING:
    from schedules.kernels.attention.cached_f32 import CachedAttention


def reference(
    decoder: Decoder, layers: "Sequence[CachedAttention]", capacity: int, values: list[Array]
) -> tuple[list[Array], str]:
    """Return the outputs of the model, and what computed them.

    Args:
        decoder: The decoder.
        layers: Attention of each layer, for the layout of the caches.
        capacity: Positions of the caches.
        values: The inputs: tokens, position, keys and values of each layer.
    """
    ids, position, *caches = values
    if len(ids) > MOST_ROWS:
        return [], f"the definition in numpy, which is computed for at most {MOST_ROWS} tokens"
    config, rows = decoder.config, len(ids)
    first = int(np.clip(position[0], 0, capacity - rows))
    x = _rows(decoder.matrices["embedding"], ids) * np.float32(config.embedding_scale)
    following = []
    for index, layer in enumerate(layers):
        normal = _norm(decoder, x, f"{index}.attention_norm")
        qkv = [_linear(normal, decoder.matrices[f"{index}.{part}"]) for part in "qkv"]
        biases = [decoder.vectors.get(f"{index}.{part}.bias") for part in "qkv"]
        q, k, v = (y if bias is None else y + bias for y, bias in zip(qkv, biases, strict=True))
        heads = [part.reshape(rows, -1, config.size) for part in (q, k, v)]
        if f"{index}.q_norm" in decoder.vectors:
            heads[0], heads[1] = (
                _norm(decoder, part, f"{index}.{name}")
                for part, name in zip(heads, ("q_norm", "k_norm"), strict=False)
            )
        y, keys, held = _attention(layer, decoder, index, first, heads, caches[2 * index : 2 * index + 2])
        following += [keys, held]
        x = x + _after(decoder, _linear(y, decoder.matrices[f"{index}.o"]), f"{index}.attention_output_norm")
        normal = _norm(decoder, x, f"{index}.feed_forward_norm")
        gate, up = (_linear(normal, decoder.matrices[f"{index}.{part}"]) for part in ("gate", "up"))
        down = _linear(_activated(gate, config.activation) * up, decoder.matrices[f"{index}.down"])
        x = x + _after(decoder, down, f"{index}.feed_forward_output_norm")
    logits = _linear(_norm(decoder, x[-1:], "norm"), decoder.head)[0]
    return [logits, (position + rows).astype(np.int32), *following], "the definition in numpy"


def _rows(matrix: Matrix, ids: Array) -> Array:
    ids = np.clip(ids, 0, len(matrix.held if isinstance(matrix, BlockWeights) else matrix) - 1)
    if not isinstance(matrix, BlockWeights):
        return matrix[ids]
    offsets = None if matrix.offsets is None else matrix.offsets[ids]
    return BlockWeights(
        matrix.held[ids], matrix.scales[ids], offsets, matrix.depth, matrix.bits, matrix.group, matrix.shift
    ).floats


def _linear(x: Array, matrix: Matrix) -> Array:
    return linear_blocks(x, matrix) if isinstance(matrix, BlockWeights) else x @ matrix.T


def _norm(decoder: Decoder, x: Array, name: str) -> Array:
    mean = np.mean(x.astype(np.float64) ** 2, -1, keepdims=True)
    rate = (1 / np.sqrt(mean + decoder.config.epsilon)).astype(np.float32)
    return np.asarray(x * rate * decoder.vectors[name])


def _after(decoder: Decoder, y: Array, name: str) -> Array:
    return _norm(decoder, y, name) if name in decoder.vectors else y


def _activated(x: Array, name: str) -> Array:
    if name == "silu":
        return np.asarray(x / (1 + np.exp(-x)))
    inner = np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x**3)
    return np.asarray(0.5 * x * (1 + np.tanh(inner)))


def _attention(
    layer: "CachedAttention",
    decoder: Decoder,
    index: int,
    first: int,
    heads: list[Array],
    caches: Sequence[Array],
) -> tuple[Array, Array, Array]:
    """Return attention, [rows, heads * size], and the next caches, in their layouts."""
    (q, k, v), rows = heads, len(heads[0])
    if layer.rotary:
        table = decoder.config.table(index, layer.capacity)[first : first + rows]
        q, k = (_rotated(part, table) for part in (q, k))
    keys = caches[0].transpose(0, 1, 3, 2).reshape(layer.groups, layer.capacity, layer.size).copy()
    values = caches[1].copy()
    keys[:, first : first + rows] = k.transpose(1, 0, 2)
    values[:, first : first + rows] = v.transpose(1, 0, 2)
    y = np.zeros((rows, layer.heads, layer.size), np.float32)
    for row in range(rows):
        end = first + row + 1
        begin = max(0, end - layer.window) if layer.window else 0
        for head in range(layer.heads):
            group = head * layer.groups // layer.heads
            scores = keys[group, begin:end].astype(np.float32) @ (q[row, head] * np.float32(layer.scale))
            powers = np.exp(scores - scores.max())
            y[row, head] = powers @ values[group, begin:end].astype(np.float32) / powers.sum()
    blocked = keys.reshape(layer.groups, -1, layer.keys[3], layer.size).transpose(0, 1, 3, 2)
    return y.reshape(rows, -1), np.ascontiguousarray(blocked), values


def _rotated(x: Array, table: Array) -> Array:
    cosine, sine = (table[:, side][:, None] for side in range(2))
    a, b = np.split(x, 2, -1)
    return np.concatenate([a * cosine - b * sine, b * cosine + a * sine], -1)
