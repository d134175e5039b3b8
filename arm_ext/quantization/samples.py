# SPDX-License-Identifier: Apache-2.0
"""Samples of a model's inputs, to calibrate or to compare: one array an input, the samples along its first axis."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from arm_ext.errors import UsageError
from arm_ext.frontends.common.imported import TensorSpec

# The array's name where the model's only input need not be named; `run --accuracy` reads the same files.
ONLY_INPUT = "inputs"


def split_samples(
    samples: Mapping[str, npt.NDArray[Any]],
    inputs: Sequence[TensorSpec],
    what: str = "calibration samples",
) -> list[dict[str, npt.NDArray[Any]]]:
    """Return one feed per sample, in order.

    Args:
        samples: Input name → [n, *shape], or [n, *shape[1:]] where the model's own first axis is 1. A model with one
            input may have it under "inputs". Arrays of other names are left alone.
        inputs: The model's.
        what: What messages call them.

    Raises:
        UsageError: No samples; an input without them, of another shape or dtype, or with values that are not finite;
            inputs with different numbers of them.
    """
    named = dict(samples)
    if len(inputs) == 1 and inputs[0].name not in named and ONLY_INPUT in named:
        named[inputs[0].name] = named[ONLY_INPUT]
    missing = [spec.name for spec in inputs if spec.name not in named]
    if missing:
        raise UsageError(f"no {what} for {', '.join(missing)}; there are: {', '.join(named) or 'none'}")
    arrays = {spec.name: _shaped(spec, named[spec.name], what) for spec in inputs}
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) > 1:
        raise UsageError(f"the inputs have different numbers of {what}: {counts}")
    if not all(counts.values()):
        raise UsageError(f"the {what} are empty")
    return [dict(zip(arrays, sample, strict=True)) for sample in zip(*arrays.values(), strict=True)]


def _shaped(spec: TensorSpec, array: npt.NDArray[Any], what: str) -> npt.NDArray[Any]:
    """`array` as [n, *spec.shape]."""
    if array.shape[1:] == spec.shape[1:] and array.ndim == len(spec.shape) and spec.shape[:1] == (1,):
        array = array[:, None]
    if array.ndim == 0 or array.shape[1:] != spec.shape:
        raise UsageError(
            f"{what} for {spec.name}: shape is {list(array.shape)}, "
            f"the model takes [samples, {', '.join(map(str, spec.shape))}]"
        )
    if str(array.dtype) != spec.dtype:
        raise UsageError(f"{what} for {spec.name}: dtype is {array.dtype}, the model takes {spec.dtype}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise UsageError(f"{what} for {spec.name}: some values are not finite")
    return array
