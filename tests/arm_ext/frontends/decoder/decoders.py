# SPDX-License-Identifier: Apache-2.0
"""Random decoders of few layers as transformers makes them: folders, and GGUF files of the same weights."""

import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from gguf import GGMLQuantizationType, GGUFWriter, quants

from arm_ext.frontends.decoder import folder as folders

SIZES = {
    "vocab_size": 96,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
    "max_position_embeddings": 64,
    "head_dim": 16,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
    "rope_theta": 500_000.0,
}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "Llama": {"tie_word_embeddings": True},
    "Mistral": {"sliding_window": 5},
    "SmolLM3": {"num_hidden_layers": 4},
    "Qwen2": {},
    "Qwen3": {},
    "Gemma3": {"num_hidden_layers": 6, "sliding_window": 5, "query_pre_attn_scalar": 16},
}
SCALED = {"rope_parameters": _LLAMA3}


@cache
def decoder(name: str, scaled: bool = False) -> Any:
    """A model of an architecture; its norms are not 1, and its biases not 0."""
    torch.manual_seed(0)
    kind = "Gemma3TextConfig" if name == "Gemma3" else f"{name}Config"
    config = getattr(transformers, kind)(**SIZES | ARCHITECTURES[name] | (SCALED if scaled else {}))
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            size = 0.3 if parameter.ndim > 1 else 0.2
            centre = 1.0 if parameter.ndim == 1 and name != "Gemma3" else 0.0
            parameter.copy_(torch.randn_like(parameter) * size + centre)
    return model


def saved(name: str, path: Path, scaled: bool = False) -> Path:
    """The model as a folder."""
    decoder(name, scaled).save_pretrained(path)
    return path


def logits(name: str, ids: Sequence[int], scaled: bool = False) -> np.ndarray:
    """What transformers computes after each token."""
    with torch.no_grad():
        return decoder(name, scaled)(torch.tensor([list(ids)])).logits[0].numpy()


_GGUF = {
    "attention_norm": "attn_norm",
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "feed_forward_norm": "ffn_norm",
    "gate": "ffn_gate",
    "up": "ffn_up",
    "down": "ffn_down",
    "q_norm": "attn_q_norm",
    "k_norm": "attn_k_norm",
    "attention_output_norm": "post_attention_norm",
    "feed_forward_output_norm": "post_ffw_norm",
}
_TOP = {"embedding": "token_embd.weight", "norm": "output_norm.weight", "head": "output.weight"}
_PAIRS = ("llama", "smollm3")


def gguf(
    name: str,
    folder: Path,
    path: Path,
    kind: str = "F32",
    change: Callable[[GGUFWriter], None] = lambda writer: None,
) -> Path:
    """The model of a folder as a GGUF file whose matrices are of `kind`, as convert_hf_to_gguf.py writes it."""
    read = folders.import_folder(folder)
    config, arch = read.config, {"Gemma3": "gemma3"}.get(name, name.lower())
    writer = GGUFWriter(path, arch)
    writer.add_context_length(config.context)
    writer.add_embedding_length(config.hidden)
    writer.add_block_count(config.layers)
    writer.add_feed_forward_length(config.inner)
    writer.add_head_count(config.heads)
    writer.add_head_count_kv(config.groups)
    writer.add_key_length(config.size)
    writer.add_value_length(config.size)
    writer.add_layer_norm_rms_eps(config.epsilon)
    writer.add_rope_freq_base(config.base)
    writer.add_vocab_size(config.vocabulary)
    if config.window and arch == "gemma3":
        writer.add_sliding_window(config.window)
    change(writer)
    for own, value in {**read.matrices, **read.vectors}.items():
        layer, _, part = own.partition(".")
        base, _, bias = part.partition(".")
        array = np.asarray(value, np.float32)
        if arch in _PAIRS and part in ("q", "k"):
            heads = config.heads if part == "q" else config.groups
            array = array.reshape(heads, 2, -1, config.hidden).swapaxes(1, 2).reshape(array.shape)
        target = _TOP[own] if own in _TOP else f"blk.{layer}.{_GGUF[base]}.{bias or 'weight'}"
        of = GGMLQuantizationType[kind] if array.ndim > 1 else GGMLQuantizationType.F32
        data = quants.quantize(array, of) if of != GGMLQuantizationType.F32 else array
        writer.add_tensor(target, data, raw_dtype=of)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def byte_tokenizer(writer: GGUFWriter) -> None:
    """A byte-level tokenizer whose 96 tokens are characters, and two special tokens."""
    characters = ["<s>", "</s>", "<|user|>", *(chr(code) for code in range(33, 33 + 91)), "Ġ", "Ġa"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(characters)
    writer.add_token_types([3, 3, 3, *([1] * (len(characters) - 3))])
    writer.add_token_merges(["Ġ a"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_add_bos_token(False)
    writer.add_chat_template("{% for m in messages %}<|user|>{{ m['content'] }}{% endfor %}")


def edited(folder: Path, **fields: object) -> Path:
    """The folder with other fields in config.json; None leaves one out."""
    path = folder / "config.json"
    config = json.loads(path.read_text()) | fields
    path.write_text(json.dumps({name: value for name, value in config.items() if value is not None}))
    return folder
