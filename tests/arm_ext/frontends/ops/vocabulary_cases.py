# SPDX-License-Identifier: Apache-2.0
"""Operators with a numpy definition, and how each model format writes them.

A case is one operator of one dtype, with values at the edges of the dtype: zeros of both signs, NaN, infinities, tiny
and huge numbers, the least and the greatest integers. Definitions of floats are computed in binary64.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from jax import lax
from jax.extend.core import Primitive
from jax.interpreters import mlir
from jaxlib.mlir.dialects import stablehlo
from torch.nn import functional as F  # noqa: N812 (torch's own name for it)

from relay_passes.canonicalize import define_casts
from relay_passes.canonicalize.define_division import quotient, remainder

Array = np.ndarray
Written = str | tuple[str, dict[str, Any]]
"""Name of an operator of ONNX or TFLite, with its attributes or options; "before" and "inputs" are constants
before and after the operands."""


@dataclass(frozen=True)
class Case:
    """An operator of one dtype.

    Attributes:
        name: Name of the operator and the dtype.
        define: numpy definition of the operator; floats are given and returned in binary64.
        values: Operands.
        onnx: ONNX operator.
        torch: Function of torch tensors.
        tflite: TFLite operator.
        stablehlo: Function of JAX arrays.
        composed: Formats that write the operator as several, so that their Relax may differ.
        ulps: Largest relative error in units of 2**-24; -1 if only equal values are right.
        atol: Largest absolute error beside it.
    """

    name: str
    define: Callable[..., Any]
    values: tuple[Array, ...]
    onnx: Written | None = None
    torch: Callable[..., Any] | None = None
    tflite: Written | None = None
    stablehlo: Callable[..., Any] | None = None
    composed: str = ""
    ulps: float = -1
    atol: float = 0

    def expected(self) -> Array:
        """Return the defined result, floats rounded to the operands' dtype."""
        wide = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in self.values]
        with np.errstate(all="ignore"):
            result = np.asarray(self.define(*wide))
            floats = [x.dtype for x in self.values if x.dtype.kind == "f"]
            return (
                result.astype(floats[0] if floats else np.float32) if result.dtype == np.float64 else result
            )


TINY_TO_HUGE = [
    1e-38,
    1e-30,
    1e-8,
    1e-4,
    0.01,
    0.3,
    0.5,
    0.9,
    0.999999,
    1,
    1.0001,
    1.5,
    2.5,
    3,
    7.5,
    20,
    80,
    88,
]
HUGE = [1e5, 1e10, 1e20, 3e38]
_SOFTPLUS = 2.0**-21
"""Absolute error of `relax.nn.softplus` (relay_passes/rules/recognize_softplus.py)."""
_SPECIAL = [0.0, -0.0, np.nan, np.inf, -np.inf]
_FEW = [0.5, 1, 2, 3, -1, -2.5, -3, 1e-30, 1e10, -3e38]


def floats(numbers: list[float] = TINY_TO_HUGE + HUGE) -> Array:
    """Return numbers with both signs, zeros, infinities and NaN in float32."""
    return np.array([*_SPECIAL, *numbers, *(-v for v in numbers)], np.float32)


def integers(dtype: str) -> Array:
    """Return the integers at the ends of a dtype and around 0."""
    limits = np.iinfo(dtype)
    signed = [-1, -2, -7, limits.min + 1] if limits.min else []
    return np.array([limits.min, 0, 1, 2, 3, 7, 20, limits.max, limits.max - 1, *signed], dtype)


def pairs(numbers: Array) -> tuple[Array, Array]:
    """Return each number with each."""
    return np.repeat(numbers, numbers.size), np.tile(numbers, numbers.size)


def operands(dtype: str, count: int) -> tuple[Array, ...]:
    """Return operands of a dtype with all edge values, for two operands every pair of them."""
    if dtype == "bool":
        numbers = np.array([False, True])
    elif count == 2 and dtype == "float32":
        numbers = np.array([*_SPECIAL, *_FEW], np.float32)
    else:
        numbers = floats() if dtype == "float32" else integers(dtype)
    return pairs(numbers) if count == 2 else (numbers,)


@dataclass
class Table:
    """The cases of a family of operators."""

    cases: list[Case] = field(default_factory=list)

    def add(
        self,
        name: str,
        define: Callable[..., Any],
        given: str | dict[str, tuple[Array, ...]] = "float32",
        count: int = 1,
        tflite: Written | None = None,
        tflite_of: str = "float32 int32 bool",
        **forms: Any,
    ) -> None:
        """Add an operator for each dtype.

        Args:
            name: Name of the operator.
            define: numpy definition of the operator.
            given: Dtypes, or their operands.
            count: Number of operands.
            tflite: TFLite operator.
            tflite_of: Dtypes that TFLite defines the operator for.
            forms: Other fields of `Case`.
        """
        values = (
            given if isinstance(given, dict) else {dtype: operands(dtype, count) for dtype in given.split()}
        )
        for dtype, value in values.items():
            taken = tflite if dtype in tflite_of.split() else None
            self.cases.append(Case(f"{name}[{dtype}]", define, value, tflite=taken, **forms))


def _erf(x: Array) -> Array:
    return np.vectorize(math.erf)(x)


def _erfc(x: Array) -> Array:
    return np.vectorize(math.erfc)(x)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _softplus(x: Array) -> Array:
    return np.where(x > 0, x, 0) + np.log1p(np.exp(-np.abs(x))) + 0 * np.where(np.isnan(x), x, 0)


def _gelu_tanh(x: Array) -> Array:
    return x * _sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def _bits(x: Array) -> Array:
    width = x.dtype.itemsize * 8
    return np.array([bin(int(v) % 2**width).count("1") for v in x], x.dtype)


def _zeros_before(x: Array) -> Array:
    width = x.dtype.itemsize * 8
    return np.array([width - (int(v) % 2**width).bit_length() for v in x], x.dtype)


def wrapped(value: int, dtype: np.dtype[Any]) -> int:
    """Return an integer modulo 2**width, in the range of the dtype."""
    bits = dtype.itemsize * 8
    held = value % 2**bits
    return held - 2**bits if dtype.kind == "i" and held >= 2 ** (bits - 1) else held


# JAX writes powers of integers as products; other programs have the operator.
_power_p = Primitive("power_of_integers")
_power_p.def_abstract_eval(lambda x, _: x)
mlir.register_lowering(_power_p, lambda _, x, y: [stablehlo.PowOp(x, y).result])


def _in_width(count: Array, x: Array) -> Array:
    return (count >= 0) & (count < x.dtype.itemsize * 8)


def _shifted_left(x: Array, count: Array) -> Array:
    inside = _in_width(count, x)
    return np.where(inside, np.left_shift(x, np.where(inside, count, 0)), np.zeros_like(x))


def _shifted_right(x: Array, count: Array) -> Array:
    most = np.array(x.dtype.itemsize * 8 - 1, x.dtype)
    beyond = np.right_shift(x, most) if x.dtype.kind == "i" else np.zeros_like(x)
    inside = _in_width(count, x)
    return np.where(inside, np.right_shift(x, np.where(inside, count, 0)), beyond)


