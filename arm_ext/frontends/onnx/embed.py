# SPDX-License-Identifier: Apache-2.0
"""Replacements of onnxruntime's fused embeddings.

Source: onnxruntime's contrib operator definitions, version 1 of com.microsoft.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from arm_ext.frontends.onnx.expansion import Expansion
from arm_ext.frontends.onnx.fused import layer_norm
from arm_ext.frontends.onnx.opset_forms import add, like, part, reduce
from arm_ext.frontends.onnx.quantized import scaled

Array = npt.NDArray[Any]

_EPSILON = 1e-12
"""Default epsilon of the embeddings' layer normalisation."""


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
        e.constant(scaled(*(e.known(name) for name in triple))) if triple[0] else "" for triple in held
    )
    _embed(e, ids, segments, (words, places, segment_table), (gamma, beta), mask, "")


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
