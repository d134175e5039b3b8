# SPDX-License-Identifier: Apache-2.0
"""The activations of recurrent ONNX operators: their names, and parameters where they have some."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import onnx
from onnx import helper

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.expansion import Expansion
from arm_ext.frontends.onnx.opset_forms import like

Gate = Callable[[str], str]
"""Emits an activation of a value, and returns what holds it."""

_PLAIN = ("Relu", "Tanh", "Sigmoid", "Softsign", "Softplus")

# Activation → default parameters: those of the ONNX operator of the same name, opset 13.
_DEFAULTS = {
    "LeakyRelu": {"alpha": 0.01},
    "ThresholdedRelu": {"alpha": 1.0},
    "Elu": {"alpha": 1.0},
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    "Affine": {"alpha": 1.0, "beta": 0.0},
    "ScaledTanh": {"alpha": 1.0, "beta": 1.0},
}


@dataclass(frozen=True)
class Activation:
    """An ONNX activation and its parameters by name."""

    name: str
    numbers: Mapping[str, float]


def activations_of(
    node: onnx.NodeProto, defaults: Sequence[str], directions: int
) -> list[tuple[Activation, ...]]:
    """Return the activations of each direction.

    Raises:
        ModelError: An activation is not supported.
    """
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    names = [name.decode() for name in given.get("activations", ())] or [*defaults] * directions
    numbers = {key: iter(given.get(f"activation_{key}", ())) for key in ("alpha", "beta")}
    made = [
        Activation(name, {key: next(numbers[key], value) for key, value in _numbers_of(name).items()})
        for name in names
    ]
    return [tuple(made[d * len(defaults) : (d + 1) * len(defaults)]) for d in range(directions)]


def activations(e: Expansion, defaults: Sequence[str], directions: int) -> list[list[Gate]]:
    """Return, for each direction, the functions that emit its activations.

    Raises:
        ModelError: An activation is not supported.
    """
    limit = e.attribute("clip", 0.0)
    return [
        [_gate(e, each.name, each.numbers, limit) for each in direction]
        for direction in activations_of(e.node, defaults, directions)
    ]


def activation(e: Expansion, name: str, given: Sequence[float], value: str, output: str) -> None:
    """Emit an activation of a value.

    Args:
        e: Emitter at the node.
        name: ONNX's name of the activation.
        given: The activation's parameters, as far as the node gives them.
        value: Argument of the activation.
        output: Name of the result.

    Raises:
        ModelError: The activation is not supported.
    """
    numbers = dict(zip(_numbers_of(name), given, strict=False))
    _emit(e, name, numbers, value, output)


def _numbers_of(name: str) -> dict[str, float]:
    if name not in _PLAIN and name not in _DEFAULTS:
        raise ModelError(f"its activation is {name}; supported are {', '.join((*_PLAIN, *_DEFAULTS))}")
    return _DEFAULTS.get(name, {})


def _gate(e: Expansion, name: str, numbers: Mapping[str, float], limit: float) -> Gate:
    def emit(value: str) -> str:
        if limit:
            low, high = (like(e, bound, e.node.input[0]) for bound in (-limit, limit))
            value = e.emit("Min", [e.emit("Max", [value, low]), high])
        return _emit(e, name, numbers, value)

    return emit


def _emit(e: Expansion, name: str, numbers: Mapping[str, float], value: str, output: str = "") -> str:
    """Emit an activation; Affine and ScaledTanh, which are not ONNX operators any more, by Mul, Add and Tanh."""
    if name in ("Affine", "ScaledTanh"):
        alpha, beta = (like(e, numbers[key], e.node.input[0]) for key in ("alpha", "beta"))
        if name == "Affine":
            return e.emit("Add", [e.emit("Mul", [value, alpha]), beta], output)
        return e.emit("Mul", [e.emit("Tanh", [e.emit("Mul", [value, beta])]), alpha], output)
    return e.emit(name, [value], output, [helper.make_attribute(*number) for number in numbers.items()])
