# SPDX-License-Identifier: Apache-2.0
"""SVE instructions that NEON lacks: FEXPA, FMAD, loads that extend each byte, gathers of words, partial stores.

Operands are vectors of 128 bits in NEON's registers, which are the low parts of SVE's. Results do not depend on the
length of SVE registers: arithmetic computes all lanes, of which the low four are used, and a load reads four elements
(`PTRUE VL4`). LLVM's `vscale_range(1, 1)`, which assumes 128 bits, would give slightly shorter code (addresses in
multiples of the length), but wrong results on machines of 256 bits.

On machines of 256 bits NEON has twice as many pipes as SVE (Neoverse V1: four of 128 bits, two of 256), and the upper
half of each SVE instruction is wasted. Therefore `pays` is true for cores of 128 bits alone.

Counted on Neoverse N2 for a product of 196 rows by 96 and N columns, one partial ST1B instead of NEON's stores takes 3
% fewer instructions for N = 12, 5 % for 13 and 7 % for 31 (cycles: 4, 6 and 9 %), and none fewer if NEON needs one
store (17). Other SVE instructions are not used: SDOT by lane and SMMLA equal NEON's; LD1RQB saves nothing, since a
row's vector is loaded once and multiplied by lane; WHILELT is for tails, which do not occur, since the last vector of a
row, or of channels, overlaps the one before it.

LLVM's intrinsics have scalable vectors as operands, which TVM's lowering does not mix with others. Functions in LLVM
IR, which LLVM inlines, call them; within the context manager `functions` kernels can use these functions.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.cores import Core
from schedules.intrinsics.operands import check, check_flat
from schedules.intrinsics.registers import VECTOR
from schedules.tir.emit import i64, importing

FEATURE = "sve"

BITS = 128
"""Length of the vectors of SVE on cores where these instructions take no longer than NEON's."""

FEXPA_FRACTION = 6
"""Bits of FEXPA's operand below the exponent."""

_IR = """
declare <vscale x 4 x float> @llvm.vector.insert.nxv4f32.v4f32(<vscale x 4 x float>, <4 x float>, i64)
declare <vscale x 4 x i32> @llvm.vector.insert.nxv4i32.v4i32(<vscale x 4 x i32>, <4 x i32>, i64)
declare <4 x float> @llvm.vector.extract.v4f32.nxv4f32(<vscale x 4 x float>, i64)
declare <4 x i32> @llvm.vector.extract.v4i32.nxv4i32(<vscale x 4 x i32>, i64)
declare <vscale x 16 x i8> @llvm.vector.insert.nxv16i8.v16i8(<vscale x 16 x i8>, <16 x i8>, i64)
declare <vscale x 16 x i1> @llvm.get.active.lane.mask.nxv16i1.i64(i64, i64)
declare void @llvm.masked.store.nxv16i8.p0(<vscale x 16 x i8>, ptr, i32, <vscale x 16 x i1>)
declare <vscale x 4 x float> @llvm.aarch64.sve.fexpa.x.nxv4f32(<vscale x 4 x i32>)
declare <vscale x 4 x float> @llvm.fma.nxv4f32(<vscale x 4 x float>, <vscale x 4 x float>, <vscale x 4 x float>)
declare <vscale x 4 x i1> @llvm.aarch64.sve.ptrue.nxv4i1(i32)
declare <vscale x 4 x i8> @llvm.masked.load.nxv4i8.p0(ptr, i32, <vscale x 4 x i1>, <vscale x 4 x i8>)
declare <vscale x 4 x i32> @llvm.aarch64.sve.ld1.gather.uxtw.index.nxv4i32(<vscale x 4 x i1>, ptr, <vscale x 4 x i32>)

define internal <4 x float> @arm_sve_fexpa(<4 x i32> %x) alwaysinline {
  %a = call <vscale x 4 x i32> @llvm.vector.insert.nxv4i32.v4i32(<vscale x 4 x i32> poison, <4 x i32> %x, i64 0)
  %y = call <vscale x 4 x float> @llvm.aarch64.sve.fexpa.x.nxv4f32(<vscale x 4 x i32> %a)
  %low = call <4 x float> @llvm.vector.extract.v4f32.nxv4f32(<vscale x 4 x float> %y, i64 0)
  ret <4 x float> %low
}

define internal <4 x float> @arm_sve_fma(<4 x float> %x, <4 x float> %y, <4 x float> %z) alwaysinline {
  %a = call <vscale x 4 x float> @llvm.vector.insert.nxv4f32.v4f32(<vscale x 4 x float> poison, <4 x float> %x, i64 0)
  %b = call <vscale x 4 x float> @llvm.vector.insert.nxv4f32.v4f32(<vscale x 4 x float> poison, <4 x float> %y, i64 0)
  %c = call <vscale x 4 x float> @llvm.vector.insert.nxv4f32.v4f32(<vscale x 4 x float> poison, <4 x float> %z, i64 0)
  %sum = call <vscale x 4 x float> @llvm.fma.nxv4f32(<vscale x 4 x float> %a, <vscale x 4 x float> %b, <vscale x 4 x float> %c)
  %low = call <4 x float> @llvm.vector.extract.v4f32.nxv4f32(<vscale x 4 x float> %sum, i64 0)
  ret <4 x float> %low
}

define internal <4 x i32> @arm_sve_ld1sb(ptr %from) alwaysinline {
  %four = call <vscale x 4 x i1> @llvm.aarch64.sve.ptrue.nxv4i1(i32 4)
  %bytes = call <vscale x 4 x i8> @llvm.masked.load.nxv4i8.p0(ptr %from, i32 1, <vscale x 4 x i1> %four, <vscale x 4 x i8> zeroinitializer)
  %words = sext <vscale x 4 x i8> %bytes to <vscale x 4 x i32>
  %low = call <4 x i32> @llvm.vector.extract.v4i32.nxv4i32(<vscale x 4 x i32> %words, i64 0)
  ret <4 x i32> %low
}

define internal <4 x i32> @arm_sve_ld1b(ptr %from) alwaysinline {
  %four = call <vscale x 4 x i1> @llvm.aarch64.sve.ptrue.nxv4i1(i32 4)
  %bytes = call <vscale x 4 x i8> @llvm.masked.load.nxv4i8.p0(ptr %from, i32 1, <vscale x 4 x i1> %four, <vscale x 4 x i8> zeroinitializer)
  %words = zext <vscale x 4 x i8> %bytes to <vscale x 4 x i32>
  %low = call <4 x i32> @llvm.vector.extract.v4i32.nxv4i32(<vscale x 4 x i32> %words, i64 0)
  ret <4 x i32> %low
}

define internal void @arm_sve_st1b(ptr %to, <16 x i8> %x, i64 %count) alwaysinline {
  %a = call <vscale x 16 x i8> @llvm.vector.insert.nxv16i8.v16i8(<vscale x 16 x i8> poison, <16 x i8> %x, i64 0)
  %first = call <vscale x 16 x i1> @llvm.get.active.lane.mask.nxv16i1.i64(i64 0, i64 %count)
  call void @llvm.masked.store.nxv16i8.p0(<vscale x 16 x i8> %a, ptr %to, i32 1, <vscale x 16 x i1> %first)
  ret void
}

define internal <4 x i32> @arm_sve_gather(ptr %base, <4 x i32> %index) alwaysinline {
  %four = call <vscale x 4 x i1> @llvm.aarch64.sve.ptrue.nxv4i1(i32 4)
  %a = call <vscale x 4 x i32> @llvm.vector.insert.nxv4i32.v4i32(<vscale x 4 x i32> poison, <4 x i32> %index, i64 0)
  %found = call <vscale x 4 x i32> @llvm.aarch64.sve.ld1.gather.uxtw.index.nxv4i32(<vscale x 4 x i1> %four, ptr %base, <vscale x 4 x i32> %a)
  %low = call <4 x i32> @llvm.vector.extract.v4i32.nxv4i32(<vscale x 4 x i32> %found, i64 0)
  ret <4 x i32> %low
}
"""  # noqa: E501 (a line of LLVM IR)


