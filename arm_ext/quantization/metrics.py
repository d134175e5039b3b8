# SPDX-License-Identifier: Apache-2.0
"""Metrics of a model's outputs over samples: for classes, boxes, sequences and embeddings, or a Python function.

They judge the first output; `cosine` judges all outputs, and `map50` finds its outputs by their names.
"""

import importlib
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from arm_ext.common.errors import UsageError
from arm_ext.common.stdout import importing_code_of_users, stdout_as_stderr
from arm_ext.quantization.error_sums import error_of

Array = npt.NDArray[Any]
Outputs = Mapping[str, Array]
"""Outputs by name, each an array whose first axis runs over the samples."""

LABELS, SPACE, BLANK, BOXES = "labels", "space", "blank", "boxes"
"""Names of arrays in the data: the right answers, the token between words, the blank token, the objects' boxes."""

_IGNORED = -1
"""Labels of this value and below are padding of sequences and object lists, which metrics ignore."""
_OVERLAP = 0.5
_K = 5


@dataclass(frozen=True)
class Metric:
    """A metric of a model's outputs: its name, function and direction.

    Attributes:
        name: Name in options and reports.
        function: Computes the metric from the outputs to judge and those of the source model.
        less_is_better: Whether smaller values are better, as for an error rate.
        relative: Whether a drop is reported relative to the source model's metric.
    """

    name: str
    function: Callable[[Outputs, Outputs], float]
    less_is_better: bool = False
    relative: bool = False

    def __call__(self, outputs: Outputs, source: Outputs) -> float:
        """Return the metric of outputs; `source` has the outputs of the float model.

        Raises:
            UsageError: The outputs or the data do not fit the metric.
        """
        value = self.function(outputs, source)
        if not math.isfinite(value):
            raise UsageError(f"--metric {self.name}: returned {value}; expected a finite number")
        return value

    def drop(self, value: float, source: float) -> float:
        """Return by how much a metric's value is worse than the source's."""
        lost = value - source if self.less_is_better else source - value
        return lost / abs(source) if self.relative and source else lost


def chosen_metric(name: str | None, arrays: Mapping[str, Array], count: int) -> Metric | None:
    """Return the named metric, by default "top1" if there are labels; None if there is no metric.

    Arguments and errors are those of `metric_of`.
    """
    chosen = name or ("top1" if LABELS in arrays else None)
    return None if chosen is None else metric_of(chosen, arrays, count)


def metric_of(name: str, arrays: Mapping[str, Array], count: int) -> Metric:
    """Return a metric.

    Args:
        name: One of METRICS, or "module:function" for a function of the outputs and the data's arrays.
        arrays: Arrays of the data.
        count: Number of samples.

    Raises:
        UsageError: There is no such metric, or an array that the metric needs is missing, has another number of
            samples, or is not of integers.
    """
    if ":" in name:
        return Metric(name, _own(name, arrays))
    if name not in METRICS:
        raise UsageError(f"--metric {name}: unknown; expected {', '.join(METRICS)} or MODULE:FUNCTION")
    kind = METRICS[name]
    if kind.rank:
        _check_labels(name, arrays, count, kind.rank)
    for other in kind.needs:
        if other not in arrays:
            raise UsageError(
                f"--metric {name}: the data has no array '{other}'; its arrays: {', '.join(arrays)}"
            )

    def call(outputs: Outputs, source: Outputs) -> float:
        try:
            return float(kind.function(outputs, source if name == "cosine" else arrays))
        except _MisfitError as err:
            raise UsageError(f"--metric {name}: {err}") from err

    return Metric(name, call, kind.less_is_better, kind.relative)


class _MisfitError(Exception):
    """Raised for outputs from which a metric cannot be computed; the message says why."""


@dataclass(frozen=True)
class _BuiltInMetric:
    """A built-in metric.

    Attributes:
        function: Function of the outputs and of the data's arrays, or, for "cosine", of the source model's
            outputs.
        rank: Number of axes of `labels`; 0 for a metric without labels.
        needs: Names of further arrays that the data must have.
    """

    function: Callable[[Outputs, Mapping[str, Array]], float]
    rank: int = 1
    needs: tuple[str, ...] = ()
    less_is_better: bool = False
    relative: bool = False