def _integer_power(x: Array, n: Array) -> Array:
    def one(a: int, b: int) -> int:
        if 0 <= b < 64 or wrapped(a * a, x.dtype) == 1:
            return wrapped(pow(a, b % 64, 2 ** (x.dtype.itemsize * 8)), x.dtype)
        return 0

    return np.array([one(int(a), int(b)) for a, b in zip(x, n, strict=True)], x.dtype)


def _float_functions() -> Iterator[Case]:
    t = Table()
    signed = "float32 int32 int64 int8"
    exact, near, poly = {"ulps": -1}, {"ulps": 4}, {"ulps": 12}
    t.add(
        "abs",
        np.abs,
        "float32 int32 int64 int8",
        onnx="Abs",
        torch=torch.abs,
        tflite="ABS",
        stablehlo=lax.abs,
    )
    t.add(
        "negate",
        np.negative,
        "float32 int32 int64 int8",
        onnx="Neg",
        torch=torch.neg,
        tflite="NEG",
        stablehlo=lax.neg,
    )
    t.add("sign", np.sign, signed, onnx="Sign", tflite="SIGN", stablehlo=lax.sign)
    t.add("sign_or_zero", lambda x: np.nan_to_num(np.sign(x)), signed, torch=torch.sign)
    t.add("floor", np.floor, onnx="Floor", torch=torch.floor, tflite="FLOOR", stablehlo=lax.floor)
    t.add("ceil", np.ceil, onnx="Ceil", torch=torch.ceil, tflite="CEIL", stablehlo=lax.ceil)
    t.add("round", np.round, onnx="Round", torch=torch.round, tflite="ROUND", stablehlo=jnp.round)
    t.add("trunc", np.trunc, torch=torch.trunc, stablehlo=jnp.trunc, composed="stablehlo")
    t.add("exp", np.exp, onnx="Exp", torch=torch.exp, tflite="EXP", stablehlo=lax.exp, **near)
    t.add("exp2", np.exp2, torch=torch.exp2, stablehlo=lax.exp2, ulps=80, composed="stablehlo")
    t.add("expm1", np.expm1, torch=torch.expm1, stablehlo=lax.expm1, **poly)
    t.add("log", np.log, onnx="Log", torch=torch.log, tflite="LOG", stablehlo=lax.log, **near)
    t.add("log1p", np.log1p, torch=torch.log1p, stablehlo=lax.log1p, **poly)
    t.add("log2", np.log2, torch=torch.log2, ulps=8)
    t.add("log10", np.log10, torch=torch.log10, ulps=8)
    t.add("sqrt", np.sqrt, onnx="Sqrt", torch=torch.sqrt, tflite="SQRT", stablehlo=lax.sqrt, ulps=2)
    t.add("rsqrt", lambda x: 1 / np.sqrt(x), torch=torch.rsqrt, tflite="RSQRT", stablehlo=lax.rsqrt, **near)
    t.add(
        "reciprocal",
        lambda x: 1 / x,
        onnx="Reciprocal",
        torch=torch.reciprocal,
        stablehlo=lambda x: 1 / x,
        ulps=2,
    )
    t.add("square", np.square, torch=torch.square, tflite="SQUARE", stablehlo=lax.square, ulps=2)
    t.add("cbrt", np.cbrt, stablehlo=lax.cbrt, ulps=80)
    t.add("sin", np.sin, onnx="Sin", torch=torch.sin, tflite="SIN", stablehlo=lax.sin, **near)
    t.add("cos", np.cos, onnx="Cos", torch=torch.cos, tflite="COS", stablehlo=lax.cos, **near)
    t.add("tan", np.tan, onnx="Tan", torch=torch.tan, stablehlo=lax.tan, ulps=8)
    t.add("asin", np.arcsin, onnx="Asin", torch=torch.asin, stablehlo=jnp.arcsin, **poly)
    t.add("acos", np.arccos, onnx="Acos", torch=torch.acos, stablehlo=jnp.arccos, **poly)
    t.add("atan", np.arctan, onnx="Atan", torch=torch.atan, stablehlo=jnp.arctan, **poly)
    t.add("sinh", np.sinh, onnx="Sinh", torch=torch.sinh, stablehlo=jnp.sinh, **poly)
    t.add("cosh", np.cosh, onnx="Cosh", torch=torch.cosh, stablehlo=jnp.cosh, **poly)
    t.add("tanh", np.tanh, onnx="Tanh", torch=torch.tanh, tflite="TANH", stablehlo=lax.tanh, **poly)
    t.add("asinh", np.arcsinh, onnx="Asinh", torch=torch.asinh, stablehlo=jnp.arcsinh, **poly)
    t.add("acosh", np.arccosh, onnx="Acosh", torch=torch.acosh, stablehlo=jnp.arccosh, **poly)
    t.add("atanh", np.arctanh, onnx="Atanh", torch=torch.atanh, stablehlo=jnp.arctanh, **poly)
    t.add("erf", _erf, onnx="Erf", torch=torch.erf, stablehlo=lax.erf, ulps=16)
    t.add("erfc", _erfc, torch=torch.erfc, stablehlo=lax.erfc, ulps=0, atol=2**-22)
    t.add(
        "sigmoid",
        _sigmoid,
        onnx="Sigmoid",
        torch=torch.sigmoid,
        tflite="LOGISTIC",
        stablehlo=lax.logistic,
        **poly,
    )
    t.add("isnan", np.isnan, onnx="IsNaN", torch=torch.isnan, stablehlo=jnp.isnan, **exact)
    t.add("isinf", np.isinf, onnx="IsInf", torch=torch.isinf, stablehlo=jnp.isinf, **exact)
    t.add("isfinite", np.isfinite, torch=torch.isfinite, stablehlo=lax.is_finite, **exact)
    return iter(t.cases)


