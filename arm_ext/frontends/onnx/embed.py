# SPDX-License-Identifier: Apache-2.0
"""Replacements of onnxruntime's fused embeddings, and of weights quantised in blocks.

    MatMulNBits(x, packed W, s, z)    →    MatMul(x, Transpose(W' s)), a DequantizeLinear of W' = W - z in blocks

Source: onnxruntime's contrib operator definitions, version 1 of com.microsoft.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.block_products import in_blocks, is_in_blocks
from arm_ext.frontends.onnx.expansion import Expansion
from arm_ext.frontends.onnx.fused import layer_norm
from arm_ext.frontends.onnx.opset_forms import add, like, part, reduce
from arm_ext.frontends.onnx.quantized import by_element, matrix_of_blocks

Array = npt.NDArray[Any]

_EPSILON = 1e-12
"""Default epsilon of the embeddings' layer normalisation."""

_BYTE_BITS = 8


def embed(e: Expansion) -> None:
    """Replace EmbedLayerNormalization by gathers from its tables, their sum, and the sum's normalisation."""
    ids, segments, words, places, segment_table, gamma, beta, mask, positions = e.inputs(
        "input_ids segment_ids? word_embedding position_embedding segment_embedding? gamma beta mask? position_ids?"
    )
    _embed(e, ids, segments, (words, places, segment_table), (gamma, beta), mask, positions)


def quantized_embed(e: Expansion) -> None:
    """Replace QEmbedLayerNormalization, whose tables and parameters are quantised, as `embed` does; dequantise them."""
    given = e.inputs(
        "input_ids segment_ids? word position segment? gamma beta mask? word_scale position_scale segment_scale? "
        "gamma_scale beta_scale word_zero position_zero segment_zero? gamma_zero beta_zero"
    )
    ids, segments, mask = given[0], given[1], given[7]
    held = zip(given[2:7], given[8:13], given[13:18], strict=True)
    words, places, segment_table, gamma, beta = (
        e.constant(_scaled(*(e.known(name) for name in triple))) if triple[0] else "" for triple in held
    )
    _embed(e, ids, segments, (words, places, segment_table), (gamma, beta), mask, "")


def _scaled(value: Array, scale: Array, zero: Array) -> Array:
    return (value.astype(np.float32) - zero.astype(np.float32)) * scale.astype(np.float32)


def _embed(
    e: Expansion,
    ids: str,
    segments: str,
    tables: tuple[str, str, str],
    affine: tuple[str, str],
    mask: str,
    positions: str,
) -> None:
    batch, steps = e.dims(ids)
    rows = e.emit("Gather", [tables[0], ids], axis=0)
    places = (
        e.emit("Gather", [tables[1], positions], axis=0) if positions else part(e, tables[1], 0, steps, 0)
    )
    total = add(e, rows, places, e.emit("Gather", [tables[2], segments], axis=0) if segments else "")
    layer_norm(e, total, *affine, e.attribute("epsilon", _EPSILON))
    _, lengths, sums = [*e.node.output, "", ""][:3]
    if lengths and mask:
        ones = e.emit("Cast", [e.emit("Equal", [mask, like(e, 1, mask)])], to=TensorProto.INT32)
        reduce(e, "ReduceSum", ones, [1], keepdims=False, output=lengths)
    elif lengths:
        e.emit("Identity", [e.constant(np.zeros(batch, np.int32))], lengths)
    if sums:
        e.emit("Identity", [total], sums)


def matmul_blocks(e: Expansion) -> None:
    """Replace MatMulNBits by a MatMul with the dequantised matrix, whose columns were quantised in blocks."""
    x, packed, scales, zeros, order, bias = e.inputs("A B scales zero_points? g_idx? bias?")
    if order:
        raise ModelError(
            "its rows are reordered (input g_idx), which is not supported; quantise without reordering"
        )
    k, n, bits, block = (
        int(e.attribute(name, 4 if name == "bits" else 0)) for name in ("K", "N", "bits", "block_size")
    )
    blocks = -(-k // block)
    levels = _unpacked(e.known(packed), bits).reshape(n, -1)[:, : blocks * block].reshape(n, blocks, block)
    zero = _zeros(e, zeros, (n, blocks), bits)
    steps = e.known(scales).reshape(n, blocks)
    output = e.node.output[0]
    if is_in_blocks(e, x):
        y = in_blocks(e, x, levels, steps, zero, k)
        e.emit("Add", [y, bias], output) if bias else e.emit("Identity", [y], output)
        return
    if steps.dtype == e.dtype(x):
        rows = matrix_of_blocks(e, levels.reshape(n, -1)[:, :k], steps, zero, block)
        matrix = e.emit("Transpose", [rows], perm=[1, 0])
    else:
        weight = _scaled(levels, steps[:, :, None], zero[:, :, None])
        matrix = e.constant(weight.reshape(n, -1)[:, :k].T.astype(e.dtype(x)))
    y = e.emit("MatMul", [x, matrix], "" if bias else output)
    if bias:
        e.emit("Add", [y, bias], output)


def _zeros(e: Expansion, name: str, shape: tuple[int, int], bits: int) -> Array:
    """Return the zero points [rows, blocks]; without the input, they are the middle of the range."""
    if not name:
        return np.full(shape, 2 ** (bits - 1))
    value = e.known(name)
    if value.dtype != np.uint8:
        return value.reshape(shape)
    return _unpacked(value, bits).reshape(shape[0], -1)[:, : shape[1]]


def _unpacked(value: Array, bits: int) -> Array:
    """Unpack numbers of a few bits along the last axis; the first number is in the lowest bits of a byte."""
    shifts = np.arange(0, _BYTE_BITS, bits, dtype=np.uint8)
    numbers: Array = (value.astype(np.uint8)[..., None] >> shifts) & (2**bits - 1)
    flat: Array = numbers.reshape(*value.shape[:-1], -1)
    return flat


def gather_blocks(e: Expansion) -> None:
    """Replace GatherBlockQuantized with a constant table by a Gather from the dequantised table."""
    table, indices, scales, zeros = e.inputs("data indices scales zero_points?")
    bits, block = int(e.attribute("bits", 4)), int(e.attribute("block_size", 128))
    value, steps = e.known(table), e.known(scales)
    rank = value.ndim
    along = int(e.attribute("quantize_axis", 1)) % rank
    if value.dtype == np.uint8 and bits < _BYTE_BITS:
        if along != rank - 1:
            raise ModelError(
                f"it packs numbers of {bits} bits along an axis that is not the last; only the last axis is "
                "supported"
            )
        value = _unpacked(value, bits)
        zero = _unpacked(e.known(zeros), bits)[..., : steps.shape[-1]] if zeros else np.array(2 ** (bits - 1))
    else:
        middle = 2 ** (bits - 1) if value.dtype == np.uint8 else 0
        zero = e.known(zeros) if zeros else np.array(middle)
    scale, zero = (by_element(v, block, along, value.shape[along]) if v.ndim else v for v in (steps, zero))
    whole = e.constant(_scaled(value, scale, zero).astype(steps.dtype))
    e.emit("Gather", [whole, indices], e.node.output[0], axis=int(e.attribute("gather_axis", 0)))
