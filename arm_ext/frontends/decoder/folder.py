# SPDX-License-Identifier: Apache-2.0
"""Decoders from Hugging Face folders: config.json, safetensors files, tokenizer.json.

Every field of config.json is read here, is known not to change what is computed, or is refused by name; and so is
every tensor. Source: transformers' configuration and modelling files of these architectures.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from arm_ext.common.errors import ModelError, UsageError
from arm_ext.common.text import shown
from arm_ext.frontends.decoder.config import (
    MOST_LAYERS,
    MOST_SIZE,
    Array,
    Decoder,
    DecoderConfig,
    Fields,
    Matrix,
    refuse_not_finite,
    sha256_of,
    shapes_of,
)
from arm_ext.frontends.decoder.safetensors import TensorFiles, files_of
from arm_ext.frontends.decoder.text import TOKENIZER, TextRecord, text_contents

CONFIG = "config.json"

_LARGEST_JSON = 1 << 26
"""Most bytes of a JSON file; tokenizers of 256,000 tokens have 20 MB."""

_WITHOUT_EFFECT = frozenset(
    [
        "_name_or_path",
        "_attn_implementation",
        "_attn_implementation_autoset",
        "architectures",
        "attention_dropout",
        "auto_map",
        "bos_token_id",
        "cache_implementation",
        "chunk_size_feed_forward",
        "decoder_start_token_id",
        "dtype",
        "eos_token_id",
        "finetuning_task",
        "gradient_checkpointing",
        "id2label",
        "initializer_range",
        "is_decoder",
        "is_encoder_decoder",
        "is_llama_config",
        "label2id",
        "max_window_layers",
        "model_type",
        "output_attentions",
        "output_hidden_states",
        "pad_token_id",
        "pretraining_tp",
        "problem_type",
        "return_dict",
        "rope_interleaved",
        "tie_word_embeddings",
        "torch_dtype",
        "transformers.js_config",
        "transformers_version",
        "unk_token_id",
        "use_cache",
        "use_sliding_window",
        "vocab_size",
    ]
)
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "attention_bias": (False, None),
    "mlp_bias": (False, None),
    "attn_logit_softcapping": (None,),
    "final_logit_softcapping": (None,),
    "use_bidirectional_attention": (False, None),
    "partial_rotary_factor": (1.0, 1, None),
    "no_rope_layer_interval": (4, None),
    "sliding_window_pattern": (6, None),
    "_sliding_window_pattern": (6, None),
}
"""Fields that are supported with these values alone."""

_TENSORS = {
    "attention_norm": "input_layernorm",
    "q": "self_attn.q_proj",
    "k": "self_attn.k_proj",
    "v": "self_attn.v_proj",
    "o": "self_attn.o_proj",
    "feed_forward_norm": "post_attention_layernorm",
    "gate": "mlp.gate_proj",
    "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}
_HEAD_NORMS = {"q_norm": "self_attn.q_norm", "k_norm": "self_attn.k_norm"}
_GEMMA_NORMS = {
    "attention_output_norm": "post_attention_layernorm",
    "feed_forward_norm": "pre_feedforward_layernorm",
    "feed_forward_output_norm": "post_feedforward_layernorm",
}
_ACTIVATIONS = {"silu": "silu", "gelu_pytorch_tanh": "gelu_tanh"}


@dataclass(frozen=True)
class _Architecture:
    """What an architecture has beside the layers that all have: tensors, biases, and 1 added to its norms."""

    tensors: Mapping[str, str]
    biases: bool = False
    added: float = 0.0
    change: Callable[[DecoderConfig, Fields], DecoderConfig] = lambda config, _: config


def _qwen(config: DecoderConfig, fields: Fields) -> DecoderConfig:
    if fields.get("use_sliding_window", False):
        raise ModelError(f"{fields.path}: use_sliding_window is unsupported")
    fields.read |= {"sliding_window", "layer_types"}
    return config


def _mistral(config: DecoderConfig, fields: Fields) -> DecoderConfig:
    window = fields.get("sliding_window")
    if window is None:
        return config
    return replace(config, window=fields.integer("sliding_window"), windowed=(True,) * config.layers)


def _smollm3(config: DecoderConfig, fields: Fields) -> DecoderConfig:
    kinds = fields.entries("no_rope_layers", [(layer + 1) % 4 for layer in range(config.layers)])
    fields.read |= {"sliding_window", "layer_types"}
    if fields.get("use_sliding_window", False):
        raise ModelError(f"{fields.path}: use_sliding_window is unsupported")
    if len(kinds) != config.layers:
        raise UsageError(f"{fields.path}: no_rope_layers has {len(kinds)} entries for {config.layers} layers")
    return replace(config, unrotated=frozenset(layer for layer, rotates in enumerate(kinds) if not rotates))


def _gemma3(config: DecoderConfig, fields: Fields) -> DecoderConfig:
    default = ["sliding_attention" if (layer + 1) % 6 else "full_attention" for layer in range(config.layers)]
    kinds = fields.entries("layer_types", default)
    if len(kinds) != config.layers or not set(kinds) <= {"sliding_attention", "full_attention"}:
        raise ModelError(f"{fields.path}: the field layer_types is {shown(str(kinds))}, which is unsupported")
    local = fields.positive("rope_local_base_freq", 10_000.0)
    return replace(
        config,
        window=fields.integer("sliding_window", 4096),
        windowed=tuple(kind == "sliding_attention" for kind in kinds),
        local_base=_rotation(fields, "sliding_attention").positive("rope_theta", local),
        embedding_scale=float(np.float32(math.sqrt(config.hidden))),
        query_scale=fields.positive("query_pre_attn_scalar", config.size) ** -0.5,
    )


_ARCHITECTURES = {
    "llama": _Architecture(_TENSORS),
    "mistral": _Architecture(_TENSORS, change=_mistral),
    "smollm3": _Architecture(_TENSORS, change=_smollm3),
    "qwen2": _Architecture(_TENSORS, biases=True, change=_qwen),
    "qwen3": _Architecture(_TENSORS | _HEAD_NORMS, change=_qwen),
    "gemma3_text": _Architecture(_TENSORS | _HEAD_NORMS | _GEMMA_NORMS, added=1.0, change=_gemma3),
}


def import_folder(folder: Path) -> Decoder:
    """Read a decoder from a folder.

    Raises:
        UsageError: A file is missing or damaged, or a tensor has another shape than the config says.
        ModelError: The architecture, a field or a tensor is unsupported.
    """
    fields = Fields(folder / CONFIG, read_json(folder / CONFIG))
    kind = fields.text("model_type")
    if kind not in _ARCHITECTURES:
        raise ModelError(
            f"{folder}: the architecture {shown(str(kind))} is unsupported; supported are {', '.join(_ARCHITECTURES)}. "
            "Other decoders compile from ONNX or torch.export by `arm-ext compile`"
        )
    architecture = _ARCHITECTURES[kind]
    config = architecture.change(_config(fields, kind), fields)
    _refuse_unread(fields)
    tensors = TensorFiles(folder)
    tied = bool(fields.values.get("tie_word_embeddings", kind == "gemma3_text"))
    matrices, vectors, sources = _weights(folder, architecture, config, tensors, tied)
    sha256 = sha256_of([folder / CONFIG, *files_of(folder)])
    return Decoder(config, folder.resolve().name, "safetensors", sha256, matrices, vectors, sources)


def _config(fields: Fields, kind: str) -> DecoderConfig:
    heads, hidden = fields.integer("num_attention_heads"), fields.integer("hidden_size")
    activation = fields.text("hidden_activation") or fields.text("hidden_act", "silu")
    fields.read.add("hidden_act")
    if activation not in _ACTIVATIONS:
        raise ModelError(f"{fields.path}: the activation {shown(str(activation))} is unsupported")
    size = fields.integer("head_dim", hidden // heads, MOST_SIZE)
    rotation = _rotation(fields, "full_attention")
    base = rotation.positive("rope_theta", fields.positive("rope_theta", 10_000.0))
    return DecoderConfig(
        kind,
        fields.integer("vocab_size"),
        hidden,
        fields.integer("num_hidden_layers", most=MOST_LAYERS),
        heads,
        fields.integer("num_key_value_heads", heads),
        size,
        fields.integer("intermediate_size"),
        fields.number("rms_norm_eps", 1e-6),
        fields.integer("max_position_embeddings"),
        base,
        _factors(rotation, base, size),
        activation=_ACTIVATIONS[activation],
        end=_ends(fields),
    )


def _ends(fields: Fields) -> tuple[int, ...]:
    """Return the tokens that end a text: a number, or a list of numbers."""
    name = "eos_token_id"
    found = fields.get(name, [])
    each = found if isinstance(found, list) else [found]
    numbers = Fields(fields.path, {f"{name}[{at}]": value for at, value in enumerate(each)})
    return tuple(int(numbers.number(at)) for at in numbers.values)


def _rotation(fields: Fields, layers: str) -> Fields:
    """Return the parameters of rotations, which stand in rope_parameters (per kind of layer) or rope_scaling."""
    fields.read |= {"rope_theta", "rope_local_base_freq", "rope_scaling"}
    name = "rope_parameters" if fields.get("rope_parameters") else "rope_scaling"
    found = fields.inner(name, fields.get(name, {}))
    return found.inner(layers, found.get(layers)) if layers in found.values else found


def _factors(rotation: Fields, theta: float, size: int) -> tuple[float, ...]:
    """Return the divisors of the frequencies.

    Source: transformers' modeling_rope_utils, "linear" and "llama3".
    """
    kind = rotation.text("rope_type", rotation.text("type", "default"))
    if kind == "default":
        return ()
    if kind == "linear":
        return (rotation.positive("factor"),) * (size // 2)
    if kind != "llama3":
        raise ModelError(f"{rotation.path}: rotations of the kind {shown(str(kind))} are unsupported")
    factor, low, high, length = (
        rotation.positive(name)
        for name in ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")
    )
    if high <= low:
        raise UsageError(f"{rotation.path}: the fields of {rotation.label}llama3 contradict each other")
    waves = 2 * np.pi * theta ** (np.arange(0, size, 2) / size)
    smooth = np.clip((length / waves - low) / (high - low), 0, 1)
    return tuple(1 / ((1 - smooth) / factor + smooth))


def _refuse_unread(fields: Fields) -> None:
    for name, value in fields.values.items():
        if name in fields.read or name in _WITHOUT_EFFECT:
            continue
        if name in _NEUTRAL and value in _NEUTRAL[name]:
            continue
        raise ModelError(
            f"{fields.path}: the field {shown(name)}, {shown(str(value))[:80]}, is unsupported: it may change what the "
            "model computes"
        )


def _weights(
    folder: Path, architecture: _Architecture, config: DecoderConfig, tensors: TensorFiles, tied: bool
) -> tuple[dict[str, Matrix], dict[str, Array], dict[str, str]]:
    """Return matrices, vectors, and their names in the files."""
    shapes = shapes_of(folder / CONFIG, config)
    names = {"embedding": "model.embed_tokens.weight", "norm": "model.norm.weight"}
    if not tied:
        names["head"] = "lm_head.weight"
    expected = {own: shapes[own] for own in names}
    for layer in range(config.layers):
        for own, source in architecture.tensors.items():
            names[f"{layer}.{own}"] = f"model.layers.{layer}.{source}.weight"
            expected[f"{layer}.{own}"] = shapes[own]
        for own in "qkv" if architecture.biases else "":
            names[f"{layer}.{own}.bias"] = f"model.layers.{layer}.self_attn.{own}_proj.bias"
            expected[f"{layer}.{own}.bias"] = shapes[f"{own}.bias"]
    known = set(names.values()) | ({"lm_head.weight"} if tied else set())
    if left := sorted(name for name in tensors.names - known if not name.endswith("rotary_emb.inv_freq")):
        raise ModelError(
            f"{folder}: the tensor {shown(left[0])} is not known of {config.architecture} models"
        )
    matrices: dict[str, Matrix] = {}
    vectors: dict[str, Array] = {}
    for own, source in names.items():
        if source not in tensors.names:
            raise UsageError(
                f"{folder}: the tensor {source} is missing, which {config.architecture} models have"
            )
        value = tensors.read(source)
        if value.shape != expected[own]:
            raise UsageError(
                f"{folder}: the tensor {source} is {list(value.shape)}, not {list(expected[own])}"
            )
        refuse_not_finite(folder, source, value)
        if value.ndim > 1:
            matrices[own] = value
        else:
            vectors[own] = value + np.float32(architecture.added if own.endswith("norm") else 0)
    return matrices, vectors, names


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file.

    Raises:
        UsageError: The file is missing, too large, or holds no JSON object.
    """
    try:
        if path.stat().st_size > _LARGEST_JSON:
            raise UsageError(f"{path}: has more than {_LARGEST_JSON:,} bytes")
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as err:
        raise UsageError(f"{path}: cannot be read as JSON: {err}") from err
    if not isinstance(found, dict):
        raise UsageError(f"{path}: holds no JSON object")
    return found


