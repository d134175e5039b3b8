# SPDX-License-Identifier: Apache-2.0
"""Attention as a product, a softmax and a product, which the attention kernels match."""

import math

import numpy as np
from tvm import relax

from arm_ext.frontends.graph import Value
from arm_ext.frontends.ops.arithmetic import cast, where
from arm_ext.frontends.ops.reduce import greatest, softmax

R = relax.op


def attend(
    query: Value,
    key: Value,
    value: Value,
    mask: Value | None = None,
    scale: float | None = None,
    *,
    causal: bool = False,
) -> Value:
    """Return softmax(q · k^T · scale + mask) · v over [..., length, width].

    Args:
        query: [..., queries, width].
        key: [..., keys, width].
        value: [..., keys, width of the values].
        mask: Numbers that are added to the scores, or Booleans, of which False hides a key; a row with all keys masked
            gives 0.
        scale: Factor of the scores; 1 / sqrt(width) by default.
        causal: Whether each query sees the keys up to its own index alone.
    """
    graph, rank = query.graph, len(query.shape)
    turned = key.permute([*range(rank - 2), rank - 1, rank - 2])
    scores = graph.hold(R.matmul(query.full, turned.full)) * (scale or 1 / math.sqrt(query.shape[-1]))
    if causal:
        seen = np.tril(np.ones((query.shape[-2], key.shape[-2]), bool))
        scores = scores + graph.hold(relax.const(np.where(seen, 0, -math.inf), query.dtype))
    if mask is not None:
        mask = where(mask, query.number(0.0), -math.inf) if mask.dtype == "bool" else mask
        scores = scores + mask
    result = graph.hold(R.matmul(softmax(scores).full, value.full))
    if mask is None:
        return result
    # The softmax of a fully masked row is 0 / 0.
    sees = cast(greatest(cast(mask > -math.inf, "int8"), [-1], True), "bool")
    return where(sees, result, 0.0)