def _activations() -> Iterator[Case]:
    t = Table()
    few = {"float32": (floats([1e-30, 1e-4, 0.3, 0.5, 1, 2.5, 3, 5.9, 6.1, 20, 100, 1e10, 3e38]),)}
    near = {"ulps": 8}
    t.add(
        "relu",
        lambda x: np.maximum(x, 0),
        few,
        onnx="Relu",
        torch=torch.relu,
        tflite="RELU",
        stablehlo=jax.nn.relu,
    )
    t.add("relu6", lambda x: np.clip(x, 0, 6), few, torch=F.relu6, tflite="RELU6", stablehlo=jax.nn.relu6)
    t.add(
        "leaky_relu", lambda x: np.where(x > 0, x, np.float32(0.1) * x), few, onnx=("LeakyRelu", {"alpha": 0.1}),
        torch=lambda x: F.leaky_relu(x, 0.1), tflite=("LEAKY_RELU", {"alpha": 0.1}),
        stablehlo=lambda x: jax.nn.leaky_relu(x, 0.1), **near,
    )  # fmt: skip
    t.add(
        "elu", lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), few, onnx="Elu", torch=F.elu, tflite="ELU",
        stablehlo=jax.nn.elu, ulps=8, atol=2**-23, composed="stablehlo")  # fmt: skip
    alpha, scale = 1.6732632423543772, 1.0507009873554805
    t.add(
        "selu", lambda x: scale * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0))), few, onnx="Selu",
        torch=F.selu, stablehlo=jax.nn.selu, ulps=8, atol=2**-22, composed="stablehlo")  # fmt: skip
    t.add(
        "celu", lambda x: np.where(x > 0, x, 2 * np.expm1(np.minimum(x, 0) / 2)), few, onnx=("Celu", {"alpha": 2.0}),
        torch=lambda x: F.celu(x, 2.0), stablehlo=lambda x: jax.nn.celu(x, 2.0), ulps=8, atol=2**-22,
        composed="stablehlo",
    )  # fmt: skip
    t.add("thresholded_relu", lambda x: np.where(x > 1, x, 0), few, onnx="ThresholdedRelu")
    t.add("softplus", _softplus, few, onnx="Softplus", torch=F.softplus, stablehlo=jax.nn.softplus,
          ulps=16, atol=_SOFTPLUS, composed="stablehlo")  # fmt: skip
    t.add(
        "softsign", lambda x: np.where(np.isinf(x), np.nan, x / (1 + np.abs(x))), few, onnx="Softsign",
        torch=F.softsign, stablehlo=jax.nn.soft_sign, **near,
    )  # fmt: skip
    t.add("silu", lambda x: x * _sigmoid(x), few, torch=F.silu, stablehlo=jax.nn.silu, ulps=12)
    t.add(
        "mish", lambda x: x * np.tanh(_softplus(x)), few, onnx="Mish", torch=F.mish, stablehlo=jax.nn.mish, ulps=24,
        atol=20 * _SOFTPLUS, composed="stablehlo")  # fmt: skip
    t.add(
        "gelu", lambda x: x * 0.5 * _erfc(-x / math.sqrt(2)), few, onnx="Gelu", torch=F.gelu,
        tflite=("GELU", {"approximate": False}), stablehlo=lambda x: jax.nn.gelu(x, approximate=False),
        ulps=16, atol=2**-22,
    )  # fmt: skip
    t.add(
        "gelu_tanh", _gelu_tanh, few, onnx=("Gelu", {"approximate": "tanh"}),
        torch=lambda x: F.gelu(x, approximate="tanh"), tflite=("GELU", {"approximate": True}),
        stablehlo=lambda x: jax.nn.gelu(x, approximate=True), ulps=16, atol=2**-22,
    )  # fmt: skip
    t.add(
        "hard_sigmoid", lambda x: np.clip(x / 6 + 0.5, 0, 1), few,
        onnx=("HardSigmoid", {"alpha": 1 / 6, "beta": 0.5}), torch=F.hardsigmoid, stablehlo=jax.nn.hard_sigmoid,
        ulps=8, atol=2**-24,
    )  # fmt: skip
    t.add(
        "hard_swish", lambda x: x * np.clip(x / 6 + 0.5, 0, 1), few, onnx="HardSwish", torch=F.hardswish,
        tflite="HARD_SWISH", stablehlo=jax.nn.hard_swish, ulps=8, atol=2**-22,
    )  # fmt: skip
    t.add(
        "log_sigmoid", lambda x: -_softplus(-x), few, torch=F.logsigmoid, stablehlo=jax.nn.log_sigmoid, ulps=16,
        atol=_SOFTPLUS, composed="stablehlo")  # fmt: skip
    return iter(t.cases)


_ALL = "float32 int32 int64 uint8 int8"
_INTEGERS = "int32 int64 uint8 int8"


def _binary() -> Iterator[Case]:
    t = Table()
    t.add("add", np.add, _ALL, 2, onnx="Add", torch=torch.add, tflite="ADD", stablehlo=lax.add, ulps=2)
    t.add(
        "subtract", np.subtract, _ALL, 2, onnx="Sub", torch=torch.sub, tflite="SUB", stablehlo=lax.sub, ulps=2
    )
    t.add(
        "multiply", np.multiply, _ALL, 2, onnx="Mul", torch=torch.mul, tflite="MUL", stablehlo=lax.mul, ulps=2
    )
    t.add(
        "divide",
        np.divide,
        "float32",
        2,
        onnx="Div",
        torch=torch.div,
        tflite="DIV",
        stablehlo=lax.div,
        ulps=2,
    )
    t.add(
        "maximum", np.maximum, _ALL, 2, onnx="Max", torch=torch.maximum, tflite="MAXIMUM", stablehlo=lax.max
    )
    t.add(
        "minimum", np.minimum, _ALL, 2, onnx="Min", torch=torch.minimum, tflite="MINIMUM", stablehlo=lax.min
    )
    t.add(
        "power", np.power, "float32", 2, onnx="Pow", torch=torch.pow, tflite="POW", stablehlo=lax.pow, ulps=16
    )
    t.add("atan2", np.arctan2, "float32", 2, torch=torch.atan2, tflite="ATAN2", stablehlo=lax.atan2, ulps=16)
    t.add(
        "hypot", np.hypot, "float32", 2, torch=torch.hypot, stablehlo=jnp.hypot, ulps=8, composed="stablehlo"
    )
    t.add(
        "fmod", np.fmod, "float32", 2, onnx=("Mod", {"fmod": 1}), torch=torch.fmod, stablehlo=lax.rem, ulps=0
    )
    t.add(
        "squared_difference", lambda a, b: (a - b) ** 2, "float32", 2, torch=lambda a, b: (a - b) ** 2,
        tflite="SQUARED_DIFFERENCE", stablehlo=lambda a, b: (a - b) ** 2, ulps=4,
    )  # fmt: skip
    t.add(
        "quotient", quotient, _INTEGERS, 2, onnx="Div", torch=lambda a, b: torch.div(a, b, rounding_mode="trunc"),
        tflite="DIV",
    )  # fmt: skip
    # XLA on the CPU gives integers by 0 all bits.
    t.add("xla_quotient", lambda a, b: np.where(b == 0, ~np.zeros_like(a), quotient(a, b)), _INTEGERS, 2,
          stablehlo=lax.div)  # fmt: skip
    t.add(
        "floor_divide", lambda a, b: quotient(a, b, floor=True), _INTEGERS, 2, torch=torch.floor_divide,
        tflite="FLOOR_DIV",
    )  # fmt: skip
    t.add(
        "floor_mod", lambda a, b: remainder(a, b, floor=True), _INTEGERS, 2, onnx="Mod", torch=torch.remainder,
        tflite="FLOOR_MOD",
    )  # fmt: skip
    t.add(
        "remainder", remainder, _INTEGERS, 2, onnx=("Mod", {"fmod": 1}), torch=torch.fmod, stablehlo=lax.rem
    )
    t.add("integer_power", _integer_power, _INTEGERS, 2, onnx="Pow", torch=torch.pow, tflite="POW",
          stablehlo=_power_p.bind)  # fmt: skip
    return iter(t.cases)


