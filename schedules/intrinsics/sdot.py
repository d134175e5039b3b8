# SPDX-License-Identifier: Apache-2.0
"""SDOT, UDOT (FEAT_DotProd), USDOT (FEAT_I8MM): four int32 accumulators, each adding a dot product of four pairs."""

from tvm import ir, tirx
from tvm.s_tir import TensorIntrin
from tvm.script import tirx as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.operands import check

NAME = "arm.sdot_4x4"
FEATURE = "dotprod"

K_STEP = 4
"""Number of k that one instruction sums over: the bytes of a lane."""


def sdot(acc: ir.Expr, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Emit SDOT: acc[i] + sum over k < 4 of a[4 i + k] * b[4 i + k], for int32x4, int8x16 and int8x16."""
    return _dot("sdot", acc, (a, "int8x16"), (b, "int8x16"))


def udot(acc: ir.Expr, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Emit UDOT, which is `sdot` for uint8x16 and uint8x16; the sums are modulo 2**32."""
    return _dot("udot", acc, (a, "uint8x16"), (b, "uint8x16"))


def usdot(acc: ir.Expr, a: ir.Expr, b: ir.Expr) -> ir.Expr:
    """Emit USDOT (i8mm), which is `sdot` for uint8x16 and int8x16."""
    return _dot("usdot", acc, (a, "uint8x16"), (b, "int8x16"))


def sdot_lane(acc: ir.Expr, b: ir.Expr, a: ir.Expr, lane: int) -> ir.Expr:
    """Emit SDOT by element: acc[i] + sum over k < 4 of b[4 i + k] * a[4 lane + k].

    These are four columns by four k of one row.

    Args:
        acc: int32x4.
        b: int8x16.
        a: int8x16, int8x8 or int8x4.
        lane: Index of the four bytes of `a` that are read, 0 to 3.
    """
    return sdot(acc, b, _splat(a, lane))


def udot_lane(acc: ir.Expr, b: ir.Expr, a: ir.Expr, lane: int) -> ir.Expr:
    """Emit UDOT by element, which is `sdot_lane` for uint8 vectors."""
    return udot(acc, b, _splat(a, lane))


def usdot_lane(acc: ir.Expr, b: ir.Expr, a: ir.Expr, lane: int) -> ir.Expr:
    """Emit USDOT by element, which is `sdot_lane` for uint8 `b` and int8 `a`."""
    return usdot(acc, b, _splat(a, lane))


def _dot(name: str, acc: ir.Expr, a: tuple[ir.Expr, str], b: tuple[ir.Expr, str]) -> ir.Expr:
    check(name, (acc, "int32x4"), a, b)
    return tirx.call_llvm_pure_intrin("int32x4", f"llvm.aarch64.neon.{name}.v4i32.v16i8", acc, a[0], b[0])


def _splat(a: ir.Expr, lane: int) -> ir.Expr:
    """Emit four bytes in every lane; LLVM merges this into SDOT by element, `vm.4b[lane]`."""
    dtype, _, lanes = str(a.ty.dtype).rpartition("x")
    words = int(lanes) // 4
    value = tirx.reinterpret("int32" if words == 1 else f"int32x{words}", a)
    word = value if words == 1 else tirx.Shuffle([value], [lane])
    return tirx.reinterpret(f"{dtype}x16", tirx.Broadcast(word, 4))


def register() -> str:
    """Register the tensor intrinsic for `Schedule.tensorize` and return its name; safe to call again.

    The layout is part of both descriptions: B must be 16 consecutive bytes with k innermost, at a multiple of 16.
    Without the strides a row-major B would match, and the instruction would read bytes that are not its own.
    """
    # Here, as TVM's parser walks the whole call stack, which is deep while modules are imported: 0.8 s for the two.

    @T.prim_func(s_tir=True)  # type: ignore[untyped-decorator] # TVM ships no types
    def meaning(a: T.handle, b: T.handle, c: T.handle) -> None:
        """C[i] += sum over k of A[k] * B[i, k]: a row of A, int8 [4], by four packed columns of B, int8 [4, 4]."""
        A = T.match_buffer(a, (4,), "int8", strides=[1], offset_factor=4)  # noqa: N806
        B = T.match_buffer(b, (4, 4), "int8", strides=[4, 1], offset_factor=16)  # noqa: N806
        C = T.match_buffer(c, (4,), "int32", strides=[1], offset_factor=4)  # noqa: N806
        with T.sblock("root"):
            T.reads(C[0:4], A[0:4], B[0:4, 0:4])
            T.writes(C[0:4])
            for i, k in T.grid(4, 4):
                with T.sblock("update"):
                    vi, vk = T.axis.remap("SR", [i, k])
                    C[vi] = C[vi] + T.Cast("int32", A[vk]) * T.Cast("int32", B[vi, vk])

    @T.prim_func(s_tir=True)  # type: ignore[untyped-decorator] # TVM ships no types
    def instruction(a: T.handle, b: T.handle, c: T.handle) -> None:
        """Multiply with `sdot`; LLVM turns the splat of A's four bytes into the lane index of SDOT by element."""
        A = T.match_buffer(a, (4,), "int8", strides=[1], offset_factor=4)  # noqa: N806
        B = T.match_buffer(b, (4, 4), "int8", strides=[4, 1], offset_factor=16)  # noqa: N806
        C = T.match_buffer(c, (4,), "int32", strides=[1], offset_factor=4)  # noqa: N806
        with T.sblock("root"):
            T.reads(C[0:4], A[0:4], B[0:4, 0:4])
            T.writes(C[0:4])
            C[T.ramp(T.int32(0), 1, 4)] = sdot(
                C.vload([0], "int32x4"),
                T.reinterpret("int8x16", T.broadcast(T.reinterpret("int32", A.vload([0], "int8x4")), 4)),
                B.vload([0, 0], "int8x16"),
            )

    TensorIntrin.register(NAME, meaning, instruction, override=True)
    return NAME
