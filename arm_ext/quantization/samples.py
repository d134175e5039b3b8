# SPDX-License-Identifier: Apache-2.0
"""Samples of a model's inputs, for calibration or comparison: one array per input, samples along the first axis."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from arm_ext.common.errors import UsageError
from arm_ext.common.npz import read_npz
from arm_ext.frontends.common.imported import TensorSpec
from arm_ext.frontends.preprocess.options import Preprocess, read_preprocess
from arm_ext.quantization.image_folder import read_images

# Name of the samples' array for a model with a single input; `run --accuracy` reads the same files.
ONLY_INPUT = "inputs"


Data: TypeAlias = str | Path | Mapping[str, npt.NDArray[Any]] | Iterable[Mapping[str, npt.ArrayLike]]
"""Source of samples and labels: an .npz, its arrays, a folder of images, or an iterable of one mapping per sample."""


def read_samples(
    data: Data,
    inputs: Callable[[], Sequence[TensorSpec]],
    preprocess: Preprocess | str | Path | None = None,
    what: str = "an array an input",
) -> Mapping[str, npt.NDArray[Any]]:
    """Return arrays by name: those of the inputs, for `split_samples`, and others such as "labels".

    Args:
        data: Path of the file or folder.
        inputs: Returns the model's inputs, which images are converted for.
        preprocess: Steps from an image to the input, for a folder.
        what: What an .npz must hold, for messages.

    Raises:
        UsageError: The samples cannot be read, or `preprocess` is given for something else than a folder of images.
        EnvError: Pillow is not installed, and images are to be read.
    """
    if isinstance(data, str | Path) and Path(data).is_dir():
        return read_images(Path(data), inputs(), read_preprocess(preprocess))
    if preprocess is not None:
        raise UsageError(
            "--preprocess is for a folder of images as --data; other samples are the model's inputs"
        )
    if isinstance(data, str | Path):
        return read_npz(Path(data), f"{what}, or a folder of images")
    if isinstance(data, Mapping):
        return data
    return _stacked(data)


def read_calibration(path: Path) -> Mapping[str, npt.NDArray[Any]]:
    """Return the arrays of --quantize.

    Raises:
        UsageError: The file is no .npz.
    """
    if path.is_dir():
        raise UsageError(
            f"--quantize {path}: a folder; it takes an .npz. `quantize --data {path}` takes a folder of images, and "
            "writes a model to compile"
        )
    return read_npz(path, "calibration samples, an array an input")


def _stacked(samples: Iterable[Mapping[str, npt.ArrayLike]]) -> dict[str, npt.NDArray[Any]]:
    rows = list(samples)
    if not rows:
        raise UsageError(
            "data: there are no samples; expected a mapping of input names to arrays for each sample"
        )
    try:
        return {name: np.stack([np.asarray(row[name]) for row in rows]) for name in rows[0]}
    except (TypeError, KeyError, IndexError, ValueError) as err:
        raise UsageError(
            f"data: expected samples with the same names and shapes, each a mapping of input names to arrays ({err})"
        ) from err


def split_samples(
    samples: Mapping[str, npt.NDArray[Any]],
    inputs: Sequence[TensorSpec],
    what: str = "calibration samples",
) -> list[dict[str, npt.NDArray[Any]]]:
    """Return one feed per sample, in order.

    Args:
        samples: Input name → [n, *shape], or [n, *shape[1:]] where the model's own first axis is 1. A model with one
            input may have it under "inputs". Arrays of other names are left alone.
        inputs: Inputs of the model.
        what: Name of the samples in messages.

    Raises:
        UsageError: There are no samples, or an input has none; samples have another shape or dtype, values that are not
            finite, or another number than those of another input.
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
    # Iteration over an array with one axis yields numpy scalars, which other runtimes do not take as inputs.
    return [
        dict(zip(arrays, map(np.asarray, sample), strict=True))
        for sample in zip(*arrays.values(), strict=True)
    ]


def _shaped(spec: TensorSpec, array: npt.NDArray[Any], what: str) -> npt.NDArray[Any]:
    """Return `array` as [n, *spec.shape]."""
    if array.shape[1:] == spec.shape[1:] and array.ndim == len(spec.shape) and spec.shape[:1] == (1,):
        array = array[:, None]
    if array.ndim == 0 or array.shape[1:] != spec.shape:
        raise UsageError(
            f"{what} for {spec.name}: shape is {list(array.shape)}, "
            f"the model takes [samples, {', '.join(map(str, spec.shape))}]"
        )
    if array.dtype == np.float16 and spec.dtype == "float32":
        array = array.astype(np.float32)
    if str(array.dtype) != spec.dtype:
        raise UsageError(f"{what} for {spec.name}: dtype is {array.dtype}, the model takes {spec.dtype}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        first = next(n for n, sample in enumerate(array) if not np.isfinite(sample).all())
        raise UsageError(
            f"{what} for {spec.name}: some values are not finite, first in sample {first} (from 0)"
        )
    return array
