# SPDX-License-Identifier: Apache-2.0
"""TIR's float32 functions exp, erf, log, minimum and maximum as inlined vector code instead of libm calls per lane.

Error bounds, with eps = 2^-24: 4 eps of the value for exp, 6 eps for erf; see `log_f32` for log, and `activation_f32`
for sigmoid and tanh. exp is 0 below -88 and infinity above 89; NaN gives NaN.
"""

import math
from collections.abc import Callable

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import THUMB, InstructionSet
from schedules.generic.expressions import lanes_of
from schedules.intrinsics.exp_f32 import reduced
from schedules.intrinsics.log_f32 import log
from schedules.intrinsics.vector_f32 import Vector
from schedules.kernels.epilogues import activation_f32
from schedules.tir.emit import i64, load, store


def exp(v: Vector, x: ir.Expr) -> ir.Expr:
    """Emit e**x."""
    near = v.minimum(v.maximum(x, activation_f32.EXP_LOW), activation_f32.EXP_HIGH)
    # Not scale * rest + scale, which is NaN if scale is infinite and rest negative.
    scale, rest = reduced(v, near, base_e=True, add=1.0)
    return scale * rest


def erf(v: Vector, x: ir.Expr) -> ir.Expr:
    """Emit the error function of x, by the rational polynomial that `activation_f32` fits to erf of x / sqrt(2)."""
    limit = activation_f32.ERF_LIMIT / math.sqrt(2)
    near = T.Bind(v.minimum(v.maximum(x, -limit), limit) * v.const(math.sqrt(2)))
    square = T.Bind(near * near)
    above = v.polynomial(square, activation_f32.ERF_P)
    return near * above / v.polynomial(square, activation_f32.ERF_Q)


FUNCTIONS: dict[str, Callable[[Vector, ir.Expr], ir.Expr]] = {
    "exp": exp,
    "log": log,
    "sigmoid": activation_f32.sigmoid,
    "tanh": activation_f32.tanh,
    "erf": erf,
}
"""Emitters by the name of TIR's operator."""


def extremum(kind: str, a: ir.Expr, b: ir.Expr, isa: InstructionSet) -> ir.Expr:
    """Emit IEEE 754-2019 maximum or minimum (FMAX, FMIN), which returns a NaN if an operand is one."""
    if isa.machine == THUMB.machine:
        return _compared(kind, T.Bind(a), b)
    dtype = str(a.ty.dtype)
    lanes, bits = lanes_of(a), dtype.partition("x")[0].removeprefix("float")
    return tirx.call_llvm_pure_intrin(dtype, f"llvm.{kind}.{f'v{lanes}' if lanes > 1 else ''}f{bits}", a, b)


def _compared(kind: str, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Emit IEEE 754-2019 maximum or minimum by comparisons.

    Without an FPU, LLVM would call fmaximumf, which is of C23; with one, it would write out each of the cases.
    """
    dtype, lanes = str(a.ty.dtype), lanes_of(a)
    limit = b.value if isinstance(b, tirx.Broadcast) else b
    is_limit = isinstance(limit, tirx.FloatImm) and not math.isnan(limit.value)
    b = b if is_limit else T.Bind(b)
    if lanes > 1:
        value = _of_numbers(kind, a, b)
        value = tirx.Select(_is_nan(a), a, value if is_limit else tirx.Select(_is_nan(b), b, value))
    elif is_limit:
        # A NaN of `a` compares as false. Of +0 and -0, which are equal, the greater has no sign.
        or_equal = limit.value != 0 or (math.copysign(1, limit.value) > 0) == (kind == "maximum")
        if kind == "maximum":
            value = tirx.Select(a <= b if or_equal else a < b, b, a)
        else:
            value = tirx.Select(a >= b if or_equal else a > b, b, a)
    else:
        bits = dtype.replace("float", "uint")
        one, other = (tirx.reinterpret(bits, x) for x in (a, b))
        equal = tirx.reinterpret(dtype, one & other if kind == "maximum" else one | other)
        a_first, b_first = (a > b, b > a) if kind == "maximum" else (a < b, b < a)
        value = tirx.Select(a_first, a, tirx.Select(b_first, b, tirx.Select(a.equal(b), equal, a + b)))
    # Through memory, which LLVM removes: TVM's simplifier writes out the value of a variable at each of its uses.
    result = T.alloc_buffer((lanes,), dtype.partition("x")[0], layout=None)
    store(result, value, i64(0), lanes)
    return load(result, i64(0), lanes)


def _of_numbers(kind: str, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Emit the greater or lesser of two vectors without NaN by VMAXNM or VMINNM of Helium.

    Not by a comparison: NaN is less than 0 for VCMP of Helium, and LLVM 22 does not take that into account.
    """
    dtype, lanes = str(a.ty.dtype), lanes_of(a)
    bits = dtype.partition("x")[0].removeprefix("float")
    name = {"maximum": "maxnum", "minimum": "minnum"}[kind]
    return T.Bind(tirx.call_llvm_pure_intrin(dtype, f"llvm.{name}.v{lanes}f{bits}", a, b))


def _is_nan(x: ir.Expr) -> ir.Expr:
    """Emit whether elements of a vector are NaN, by their bits for the same reason."""
    dtype = str(x.ty.dtype)
    bits = {"float16": (0x7FFF, 0x7C00), "float32": (0x7FFFFFFF, 0x7F800000)}[dtype.partition("x")[0]]
    word, lanes = dtype.replace("float", "uint"), lanes_of(x)
    without_sign, infinity = (
        tirx.Broadcast(tirx.const(each, word.partition("x")[0]), lanes) for each in bits
    )
    return (tirx.reinterpret(word, x) & without_sign) > infinity