def _check_labels(name: str, arrays: Mapping[str, Array], count: int, rank: int) -> None:
    if LABELS not in arrays:
        have = ", ".join(arrays)
        raise UsageError(
            f"--metric {name}: the data has no array 'labels', but {have}; or use --metric cosine"
        )
    labels = arrays[LABELS]
    wanted = ("a list of integers", "a row of integers for each sample", "a map of integers for each sample")
    integers = np.issubdtype(labels.dtype, np.integer)
    if labels.ndim != rank or not integers:
        others = [other for other, kind in METRICS.items() if integers and kind.rank == labels.ndim]
        hint = f"; --metric {' or '.join(others)} takes such labels" if others else ""
        raise UsageError(
            f"--metric {name}: labels are {labels.dtype}{list(labels.shape)}; expected {wanted[rank - 1]}{hint}"
        )
    if len(labels) != count:
        raise UsageError(f"--metric {name}: {count} samples but {len(labels)} labels; expected equal numbers")


def _cosine(outputs: Outputs, source: Outputs) -> float:
    pairs = (
        (value, exact) for name in outputs for value, exact in zip(outputs[name], source[name], strict=True)
    )
    return float(np.mean([error_of(*pair).cosine for pair in pairs]))


def _first(outputs: Outputs) -> tuple[str, Array]:
    return next(iter(outputs.items()))


def _scores(outputs: Outputs, labels: Array) -> Array:
    """Return the first output as class scores [samples, classes]; check that labels are valid classes."""
    name, values = _first(outputs)
    scores = values.reshape(len(values), -1)
    if scores.shape[1] < 2:
        raise _MisfitError(f"output '{name}' has one score per sample; expected one for each class")
    if (most := int(labels.max())) >= scores.shape[1] or labels.min() < 0:
        least = f" from {labels.min()}" if labels.min() < 0 else ""
        raise _MisfitError(
            f"labels go{least} to {most}, but output '{name}' has {scores.shape[1]} classes per sample"
        )
    return scores


def _top(k: int) -> Callable[[Outputs, Mapping[str, Array]], float]:
    def top(outputs: Outputs, arrays: Mapping[str, Array]) -> float:
        scores = _scores(outputs, arrays[LABELS])
        best = np.argsort(-scores.astype(np.float64), axis=1, kind="stable")[
            :, :k
        ]  # of equal scores the first counts, as in argmax
        return float(np.mean((best == arrays[LABELS][:, None]).any(1)))

    return top


def _f1(outputs: Outputs, arrays: Mapping[str, Array]) -> float:
    """Return the F1 score, averaged over the classes that occur in labels or answers."""
    labels = arrays[LABELS]
    found = _scores(outputs, labels).argmax(1)
    classes = np.union1d(labels, found)
    return float(
        np.mean(
            [
                2 * np.sum((found == c) & (labels == c)) / (np.sum(found == c) + np.sum(labels == c))
                for c in classes
            ]
        )
    )


def _iou(outputs: Outputs, arrays: Mapping[str, Array]) -> float:
    """Return the intersection over union of pixels of all samples, averaged over the classes that occur in labels."""
    labels = arrays[LABELS]
    name, values = _first(outputs)
    for axis in range(1, values.ndim):
        found = values.argmax(axis).reshape(len(values), -1)
        rest = [size for at, size in enumerate(values.shape[1:], start=1) if at != axis and size > 1]
        if values.shape[axis] > 1 and rest == [size for size in labels.shape[1:] if size > 1]:
            break
    else:
        raise _MisfitError(
            f"labels are {list(labels.shape[1:])} per sample, output '{name}' is {list(values.shape[1:])}; "
            "expected the "
            "same with one more axis, of classes"
        )
    right = labels.reshape(len(labels), -1)
    counted = right > _IGNORED
    shares = [
        np.sum((found == c) & (right == c)) / np.sum(((found == c) | (right == c)) & counted)
        for c in np.unique(right[counted])
    ]
    return float(np.mean(shares)) if shares else 0.0


