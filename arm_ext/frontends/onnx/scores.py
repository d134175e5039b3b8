# SPDX-License-Identifier: Apache-2.0
"""Transforms of the scores of ai.onnx.ml's regressors and classifiers, and classifiers' labels."""

from collections.abc import Sequence

import numpy as np
import onnx

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.expansion import Expansion
from arm_ext.frontends.onnx.opset_forms import like, reduce, reshape

TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
"""Transforms by their number in TreeEnsemble's `post_transform`."""

_ZERO = 1e-7
"""SOFTMAX_ZERO treats scores with a smaller absolute value as zero; the bound is onnxruntime's."""

_ERFINV = 0.147
"""Constant of Winitzki's approximation of the inverse error function, which onnxruntime uses for PROBIT."""


def transform_of(e: Expansion) -> str:
    """Return a node's attribute post_transform.

    Raises:
        ModelError: The transform is unknown.
    """
    name = e.text("post_transform", "NONE")
    if name not in TRANSFORMS:
        raise ModelError(f"its post_transform is '{name}'; supported are {', '.join(TRANSFORMS)}")
    return name


def effective_transform(transform: str, scores: int) -> str:
    """Return the post_transform that onnxruntime applies to rows of `scores` scores.

    If a row has one score, only PROBIT.
    """
    return transform if scores > 1 or transform == "PROBIT" else "NONE"


def transformed(e: Expansion, scores: str, transform: str, output: str = "") -> str:
    """Emit a post_transform of scores [rows, n]."""
    if transform == "LOGISTIC":
        return e.emit("Sigmoid", [scores], output)
    if transform == "SOFTMAX":
        return e.emit("Softmax", [scores], output, axis=1)
    if transform == "SOFTMAX_ZERO":
        most = reduce(e, "ReduceMax", scores, [1])
        zero = e.emit("Less", [e.emit("Abs", [scores]), like(e, _ZERO, scores)])
        small = e.emit("Mul", [scores, e.emit("Exp", [e.emit("Neg", [most])])])
        powers = e.emit("Where", [zero, small, e.emit("Exp", [e.emit("Sub", [scores, most])])])
        return e.emit("Div", [powers, reduce(e, "ReduceSum", powers, [1])], output)
    if transform == "PROBIT":
        return _probit(e, scores, output)
    return e.emit("Identity", [scores], output)


def both_classes(e: Expansion, score: str, transform: str, *, positive: bool) -> tuple[str, str]:
    """Emit the scores of both classes from the second class's score.

    Return them, and the transform still to be applied.

    Args:
        e: The expansion of the node.
        score: Score of the second class, [rows, 1].
        transform: The node's post_transform.
        positive: Whether the score is a probability p, so that the first class has 1 - p; else it has -score.

    Raises:
        ModelError: The transform is PROBIT, for which onnxruntime leaves a score undefined.
    """
    if transform == "PROBIT":
        raise ModelError("PROBIT of two classes with one score is not defined")
    if transform == "LOGISTIC" or not positive:
        other = e.emit("Neg", [score])
    else:
        other = e.emit("Sub", [like(e, 1, score), score])
    return e.emit("Concat", [other, score], axis=1), transform if transform == "LOGISTIC" else "NONE"


def above(e: Expansion, score: str, bound: float) -> str:
    """Emit 1 for scores [rows, 1] above a bound and 0 for others, as int64 [rows]."""
    greater = e.emit("Greater", [score, like(e, bound, score)])
    return reshape(e, e.emit("Cast", [greater], to=onnx.TensorProto.INT64), -1)


def _probit(e: Expansion, p: str, output: str) -> str:
    """Emit sqrt(2) * erfinv(2 p - 1)."""

    def op(kind: str, *values: str | float, output: str = "") -> str:
        return e.emit(kind, [v if isinstance(v, str) else like(e, v, p) for v in values], output)

    x = op("Sub", op("Mul", p, 2.0), 1.0)
    log = op("Log", op("Mul", op("Sub", 1.0, x), op("Add", 1.0, x)))
    half = op("Add", op("Mul", log, 0.5), 2 / (3.14159 * _ERFINV))
    root = op("Sqrt", op("Sub", op("Mul", half, half), op("Mul", log, 1 / _ERFINV)))
    size = op("Mul", op("Sqrt", op("Sub", root, half)), 2**0.5)
    return op("Where", op("Less", x, 0.0), op("Neg", size), size, output=output)


_STRINGS = "classlabels_strings"
"""Attribute with labels that are strings."""


def labels_of(e: Expansion, numbers: str) -> list[int]:
    """Return a classifier's labels as integers; string labels become their indices.

    Labels that are strings are allowed if only the scores are read; the classes are then labelled by their index.

    Args:
        e: The expansion of the node.
        numbers: Attribute with labels that are numbers.

    Raises:
        ModelError: The labels are strings, and the label output is read.
    """
    if texts := e.texts(_STRINGS):
        if e.node.output[0] and e.is_read(e.node.output[0]):
            raise ModelError(
                f"its labels are strings ('{texts[0]}', ...), and a package has tensors of numbers: export the model "
                f"with numbers for its classes ({numbers}), or remove its output '{e.node.output[0]}' and name the "
                "class with the greatest score in the program"
            )
        return list(range(len(texts)))
    return [int(label) for label in e.numbers(numbers)]


def has_label_output(e: Expansion) -> bool:
    """Whether a classifier's label output is used and its labels are integers."""
    return bool(e.node.output[0]) and not e.texts(_STRINGS)


def put_labels(e: Expansion, which: str, labels: Sequence[int]) -> None:
    """Emit the node's first output: for each row, the label of the class with the given index."""
    if has_label_output(e):
        e.emit("Gather", [e.constant(np.array(labels, np.int64)), which], e.node.output[0], axis=0)
