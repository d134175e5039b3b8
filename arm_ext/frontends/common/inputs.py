# SPDX-License-Identifier: Apache-2.0
"""Random inputs for a model whose input types are all that is known."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from arm_ext.frontends.common.imported import TensorSpec

_SEED = 0
_BATCHED = 2  # axes of a batch; integer inputs with fewer axes may be lengths of samples
_QUANTIZED_BYTES = 2  # size in bytes of the widest integers that activations are quantised to


def random_inputs(specs: Sequence[TensorSpec]) -> list[npt.NDArray[Any]]:
    """Return one seeded random input per spec.

    Floats are standard normal, quantised integers (8 and 16 bits) anywhere in their range; wider integers and
    booleans are 0 and 1, which are safe as indices.
    """
    rng = np.random.default_rng(_SEED)
    return [_random(spec.shape, np.dtype(spec.dtype), rng) for spec in specs]


def with_lengths(inputs: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]] | None:
    """Return the inputs, those that may be lengths of samples replaced by the greatest lengths; None if there are none.

    Beside data [samples, length, …], an input of 32- or 64-bit integers with one axis at most and one element a sample
    may be lengths. A random length of 1 would hide all but the first element of each sample.
    """
    data = [value.shape for value in inputs if value.ndim >= _BATCHED]
    longest = {shape[0]: min(other[1] for other in data if other[0] == shape[0]) for shape in data}

    def is_lengths(value: npt.NDArray[Any]) -> bool:
        return _is_wide(value.dtype) and value.ndim < _BATCHED and value.size in longest

    if not any(map(is_lengths, inputs)):
        return None
    return [np.full_like(value, longest[value.size]) if is_lengths(value) else value for value in inputs]


def other_inputs(inputs: Sequence[npt.NDArray[Any]]) -> Iterator[list[npt.NDArray[Any]]]:
    """Yield other inputs to try if random inputs make a model fail or compute nothing.

    Integers of 32 and 64 bits may be lengths, of which 0 hides everything, and booleans may be masks: first both are
    as large as the second axis of the data where they have one axis at most, else 1; then all of them are 1; then all
    inputs are 0, which is a safe index.
    """
    lengths = [value.shape[1] for value in inputs if value.ndim > 1 and value.dtype.kind == "f"]
    longest = min(lengths, default=1)

    def with_integers(number: int) -> list[npt.NDArray[Any]]:
        return [
            np.full_like(value, number if value.ndim < _BATCHED and value.dtype.kind != "b" else 1)
            if value.dtype.kind == "b" or _is_wide(value.dtype)
            else value
            for value in inputs
        ]

    yield with_integers(longest)
    yield with_integers(1)
    yield [np.zeros_like(value) for value in inputs]


def _is_wide(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in "iu" and dtype.itemsize > _QUANTIZED_BYTES


def _random(shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator) -> npt.NDArray[Any]:
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    if dtype.kind in "iu" and dtype.itemsize <= _QUANTIZED_BYTES:
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return rng.integers(0, 2, shape).astype(dtype)
