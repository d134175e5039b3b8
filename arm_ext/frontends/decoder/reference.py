# SPDX-License-Identifier: Apache-2.0
"""A decoder in numpy, by the definitions: what the compiled model is compared with."""

from collections.abc import Sequence

import numpy as np

from arm_ext.frontends.decoder.config import Array, Decoder, Matrix
from schedules.intrinsics.vector_f32 import evaluated
from schedules.kernels.attention.cached_f32 import CachedAttention, cached_attention
from schedules.kernels.epilogues.activation_f32 import sigmoid, tanh
from schedules.kernels.normalization.norm_f32 import rms_norm
from schedules.numerics.binary32 import fma
from schedules.numerics.blocks import BlockWeights, linear_blocks

MOST_ROWS = 8
"""Most tokens of a call: numpy takes half a second for each, of 135 million weights."""


def reference(
    decoder: Decoder, layers: Sequence[CachedAttention], capacity: int, values: list[Array]
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
    x = _rows(decoder.matrices["embedding"], ids) * np.float32(config.embedding_scale)
    following = []
    for index, layer in enumerate(layers):
        normal = _norm(decoder, x, f"{index}.attention_norm")
        qkv = np.concatenate([_projected(decoder, index, part, normal, rows) for part in "qkv"], 1)
        table = config.table(index, capacity) if layer.rotary else None
        y, *held = cached_attention(layer, int(position[0]), qkv, table, *caches[2 * index : 2 * index + 2])
        following += held
        x = x + _after(decoder, _linear(y, decoder.matrices[f"{index}.o"]), f"{index}.attention_output_norm")
        normal = _norm(decoder, x, f"{index}.feed_forward_norm")
        gate, up = (_linear(normal, decoder.matrices[f"{index}.{part}"]) for part in ("gate", "up"))
        down = _linear(_activated(gate, config.activation) * up, decoder.matrices[f"{index}.down"])
        x = x + _after(decoder, down, f"{index}.feed_forward_output_norm")
    logits = _linear(_norm(decoder, x[-1:], "norm"), decoder.head)[0]
    return [logits, (position + rows).astype(np.int32), *following], "the definition in numpy"


def _projected(decoder: Decoder, layer: int, part: str, x: Array, rows: int) -> Array:
    """Return queries, keys or values, [rows, heads * size]."""
    y = _linear(x, decoder.matrices[f"{layer}.{part}"])
    bias, norm = (decoder.vectors.get(f"{layer}.{part}{after}") for after in (".bias", "_norm"))
    y = y if bias is None else y + bias
    if norm is None:
        return y
    heads = y.reshape(rows, -1, decoder.config.size)
    return rms_norm(heads, norm, decoder.config.epsilon).reshape(rows, -1)


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
    return rms_norm(x, decoder.vectors[name], decoder.config.epsilon)


def _after(decoder: Decoder, y: Array, name: str) -> Array:
    return _norm(decoder, y, name) if name in decoder.vectors else y


def _activated(x: Array, name: str) -> Array:
    if name == "silu":
        return x * evaluated(sigmoid, x)
    # x / 2 (1 + tanh(sqrt(2 / pi) x (1 + 0.044715 x x))), as Relax has it, with the one FMA that LLVM makes of it.
    square = fma(np.float32(0.044715) * x, x, np.float32(1))
    inner = evaluated(tanh, np.float32(np.sqrt(2 / np.pi)) * x * square)
    return np.float32(0.5) * x * (np.float32(1) + inner)
