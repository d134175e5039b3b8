# SPDX-License-Identifier: Apache-2.0
"""The tokenizer of a GGUF file in the format of the package `tokenizers`.

"gpt2" is byte-level BPE with the file's merges; the expression that splits a text into words goes by the field
tokenizer.ggml.pre. "llama" is SentencePiece's BPE: two neighbouring pieces merge to the piece of the highest score.
Source: llama.cpp's llama-vocab.cpp, and the tokenizer.json files of the models themselves.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from arm_ext.common.errors import ModelError, UsageError
from arm_ext.common.text import shown
from arm_ext.frontends.decoder.text import TextRecord, text_contents

_NORMAL, _CONTROL, _USER = 1, 3, 4
"""Types of tokens: of text, special, and added by the model's authors."""

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORDS = {
    "llama-bpe": rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?!\S)|\s+",
}
_DIGITS_APART = ("smollm", "smollm3-digits")
_SPACE = "▁"


def text_files(path: Path, fields: Mapping[str, Any], known: TextRecord) -> dict[str, bytes]:
    """Return the files of a package that make the model speak; none if the file has no tokenizer.

    Args:
        path: The file, for messages.
        fields: Its fields.
        known: What does not follow from the tokenizer.

    Raises:
        UsageError: The fields contradict each other.
        ModelError: The kind of tokenizer is unsupported.
    """
    kind = fields.get("tokenizer.ggml.model")
    if kind is None:
        return {}
    tokens = fields.get("tokenizer.ggml.tokens")
    if not isinstance(tokens, list) or not tokens:
        raise UsageError(f"{path}: the field tokenizer.ggml.tokens is missing")
    types = fields.get("tokenizer.ggml.token_type")
    kinds = [_NORMAL] * len(tokens) if types is None else list(map(int, np.asarray(types).ravel()))
    if len(kinds) != len(tokens):
        raise UsageError(
            f"{path}: tokenizer.ggml.token_type has {len(kinds)} entries for {len(tokens)} tokens"
        )
    if kind == "gpt2":
        described = _byte_level(path, fields, tokens)
    elif kind == "llama":
        described = _sentence_piece(path, fields, tokens)
    else:
        raise ModelError(
            f"{path}: the tokenizer {shown(str(kind))} is unsupported; supported are gpt2 and llama"
        )
    described["added_tokens"] = [
        {"id": index, "content": token, "special": of == _CONTROL, **_PLAIN}
        for index, (token, of) in enumerate(zip(tokens, kinds, strict=True))
        if of in (_CONTROL, _USER)
    ]
    begin = _token(fields, "bos", len(tokens)) if _adds_begin(fields, kind) else None
    special = {
        f"{name}_token": tokens[index]
        for name in ("bos", "eos")
        if (index := _token(fields, name, len(tokens))) is not None
    }
    template = str(fields.get("tokenizer.chat_template", ""))
    record = known.model_copy(update={"begin": begin, "chat_template": template, "special": special})
    return text_contents(json.dumps(described, ensure_ascii=False).encode(), record)


_PLAIN = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}


def _adds_begin(fields: Mapping[str, Any], kind: str) -> bool:
    return bool(fields.get("tokenizer.ggml.add_bos_token", kind == "llama"))


def _token(fields: Mapping[str, Any], name: str, count: int) -> int | None:
    index = fields.get(f"tokenizer.ggml.{name}_token_id")
    return index if isinstance(index, int) and 0 <= index < count else None


def _byte_level(path: Path, fields: Mapping[str, Any], tokens: list[str]) -> dict[str, Any]:
    merges = fields.get("tokenizer.ggml.merges")
    if not isinstance(merges, list):
        raise UsageError(f"{path}: the field tokenizer.ggml.merges is missing")
    pairs = [merge.split(" ", 1) for merge in merges]
    if any(len(pair) != 2 for pair in pairs):
        raise UsageError(f"{path}: the field tokenizer.ggml.merges holds what is no pair of tokens")
    vocabulary = {token: index for index, token in enumerate(tokens)}
    known = [pair for pair in pairs if {*pair, "".join(pair)} <= vocabulary.keys()]
    pre = str(fields.get("tokenizer.ggml.pre", "default"))
    splits: list[dict[str, Any]] = []
    if pre in _DIGITS_APART:
        splits.append({"type": "Digits", "individual_digits": True})
        words = _GPT2
    elif pre in ("default", "gpt-2", "gpt2"):
        words = _GPT2
    else:
        words = next((_WORDS[name] for name in _WORDS if pre.startswith(name.split("-", maxsplit=1)[0])), "")
        if not words:
            raise ModelError(f"{path}: the tokenizer's way of splitting words, {shown(pre)}, is unsupported")
    splits.append({"type": "Split", "pattern": {"Regex": words}, "behavior": "Isolated", "invert": False})
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [*splits, byte_level]},
        "post_processor": None,
        "decoder": {**byte_level, "use_regex": True},
        "model": {"type": "BPE", "vocab": vocabulary, "merges": known, "ignore_merges": pre == "llama-bpe"},
    }


def _sentence_piece(path: Path, fields: Mapping[str, Any], tokens: list[str]) -> dict[str, Any]:
    scores = fields.get("tokenizer.ggml.scores")
    if scores is None or len(scores) != len(tokens):
        raise UsageError(
            f"{path}: the field tokenizer.ggml.scores is missing, or has another length than the tokens"
        )
    vocabulary = {token: index for index, token in enumerate(tokens)}
    merges = [
        (-float(scores[index]), index, [token[:cut], token[cut:]])
        for token, index in vocabulary.items()
        for cut in range(1, len(token))
        if token[:cut] in vocabulary and token[cut:] in vocabulary
    ]
    merges.sort(key=lambda merge: merge[:2])
    prefix = bool(fields.get("tokenizer.ggml.add_space_prefix", True))
    steps: list[dict[str, Any]] = [{"type": "Prepend", "prepend": _SPACE}] if prefix else []
    steps.append({"type": "Replace", "pattern": {"String": " "}, "content": _SPACE})
    decoders: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": _SPACE}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
    ]
    if prefix:
        decoders.append({"type": "Strip", "content": " ", "start": 1, "stop": 0})
    unknown = _token(fields, "unknown", len(tokens))
    model = {
        "type": "BPE",
        "vocab": vocabulary,
        "merges": [pair for *_, pair in merges],
        "byte_fallback": True,
    }
    model |= {"fuse_unk": True, "unk_token": None if unknown is None else tokens[unknown]}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": None,
        "post_processor": None,
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": model,
    }
