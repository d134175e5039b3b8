# SPDX-License-Identifier: Apache-2.0
"""Metrics of a model's outputs over samples: top1, cosine, or a Python function."""

import importlib
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arm_ext.errors import UsageError
from arm_ext.quantization.error_sums import ErrorSums

Array = npt.NDArray[Any]
Outputs = Mapping[str, Array]
"""Outputs by name, each an array whose first axis runs over the samples."""

Metric = Callable[[Outputs, Outputs], float]
"""A function of the outputs to judge and of the source's outputs; a higher value is better."""

LABELS = "labels"


def chosen_metric(name: str | None, arrays: Mapping[str, Array], count: int) -> Metric | None:
    """Return the metric that is asked for, by default "top1" where there are labels; None where there is none.

    The arguments and what is raised are those of `metric_of`.
    """
    chosen = metric_name(name, arrays)
    return None if chosen is None else metric_of(chosen, arrays, count)


def metric_name(name: str | None, arrays: Mapping[str, Array]) -> str | None:
    """Return the name of the metric that is asked for, by default "top1" where there are labels."""
    return name or ("top1" if LABELS in arrays else None)


def metric_of(name: str, arrays: Mapping[str, Array], count: int) -> Metric:
    """Return a metric.

    Args:
        name: "top1", "cosine", or module:function; that takes the outputs and the arrays of the data.
        arrays: Of the data.
        count: Samples.

    Raises:
        UsageError: There is no such metric, or the labels are missing, of another number, or no integers.
    """
    if name == "cosine":
        return _cosine
    if name == "top1":
        return _top1(arrays, count)
    if ":" not in name:
        raise UsageError(f"--metric {name}: is none of top1, cosine or MODULE:FUNCTION")
    function = _function(name)

    def call(outputs: Outputs, _source: Outputs) -> float:
        try:
            value = float(function(dict(outputs), dict(arrays)))
        except Exception as err:  # whatever a user's function raises
            raise UsageError(f"--metric {name}: raised {type(err).__name__}: {err}") from err
        if not math.isfinite(value):
            raise UsageError(f"--metric {name}: returned {value}; expected a finite number")
        return value

    return call


def _cosine(outputs: Outputs, source: Outputs) -> float:
    found = []
    for name, values in outputs.items():
        for value, exact in zip(values, source[name], strict=True):
            sums = ErrorSums()
            sums.add(value, exact)
            found.append(sums.cosine)
    return float(np.mean(found))


def _top1(arrays: Mapping[str, Array], count: int) -> Metric:
    if LABELS not in arrays:
        have = ", ".join(arrays)
        raise UsageError(
            f"--metric top1: the data has no array 'labels', but {have}; or take --metric cosine"
        )
    labels = arrays[LABELS]
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise UsageError(
            f"--metric top1: labels are {labels.dtype}{list(labels.shape)}; expected a list of integers"
        )
    if len(labels) != count:
        raise UsageError(f"--metric top1: {count} samples with {len(labels)} labels; expected as many")

    def top1(outputs: Outputs, _source: Outputs) -> float:
        name, values = next(iter(outputs.items()))
        scores = values.reshape(len(values), -1)
        if (most := int(labels.max())) >= scores.shape[1] or labels.min() < 0:
            raise UsageError(
                f"--metric top1: labels go to {most}, and output '{name}' has {scores.shape[1]} classes a sample"
            )
        return float(np.mean(scores.argmax(1) == labels))

    return top1


def _function(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    here = str(Path.cwd())
    sys.path.insert(0, here)  # what a user names is of the folder that they work in
    try:
        found = getattr(importlib.import_module(module), function, None)
    except Exception as err:  # whatever a user's module raises as it is imported
        raise UsageError(
            f"--metric {name}: {module} cannot be imported: {type(err).__name__}: {err}"
        ) from err
    finally:
        sys.path.remove(here)
    if not callable(found):
        raise UsageError(f"--metric {name}: {module} has no function {function!r}")
    typed: Callable[..., Any] = found
    return typed


def stacked(names: Sequence[str], rows: Sequence[Sequence[Array]]) -> dict[str, Array]:
    """Return outputs by name, with the samples along an axis in front."""
    return {name: np.stack([row[k] for row in rows]) for k, name in enumerate(names)}