def pays(core: Core) -> bool:
    """Whether kernels use these instructions on a core: it has SVE with vectors of 128 bits."""
    return FEATURE in core.features and core.vector_bits == BITS


def functions(wanted: bool = True) -> AbstractContextManager[Any]:
    """Open a scope in which the functions below may be called; a scope without effect if not `wanted`."""
    return importing(_IR) if wanted else nullcontext()


def fexpa(x: ir.Expr) -> ir.Expr:
    """Emit FEXPA: 2**(k / 64) * 2**(e - 127), float32x4; k is the low six bits of an int32x4, e the eight above."""
    check("fexpa", (x, "int32x4"))
    return tirx.call_pure_extern("float32x4", "arm_sve_fexpa", x)


def fma(a: ir.Expr, b: ir.Expr, c: ir.Expr) -> ir.Expr:
    """Emit a * b + c of float32x4, rounded once, by FMAD or FMLA, so that a dead operand is overwritten.

    NEON has FMLA alone, which overwrites c: a polynomial's coefficients must be copied.
    """
    check("fma", *((operand, "float32x4") for operand in (a, b, c)))
    return tirx.call_pure_extern("float32x4", "arm_sve_fma", a, b, c)


def widened(source: tirx.Buffer, offset: ir.Expr) -> ir.Expr:
    """Emit LD1SB or LD1B: load four int8 or uint8 from `offset` on as int32x4. NEON needs a load and two SSHLL."""
    check_flat("widened", source, "int8", "uint8")
    name = {"int8": "arm_sve_ld1sb", "uint8": "arm_sve_ld1b"}[str(source.dtype)]
    return tirx.call_extern("int32x4", name, tirx.address_of(source[offset]))


def gathered(table: tirx.Buffer, index: ir.Expr) -> ir.Expr:
    """Emit LD1W: int32x4 table[index] of an int32 buffer. NEON needs four moves to registers, four loads, and INS."""
    check_flat("gathered", table, "int32")
    check("gathered", (index, "int32x4"))
    return tirx.call_extern("int32x4", "arm_sve_gather", tirx.address_of(table[0]), index)


def store_first(target: tirx.Buffer, value: ir.Expr, offset: ir.Expr, count: int) -> None:
    """Emit ST1B, a store of the first `count` of 16 bytes.

    NEON needs a store, and often a move, for each nonzero bit of the count.
    """
    check_flat("store_first", target, "int8", "uint8")
    check("store_first", (value, f"{target.dtype}x{VECTOR}"))
    if not 0 < count < VECTOR:
        raise ValueError(f"store_first: {count} elements, expected 1 to {VECTOR - 1}")
    T.evaluate(tirx.call_extern("void", "arm_sve_st1b", tirx.address_of(target[offset]), value, i64(count)))
