# SPDX-License-Identifier: Apache-2.0
"""onnxruntime's attention operators as products, masks and softmax.

    Attention(x, W, b)    →    Softmax(scale Q Kᵀ + mask) V, of Q, K, V = split(x W + b) and heads in front

Sequences have static lengths. Where a mask says how much of them counts, what is beyond is masked, as onnxruntime does.
Source: onnxruntime's contrib operator definitions and CPU kernels, 1.31.
"""

import math
from dataclasses import dataclass

import numpy as np

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.expansion import Expansion
from arm_ext.frontends.onnx.opset_forms import add, at, like, part, reshape, stack
from arm_ext.frontends.onnx.quantized import matmul_integer

# Value added to a masked score, if the node has no attribute for it.
_MASKED = -10000.0


@dataclass(frozen=True)
class Heads:
    """Queries, keys and values, each of shape [batch, heads, steps, size]."""

    query: str
    key: str
    value: str


def attention(e: Expansion) -> None:
    """Replace Attention, which projects a sequence to queries, keys and values and attends to itself."""
    x, weight, bias, mask, past, extra, shared = e.inputs(
        "input weights bias? mask_index? past? attention_bias? past_sequence_length?"
    )
    _refuse_shared(e, shared)
    product = add(e, e.emit("MatMul", [x, weight]), bias)
    _self_attention(e, product, x, weight, mask, past, extra)


def quantized_attention(e: Expansion) -> None:
    """Replace QAttention, whose projection is a product of integers."""
    x, weight, bias, xs, ws, mask, xz, wz, past = e.inputs(
        "input weight bias input_scale weight_scale mask_index? input_zero_point? weight_zero_point? past?"
    )
    product = add(e, matmul_integer(e, (x, xs, xz), (weight, ws, wz)), bias)
    _self_attention(e, product, x, weight, mask, past, "")