def text_files(folder: Path, known: TextRecord) -> dict[str, bytes]:
    """Return the files of a package that make the model speak; none if the folder has no tokenizer.json.

    Args:
        folder: The folder.
        known: What does not follow from the tokenizer.
    """
    if not (folder / TOKENIZER).is_file():
        return {}
    tokenizer, path = read_json(folder / TOKENIZER), folder / "tokenizer_config.json"
    settings = read_json(path) if path.is_file() else {}
    template = settings.get("chat_template", "")
    if (jinja := folder / "chat_template.jinja").is_file():
        template = jinja.read_text(encoding="utf-8")
    added = {str(token.get("content")): token.get("id") for token in tokenizer.get("added_tokens", [])}
    special = {name: _text_of(settings.get(name)) for name in ("bos_token", "eos_token")}
    begin = added.get(special["bos_token"])
    adds = settings.get("add_bos_token", special["bos_token"] in json.dumps(tokenizer.get("post_processor")))
    found = {
        "begin": begin if adds and special["bos_token"] else None,
        "chat_template": template if isinstance(template, str) else "",
        "special": {name: text for name, text in special.items() if text},
    }
    return text_contents((folder / TOKENIZER).read_bytes(), known.model_copy(update=found))


def _text_of(token: object) -> str:
    """Return the text of a token, which is a string, or an object with its content."""
    return str(token.get("content", "")) if isinstance(token, dict) else str(token or "")
