# SPDX-License-Identifier: Apache-2.0
"""Advice for ONNX operators that cannot be compiled."""

from onnx import defs

from arm_ext.frontends.onnx.expansion import CONTRIB

# Domain → the kind of its operators, and advice.
_DOMAINS = {
    "ai.onnx.contrib": "of onnxruntime-extensions: run it before or after the package",
    "ai.onnx.ml": "of strings or maps: run it before or after the package",
    "ai.onnx.preview.training": "of training: export the model for inference",
    "com.microsoft.extensions": "of onnxruntime-extensions: run it before or after the package",
    "com.microsoft.nchwc": "onnxruntime's layout for the machine that it ran on: "
    "save its optimised model with ORT_ENABLE_EXTENDED, not ORT_ENABLE_ALL",
}

_NO_RANDOM = "a package draws no random numbers: choose by `compile --random seed=N`, zeros or input"
_NO_TEXT = "texts are no tensors of numbers: run it before the package"
_SEARCH = "a search around a decoder: compile the decoder alone, and search in the program that calls it"

# (domain, operator) → supported operators that can replace the operator, or why no replacement exists.
_OPERATORS = {
    ("", "BitCast"): "no decomposition: write Cast, if the value is what is meant",
    ("", "DeformConv"): "decomposition: GridSample and MatMul",
    ("", "Multinomial"): "a package draws no random numbers: end the model before it",
    ("", "RandomNormal"): _NO_RANDOM,
    ("", "RandomNormalLike"): _NO_RANDOM,
    ("", "RandomUniform"): _NO_RANDOM,
    ("", "RandomUniformLike"): _NO_RANDOM,
    ("", "RegexFullMatch"): _NO_TEXT,
    ("", "SequenceMap"): "decomposition: Loop, over a tensor in the place of the sequence",
    ("", "StringConcat"): _NO_TEXT,
    ("", "StringNormalizer"): _NO_TEXT,
    ("", "StringSplit"): _NO_TEXT,
    ("", "TfIdfVectorizer"): _NO_TEXT,
    (CONTRIB, "BeamSearch"): _SEARCH,
    (CONTRIB, "BiasAdd"): "decomposition: Add",
    (CONTRIB, "BiasSoftmax"): "decomposition: Add and Softmax",
    (CONTRIB, "BiasSplitGelu"): "decomposition: Add, Split, Gelu and Mul",
    (CONTRIB, "ConvTransposeWithDynamicPads"): "decomposition: ConvTranspose, its pads as attributes",
    (
        CONTRIB,
        "DecoderMaskedMultiHeadAttention",
    ): "decomposition: MultiHeadAttention with past_key and past_value",
    (CONTRIB, "DecoderMaskedSelfAttention"): "decomposition: Attention with past",
    (CONTRIB, "EPContext"): "compiled for another device: export the model without its execution provider",
    (CONTRIB, "ExpandDims"): "decomposition: Unsqueeze",
    (CONTRIB, "FusedMatMulActivation"): "decomposition: MatMul and the activation",
    (CONTRIB, "GemmFastGelu"): "decomposition: MatMul, Add and FastGelu",
    (CONTRIB, "GreedySearch"): _SEARCH,
    (CONTRIB, "GroupNorm"): "decomposition: Transpose and GroupNormalization",
    (CONTRIB, "MatMulBnb4"): "decomposition: MatMulNBits, or DequantizeLinear and MatMul",
    (CONTRIB, "MatMulFpQ4"): "decomposition: MatMulNBits, or DequantizeLinear and MatMul",
    (CONTRIB, "NhwcConv"): "decomposition: Transpose and Conv",
    (CONTRIB, "PackedAttention"): "decomposition: Attention, its batch not packed",
    (CONTRIB, "PackedMultiHeadAttention"): "decomposition: MultiHeadAttention, its batch not packed",
    (CONTRIB, "Sampling"): _SEARCH,
    (CONTRIB, "SkipGroupNorm"): "decomposition: Add, Transpose and GroupNormalization",
    (CONTRIB, "Tokenizer"): _NO_TEXT,
    (CONTRIB, "Unique"): "decomposition: Unique of the standard operators",
    (CONTRIB, "WhisperBeamSearch"): _SEARCH,
}


def advice(domain: str, operator: str) -> str:
    """Return the decomposition that can replace an operator that cannot be compiled, or other advice.

    Args:
        domain: "" for the standard one.
        operator: Name of the operator in that domain.
    """
    known = _OPERATORS.get((domain, operator)) or _DOMAINS.get(domain)
    if known is not None:
        return known
    if domain == CONTRIB or defs.has(operator, domain):
        return "no decomposition is known"
    return "unknown: define it in the model by a function of standard operators, which is inlined"