def _logits(outputs: Outputs) -> tuple[str, Array]:
    """Return the name of the first output, and its values as [samples, steps, tokens]."""
    name, values = _first(outputs)
    squeezed = values.reshape(len(values), *(size for size in values.shape[1:] if size > 1))
    if squeezed.ndim != 3:
        raise _MisfitError(
            f"output '{name}' is {list(values.shape[1:])} per sample; expected [steps, tokens]"
        )
    return name, squeezed


def _sequences(outputs: Outputs, arrays: Mapping[str, Array]) -> list[list[int]]:
    """Return each sample's tokens: an integer output, or the best per step without repeats and blanks (CTC)."""
    _, values = _first(outputs)
    if np.issubdtype(values.dtype, np.integer):
        return [_tokens(row) for row in values.reshape(len(values), -1)]
    blank = int(arrays[BLANK]) if BLANK in arrays else 0
    best = _logits(outputs)[1].argmax(-1)
    return [[token for token, _ in groupby(row.tolist()) if token != blank] for row in best]


def _tokens(row: Array) -> list[int]:
    return [int(token) for token in row if token > _IGNORED]


def _words(tokens: Sequence[int], space: int) -> list[tuple[int, ...]]:
    return [tuple(group) for is_space, group in groupby(tokens, lambda token: token == space) if not is_space]


def _error_rate(pairs: Sequence[tuple[Sequence[object], Sequence[object]]]) -> float:
    total = sum(len(right) for _, right in pairs)
    if not total:
        raise _MisfitError("labels hold no token")
    return sum(_edits(*pair) for pair in pairs) / total


def _edits(one: Sequence[object], other: Sequence[object]) -> int:
    """Return the edit distance: the minimum number of insertions, deletions and replacements between two sequences."""
    row = list(range(len(other) + 1))
    for i, left in enumerate(one, start=1):
        before, row[0] = row[0], i
        for j, right in enumerate(other, start=1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (left != right))
    return row[-1]


def _cer(outputs: Outputs, arrays: Mapping[str, Array]) -> float:
    right = [_tokens(row) for row in arrays[LABELS]]
    return _error_rate(list(zip(_sequences(outputs, arrays), right, strict=True)))


def _wer(outputs: Outputs, arrays: Mapping[str, Array]) -> float:
    space = int(arrays[SPACE])
    found, right = _sequences(outputs, arrays), [_tokens(row) for row in arrays[LABELS]]
    return _error_rate([(_words(a, space), _words(b, space)) for a, b in zip(found, right, strict=True)])


def _perplexity(outputs: Outputs, arrays: Mapping[str, Array]) -> float:
    """Return the perplexity of the labels: exp(-mean log of each token's probability)."""
    name, logits = _logits(outputs)
    labels = arrays[LABELS]
    if labels.shape != logits.shape[:2] or labels.max() >= logits.shape[2]:
        raise _MisfitError(
            f"labels are {list(labels.shape[1:])} a sample, to {labels.max()}, and output '{name}' "
            f"{list(logits.shape[1:])}; expected a label for each step"
        )
    wide = logits.astype(np.float64)
    wide -= wide.max(-1, keepdims=True)
    logs = wide - np.log(np.exp(wide).sum(-1, keepdims=True))
    counted = labels > _IGNORED
    chosen = np.take_along_axis(logs, np.where(counted, labels, 0)[..., None], -1)[..., 0]
    if not counted.any():
        raise _MisfitError("labels hold no token")
    return math.exp(min(-float(np.mean(chosen[counted])), 700.0))


