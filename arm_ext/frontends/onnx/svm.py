# SPDX-License-Identifier: Apache-2.0
"""Support vector machines of ai.onnx.ml as standard ONNX operators.

    SVMRegressor(x)     →    K(x) c + rho                      1 or -1 by its sign, if it is of one class
    SVMClassifier(x)    →    s[i, j] = K(x) c[i, j] + rho      for each pair of classes i < j, which vote for i if s > 0
                             the label with most votes; scores s, or of two classes -s and s

K(x) has a column for each support vector v: x v (LINEAR), (gamma x v + coef0)^degree (POLY), tanh(gamma x v + coef0)
(SIGMOID), exp(-gamma |x - v|^2) (RBF). Where the operator definitions are ambiguous, this follows onnxruntime.
"""

from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.expansion import Expansion
from arm_ext.frontends.onnx.opset_forms import like, reduce, reshape
from arm_ext.frontends.onnx.scores import labels_of, put_labels, transform_of

Array = npt.NDArray[Any]


def regressor(e: Expansion) -> None:
    """Replace an SVMRegressor by a kernel function of the data and products with the coefficients."""
    _check_plain(e)
    coefficients = _numbers(e, "coefficients")
    count = int(e.attribute("n_supports", 0))  # 0: a weight a feature
    value = _kernel(e, _vectors(e, count)) if count else _data(e)
    result = _products(e, value, coefficients[:, None], _numbers(e, "rho")[:1])
    if e.attribute("one_class", 0):
        positive = e.emit("Greater", [result, like(e, 0, result)])
        result = e.emit("Where", [positive, like(e, 1, result), like(e, -1, result)])
    e.emit("Identity", [result], e.node.output[0])


def classifier(e: Expansion) -> None:
    """Replace an SVMClassifier by products, whose signs are votes of pairs of classes; refuse probabilities."""
    _check_plain(e)
    if e.numbers("prob_a"):
        raise ModelError(
            "it has probabilities (prob_a), which onnxruntime computes iteratively: export it with probability=False, "
            "and calibrate it by CalibratedClassifierCV"
        )
    labels = labels_of(e, "classlabels_ints")
    sizes = np.array(e.numbers("vectors_per_class"), int)
    if len(sizes) < 2 or len(labels) != len(sizes):
        raise ModelError(f"it has {len(labels)} labels, and support vectors of {len(sizes)} classes")
    pairs, ends = list(combinations(range(len(sizes)), 2)), np.cumsum([0, *sizes])
    given = _numbers(e, "coefficients").reshape(len(sizes) - 1, -1)
    weights = np.zeros((ends[-1], len(pairs)), np.float32)
    votes = np.zeros((2, len(pairs), len(sizes)), np.float32)
    for column, (i, j) in enumerate(pairs):
        for own, other, row in ((i, j, j - 1), (j, i, i)):
            span = slice(ends[own], ends[own + 1])
            weights[span, column] = given[row, span]
            votes[int(own > other), column, own] = 1
    scores = _products(e, _kernel(e, _vectors(e, int(ends[-1]))), weights, _numbers(e, "rho"))
    first = e.emit("Cast", [e.emit("Greater", [scores, like(e, 0, scores)])], to=TensorProto.FLOAT)
    second = e.emit("Sub", [like(e, 1, first), first])
    counted = e.emit(
        "Add", [e.emit("MatMul", [x, e.constant(v)]) for x, v in zip((first, second), votes, strict=True)]
    )
    put_labels(e, e.emit("ArgMax", [counted], axis=1, keepdims=0), labels)
    if len(e.node.output) > 1:
        both = [e.emit("Neg", [scores]), scores]
        result = scores if len(pairs) > 1 else e.emit("Concat", both, axis=1)
        e.emit("Identity", [result], e.node.output[1])


def _check_plain(e: Expansion) -> None:
    if (transform := transform_of(e)) != "NONE":
        raise ModelError(f"its post_transform {transform} is not supported for support vectors, only NONE")


def _numbers(e: Expansion, name: str) -> Array:
    return np.array(e.numbers(name), np.float32)


def _vectors(e: Expansion, count: int) -> Array:
    columns = e.dims(e.node.input[0])[-1]
    found = _numbers(e, "support_vectors")
    if len(found) != count * columns:
        raise ModelError(
            f"its support_vectors has {len(found)} numbers for {count} vectors of {columns} columns"
        )
    return found.reshape(count, columns)


def _data(e: Expansion) -> str:
    """Emit the data as float32 rows."""
    x = e.node.input[0]
    x = x if e.dtype(x) == np.float32 else e.emit("Cast", [x], to=TensorProto.FLOAT)
    return reshape(e, x, 1, -1) if e.rank(e.node.input[0]) == 1 else x


def _products(e: Expansion, value: str, weights: Array, rho: Array) -> str:
    if len(rho) != weights.shape[1]:
        raise ModelError(f"its rho has {len(rho)} numbers, and {weights.shape[1]} are needed")
    product = e.emit("MatMul", [value, e.constant(weights)])
    return e.emit("Add", [product, e.constant(rho)])


def _kernel(e: Expansion, vectors: Array) -> str:
    """Emit the kernel K(x, v) of each data row with each support vector, [rows, vectors]."""
    kind, x = e.text("kernel_type", "LINEAR"), _data(e)
    gamma, offset, degree = [*e.numbers("kernel_params"), 0, 0, 0][:3]
    if kind == "RBF":
        rows, columns = e.dims(x)
        apart = e.emit("Sub", [reshape(e, x, rows, 1, columns), e.constant(vectors)])
        squares = reduce(e, "ReduceSum", e.emit("Mul", [apart, apart]), [2], keepdims=False)
        return e.emit("Exp", [e.emit("Mul", [squares, like(e, -gamma, squares)])])
    product = e.emit("MatMul", [x, e.constant(np.ascontiguousarray(vectors.T))])
    if kind == "LINEAR":
        return product
    moved = e.emit("Add", [e.emit("Mul", [product, like(e, gamma, product)]), like(e, offset, product)])
    if kind == "POLY":
        return e.emit("Pow", [moved, like(e, degree, moved)])
    if kind == "SIGMOID":
        return e.emit("Tanh", [moved])
    raise ModelError(f"its kernel_type is '{kind}'; supported are LINEAR, POLY, RBF, SIGMOID")
