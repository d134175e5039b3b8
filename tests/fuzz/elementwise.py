# SPDX-License-Identifier: Apache-2.0
"""Elementwise functions of one quantised tensor, however many nodes: composed in binary64, rounded once."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from schedules.numerics.qdq.table import look_up, table
from tests.fuzz.groups import Array, Group, Per, Quantized, attributes

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


# Attributes' defaults, as binary32 has them.
_LEAKY_ALPHA, _HARD_ALPHA = float(np.float32(0.01)), float(np.float32(0.2))

_UNARY: dict[str, Callable[..., Array]] = {
    "Relu": lambda x: np.maximum(x, 0),
    "LeakyRelu": lambda x, alpha=_LEAKY_ALPHA: np.where(x < 0, alpha * x, x),
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "HardSigmoid": lambda x, alpha=_HARD_ALPHA, beta=0.5: np.clip(alpha * x + beta, 0, 1),
    "Sigmoid": _sigmoid,
    "Tanh": np.tanh,
    "Elu": lambda x, alpha=1.0: np.where(x < 0, alpha * np.expm1(x), x),
    "Softplus": lambda x: np.logaddexp(x, 0),
    "Abs": np.abs,
    "Neg": np.negative,
    "Erf": _erf,
    "Sqrt": np.sqrt,
    "Exp": np.exp,
    "Log": np.log,
    "Reciprocal": np.reciprocal,
    "Identity": lambda x: x,
    "Clip": lambda x, low=None, high=None: np.clip(
        x, -np.inf if low is None else low, np.inf if high is None else high
    ),
}


_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": np.divide,
    "Max": np.maximum,
    "Min": np.minimum,
    "Pow": np.power,
}


def by_table(group: Group, y: Per) -> Array | None:
    """Elementwise functions of one tensor, however many: composed in binary64, rounded once."""
    tensors = {id(leaf.q): leaf for leaf in group.quantized.values()}
    numbers = {name: leaf for name, leaf in group.leaves.items() if not isinstance(leaf, Quantized)}
    elementwise = all(n.op_type in _UNARY or n.op_type in _BINARY for n in group.nodes)
    if len(tensors) != 1 or not elementwise or any(leaf.size != 1 for leaf in numbers.values()):
        return None
    (x,) = tensors.values()
    if x.q.dtype.itemsize != 1 or x.per.scales.size != 1:
        return None

    def function(real: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        values: dict[str, Any] = {name: leaf.astype(np.float64).reshape(()) for name, leaf in numbers.items()}
        values |= dict.fromkeys(group.quantized, real) | {"": None}
        for node in group.nodes:
            operands = [values[name] for name in node.input]
            apply = _UNARY.get(node.op_type) or _BINARY[node.op_type]
            values[node.output[0]] = apply(*operands, **attributes(node))
        return np.asarray(values[group.output])

    shape = np.broadcast_shapes(x.q.shape, *(leaf.shape for leaf in numbers.values()))
    try:
        with np.errstate(all="ignore"):
            entries = table(function, x.per, y)
    except ValueError:
        return None  # not a number somewhere, perhaps where no value is
    return look_up(entries, x.q).reshape(shape)