def _bits_and_comparisons() -> Iterator[Case]:
    t = Table()
    with_bool = f"{_INTEGERS} bool"
    t.add(
        "and",
        np.bitwise_and,
        _INTEGERS,
        2,
        onnx="BitwiseAnd",
        torch=torch.bitwise_and,
        stablehlo=lax.bitwise_and,
    )
    t.add(
        "or", np.bitwise_or, _INTEGERS, 2, onnx="BitwiseOr", torch=torch.bitwise_or, stablehlo=lax.bitwise_or
    )
    t.add(
        "xor", np.bitwise_xor, with_bool, 2, torch=torch.bitwise_xor, tflite="BITWISE_XOR",
        stablehlo=lax.bitwise_xor,
    )  # fmt: skip
    t.add("onnx_xor", np.bitwise_xor, _INTEGERS, 2, onnx="BitwiseXor")
    t.add("onnx_not", np.invert, _INTEGERS, onnx="BitwiseNot")
    t.add("not", np.invert, with_bool, torch=torch.bitwise_not, stablehlo=lax.bitwise_not)
    t.add("logical_and", np.logical_and, "bool", 2, onnx="And", torch=torch.logical_and, tflite="LOGICAL_AND",
          stablehlo=jnp.logical_and)  # fmt: skip
    t.add("logical_or", np.logical_or, "bool", 2, onnx="Or", torch=torch.logical_or, tflite="LOGICAL_OR",
          stablehlo=jnp.logical_or)  # fmt: skip
    t.add(
        "logical_xor",
        np.logical_xor,
        "bool",
        2,
        onnx="Xor",
        torch=torch.logical_xor,
        stablehlo=jnp.logical_xor,
    )
    t.add("logical_not", np.logical_not, "bool", onnx="Not", torch=torch.logical_not, tflite="LOGICAL_NOT",
          stablehlo=jnp.logical_not)  # fmt: skip
    t.add("shift_left", _shifted_left, _INTEGERS, 2, torch=torch.bitwise_left_shift, stablehlo=lax.shift_left)
    t.add("shift_right", _shifted_right, _INTEGERS, 2, torch=torch.bitwise_right_shift, tflite="RIGHT_SHIFT",
          stablehlo=lax.shift_right_arithmetic)  # fmt: skip
    unsigned = {"uint8": operands("uint8", 2)}
    t.add("onnx_shift_left", _shifted_left, unsigned, onnx=("BitShift", {"direction": "LEFT"}))
    t.add("onnx_shift_right", _shifted_right, unsigned, onnx=("BitShift", {"direction": "RIGHT"}))
    t.add("count_ones", _bits, _INTEGERS, stablehlo=lax.population_count)
    t.add("count_leading_zeros", _zeros_before, _INTEGERS, stablehlo=lax.clz)
    kinds = f"{_ALL} bool"
    names = {"equal": "eq", "not_equal": "ne"}  # torch.equal compares whole tensors
    for name, define, op, lite, hlo in [
        ("equal", np.equal, "Equal", "EQUAL", lax.eq),
        ("not_equal", np.not_equal, None, "NOT_EQUAL", lax.ne),
        ("less", np.less, "Less", "LESS", lax.lt),
        ("less_equal", np.less_equal, "LessOrEqual", "LESS_EQUAL", lax.le),
        ("greater", np.greater, "Greater", "GREATER", lax.gt),
        ("greater_equal", np.greater_equal, "GreaterOrEqual", "GREATER_EQUAL", lax.ge),
    ]:
        for given in kinds.split():
            if given == "bool" and name not in names:
                continue
            t.add(name, define, given, 2, onnx=op, torch=getattr(torch, names.get(name, name)), tflite=lite,
                  stablehlo=hlo, tflite_of="float32 int32 int64")  # fmt: skip
    return iter(t.cases)


def _casts() -> Iterator[Case]:
    t = Table()
    beyond = np.array(
        [3e9, -3e9, np.inf, -np.inf, np.nan, 300, -1, 1e20, 2.0**31, 5.7, -5.7, -0.0, 0.5], np.float32
    )
    for to in ("int8", "uint8", "int32", "int64", "float32", "bool"):
        kind = {"bool": 9, "int8": 3, "uint8": 2, "int32": 6, "int64": 7, "float32": 1}[to]
        lite = {"bool": 6, "int8": 9, "uint8": 3, "int32": 2, "int64": 4, "float32": 0}[to]
        for source in ("float32", "int32", "int64", "uint8", "bool"):
            if source == to:
                continue
            value = {"float32": beyond, "bool": np.array([False, True])}.get(source)
            value = integers(source) if value is None else value

            def define(x: Array, to: str = to) -> Array:
                if x.dtype.kind == "f" and to not in ("bool", "float32"):
                    return define_casts.cast(x.astype(np.float32), to)
                return x.astype(to)

            t.add(
                f"to_{to}", define, {source: (value,)}, onnx=("Cast", {"to": kind}),
                torch=lambda x, to=to: x.to(getattr(torch, to)),
                stablehlo=lambda x, to=to: lax.convert_element_type(x, to),
                tflite=("CAST", {"outDataType": lite}), tflite_of="float32 int32 int64 uint8 bool",
                composed="stablehlo" if to == "bool" else "",
            )  # fmt: skip
    return iter(t.cases)


def _grid(dtype: str) -> Array:
    """Return values [4, 7]: ordinary ones, a row with a NaN, one with infinities of both signs, one with zeros."""
    rng = np.random.default_rng(11)
    if dtype != "float32":
        x = rng.integers(-9, 9, (4, 7)) if dtype[0] == "i" else rng.integers(0, 9, (4, 7))
        x[1, 2], x[1, 5] = np.iinfo(dtype).max, np.iinfo(dtype).min
        return x.astype(dtype)
    x = rng.standard_normal((4, 7)).astype(np.float32)
    x[1, 3], x[2, 1], x[2, 5], x[3] = np.nan, np.inf, -np.inf, [0.0, -0.0, 2, 2, -3, -3, 1]
    return x


_KINDS = "float32 int32 int64"


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _log_softmax(x: Array) -> Array:
    shifted = x - x.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def _logsumexp(x: Array) -> Array:
    greatest = x.max(-1)
    shift = np.where(np.isfinite(greatest), greatest, 0)
    return np.log(np.exp(x - shift[:, None]).sum(-1)) + shift


