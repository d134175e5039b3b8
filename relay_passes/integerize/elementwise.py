# SPDX-License-Identifier: Apache-2.0
"""Chains of elementwise operators of one quantised tensor, evaluated as one function in float64."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm.ir import Call, Expr, Var
from tvm.tirx import FloatImm, IntImm

from relay_passes.integerize.context import Context, operator
from relay_passes.integerize.numerics import Real
from relay_passes.integerize.values import Quantized, static_shape
from schedules.diagnostic import Diagnostic

_Array = npt.NDArray[np.float64]

# The coefficients of the tanh form of gelu (Hendrycks and Gimpel, 2016).
_GELU_CUBIC = 0.044715
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def _erf(x: _Array) -> _Array:
    return np.asarray(np.vectorize(math.erf, otypes=[np.float64])(x))


def _sigmoid(x: _Array) -> _Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _gelu(x: _Array) -> _Array:
    return np.asarray(0.5 * x * (1 + _erf(x / math.sqrt(2))))


def _gelu_tanh(x: _Array) -> _Array:
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + _GELU_CUBIC * x**3))))


def _selu(x: _Array) -> _Array:
    return _SELU_SCALE * np.where(x > 0, x, _SELU_ALPHA * np.expm1(x))


def _round_half_even(x: _Array) -> _Array:
    return np.rint(x)


# Operators with a single argument and no attributes.
_UNARY: dict[str, Callable[..., _Array]] = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "erf": _erf,
    "exp": np.exp,
    "floor": np.floor,
    "log": np.log,
    "negative": np.negative,
    "nn.gelu": _gelu,
    "nn.gelu_tanh": _gelu_tanh,
    "nn.relu": lambda x: np.maximum(x, 0),
    "nn.relu6": lambda x: np.clip(x, 0, 6),
    "nn.selu": _selu,
    "nn.silu": lambda x: x * _sigmoid(x),
    "round": _round_half_even,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": _sigmoid,
    "sign": np.sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "square": np.square,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
}

# Two arguments.
_BINARY: dict[str, Callable[..., _Array]] = {
    "add": np.add,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "power": np.power,
    "subtract": np.subtract,
}


_WITH_ATTRIBUTES = ("clip", "nn.leakyrelu", "nn.softplus")


def clamp_of(context: Context, call: Call) -> tuple[Expr, float | None, float | None] | None:
    """Return (data, low, high) of a relu, clip, maximum or minimum with constant limits; None for other calls."""
    match operator(call):
        case "nn.relu":
            return call.args[0], 0.0, None
        case "nn.relu6":
            return call.args[0], 0.0, 6.0
        case "clip":
            low, high = (_immediate(arg) for arg in call.args[1:3])
            return call.args[0], low, high
        case "maximum" | "minimum" as name:
            for data, other in (tuple(call.args), tuple(call.args)[::-1]):
                limit = context.constant(other)
                if limit is not None and limit.size == 1 and static_shape(data) == static_shape(call):
                    value = float(limit.item())
                    return (data, value, None) if name == "maximum" else (data, None, value)
    return None


@dataclass(frozen=True)
class ElementwiseChain:
    """A chain of elementwise calls, as a function of one quantised tensor.

    Attributes:
        leaf: The quantised tensor.
        function: The function in float64; None for the identity.
        at: The float variable whose quantised value is `leaf`.
        steps: The calls of the chain, by the variable that each is bound to.
    """

    leaf: Quantized
    function: Real
    at: Var
    steps: Mapping[Var, Call]


def chain_of(context: Context, expr: Expr) -> ElementwiseChain | Diagnostic:
    """Return `expr` as an elementwise function of one quantised tensor, or why it is none."""
    call = context.definition(expr)
    if call is not None and not _has_meaning(call) and context.known(expr) is None:
        return Diagnostic.of(f"no integer form of {operator(call)} is defined")
    leaves: dict[Var, Quantized] = {}
    calls: dict[Var, Call] = {}
    function = _function(context, expr, leaves, calls)
    if isinstance(function, Diagnostic):
        return function
    if len(leaves) != 1:
        return Diagnostic.of("it is a function of several tensors", 1, len(leaves))
    at, leaf = next(iter(leaves.items()))
    if static_shape(expr) != leaf.shape:
        return Diagnostic.of("it broadcasts its input", list(leaf.shape), list(static_shape(expr)))
    return ElementwiseChain(leaf, lambda x: function({at: x}), at, calls)


_Environment = dict[Any, _Array]
_Function = Callable[[_Environment], _Array]


def _function(
    context: Context, expr: Expr, leaves: dict[Var, Quantized], calls: dict[Var, Call]
) -> _Function | Diagnostic:
    """Return `expr` as a function of leaves, which are added to `leaves`, or why it is no elementwise function."""
    constant = context.constant(expr)
    if constant is not None:
        if constant.size != 1:
            return Diagnostic.of("a constant in it has several elements", 1, constant.size)
        scalar = constant.reshape(())
        return lambda _values: scalar
    known = context.known(expr)
    if known is not None:
        if known.per_tensor is None:
            return Diagnostic.of("its input is quantised per channel")
        leaves[expr] = known
        return lambda values: values[expr]
    if expr in context.sums:
        return Diagnostic.of("it is no clamp and stands between an accumulator and its quantize")
    call = context.definition(expr)
    if call is None:
        return Diagnostic.of("its input is not quantised")
    if not _has_meaning(call):
        return Diagnostic.of(f"{operator(call)} before it is not quantised")
    args = [_function(context, arg, leaves, calls) for arg in call.args if not _is_immediate(arg)]
    for arg in args:
        if isinstance(arg, Diagnostic):
            return arg
    calls[expr] = call
    meaning = _meaning(call)
    functions = [arg for arg in args if not isinstance(arg, Diagnostic)]
    return lambda values: meaning(*(function(values) for function in functions))


def _has_meaning(call: Call) -> bool:
    name = operator(call)
    return name in _UNARY or name in _BINARY or name in _WITH_ATTRIBUTES


def _meaning(call: Call) -> Callable[..., _Array]:
    match operator(call):
        case "nn.leakyrelu":
            # The attribute is a float64 number parsed from the decimals of a float32 number; round it to float32.
            alpha = float(np.float32(call.attrs.alpha))
            return lambda x: np.where(x > 0, x, alpha * x)
        case "nn.softplus":
            beta, threshold = float(call.attrs.beta), float(call.attrs.threshold)
            return lambda x: np.where(
                x * beta > threshold, x, np.log1p(np.exp(np.minimum(x * beta, threshold))) / beta
            )
        case "clip":
            low, high = (_immediate(arg) for arg in call.args[1:3])
            return lambda x: np.clip(x, low, high)
        case name:
            return _UNARY.get(name) or _BINARY[name]


def _is_immediate(arg: Expr) -> bool:
    return isinstance(arg, FloatImm | IntImm)


def _immediate(arg: Expr) -> float:
    # Round to float32, because compiled code compares a clip's limits with float32 numbers.
    return float(np.float32(arg.value))
