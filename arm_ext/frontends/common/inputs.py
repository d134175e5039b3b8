# SPDX-License-Identifier: Apache-2.0
"""Random inputs for a model of which only the input types are known."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from arm_ext.frontends.common.imported import TensorSpec

_SEED = 0
_QUANTIZED_BYTES = 2  # of the widest integers that activations are quantised to


def random_inputs(specs: Sequence[TensorSpec]) -> list[npt.NDArray[Any]]:
    """Return one seeded random input per spec.

    Floats are standard normal, quantised integers (8 and 16 bits) anywhere in their range; wider integers and
    booleans are 0 and 1, which are safe as indices.
    """
    rng = np.random.default_rng(_SEED)
    return [_random(spec.shape, np.dtype(spec.dtype), rng) for spec in specs]


def _random(shape: tuple[int, ...], dtype: np.dtype[Any], rng: np.random.Generator) -> npt.NDArray[Any]:
    if dtype.kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    if dtype.kind in "iu" and dtype.itemsize <= _QUANTIZED_BYTES:
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    return rng.integers(0, 2, shape).astype(dtype)