def _self_attention(
    e: Expansion, product: str, x: str, weight: str, mask: str, past: str, extra: str
) -> None:
    (batch, steps, _), width, count = e.dims(x), e.dims(weight)[1], int(e.attribute("num_heads", 0))
    if e.attribute("do_rotary", 0):
        raise ModelError(
            "it applies a rotary embedding (do_rotary); use RotaryEmbedding before a MultiHeadAttention instead"
        )
    sizes = [*map(int, e.numbers("qkv_hidden_sizes"))] or [width // 3] * 3
    ends = np.cumsum(sizes).tolist()
    parts = [part(e, product, end - size, end) for size, end in zip(sizes, ends, strict=True)]
    query, key, value = (split_heads(e, p, batch, steps, count) for p in parts)
    if past:
        key, value = (e.emit("Concat", [at(e, past, k), new], axis=2) for k, new in enumerate((key, value)))
    if len(e.node.output) > 1 and e.node.output[1]:
        stack(e, [key, value], output=e.node.output[1])
    total = steps + (e.dims(past)[3] if past else 0)
    masks = [_key_mask(e, mask, batch, total, query), extra, _causal(e, steps, total, query)]
    out = attend(e, Heads(query, key, value), masks, sizes[0] // count)
    join_heads(e, out, batch, steps, sizes[2])


def multi_head(e: Expansion) -> None:
    """Replace MultiHeadAttention: attention of queries to keys and values that other nodes project."""
    query, key, value, bias, mask, extra, past_key, past_value, shared, beams = e.inputs(
        "query key? value? bias? key_padding_mask? attention_bias? past_key? past_value? past_sequence_length? "
        "cache_indirection?"
    )
    _refuse_shared(e, shared or beams)
    if not (key and value) or len(e.dims(query)) != 3:
        raise ModelError("its queries, keys and values are packed into one input; pass them as three inputs")
    count = int(e.attribute("num_heads", 0))
    (batch, steps, width), widths = e.dims(query), [e.dims(v)[-1] for v in (query, key, value)]
    if len(e.dims(key)) == 4:  # keys and values of cross-attention have the axis of heads in front
        heads = [split_heads(e, query, batch, steps, count, _bias(e, bias, 0, width)), key, value]
        out_width = count * e.dims(value)[3]
    else:
        ends = np.cumsum(widths).tolist()
        heads = [
            split_heads(e, v, batch, e.dims(v)[1], count, _bias(e, bias, end - size, end))
            for v, size, end in zip((query, key, value), widths, ends, strict=True)
        ]
        out_width = widths[2]
    total = e.dims(key)[2 if len(e.dims(key)) == 4 else 1]
    if past_key:
        total += e.dims(past_key)[2]
        heads[1:] = [
            e.emit("Concat", [p, new], axis=2)
            for p, new in zip((past_key, past_value), heads[1:], strict=True)
        ]
    _, *present, scores = [*e.node.output, "", "", ""][:4]
    if scores:
        raise ModelError("its output qk, the scores, is not supported; leave it out")
    for name, head in zip(present, heads[1:], strict=True):
        if name:
            e.emit("Identity", [head], name)
    masks = [_key_mask(e, mask, batch, total, query), extra, _causal(e, steps, total, query)]
    out = attend(e, Heads(*heads), masks, width // count)
    join_heads(e, out, batch, steps, out_width)


def _bias(e: Expansion, bias: str, start: int, end: int) -> str:
    return part(e, bias, start, end, 0) if bias else ""


def _refuse_shared(e: Expansion, length: str) -> None:
    if length or e.attribute("past_present_share_buffer", 0):
        raise ModelError("it writes into its past's buffer; export it without past_present_share_buffer")


def split_heads(e: Expansion, value: str, batch: int, steps: int, count: int, bias: str = "") -> str:
    """Emit the split of [batch, steps, heads size] to [batch, heads, steps, size]."""
    rows = reshape(e, add(e, value, bias), batch, steps, count, -1)
    return e.emit("Transpose", [rows], perm=[0, 2, 1, 3])


def join_heads(e: Expansion, value: str, batch: int, steps: int, width: int) -> None:
    """Write the node's first output: [batch, heads, steps, size] → [batch, steps, heads size]."""
    rows = e.emit("Transpose", [value], perm=[0, 2, 1, 3])
    reshape(e, rows, batch, steps, width, output=e.node.output[0])


def attend(e: Expansion, heads: Heads, masks: list[str], size: int, cap: float = 0.0) -> str:
    """Emit softmax(scale Q Kᵀ + masks) V; a scale of 0 means 1 / √size."""
    scale = e.attribute("scale", 0.0) or 1 / math.sqrt(size)
    keys = e.emit("Transpose", [heads.key], perm=[0, 1, 3, 2])
    scores = e.emit("MatMul", [heads.query, keys])
    scores = e.emit("Mul", [scores, like(e, scale, heads.query)])
    if cap:
        limit = like(e, cap, heads.query)
        scores = e.emit("Mul", [e.emit("Tanh", [e.emit("Div", [scores, limit])]), limit])
    # Before opset 13 Softmax flattens all axes from the given one on; for the last axis the result is the same.
    weights = e.emit("Softmax", [add(e, scores, *masks)], axis=3)
    return e.emit("MatMul", [weights, heads.value])


def lowest(e: Expansion, query: str) -> float:
    """Return the score that masks a position; adding another mask to it does not overflow."""
    return float(np.finfo(e.dtype(query)).min) / 2


def _causal(e: Expansion, steps: int, total: int, query: str) -> str:
    """Emit the causal mask [1, 1, steps, total] if the node has one."""
    if not e.attribute("unidirectional", 0):
        return ""
    later = np.triu(np.ones((steps, total), np.bool_), total - steps + 1)
    masked = np.where(later, lowest(e, query), 0).astype(e.dtype(query))
    return e.constant(masked[None, None])


def _key_mask(e: Expansion, mask: str, batch: int, total: int, query: str) -> str:
    """Emit a mask of any supported shape as a summand of the scores [batch, heads, steps, total], in Q's dtype."""
    if not mask:
        return ""
    dims = e.dims(mask)
    if len(dims) == 1:
        counts = reshape(e, part(e, mask, 0, batch, 0), batch, 1, 1, 1)
        steps = e.constant(np.arange(total, dtype=np.int32))
        counted = e.emit("Less", [steps, counts])
        if dims[0] == 2 * batch:
            starts = reshape(e, part(e, mask, batch, 2 * batch, 0), batch, 1, 1, 1)
            counted = e.emit("And", [counted, e.emit("Not", [e.emit("Less", [steps, starts])])])
        elif dims[0] != batch:
            raise ModelError(
                f"its mask has shape {dims}; [{batch}], [{2 * batch}] or [{batch}, {total}] is supported"
            )
    elif len(dims) in (2, 3):
        middle = dims[1:-1] or [1]
        counted = e.emit("Greater", [reshape(e, mask, dims[0], 1, *middle, dims[-1]), like(e, 0, mask)])
    else:
        raise ModelError(f"its mask has {len(dims)} dimensions; one to three are supported")
    zero, filled = (like(e, v, query) for v in (0.0, e.attribute("mask_filter_value", _MASKED)))
    return e.emit("Where", [counted, zero, filled])
