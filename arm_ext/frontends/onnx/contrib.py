# SPDX-License-Identifier: Apache-2.0
"""Replacements of onnxruntime's contributed operators; those of quantised operators are in `quantized`."""

from functools import partial

from arm_ext.frontends.onnx.attention import attention, multi_head, quantized_attention
from arm_ext.frontends.onnx.block_products import gather_blocks, matmul_blocks
from arm_ext.frontends.onnx.cached_attention import group_query
from arm_ext.frontends.onnx.embed import embed, quantized_embed
from arm_ext.frontends.onnx.expansion import CONTRIB, Expand
from arm_ext.frontends.onnx.fused import (
    conv,
    gelu,
    gelu_quick,
    gelu_tanh,
    gemm,
    matmul,
    max_pool_channels_last,
    pad,
    plain_norm,
    simplified_norm,
    skip_norm,
)
from arm_ext.frontends.onnx.older_opsets import group_norm_by_group
from arm_ext.frontends.onnx.opset_forms import standard
from arm_ext.frontends.onnx.recurrent import quantized_lstm
from arm_ext.frontends.onnx.rotary import rotary

_FUSED: dict[str, Expand] = {
    "Attention": attention,
    "BiasGelu": gelu,
    "DynamicQuantizeLSTM": quantized_lstm,
    "EmbedLayerNormalization": embed,
    "FastGelu": gelu_tanh,
    "FusedConv": conv,
    "FusedGemm": gemm,
    "FusedMatMul": matmul,
    "GatherBlockQuantized": gather_blocks,
    "GatherND": standard,
    "Gelu": gelu,
    "GroupNormalization": group_norm_by_group,
    "GroupQueryAttention": group_query,
    "LayerNormalization": plain_norm,
    "MatMulNBits": matmul_blocks,
    "MultiHeadAttention": multi_head,
    "NhwcFusedConv": partial(conv, channels_last=True),
    "NhwcMaxPool": max_pool_channels_last,
    "Pad": pad,
    "QAttention": quantized_attention,
    "QEmbedLayerNormalization": quantized_embed,
    "QuickGelu": gelu_quick,
    "Range": standard,
    "RotaryEmbedding": rotary,
    "SimplifiedLayerNormalization": simplified_norm,
    "SkipLayerNormalization": skip_norm,
    "SkipSimplifiedLayerNormalization": partial(skip_norm, simplified=True),
    "TransposeMatMul": matmul,
    "Trilu": standard,
}

# (domain, operator) → the function that emits its replacement.
EXPANSIONS: dict[tuple[str, str], Expand] = {(CONTRIB, name): expand for name, expand in _FUSED.items()}