def _reductions() -> Iterator[Case]:
    t = Table()
    last = np.array([1], np.int64)

    def add(
        name: str, define: Any, kinds: str, onnx: str, torch: Any, lite: str | None, hlo: Any, **more: Any
    ) -> None:
        given = {dtype: (_grid(dtype),) for dtype in kinds.split()}
        t.add(name, define, given, onnx=(onnx, {"keepdims": 0, "inputs": [last]}) if onnx else None, torch=torch,
              tflite=(lite, {"keepDims": False, "inputs": [last.astype(np.int32)]}) if lite else None,
              stablehlo=hlo, **more)  # fmt: skip

    add("sum", lambda x: x.sum(1, dtype=x.dtype), _KINDS, "ReduceSum", lambda x: x.sum(1, dtype=x.dtype), "SUM",
        lambda x: lax.reduce_sum_p.bind(x, axes=(1,), out_sharding=None), ulps=8, atol=2**-20)  # fmt: skip
    add("mean", lambda x: x.mean(1), "float32", "ReduceMean", lambda x: x.mean(1), "MEAN", lambda x: x.mean(1),
        ulps=8, atol=2**-20)  # fmt: skip
    add("max", lambda x: x.max(1), _KINDS, "ReduceMax", lambda x: x.amax(1), "REDUCE_MAX", lambda x: x.max(1))
    add("min", lambda x: x.min(1), _KINDS, "ReduceMin", lambda x: x.amin(1), "REDUCE_MIN", lambda x: x.min(1))
    add("product", lambda x: x.prod(1, dtype=x.dtype), _KINDS, "ReduceProd", lambda x: x.prod(1, dtype=x.dtype),
        "REDUCE_PROD", lambda x: lax.reduce_prod_p.bind(x, axes=(1,), out_sharding=None), ulps=16)  # fmt: skip
    add("l1", lambda x: np.abs(x).sum(1), "float32", "ReduceL1", lambda x: x.norm(1, 1), None, None, ulps=8)
    add(
        "l2",
        lambda x: np.sqrt((x * x).sum(1)),
        "float32",
        "ReduceL2",
        lambda x: x.norm(2, 1),
        None,
        None,
        ulps=8,
    )
    add("sum_square", lambda x: (x * x).sum(1), "float32", "ReduceSumSquare", None, None, None, ulps=8)
    add("logsumexp", _logsumexp, "float32", "ReduceLogSumExp", lambda x: x.logsumexp(1), None,
        lambda x: jax.scipy.special.logsumexp(x, 1), ulps=8, atol=2**-21, composed="torch")  # fmt: skip
    grid = {dtype: (_grid(dtype),) for dtype in _KINDS.split()}
    # numpy finds the first NaN, as all formats but TFLite do, of which LiteRT's order has none.
    t.add("argmax", lambda x: x.argmax(1), grid, onnx=("ArgMax", {"axis": 1, "keepdims": 0}),
          torch=lambda x: x.argmax(1), stablehlo=lambda x: lax.argmax(x, 1, np.int64))  # fmt: skip
    t.add("argmin", lambda x: x.argmin(1), grid, onnx=("ArgMin", {"axis": 1, "keepdims": 0}),
          torch=lambda x: x.argmin(1), stablehlo=lambda x: lax.argmin(x, 1, np.int64))  # fmt: skip
    t.add("cumsum", lambda x: x.cumsum(1, dtype=x.dtype), grid, onnx=("CumSum", {"inputs": [np.array(1)]}),
          torch=lambda x: x.cumsum(1, dtype=x.dtype), tflite=("CUMSUM", {"inputs": [np.array(1, np.int32)]}),
          stablehlo=lambda x: lax.cumsum(x, 1), ulps=8, atol=2**-20)  # fmt: skip
    bools = {"bool": (np.array([[True, True], [False, True], [False, False]]),)}
    t.add("any", lambda x: x.any(1), bools, torch=lambda x: x.any(1), stablehlo=lambda x: x.any(1),
          tflite=("REDUCE_ANY", {"keepDims": False, "inputs": [last.astype(np.int32)]}))  # fmt: skip
    t.add("all", lambda x: x.all(1), bools, torch=lambda x: x.all(1), stablehlo=lambda x: x.all(1),
          tflite=("REDUCE_ALL", {"keepDims": False, "inputs": [last.astype(np.int32)]}))  # fmt: skip
    floats_only = {"float32": (_grid("float32"),)}
    t.add("softmax", _softmax, floats_only, onnx=("Softmax", {"axis": 1}), torch=lambda x: x.softmax(1),
          tflite=("SOFTMAX", {"beta": 1.0}), stablehlo=lambda x: jax.nn.softmax(x, 1), ulps=16)  # fmt: skip
    t.add("log_softmax", _log_softmax, floats_only, onnx=("LogSoftmax", {"axis": 1}),
          torch=lambda x: x.log_softmax(1), tflite="LOG_SOFTMAX", stablehlo=lambda x: jax.nn.log_softmax(x, 1),
          ulps=16, atol=2**-21)  # fmt: skip
    # StableHLO has no reduction that keeps its axes: its values are held with them until their shape is needed.
    return (replace(case, composed=f"{case.composed} stablehlo") for case in t.cases)


def _cube(dtype: str = "float32") -> Array:
    """Return different values [2, 3, 5], with a NaN, an infinity and a zero of each sign among floats."""
    x = np.arange(30).reshape(2, 3, 5).astype(dtype)
    if dtype == "float32":
        x -= 14.5
        x[0, 1, 1:5] = np.nan, np.inf, -0.0, 0.0
    return x


def _ints(*values: int, dtype: str = "int64") -> Array:
    return np.array(values, dtype)


