# SPDX-License-Identifier: Apache-2.0
"""What is known of a decoder before its weights are read, under the same names for all formats."""

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arm_ext.common.errors import ModelError, UsageError
from arm_ext.common.text import shown
from schedules.numerics.blocks import BlockWeights, quantized_weights

Array = npt.NDArray[Any]

Matrix = BlockWeights | Array
"""Weights of a linear layer, [columns, K]; an array is float32."""


@dataclass(frozen=True)
class DecoderConfig:
    """Sizes and kinds of layers of a decoder.

    Attributes:
        architecture: Its name in the source, such as "llama".
        vocabulary: Number of tokens.
        hidden: Elements of a hidden state.
        layers: Number of layers.
        heads: Query heads.
        groups: Heads of keys and values.
        size: Elements of a head.
        inner: Elements between the two linear layers of a feed-forward layer.
        epsilon: Of all RMS norms.
        context: Tokens that the model was trained for.
        base: Base of the rotations' frequencies.
        factors: Divisors of the frequencies, one for each pair of elements of a head; none if empty.
        activation: Of the feed-forward gate, "silu" or "gelu_tanh".
        window: Tokens that a layer with a window sees; 0 if all layers see all.
        windowed: Whether each layer has the window; empty if none has.
        local_base: Base of the frequencies of layers with the window; 0 if it is `base`.
        unrotated: Layers whose queries and keys are not rotated.
        embedding_scale: Factor of embeddings.
        query_scale: Factor of scores; by default 1 / sqrt(size).
        end: Tokens that end a text.
    """

    architecture: str
    vocabulary: int
    hidden: int
    layers: int
    heads: int
    groups: int
    size: int
    inner: int
    epsilon: float
    context: int
    base: float = 10_000.0
    factors: tuple[float, ...] = ()
    activation: str = "silu"
    window: int = 0
    windowed: tuple[bool, ...] = ()
    local_base: float = 0.0
    unrotated: frozenset[int] = frozenset()
    embedding_scale: float = 1.0
    query_scale: float = 0.0
    end: tuple[int, ...] = ()

    @property
    def scale(self) -> float:
        """Factor of scores."""
        return self.query_scale or 1 / math.sqrt(self.size)

    def window_of(self, layer: int) -> int:
        """Return the number of tokens that a layer sees; 0 for all."""
        return self.window if self.windowed and self.windowed[layer] else 0

    def table(self, layer: int, capacity: int) -> Array:
        """Return cosines and sines of all positions, float32 [capacity, 2, size / 2].

        The frequency of pair i is base**(-2 i / size), divided by its factor (Su et al., RoFormer, 2021).
        """
        return _table(self, bool(self.window_of(layer) and self.local_base), capacity)


