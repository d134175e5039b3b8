# SPDX-License-Identifier: Apache-2.0
"""FEAT_BF16: BFMMLA (a 2 x 2 block of binary32 sums), BFDOT (four binary32 sums), BFCVTN (rounding to bfloat16).

TVM's lowering replaces bfloat16 by binary32 or integers, and so cannot call LLVM's intrinsics, whose operands are
vectors of bfloat16. Functions in LLVM IR, which LLVM inlines, call them; within the context manager `functions` kernels
can use these functions. Outside of them, vectors of bfloat16 are int16.
"""

from contextlib import AbstractContextManager
from typing import Any

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.operands import check, check_flat
from schedules.tir.emit import importing

FEATURE = "bf16"

K_STEP = 4
"""Number of k that one BFMMLA sums over."""

LANES = 8
"""bfloat16 elements of a 128-bit register."""

_IR = """
declare <4 x float> @llvm.aarch64.neon.bfmmla(<4 x float>, <8 x bfloat>, <8 x bfloat>)
declare <4 x float> @llvm.aarch64.neon.bfdot.v4f32.v8bf16(<4 x float>, <8 x bfloat>, <8 x bfloat>)

define internal <4 x float> @arm_bfmmla(<4 x float> %acc, <8 x i16> %a, <8 x i16> %b) alwaysinline {
  %x = bitcast <8 x i16> %a to <8 x bfloat>
  %y = bitcast <8 x i16> %b to <8 x bfloat>
  %sum = call <4 x float> @llvm.aarch64.neon.bfmmla(<4 x float> %acc, <8 x bfloat> %x, <8 x bfloat> %y)
  ret <4 x float> %sum
}

define internal <4 x float> @arm_bfdot(<4 x float> %acc, <8 x i16> %a, <8 x i16> %b) alwaysinline {
  %x = bitcast <8 x i16> %a to <8 x bfloat>
  %y = bitcast <8 x i16> %b to <8 x bfloat>
  %sum = call <4 x float> @llvm.aarch64.neon.bfdot.v4f32.v8bf16(<4 x float> %acc, <8 x bfloat> %x, <8 x bfloat> %y)
  ret <4 x float> %sum
}

define internal <8 x i16> @arm_bfcvtn(<8 x float> %x) alwaysinline {
  %rounded = fptrunc <8 x float> %x to <8 x bfloat>
  %bits = bitcast <8 x bfloat> %rounded to <8 x i16>
  ret <8 x i16> %bits
}
"""


def functions() -> AbstractContextManager[Any]:
    """Open a scope in which the functions below may be called."""
    return importing(_IR)


def bfmmla(acc: ir.Expr, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Emit BFMMLA: acc[2 r + c] + sum over k < 4 of a[4 r + k] * b[4 c + k], for float32x4, and bfloat16 as int16x8.

    Pairs of products are added before they are added to the sum, with a rounding after each addition. With FEAT_EBF16
    and its control bit there are fewer roundings: the last bits depend on the core.
    """
    check("bfmmla", (acc, "float32x4"), (a, "int16x8"), (b, "int16x8"))
    return tirx.call_pure_extern("float32x4", "arm_bfmmla", acc, a, b)


def bfdot(acc: ir.Expr, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Emit BFDOT: acc[i] + sum over k < 2 of a[2 i + k] * b[2 i + k], for float32x4, and bfloat16 as int16x8.

    For the rounding see `bfmmla`. There is no function for BFDOT by lane, as LLVM 22 does not merge a DUP into it.
    """
    check("bfdot", (acc, "float32x4"), (a, "int16x8"), (b, "int16x8"))
    return tirx.call_pure_extern("float32x4", "arm_bfdot", acc, a, b)


def bits(buffer: tirx.Buffer) -> tirx.Buffer:
    """Return a view of a flat bfloat16 buffer as int16."""
    check_flat("bits", buffer, "bfloat16")
    return T.decl_buffer(buffer.shape, "int16", data=buffer.data, elem_offset=buffer.elem_offset, layout=None)


def widened(x: ir.Expr) -> ir.Expr:
    """Emit the exact conversion of four bfloat16 (int16x4) to float32x4: SHLL by 16, on any core."""
    check("widened", (x, "int16x4"))
    high = tirx.Cast("int32x4", x) << tirx.Broadcast(tirx.IntImm("int32", 16), 4)
    return tirx.reinterpret("float32x4", high)


def rounded(x: ir.Expr) -> ir.Expr:
    """Emit the conversion of float32x8 to eight bfloat16 (int16x8), rounding to nearest even: BFCVTN, BFCVTN2."""
    check("rounded", (x, "float32x8"))
    return tirx.call_pure_extern("int16x8", "arm_bfcvtn", x)