def _moves() -> Iterator[Case]:
    t = Table()
    kinds = {dtype: (_cube(dtype),) for dtype in ("float32", "int32", "int64", "uint8")}
    # Formats cut, flip and repeat by operators with other parameters, so that their Relax may differ.
    every = "onnx stablehlo tflite torch"
    t.add("transpose", lambda x: x.transpose(2, 0, 1), kinds, onnx=("Transpose", {"perm": [2, 0, 1]}),
          torch=lambda x: x.permute(2, 0, 1), tflite=("TRANSPOSE", {"inputs": [_ints(2, 0, 1, dtype="int32")]}),
          stablehlo=lambda x: x.transpose(2, 0, 1))  # fmt: skip
    t.add("reverse", lambda x: x[:, ::-1], kinds, torch=lambda x: x.flip(1),
          onnx=("Slice", {"inputs": [_ints(-1), _ints(-(2**31)), _ints(1), _ints(-1)]}),
          tflite=("REVERSE_V2", {"inputs": [_ints(1, dtype="int32")]}), stablehlo=lambda x: lax.rev(x, (1,)),
          composed=every)  # fmt: skip
    t.add("slice", lambda x: x[:, 1:3, 4:0:-2], kinds,
          onnx=("Slice", {"inputs": [_ints(1, 4), _ints(3, 0), _ints(1, 2), _ints(1, -2)]}),
          tflite=("STRIDED_SLICE", {"inputs": [_ints(*v, dtype="int32") for v in ((0, 1, 4), (2, 3, 0), (1, 1, -2))]}),
          torch=lambda x: x[:, 1:3].flip(2)[:, :, 0:4:2], stablehlo=lambda x: x[:, 1:3, 4:0:-2],
          composed=every)  # fmt: skip
    t.add("tile", lambda x: np.tile(x, (1, 2, 3)), kinds, onnx=("Tile", {"inputs": [_ints(1, 2, 3)]}),
          torch=lambda x: x.repeat(1, 2, 3), tflite=("TILE", {"inputs": [_ints(1, 2, 3, dtype="int32")]}),
          stablehlo=lambda x: jnp.tile(x, (1, 2, 3)), composed=every)  # fmt: skip
    for mode, name in (("constant", "CONSTANT"), ("reflect", "REFLECT"), ("edge", ""), ("wrap", "")):
        torch_mode = {"edge": "replicate", "wrap": "circular"}.get(mode, mode)
        floats_or_all = {"float32": kinds["float32"]} if torch_mode == "replicate" else kinds
        pads = _ints(0, 0, 1, 0, 1, 2)
        table = np.array([[0, 0], [0, 1], [1, 2]], np.int32)
        lite = (
            ("PAD", {"inputs": [table]})
            if mode == "constant"
            else ("MIRROR_PAD", {"inputs": [table], "mode": 0})
        )
        define = lambda x, mode=mode: np.pad(x, ((0, 0), (0, 1), (1, 2)), mode)  # noqa: E731 - the next line's
        t.add(f"pad_{mode}", define, floats_or_all, onnx=("Pad", {"mode": mode, "inputs": [pads]}),
              torch=(lambda x, m=torch_mode: F.pad(x[None], (1, 2, 0, 1), m)[0]),
              tflite=lite if name else None, stablehlo=lambda x, m=mode: jnp.pad(x, ((0, 0), (0, 1), (1, 2)), m),
              composed=every)  # fmt: skip
    picked = _ints(2, 0, 2, 1)
    t.add("gather", lambda x: x.take([2, 0, 2, 1], 1), kinds, onnx=("Gather", {"axis": 1, "inputs": [picked]}),
          torch=lambda x: x.index_select(1, torch.tensor([2, 0, 2, 1])),
          tflite=("GATHER", {"axis": 1, "inputs": [picked.astype(np.int32)]}),
          stablehlo=lambda x: jnp.take(x, np.array([2, 0, 2, 1]), 1), composed=every)  # fmt: skip
    t.add("gather_from_the_end", lambda x: x.take([-1, 0, -3], 1), kinds,
          onnx=("Gather", {"axis": 1, "inputs": [_ints(-1, 0, -3)]}), torch=lambda x: x[:, torch.tensor([-1, 0, -3])],
          stablehlo=lambda x: x[:, np.array([-1, 0, -3])], composed=every)  # fmt: skip
    order = np.array([[[0, 2, 1, 0, 1]], [[2, 2, 0, 1, 1]]])
    t.add("gather_elements", lambda x: np.take_along_axis(x, order, 1), kinds,
          onnx=("GatherElements", {"axis": 1, "inputs": [order]}), torch=lambda x: x.gather(1, torch.from_numpy(order)),
          stablehlo=lambda x: jnp.take_along_axis(x, order, 1), composed=every)  # fmt: skip
    sums = {dtype: (value[0],) for dtype, value in ((d, v[0]) for d, v in kinds.items()) if dtype != "uint8"}

    def added(x: Array) -> Array:
        y = np.zeros((3, 5), x.dtype)
        np.add.at(y, [1, 0, 1], x)
        return y

    t.add("scatter_add", added, sums,
          torch=lambda x: torch.zeros(3, 5, dtype=x.dtype).index_add(0, torch.tensor([1, 0, 1]), x),
          tflite=None, stablehlo=lambda x: jnp.zeros((3, 5), x.dtype).at[np.array([1, 0, 1])].add(x),
          composed=every, ulps=2)  # fmt: skip
    lite_rows, lite_shape = _ints(2, 0, 1, dtype="int32")[:, None], _ints(3, 5, dtype="int32")
    t.add("scatter_nd", lambda x: np.stack([x[1], x[2], x[0]]), sums,
          tflite=("SCATTER_ND", {"before": [lite_rows], "inputs": [lite_shape]}),
          torch=lambda x: torch.zeros(3, 5, dtype=x.dtype).index_put((torch.tensor([2, 0, 1]),), x),
          stablehlo=lambda x: jnp.zeros((3, 5), x.dtype).at[np.array([2, 0, 1])].set(x), composed=every)  # fmt: skip
    picture = {"float32": (np.arange(2 * 8 * 2 * 3, dtype=np.float32).reshape(2, 8, 2, 3),)}
    t.add("depth_to_space", lambda x: x.reshape(2, 2, 2, 2, 2, 3).transpose(0, 3, 4, 1, 5, 2).reshape(2, 2, 4, 6),
          picture, onnx=("DepthToSpace", {"blocksize": 2}), composed=every)  # fmt: skip
    t.add("pixel_shuffle", lambda x: x.reshape(2, 2, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(2, 2, 4, 6),
          picture, onnx=("DepthToSpace", {"blocksize": 2, "mode": "CRD"}), torch=lambda x: F.pixel_shuffle(x, 2),
          composed=every)  # fmt: skip
    places = {dtype: (np.array([[0, 3, -1], [2, 1, 3]], dtype),) for dtype in ("int32", "int64")}
    t.add("one_hot", lambda x: np.eye(4, dtype=np.float32)[x % 4] * (x >= 0)[..., None], places,
          tflite=("ONE_HOT", {"axis": -1, "inputs": [np.array(4, np.int32), np.float32(1), np.float32(0)]}),
          stablehlo=lambda x: jax.nn.one_hot(x, 4, dtype=np.float32), composed=every)  # fmt: skip
    return iter(t.cases)


def _ordered() -> Iterator[Case]:
    t = Table()
    grid = {dtype: (_grid(dtype),) for dtype in _KINDS.split()}
    every = "onnx stablehlo tflite torch"
    t.add("sort", lambda x: np.sort(x, 1), grid, torch=lambda x: x.sort(1)[0],
          stablehlo=lambda x: lax.sort(x, dimension=1), composed=every)  # fmt: skip
    t.add("argsort", lambda x: np.argsort(x, 1, kind="stable"), grid, torch=lambda x: x.argsort(dim=1, stable=True),
          stablehlo=lambda x: jnp.argsort(x, 1).astype(np.int64), composed=every)  # fmt: skip
    finite = {d: (np.delete(v[0], 1, 0),) for d, v in grid.items()}
    t.add("largest", lambda x: -np.sort(-x, 1)[:, :3], {"float32": finite["float32"]}, torch=lambda x: x.topk(3, 1)[0],
          stablehlo=lambda x: lax.top_k(x, 3)[0], composed=every)  # fmt: skip
    return iter(t.cases)


def _picture(channels_last: bool = False) -> Array:
    """Return an image [2, 3, 7, 5], or with the channels last: a NaN, infinities of both signs, zeros."""
    x = np.random.default_rng(3).standard_normal((2, 3, 7, 5)).astype(np.float32)
    x[0, 1, 2, 3], x[1, 0, 4, 1], x[1, 2, 6, 4], x[1, 1] = np.nan, np.inf, -np.inf, 0
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1)) if channels_last else x


