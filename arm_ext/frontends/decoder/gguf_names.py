# SPDX-License-Identifier: Apache-2.0
"""The architectures of GGUF files: their fields, and the names and shapes of their tensors.

Source: gguf's constants (fields and tensor names), and llama.cpp's graphs for what the fields leave open: which pairs
of elements are rotated, Gemma's local layers, and SmolLM3's layers without rotation.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from arm_ext.common.errors import ModelError
from arm_ext.common.text import shown
from arm_ext.frontends.decoder.config import MOST_LAYERS, MOST_SIZE, DecoderConfig, Fields, Matrix, shapes_of
from schedules.numerics.blocks import BlockWeights


@dataclass(frozen=True)
class TensorNames:
    """The tensors of a file.

    Attributes:
        tensors: Own name → name in the file.
        shapes: Own name → shape.
        optional: Own names of tensors that files may lack.
        pairs: Whether rotations are of neighbouring elements of a head; else of elements of its two halves.
        config: The sizes.
        ignored: Names of tensors that are not needed.
    """

    tensors: Mapping[str, str]
    shapes: Mapping[str, tuple[int, ...]]
    optional: frozenset[str]
    pairs: bool
    config: DecoderConfig
    ignored: frozenset[str] = frozenset()

    def ordered(self, own: str, matrix: Matrix) -> Matrix:
        """Return a matrix with the rows of queries and keys in the order in which halves are rotated."""
        part = own.rpartition(".")[2]
        if not self.pairs or part not in ("q", "k"):
            return matrix
        heads = self.config.heads if part == "q" else self.config.groups
        order = np.arange(heads * self.config.size).reshape(heads, -1, 2).swapaxes(1, 2).ravel()
        if not isinstance(matrix, BlockWeights):
            return np.asarray(matrix[order])
        offsets = None if matrix.offsets is None else matrix.offsets[order]
        return replace(matrix, held=matrix.held[order], scales=matrix.scales[order], offsets=offsets)


@dataclass(frozen=True)
class _Architecture:
    """What an architecture has beside the layers that all have.

    Attributes:
        pairs: As in `TensorNames`.
        biases: Whether queries, keys and values have biases.
        norms: Further norms of a layer: own name → name in the file.
        change: Completes the config; reads further fields by the second argument.
    """

    pairs: bool = False
    biases: bool = False
    norms: Mapping[str, str] = field(default_factory=dict)
    change: Callable[[DecoderConfig, Fields], DecoderConfig] = lambda config, _: config


_LAYER = {
    "attention_norm": "attn_norm",
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "feed_forward_norm": "ffn_norm",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
}
_HEAD_NORMS = {"q_norm": "attn_q_norm", "k_norm": "attn_k_norm"}
_OUTPUT_NORMS = {"attention_output_norm": "post_attention_norm", "feed_forward_output_norm": "post_ffw_norm"}

_NO_ROTATION_EVERY = 4
_GLOBAL_EVERY = 6
_LOCAL_BASE = 10_000.0


def _smollm3(config: DecoderConfig, fields: Fields) -> DecoderConfig:
    every = range(_NO_ROTATION_EVERY - 1, config.layers, _NO_ROTATION_EVERY)
    return replace(config, unrotated=frozenset(every))


def _gemma3(config: DecoderConfig, fields: Fields) -> DecoderConfig:
    windowed = tuple((layer + 1) % _GLOBAL_EVERY != 0 for layer in range(config.layers))
    return replace(
        config,
        activation="gelu_tanh",
        window=fields.integer("attention.sliding_window"),
        windowed=windowed,
        local_base=fields.positive("rope.freq_base_swa", _LOCAL_BASE),
        embedding_scale=float(np.float32(math.sqrt(config.hidden))),
    )


ARCHITECTURES: dict[str, _Architecture] = {
    "llama": _Architecture(pairs=True),
    "smollm3": _Architecture(pairs=True, change=_smollm3),
    "qwen2": _Architecture(biases=True),
    "qwen3": _Architecture(norms=_HEAD_NORMS),
    "gemma3": _Architecture(norms=_HEAD_NORMS | _OUTPUT_NORMS, change=_gemma3),
}


def architecture_of(path: Path, given: Mapping[str, Any]) -> tuple[DecoderConfig, TensorNames]:
    """Return the sizes of a decoder, and the names and shapes of its tensors.

    Raises:
        UsageError: A field is missing or no number.
        ModelError: The architecture or a field is unsupported.
    """
    name = given.get("general.architecture")
    if not isinstance(name, str) or name not in ARCHITECTURES:
        raise ModelError(
            f"{path}: the architecture {shown(str(name))} is unsupported; supported are {', '.join(ARCHITECTURES)}. "
            "Other decoders compile from ONNX or torch.export by `arm-ext compile`"
        )
    if int(given.get("split.count") or 1) > 1:
        raise ModelError(
            f"{path}: the model is split into several files; join them by llama-gguf-split --merge"
        )
    architecture, fields = ARCHITECTURES[name], _fields(path, given, name)
    config = architecture.change(_config(fields, name, given), fields)
    if unread := fields.unread():
        raise ModelError(
            f"{path}: the field {shown(fields.label + unread[0])} of {name} models is unsupported"
        )
    return config, _names(architecture, config, shapes_of(path, config))


def _fields(path: Path, given: Mapping[str, Any], architecture: str) -> Fields:
    """Return the fields that belong to the architecture."""
    prefix = architecture + "."
    own = {name.removeprefix(prefix): value for name, value in given.items() if name.startswith(prefix)}
    return Fields(path, own, prefix)


def _config(fields: Fields, name: str, given: Mapping[str, Any]) -> DecoderConfig:
    heads, hidden = fields.integer("attention.head_count"), fields.integer("embedding_length")
    size = fields.integer("attention.key_length", hidden // heads, MOST_SIZE)
    tokens = given.get("tokenizer.ggml.tokens")
    vocabulary = len(tokens) if isinstance(tokens, list) else 0
    if fields.integer("attention.value_length", size) != size:
        raise ModelError(f"{fields.path}: values of another size than keys are unsupported")
    if fields.integer("rope.dimension_count", size) != size:
        raise ModelError(
            f"{fields.path}: rotations of a part of a head (rope.dimension_count) are unsupported"
        )
    if (scaling := fields.get("rope.scaling.type", "none")) != "none":
        raise ModelError(f"{fields.path}: rope.scaling.type {shown(str(scaling))} is unsupported")
    end = given.get("tokenizer.ggml.eos_token_id")
    return DecoderConfig(
        name,
        fields.integer("vocab_size", vocabulary or None),
        hidden,
        fields.integer("block_count", most=MOST_LAYERS),
        heads,
        fields.integer("attention.head_count_kv", heads),
        size,
        fields.integer("feed_forward_length"),
        fields.number("attention.layer_norm_rms_epsilon"),
        fields.integer("context_length"),
        fields.positive("rope.freq_base", 10_000.0),
        end=(end,) if isinstance(end, int) else (),
    )


def _names(
    architecture: _Architecture, config: DecoderConfig, known: Mapping[str, tuple[int, ...]]
) -> TensorNames:
    names = {"embedding": "token_embd.weight", "norm": "output_norm.weight", "head": "output.weight"}
    shapes = {own: known[own] for own in names}
    for layer in range(config.layers):
        parts = {own: f"{source}.weight" for own, source in (_LAYER | dict(architecture.norms)).items()}
        if architecture.biases:
            parts |= {f"{own}.bias": f"attn_{own}.bias" for own in "qkv"}
        for own, source in parts.items():
            names[f"{layer}.{own}"] = f"blk.{layer}.{source}"
            shapes[f"{layer}.{own}"] = known[own]
    return TensorNames(names, shapes, frozenset({"head"}), architecture.pairs, config)
