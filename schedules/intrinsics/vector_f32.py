# SPDX-License-Identifier: Apache-2.0
"""Arithmetic on float32 vectors, by which polynomials are computed: emitted, or in numpy.

A function over `Vector` is code and definition in one: `evaluated` computes in numpy, bit for bit, what the code does
that the function emits.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics import sve
from schedules.intrinsics.registers import LANES
from schedules.numerics import binary32
from schedules.tir.emit import splat

Array = npt.NDArray[Any]

EXPONENT = 23
"""Bits below the exponent of a float32."""


class Vector:
    """Arithmetic on vectors of `lanes` float32 (scalars if 1); each result is bound to a variable, so computed once.

    Attributes:
        lanes: Number of elements.
        sve: Whether vectors of four use SVE instructions, within the context manager `sve.functions`.
    """

    def __init__(self, lanes: int, *, sve: bool = False, held: Mapping[float, ir.Expr] | None = None) -> None:
        """Set up arithmetic on `lanes` lanes; `held` maps constants to variables that already hold them.

        LLVM materialises a literal constant in each iteration of a loop, by three instructions; a variable stays in a
        register.
        """
        self.sve = sve and lanes == LANES
        self._held = held or {}
        self.lanes = lanes
        self._dtype = "float32" if lanes == 1 else f"float32x{lanes}"
        self._integers = "int32" if lanes == 1 else f"int32x{lanes}"
        self._suffix = "f32" if lanes == 1 else f"v{lanes}f32"

    def bind(self, value: ir.Expr) -> ir.Var:
        """Emit a variable for a value that is used more than once."""
        return T.Bind(value)

    def const(self, value: float) -> ir.Expr:
        """Return the value in every lane."""
        return self._held.get(value, splat(value, "float32", self.lanes))

    def fma(self, a: ir.Expr, b: ir.Expr, c: ir.Expr) -> ir.Var:
        """Emit a * b + c, rounded once; with separate products and sums LLVM would choose which of them to contract."""
        return T.Bind(sve.fma(a, b, c) if self.sve else self._call("fma", a, b, c))

    def maximum(self, x: ir.Expr, bound: float) -> ir.Var:
        """Emit IEEE 754-2019 maximum (FMAX): NaN gives NaN."""
        return T.Bind(self._opaque("maximum", x, self.const(bound)))

    def minimum(self, x: ir.Expr, bound: float) -> ir.Var:
        """Emit IEEE 754-2019 minimum (FMIN): NaN gives NaN."""
        return T.Bind(self._call("minimum", x, self.const(bound)))

    def absolute(self, x: ir.Expr) -> ir.Var:
        """Emit |x|."""
        return T.Bind(self._opaque("fabs", x))

    def with_sign(self, x: ir.Expr, sign: ir.Expr) -> ir.Var:
        """Emit |x| with the sign of `sign`."""
        return T.Bind(self._call("copysign", x, sign))

    def polynomial(self, x: ir.Expr, coefficients: Sequence[float]) -> ir.Expr:
        """Emit a polynomial by Horner's scheme; the constant term is the first coefficient."""
        value: ir.Expr = self.const(coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            value = self.fma(value, x, self.const(coefficient))
        return value

    def bits(self, x: ir.Expr) -> ir.Expr:
        """Reinterpret a vector as int32."""
        return tirx.reinterpret(self._integers, x)

    def power(self, biased: ir.Expr) -> ir.Var:
        """Emit 2**(n - 127), where n, the low nine bits of an int32, becomes the exponent field."""
        shift = tirx.IntImm("int32", EXPONENT)
        shifts = shift if self.lanes == 1 else tirx.Broadcast(shift, self.lanes)
        return T.Bind(tirx.reinterpret(self._dtype, biased << shifts))

    def _call(self, name: str, *operands: ir.Expr) -> ir.Expr:
        return tirx.call_llvm_pure_intrin(self._dtype, f"llvm.{name}.{self._suffix}", *operands)

    def _opaque(self, name: str, *operands: ir.Expr) -> ir.Expr:
        """Emit a call that TVM assumes to be impure, and so does not inline in place of its variable.

        Each function starts with such a call, so that its argument stays a variable. Otherwise TVM's simplifier would
        inline variables at each use, recursively: 50 s for tanh of softplus.
        """
        return tirx.call_llvm_intrin(self._dtype, f"llvm.{name}.{self._suffix}", *operands)


class _Evaluator(Vector):
    """Computes the operations of `Vector` on numpy arrays."""

    def __init__(self) -> None:
        super().__init__(LANES)

    def bind(self, value: Any) -> Any:
        return value

    def const(self, value: float) -> Any:
        return np.float32(value)

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        return binary32.fma(a, b, c)

    def maximum(self, x: Any, bound: float) -> Any:
        return np.maximum(x, np.float32(bound))

    def minimum(self, x: Any, bound: float) -> Any:
        return np.minimum(x, np.float32(bound))

    def absolute(self, x: Any) -> Any:
        return np.abs(x)

    def with_sign(self, x: Any, sign: Any) -> Any:
        return np.copysign(x, sign)

    def bits(self, x: Any) -> Any:
        return x.view(np.int32)

    def power(self, biased: Any) -> Any:
        return (biased << EXPONENT).view(np.float32)


def evaluated(function: Callable[[Vector, Any], Any], x: Array) -> Array:
    """Compute in numpy the values of the code that a function emits.

    Args:
        function: It uses operators and methods of `Vector` alone, without SVE.
        x: Its operand, float32 of any shape.
    """
    with np.errstate(all="ignore"):
        return np.asarray(function(_Evaluator(), x), np.float32)