@dataclass(frozen=True)
class _Window:
    """A window over the last two axes: its size, steps, dilations, and padding before and after."""

    size: tuple[int, int]
    steps: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    before: tuple[int, int] = (0, 0)
    after: tuple[int, int] = (0, 0)

    def views(self, x: Array, value: float) -> Array:
        """Return the windows of an array [N, C, H, W] as [N, C, h, w, rows, columns]."""
        pads = [(0, 0), (0, 0), *zip(self.before, self.after, strict=True)]
        x = np.pad(x, pads, constant_values=value)
        reach = [(n - 1) * d + 1 for n, d in zip(self.size, self.dilations, strict=True)]
        found = np.lib.stride_tricks.sliding_window_view(x, reach, (2, 3))
        (sy, sx), (dy, dx) = self.steps, self.dilations
        return found[:, :, ::sy, ::sx, ::dy, ::dx]

    @property
    def onnx(self) -> dict[str, Any]:
        """Attributes of ONNX."""
        return {
            "kernel_shape": self.size,
            "strides": self.steps,
            "pads": [*self.before, *self.after],
            "dilations": self.dilations,
        }

    def reduced(self, x: Any, start: float, function: Any) -> Any:
        """Return the windows reduced by JAX, of an image with the channels first."""
        pads = [(0, 0), (0, 0), *zip(self.before, self.after, strict=True)]
        return lax.reduce_window(
            x, np.float32(start), function, (1, 1, *self.size), (1, 1, *self.steps), pads,
            window_dilation=(1, 1, *self.dilations),
        )  # fmt: skip

    def convolved(self, x: Any, w: Any, groups: int = 1) -> Any:
        """Return a convolution by JAX, of an image with the channels first."""
        pads = list(zip(self.before, self.after, strict=True))
        return lax.conv_general_dilated(
            x, w, self.steps, pads, rhs_dilation=self.dilations, feature_group_count=groups
        )


