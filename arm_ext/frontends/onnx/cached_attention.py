# SPDX-License-Identifier: Apache-2.0
"""onnxruntime's attention with a cache: new keys and values are appended to the past ones.

Queries attend to all of them.

    GroupQueryAttention(q, k, v, caches, ends)    →    caches with k and v in them, and attention of q to these

The caches have static lengths; how much of them counts is known at run time, and whether the steps are a prompt may
be, too. A step sees none after it.
Source: onnxruntime's contrib operator definition GroupQueryAttention and its CPU kernel, 1.31.
"""

import numpy as np
from onnx import TensorProto

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.attention import Heads, attend, join_heads, lowest, split_heads
from arm_ext.frontends.onnx.expansion import Expansion
from arm_ext.frontends.onnx.opset_forms import ints, like, part, reshape
from arm_ext.frontends.onnx.rotary import rotate

_UNSUPPORTED_INPUTS = "head_sink? k_scale? v_scale? q_norm_weight? k_norm_weight?"


def group_query(e: Expansion) -> None:
    """Replace GroupQueryAttention, in which groups of queries share keys and values, with a cache of static length."""
    (
        query,
        key,
        value,
        past_key,
        past_value,
        lengths,
        total_name,
        cosines,
        sines,
        positions,
        extra,
        *others,
    ) = e.inputs(
        f"query key? value? past_key? past_value? seqlens_k total_sequence_length cos_cache? sin_cache? "
        f"position_ids? attention_bias? {_UNSUPPORTED_INPUTS}"
    )
    if any(others) or e.attribute("smooth_softmax", 0) or any(e.node.output[3:]):
        raise ModelError(
            "it has head sinks, quantised keys, norms of keys or smooth softmax, which are not supported"
        )
    count, groups = (int(e.attribute(name, 0)) for name in ("num_heads", "kv_num_heads"))
    batch, steps, width = e.dims(query)
    if not key:
        size = width // (count + 2 * groups)
        ends = [count * size, (count + groups) * size, width]
        query, key, value = (part(e, query, a, b) for a, b in zip([0, *ends], ends, strict=False))
    size = e.dims(query)[2] // count
    heads = [split_heads(e, v, batch, steps, n) for v, n in ((query, count), (key, groups), (value, groups))]
    held = e.dims(past_key)[2] if past_key else 0
    given = e.value(total_name)
    # If the total length is known only at run time, the past is the buffer of all steps, and unused steps are masked.
    total = int(given.reshape(-1)[0]) if given is not None else held or steps
    # Number of past steps of each batch element, [batch, 1].
    before = _before(e, lengths, batch, steps, total_name if given is None and held else total)
    if e.attribute("do_rotary", 0):
        at_steps = e.emit("Add", [before, ints(e, *range(steps))])
        at_steps = e.emit("Cast", [positions], to=TensorProto.INT64) if positions else at_steps
        turned = {"interleaved": bool(e.attribute("rotary_interleaved", 0))}
        heads[:2] = [rotate(e, v, at_steps, (cosines, sines), **turned) for v in heads[:2]]
    present = [
        _appended(e, past, new, before, max(held, total)) if held else new
        for past, new in zip((past_key, past_value), heads[1:], strict=True)
    ]
    for name, rows in zip([*e.node.output[1:3], "", ""][:2], present, strict=True):
        if name:
            e.emit("Identity", [rows], name)
    seen = [_repeated(e, rows, total, count // groups) for rows in present]
    masks = [extra, _window(e, before, steps, total, query)]
    out = attend(e, Heads(heads[0], *seen), masks, size, e.attribute("softcap", 0.0))
    join_heads(e, out, batch, steps, count * size)


def _before(e: Expansion, lengths: str, batch: int, steps: int, total: int | str) -> str:
    none = e.constant(np.zeros((batch, 1), np.int64))
    if total == steps:  # a prompt
        return none
    wide = reshape(e, e.emit("Cast", [lengths], to=TensorProto.INT64), batch, 1)
    before = e.emit("Sub", [wide, ints(e, steps - 1)])
    if isinstance(total, int):
        return before
    prompt = e.emit("Equal", [e.emit("Cast", [total], to=TensorProto.INT64), ints(e, steps)])
    return e.emit("Where", [reshape(e, prompt, 1, 1), none, before])


def _appended(e: Expansion, past: str, new: str, before: str, length: int) -> str:
    """Emit a cache of `length` steps, with the new steps written behind the past steps of each batch element."""
    batch, heads, held, size = e.dims(past)
    steps = e.dims(new)[2]
    if length > held:
        filler = e.constant(np.zeros((batch, heads, length - held, size), e.dtype(past)))
        past = e.emit("Concat", [past, filler], axis=2)
    place = e.emit(
        "Sub", [e.constant(np.arange(length)[None, None, :, None]), reshape(e, before, batch, 1, 1, 1)]
    )
    first, last = ints(e, 0), ints(e, steps - 1)
    early, late = e.emit("Less", [place, first]), e.emit("Greater", [place, last])
    inside = e.emit("Where", [early, first, e.emit("Where", [late, last, place])])
    index = e.emit("Expand", [inside, ints(e, batch, heads, length, size)])
    rows = e.emit("GatherElements", [new, index], axis=2)
    # onnxruntime fills steps that are not written yet with zeros.
    rows = e.emit("Where", [late, like(e, 0, new), rows])
    return e.emit("Where", [early, past, rows])


def _repeated(e: Expansion, rows: str, total: int, times: int) -> str:
    """Emit [batch, groups, length, size] with each group repeated: [batch, groups · times, total, size]."""
    batch, groups, length, size = e.dims(rows)
    rows = part(e, rows, 0, total, 2) if length != total else rows
    if times == 1:
        return rows
    shape = [batch, groups, times, total, size]
    wide = e.emit("Expand", [reshape(e, rows, batch, groups, 1, total, size), ints(e, *shape)])
    return reshape(e, wide, batch, groups * times, total, size)


def _window(e: Expansion, before: str, steps: int, total: int, query: str) -> str:
    """Emit the mask [batch, 1, steps, total] of a causal local window."""
    window = int(e.attribute("local_window_size", -1))
    rows = np.arange(total)[None, None, None, :] - np.arange(steps)[None, None, :, None]
    # Position of each key relative to the query's step; keys with positive values are masked.
    batch = e.dims(before)[0]
    ahead = e.emit("Sub", [e.constant(rows), reshape(e, before, batch, 1, 1, 1)])
    hidden = e.emit("Greater", [ahead, ints(e, 0)])
    if window > 0:
        hidden = e.emit("Or", [hidden, e.emit("Less", [ahead, ints(e, 1 - window)])])
    low, zero = (like(e, v, query) for v in (lowest(e, query), 0.0))
    return e.emit("Where", [hidden, low, zero])
