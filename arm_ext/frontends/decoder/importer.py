# SPDX-License-Identifier: Apache-2.0
"""A decoder with the size of its caches, as a model that can be imported for any number of tokens."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from arm_ext.common.errors import UsageError
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.common.refuse import Shapes, refuse_unknown_inputs
from arm_ext.frontends.decoder import folder, gguf_tokenizer
from arm_ext.frontends.decoder.build import IDS, Constants, build
from arm_ext.frontends.decoder.config import Decoder, quantized
from arm_ext.frontends.decoder.gguf import MAGIC, import_gguf
from arm_ext.frontends.decoder.text import TextRecord
from schedules.kernels.attention.cached_f32 import PLACES

CACHES = ("float16", "float32")
"""Dtypes of caches."""

LARGEST_CAPACITY = 2048
"""Positions of the caches if none are asked for and the model knows more."""


@dataclass(frozen=True, eq=False)
class DecoderSource:
    """A decoder, and the size and dtype of its caches.

    Attributes:
        decoder: The decoder.
        capacity: Positions of the caches.
        cache: Dtype of the caches.
        files: Name → content of the files of a package that make the model speak.
        constants: As for `build`.
    """

    decoder: Decoder
    capacity: int
    cache: str = "float16"
    files: Mapping[str, bytes] = field(default_factory=dict)
    constants: Constants = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse caches that the kernels cannot hold.

        Raises:
            UsageError: The capacity or the dtype is impossible.
        """
        if self.cache not in CACHES:
            raise UsageError(f"the cache is {self.cache}; it can be {' or '.join(CACHES)}")
        if self.capacity < PLACES or self.capacity % PLACES:
            raise UsageError(f"the context is {self.capacity} tokens; it must be a multiple of {PLACES}")

    def at(self, shapes: Shapes) -> ImportedModel:
        """Return the model that appends as many tokens as `shapes` says, by default one.

        Raises:
            UsageError: The shape is of no input, or longer than the context.
        """
        refuse_unknown_inputs(shapes, [IDS])
        given = tuple(shapes.get(IDS, (1,)))
        if len(given) != 1 or not 1 <= int(given[0]) <= self.capacity:
            raise UsageError(
                f"--shape {IDS}={','.join(map(str, given))}: the input is a list of 1 to {self.capacity} tokens"
            )
        made = build(self.decoder, int(given[0]), self.capacity, self.cache, self.constants)
        return replace(made, files=self.files)


def is_gguf(path: Path) -> bool:
    """Whether a file is in GGUF, by its first bytes."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def open_decoder(
    path: Path, capacity: int | None = None, cache: str = "float16", weights: str | None = None
) -> DecoderSource:
    """Read a decoder from a file.

    Args:
        path: A GGUF file, or a Hugging Face folder.
        capacity: Positions of the caches; by default those that the model was trained for, at most
            `LARGEST_CAPACITY`.
        cache: Dtype of the caches.
        weights: "int4" or "int8" to quantise the weights in blocks of 32; None to leave them as they are.

    Raises:
        UsageError, ModelError: As `import_gguf`; or the capacity is impossible, or more than the model was trained for.
    """
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder")
    decoder = folder.import_folder(path) if path.is_dir() else import_gguf(path)
    if weights is not None:
        decoder = quantized(decoder, weights)
    trained = decoder.config.context
    if capacity is not None and capacity > trained:
        raise UsageError(
            f"{path}: the model was trained for {trained} tokens; a context of {capacity} is more"
        )
    largest = min(trained, LARGEST_CAPACITY)
    source = DecoderSource(decoder, capacity or largest - largest % PLACES, cache)
    known = TextRecord(
        context=source.capacity, end=decoder.config.end, notes=decoder.notes, weights=decoder.bytes_by_form
    )
    if path.is_dir():
        return replace(source, files=folder.text_files(path, known))
    return replace(source, files=gguf_tokenizer.text_files(path, decoder.fields, known))