def _last(define: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return the definition of an operator whose image has the channels last."""
    return lambda x: define(x.transpose(0, 3, 1, 2)).transpose(0, 2, 3, 1)


_WINDOWS = {
    "whole": _Window((2, 3)),
    "steps": _Window((3, 2), (2, 2)),
    "padded": _Window((3, 3), (2, 1), (1, 1), (1, 1), (1, 1)),
    "one-sided": _Window((2, 2), (2, 2), (1, 1), (0, 0), (1, 1)),
    "dilated": _Window((2, 2), (1, 2), (2, 3), (1, 0), (1, 0)),
}
_VALID = 1
"""TFLite's number of a padding that adds nothing."""


def _windows() -> Iterator[Case]:
    t = Table()
    first, last = {"float32": (_picture(),)}, {"float32": (_picture(channels_last=True),)}
    every = "onnx stablehlo tflite torch"
    for name, w in _WINDOWS.items():
        (sy, sx), even = w.steps, w.before == w.after
        greatest = lambda x, w=w: w.views(x, -np.inf).max((4, 5))  # noqa: E731 - the next lines'
        mean = lambda x, w=w: w.views(x, 0).mean((4, 5))  # noqa: E731
        inner = lambda x, w=w: w.views(x, 0).sum((4, 5)) / w.views(np.ones_like(x), 0).sum((4, 5))  # noqa: E731
        window = {
            "strideH": sy,
            "strideW": sx,
            "filterHeight": w.size[0],
            "filterWidth": w.size[1],
            "padding": _VALID,
        }
        plain = w.dilations == (1, 1)
        is_lite = plain and not any((*w.before, *w.after))
        t.add(f"max_pool {name}", greatest, first, onnx=("MaxPool", w.onnx), composed=every,
              torch=(lambda x, w=w: F.max_pool2d(x, w.size, w.steps, w.before, w.dilations)) if even else None,
              stablehlo=lambda x, w=w: w.reduced(x, -np.inf, lax.max))  # fmt: skip
        t.add(f"average_pool {name}", mean, first, onnx=("AveragePool", {**w.onnx, "count_include_pad": 1}),
              torch=(lambda x, w=w: F.avg_pool2d(x, w.size, w.steps, w.before)) if even and plain else None,
              stablehlo=lambda x, w=w: w.reduced(x, 0, lax.add) / np.float32(math.prod(w.size)), ulps=8,
              atol=2**-22, composed=every)  # fmt: skip
        t.add(f"average_pool of the inner {name}", inner, first, onnx=("AveragePool", w.onnx), composed=every,
              torch=(lambda x, w=w: F.avg_pool2d(x, w.size, w.steps, w.before, count_include_pad=False))
              if even and plain else None, ulps=8, atol=2**-22)  # fmt: skip
        if is_lite:
            t.add(f"max_pool {name}, channels last", _last(greatest), last, tflite=("MAX_POOL_2D", window))
            t.add(f"average_pool {name}, channels last", _last(mean), last, tflite=("AVERAGE_POOL_2D", window),
                  ulps=8, atol=2**-22)  # fmt: skip
    t.add("global_average_pool", lambda x: x.mean((2, 3), keepdims=True), first, onnx="GlobalAveragePool",
          torch=lambda x: F.adaptive_avg_pool2d(x, 1), stablehlo=lambda x: x.mean((2, 3), keepdims=True), ulps=16,
          atol=2**-22, composed=every)  # fmt: skip
    t.add("global_max_pool", lambda x: x.max((2, 3), keepdims=True), first, onnx="GlobalMaxPool",
          torch=lambda x: F.adaptive_max_pool2d(x, 1), stablehlo=lambda x: x.max((2, 3), keepdims=True),
          composed=every)  # fmt: skip
    for name, groups in (("whole", 1), ("steps", 3), ("padded", 1), ("one-sided", 1), ("dilated", 3)):
        w = _WINDOWS[name]
        weights = np.random.default_rng(4).standard_normal((6, 3 // groups, *w.size)).astype(np.float32)
        finite = np.nan_to_num(_picture(), posinf=3, neginf=-3)

        def convolved(x: Array, w: _Window = w, weights: Array = weights, groups: int = groups) -> Array:
            parts = zip(np.split(w.views(x, 0), groups, 1), np.split(weights, groups), strict=True)
            return np.concatenate([np.einsum("nchwij,ocij->nohw", v, each) for v, each in parts], 1)

        t.add(f"convolution {name}", convolved, {"float32": (finite,)},
              onnx=("Conv", {**w.onnx, "group": groups, "inputs": [weights]}), composed=every, ulps=32, atol=2**-20,
              torch=(lambda x, w=w, k=weights, g=groups: F.conv2d(
                  x, torch.from_numpy(k), None, w.steps, w.before, w.dilations, g)) if w.before == w.after else None,
              stablehlo=lambda x, w=w, k=weights, g=groups: w.convolved(x, k, g))  # fmt: skip
    return iter(t.cases)


def _normalised() -> Iterator[Case]:
    t = Table()
    rng = np.random.default_rng(5)
    x = np.nan_to_num(_picture(), posinf=3, neginf=-3)
    x[0, 2] = 1e4  # a constant channel
    gain, shift, mean = (rng.standard_normal(3).astype(np.float32) for _ in range(3))
    spread = rng.random(3).astype(np.float32)
    given, every = {"float32": (x,)}, "onnx stablehlo tflite torch"

    def over(axes: tuple[int, ...], groups: int = 1) -> Callable[[Array], Array]:
        def define(x: Array) -> Array:
            parts = x.reshape(x.shape[0], groups, -1, *x.shape[2:]) if axes == (2, 3, 4) else x
            centred = parts - parts.mean(axes, keepdims=True)
            return (centred / np.sqrt((centred**2).mean(axes, keepdims=True) + 1e-5)).reshape(x.shape)

        return define

    def scaled(y: Array) -> Array:
        return y * gain[:, None, None] + shift[:, None, None]

    def by_channels(x: Array) -> Array:
        return scaled((x - mean[:, None, None]) / np.sqrt(spread[:, None, None].astype(np.float64) + 1e-5))

    tensors = [torch.from_numpy(v) for v in (mean, spread, gain, shift)]
    bound = {"ulps": 64, "atol": 2**-17, "composed": every}
    t.add("batch_norm", by_channels, given, onnx=("BatchNormalization", {"inputs": [gain, shift, mean, spread]}),
          torch=lambda x: F.batch_norm(x, *tensors), **bound)  # fmt: skip
    t.add("instance_norm", lambda x: scaled(over((2, 3))(x)), given, **bound,
          onnx=("InstanceNormalization", {"inputs": [gain, shift]}),
          torch=lambda x: F.instance_norm(x, weight=tensors[2], bias=tensors[3]))  # fmt: skip
    row, beside = (rng.standard_normal(5).astype(np.float32) for _ in range(2))
    t.add("layer_norm", lambda x: over((3,))(x) * row + beside, given, **bound,
          onnx=("LayerNormalization", {"inputs": [row, beside]}),
          torch=lambda x: F.layer_norm(x, [5], torch.from_numpy(row), torch.from_numpy(beside)),
          stablehlo=lambda x: jax.nn.standardize(x, -1, epsilon=1e-5) * row + beside)  # fmt: skip
    t.add("layer_norm without weights", over((2, 3)), given, **bound, torch=lambda x: F.layer_norm(x, x.shape[2:]),
          stablehlo=lambda x: jax.nn.standardize(x, (2, 3), epsilon=1e-5))  # fmt: skip
    six = {"float32": (np.concatenate([x, x[:, ::-1] * 2], 1),)}
    t.add("group_norm", over((2, 3, 4), 2), six, torch=lambda x: F.group_norm(x, 2), **bound)
    t.add("rms_norm", lambda x: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * row, given, **bound,
          torch=lambda x: F.rms_norm(x, [5], torch.from_numpy(row), 1e-6))  # fmt: skip
    t.add("l2_norm", lambda x: x / np.sqrt((x * x).sum(1, keepdims=True)), given, ulps=16, composed=every,
          onnx=("LpNormalization", {"axis": 1}), torch=lambda x: F.normalize(x, dim=1, eps=0))  # fmt: skip
    return iter(t.cases)


def _resize_places(before: int, after: int, mode: str) -> Array:
    """Return where the pixels of a resized axis lie in the original one."""
    at = np.arange(after)
    if mode == "align_corners":
        return at * (before - 1) / (after - 1) if after > 1 else np.zeros(1)
    return (at + 0.5) * before / after - 0.5 if mode == "half_pixel" else at * before / after


def _linear(x: Array, axis: int, after: int, mode: str) -> Array:
    places = _resize_places(x.shape[axis], after, mode).clip(0, x.shape[axis] - 1)
    lower = np.floor(places).astype(int)
    upper, share = np.minimum(lower + 1, x.shape[axis] - 1), places - lower
    share = share.reshape([-1 if k == axis else 1 for k in range(x.ndim)])
    return x.take(lower, axis) * (1 - share) + x.take(upper, axis) * share


def _resized() -> Iterator[Case]:
    t = Table()
    x = np.nan_to_num(_picture(), posinf=3, neginf=-3)
    first, last = {"float32": (x,)}, {"float32": (np.ascontiguousarray(x.transpose(0, 2, 3, 1)),)}
    every = "onnx stablehlo tflite torch"
    for height, width in ((14, 10), (3, 2), (5, 9), (1, 1)):
        to = f"to {height} x {width}"
        sizes = [np.zeros(0, np.float32), np.zeros(0, np.float32), np.array([2, 3, height, width])]
        lite = {"inputs": [np.array([height, width], np.int32)]}
        for mode in ("half_pixel", "align_corners", "asymmetric"):

            def linear(x: Array, mode: str = mode, size: tuple[int, int] = (height, width)) -> Array:
                return _linear(_linear(x, 2, size[0], mode), 3, size[1], mode)

            corners, half = mode == "align_corners", mode == "half_pixel"
            t.add(f"linear {mode} {to}", linear, first, composed=every, ulps=16, atol=2**-20,
                  onnx=("Resize", {"mode": "linear", "coordinate_transformation_mode": mode, "inputs": sizes}),
                  torch=None if mode == "asymmetric" else lambda x, c=corners, s=(height, width): F.interpolate(
                      x, s, mode="bilinear", align_corners=c),
                  stablehlo=(lambda x, s=(height, width): jax.image.resize(x, (2, 3, *s), "linear", antialias=False))
                  if half else None)  # fmt: skip
            t.add(f"linear {mode} {to}, channels last", _last(linear), last, ulps=16, atol=2**-20,
                  tflite=("RESIZE_BILINEAR", {"alignCorners": corners, "halfPixelCenters": half} | lite))  # fmt: skip

        def nearest(x: Array, size: tuple[int, int] = (height, width)) -> Array:
            for axis, after in zip((2, 3), size, strict=True):
                places = np.floor(_resize_places(x.shape[axis], after, "asymmetric")).astype(int)
                x = x.take(places, axis)
            return x

        t.add(f"nearest {to}", nearest, first, composed=every,
              onnx=("Resize", {"mode": "nearest", "coordinate_transformation_mode": "asymmetric",
                               "nearest_mode": "floor", "inputs": sizes}),
              torch=lambda x, s=(height, width): F.interpolate(x, s, mode="nearest"))  # fmt: skip
        t.add(f"nearest {to}, channels last", _last(nearest), last, tflite=("RESIZE_NEAREST_NEIGHBOR", lite))
    return iter(t.cases)


FAMILIES: dict[str, list[Case]] = {
    "float_functions": list(_float_functions()),
    "activations": list(_activations()),
    "binary": list(_binary()),
    "bits_and_comparisons": list(_bits_and_comparisons()),
    "casts": list(_casts()),
    "reductions": list(_reductions()),
    "moves": list(_moves()),
    "ordered": list(_ordered()),
    "windows": list(_windows()),
    "normalised": list(_normalised()),
    "resized": list(_resized()),
}