def _map50(outputs: Outputs, arrays: Mapping[str, Array]) -> float:
    """Return the area under precision over recall, averaged over classes; boxes match at an overlap of at least half.

    Outputs have "box", "score" and "class" in their names: [objects, 4] with two corners, and a value for each object.

    Outputs have "box", "score" and "class" in their names: [objects, 4] with two corners, and a value for each object.
    """
    count = len(arrays[LABELS])
    parts = {}
    for part, size in (("box", 4), ("score", 1), ("class", 1)):
        named = [name for name in outputs if part in name.lower()]
        if len(named) != 1:
            raise _MisfitError(
                f"the outputs are {', '.join(outputs)}; expected an output with '{part}' in its name"
            )
        parts[part] = outputs[named[0]].reshape(count, -1, size)
    found: dict[int, list[tuple[float, bool]]] = {}
    for sample in range(count):
        boxes, scores, classes = (parts[part][sample] for part in ("box", "score", "class"))
        free = {i for i, label in enumerate(arrays[LABELS][sample]) if label > _IGNORED}
        for at in np.argsort(-scores[:, 0], kind="stable"):
            label = int(classes[at, 0])
            overlaps = [
                (_overlap(boxes[at], arrays[BOXES][sample][i]), i)
                for i in free
                if arrays[LABELS][sample][i] == label
            ]
            best, which = max(overlaps, default=(0.0, -1))
            free -= {which} if best >= _OVERLAP else set()
            found.setdefault(label, []).append((float(scores[at, 0]), best >= _OVERLAP))
    labels = arrays[LABELS]
    areas = [
        _area(found.get(int(c), []), int(np.sum(labels == c))) for c in np.unique(labels[labels > _IGNORED])
    ]
    return float(np.mean(areas)) if areas else 0.0


def _overlap(one: Array, other: Array) -> float:
    """Return the intersection over union of two boxes, each given by two corners."""
    low, high = np.maximum(one[:2], other[:2]), np.minimum(one[2:], other[2:])
    both = float(np.prod(np.maximum(high - low, 0)))
    either = float(np.prod(one[2:] - one[:2]) + np.prod(other[2:] - other[:2])) - both
    return both / either if either > 0 else 0.0


def _area(found: list[tuple[float, bool]], objects: int) -> float:
    """Return the area under precision over recall, with precision made monotonically decreasing."""
    right = np.array([is_right for _, is_right in sorted(found, key=lambda each: -each[0])], bool)
    precision = np.cumsum(right) / np.arange(1, len(right) + 1)
    falling = np.maximum.accumulate(precision[::-1])[::-1]
    return float(np.sum(falling[right])) / objects


METRICS: Mapping[str, _BuiltInMetric] = {
    "top1": _BuiltInMetric(_top(1)),
    "top5": _BuiltInMetric(_top(_K)),
    "f1": _BuiltInMetric(_f1),
    "cosine": _BuiltInMetric(_cosine, rank=0),
    "iou": _BuiltInMetric(_iou, rank=3),
    "map50": _BuiltInMetric(_map50, rank=2, needs=(BOXES,)),
    "wer": _BuiltInMetric(_wer, rank=2, needs=(SPACE,), less_is_better=True),
    "cer": _BuiltInMetric(_cer, rank=2, less_is_better=True),
    "perplexity": _BuiltInMetric(_perplexity, rank=2, less_is_better=True, relative=True),
}
"""The metrics that are built in, by name."""


def _own(name: str, arrays: Mapping[str, Array]) -> Callable[[Outputs, Outputs], float]:
    function = _function(name)

    def call(outputs: Outputs, _source: Outputs) -> float:
        try:
            with stdout_as_stderr():
                value = function(dict(outputs), dict(arrays))
        except (Exception, SystemExit) as err:  # a user's function may raise anything
            raise UsageError(f"--metric {name}: raised {type(err).__name__}: {err}") from err
        try:
            return float(value)
        except (TypeError, ValueError) as err:
            kind = f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else repr(value)
            raise UsageError(f"--metric {name}: returned {kind}; expected a number") from err

    return call


def _function(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    here = str(Path.cwd())
    sys.path.insert(0, here)  # a user's module is found in the working folder
    try:
        with importing_code_of_users():
            found = getattr(importlib.import_module(module), function, None)
    except (Exception, SystemExit) as err:  # importing a user's module may raise anything
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
    """Return output name → array with the samples along a new first axis."""
    return {name: np.stack([row[k] for row in rows]) for k, name in enumerate(names)}