class Fields:
    """Fields of a configuration; each field is checked when it is read, and the names of the read fields are noted.

    Attributes:
        path: The file, for messages.
        values: Name → value.
        label: What stands before names in messages, such as "llama.".
        read: The names that were read.
    """

    def __init__(self, path: Path, values: Mapping[str, Any], label: str = "") -> None:
        """Hold the fields of a file; no field counts as read."""
        self.path, self.values, self.label = path, values, label
        self.read: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field, or the default where it is missing or null."""
        self.read.add(name)
        value = self.values.get(name)
        return default if value is None else value

    def number(self, name: str, default: float | None = None) -> float:
        """Return a number, not negative.

        Raises:
            UsageError: The field is missing or no such number.
        """
        value = self.get(name, default)
        if value is None:
            raise UsageError(f"{self.path}: the field {self.label}{name} is missing")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise self._misfit(name, value, "not a number from 0 on")
        return value

    def positive(self, name: str, default: float | None = None) -> float:
        """Return a number that is not 0.

        Raises:
            UsageError: The field is missing or no such number.
        """
        value = self.number(name, default)
        if not value:
            raise self._misfit(name, value, "not a number above 0")
        return value

    def integer(self, name: str, default: int | None = None, most: int = 2**31 - 1) -> int:
        """Return a whole number of at least 1.

        Raises:
            UsageError: The field is missing or no such number.
        """
        value = self.number(name, default)
        if value != int(value) or not 1 <= value <= most:
            raise self._misfit(name, value, f"not a whole number from 1 to {most:,}")
        return int(value)

    def text(self, name: str, default: str = "") -> str:
        """Return a string.

        Raises:
            UsageError: The field is no string.
        """
        value = self.get(name, default)
        if not isinstance(value, str):
            raise self._misfit(name, value, "not a name")
        return value

    def entries(self, name: str, default: Sequence[Any]) -> Sequence[Any]:
        """Return a list of strings or numbers.

        Raises:
            UsageError: The field is no such list.
        """
        value = self.get(name) or default
        if not isinstance(value, list | tuple) or not all(isinstance(each, str | int) for each in value):
            raise self._misfit(name, value, "not a list of names or numbers")
        return value

    def inner(self, name: str, values: Any) -> "Fields":
        """Return the fields in a field.

        Raises:
            UsageError: They are none.
        """
        if not isinstance(values, dict):
            raise self._misfit(name, values, "not an object")
        return Fields(self.path, values, f"{self.label}{name}.")

    def unread(self) -> list[str]:
        """Return the names of the fields that were not read."""
        return sorted(name for name in self.values if name not in self.read)

    def _misfit(self, name: str, value: object, expected: str) -> UsageError:
        return UsageError(
            f"{self.path}: the field {self.label}{name} is {shown(str(value))[:80]}, {expected}"
        )


MOST_LAYERS, MOST_SIZE = 4096, 4096
"""Most layers of a decoder and most elements of a head, some thirty times those of the largest models: a damaged number
must take no hours."""


def shapes_of(path: Path, config: DecoderConfig) -> dict[str, tuple[int, ...]]:
    """Return the shapes of matrices and vectors by their names in `Decoder`, those of a layer without its number.

    Raises:
        ModelError: The heads have sizes that no kernel computes.
    """
    if config.heads % config.groups or config.size % 8:
        raise ModelError(
            f"{path}: {config.heads} query heads for {config.groups} of keys, of {config.size} elements, are "
            "unsupported: the heads must divide, and have a multiple of 8 elements"
        )
    hidden, inner, table = config.hidden, config.inner, (config.vocabulary, config.hidden)
    query, key = config.heads * config.size, config.groups * config.size
    shapes: dict[str, tuple[int, ...]] = {"embedding": table, "head": table}
    shapes |= {"q": (query, hidden), "k": (key, hidden), "v": (key, hidden), "o": (hidden, query)}
    shapes |= {"gate": (inner, hidden), "up": (inner, hidden), "down": (hidden, inner)}
    shapes |= {f"{part}.bias": shapes[part][:1] for part in "qkv"}
    shapes |= dict.fromkeys(("q_norm", "k_norm"), (config.size,))
    norms = "norm", "attention_norm", "feed_forward_norm", "attention_output_norm", "feed_forward_output_norm"
    return shapes | dict.fromkeys(norms, (hidden,))


@lru_cache(4)
def _table(config: DecoderConfig, local: bool, capacity: int) -> Array:
    frequencies = (config.local_base if local else config.base) ** -(
        np.arange(0, config.size, 2) / config.size
    )
    if config.factors and not local:
        frequencies = frequencies / np.array(config.factors)
    angles = np.arange(capacity)[:, None] * frequencies
    return np.asarray(np.stack([np.cos(angles), np.sin(angles)], 1), np.float32)


@dataclass(frozen=True, eq=False)
class Decoder:
    """The configuration and the weights of a decoder.

    Attributes:
        config: Sizes.
        name: Short name, from the file.
        format: "gguf" or "safetensors".
        sha256: SHA-256 of the file or files.
        matrices: Name → weights [columns, K]: "embedding", "head" unless it is the embedding, and for each layer
            "N.q", "N.k", "N.v", "N.o", "N.gate", "N.up" and "N.down".
        vectors: Name → float32 array: "norm", for each layer "N.attention_norm" and "N.feed_forward_norm", and if the
            architecture has them "N.q_norm", "N.k_norm", "N.attention_output_norm", "N.feed_forward_output_norm" and
            the biases "N.q.bias", "N.k.bias" and "N.v.bias".
        sources: Name of a matrix or vector → its name in the source.
        fields: Fields of the file that its tokenizer is made from.
        notes: What was converted, and its error, as sentences.
    """

    config: DecoderConfig
    name: str
    format: str
    sha256: str
    matrices: Mapping[str, Matrix]
    vectors: Mapping[str, Array]
    sources: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    _joined: dict[tuple[int, ...], tuple[Sequence[Matrix], Matrix | None]] = field(default_factory=dict)

    def joined(self, parts: Sequence[Matrix]) -> Matrix | None:
        """Return matrices as `joined` joins them, the same object for the same matrices."""
        if len(parts) == 1:
            return parts[0]
        key = tuple(map(id, parts))
        if key not in self._joined:
            # The parts are kept, so that no others get their addresses.
            self._joined[key] = parts, joined(parts)
        return self._joined[key][1]

    @property
    def head(self) -> Matrix:
        """Weights of the last linear layer."""
        return self.matrices.get("head", self.matrices["embedding"])

    @property
    def bytes_by_form(self) -> dict[str, int]:
        """Form of weights, such as "4 bits" or "float32" → their bytes with scales, the most first."""
        sizes = Counter[str]()
        for each in (*self.matrices.values(), *self.vectors.values()):
            if isinstance(each, BlockWeights):
                minima = "" if each.offsets is None else " with minima"
                sizes[f"{each.bits} bits{minima}"] += sum(array.nbytes for array in each.constants)
            else:
                sizes[str(each.dtype)] += each.nbytes
        return dict(sizes.most_common())


BITS = {"int4": 4, "int8": 8}
"""Weights that `quantized` makes → their bits."""


def quantized(decoder: Decoder, weights: str) -> Decoder:
    """Return the decoder with weights in blocks of 32.

    Embeddings and the last layer get 8 bits; matrices that have as few bits as asked for without offsets stay.

    Raises:
        UsageError: The weights are of another kind.
    """
    if weights not in BITS:
        raise UsageError(f"--quantize-weights {weights}: it is {' or '.join(BITS)}")
    matrices: dict[str, Matrix] = {}
    errors: dict[int, list[float]] = {}
    for name, matrix in decoder.matrices.items():
        bits = 8 if name in ("embedding", "head") else BITS[weights]
        fits = isinstance(matrix, BlockWeights) and matrix.bits <= bits and matrix.offsets is None
        if fits:
            matrices[name] = matrix
            continue
        values = floats(matrix)
        matrices[name] = made = quantized_weights(values, bits)
        errors.setdefault(bits, []).append(relative_error(made, values))
    notes = (
        f"{len(of)} matrices became {bits}-bit blocks of 32, off by at most {percent(max(of))} of their largest weight"
        for bits, of in errors.items()
    )
    return replace(decoder, matrices=matrices, notes=(*decoder.notes, *notes))


def refuse_not_finite(path: Path, source: str, *values: Array) -> None:
    """Refuse weights, or scales of weights, that are infinite or NaN.

    Raises:
        UsageError: Some are.
    """
    if not all(np.isfinite(each).all() for each in values):
        raise UsageError(
            f"{path}: the tensor {source} holds values that are infinite or NaN; the file is damaged"
        )


def sha256_of(files: Iterable[Path]) -> str:
    """Return the SHA-256 of the bytes of files, one after the other, in hexadecimal."""
    found = hashlib.sha256()
    for path in files:
        with path.open("rb") as file:
            hashlib.file_digest(file, lambda: found)
    return found.hexdigest()


def relative_error(made: BlockWeights, values: Array) -> float:
    """Return the largest error of quantised weights, relative to the largest weight."""
    return float(np.abs(made.floats - values).max() / max(np.abs(values).max(), np.finfo(np.float32).tiny))


def percent(share: float) -> str:
    """Return a share rounded up, such as "6.3 %"."""
    return f"{math.ceil(1000 * share) / 10:g} %"


def floats(matrix: Matrix) -> Array:
    """Return a matrix as float32 [columns, K]."""
    return matrix.floats if isinstance(matrix, BlockWeights) else matrix


def joined(parts: Sequence[Matrix]) -> Matrix | None:
    """Return matrices of one kind as one matrix, their columns side by side; None if their kinds differ."""
    first = parts[0]
    if not isinstance(first, BlockWeights):
        arrays = [part for part in parts if not isinstance(part, BlockWeights)]
        return np.concatenate(arrays) if len(arrays) == len(parts) else None
    blocks = [part for part in parts if isinstance(part, BlockWeights) and _kind(part) == _kind(first)]
    if len(blocks) < len(parts):
        return None
    offsets = [part.offsets for part in blocks if part.offsets is not None]
    return BlockWeights(
        np.concatenate([part.held for part in blocks]),
        np.concatenate([part.scales for part in blocks]),
        np.concatenate(offsets) if offsets else None,
        first.depth,
        first.bits,
        first.group,
        first.shift,
    )


def _kind(part: BlockWeights) -> tuple[object, ...]:
    return part.depth, part.bits, part.group, part.shift, part.scales.dtype, part.offsets is None
