# SPDX-License-Identifier: Apache-2.0
"""Conversion of a panel of int8 weights to floats in scratch memory, from which the tiles of a task read them."""

from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics.vector import high, low
from schedules.kernels.common.copies import pieces
from schedules.tir.emit import i64, load, store

LANES = 16
"""int8 elements of a register."""

FRACTION = 12
"""Bits that binary16 weights are shifted right, so that the magnitudes of 32 add up to less than 1: no sum of 32
products overflows. Down to 2^-12 a weight is a normal number, and exact."""

INSTRUCTIONS = {"float32": 13 / LANES, "float16": 8 / LANES}
"""Instructions per weight. float32: four TBL, which put bytes at the top of lanes, four SCVTF with 24 fraction bits,
two STP; float16: two SSHLL, two SCVTF, one STP; and their share of the loop over two registers."""


def widen(source: tirx.Buffer, start: ir.Expr, target: tirx.Buffer, count: int) -> None:
    """Emit the conversion of `count` elements: a multiple of four, or of eight for float16.

    Args:
        source: Flat int8.
        start: Offset of the first element in the source.
        target: Flat float32; or flat float16, which gets the integers times `2**-FRACTION`.
        count: Number of elements.
    """
    whole = count // LANES
    with T.serial(i64(0), i64(whole)) as index:
        _piece(source, start + index * LANES, target, T.Bind(index * LANES), LANES)
    for at, lanes in pieces(count - whole * LANES, LANES // 2):
        _piece(source, start + (whole * LANES + at), target, i64(whole * LANES + at), lanes)


def _piece(source: tirx.Buffer, start: ir.Expr, target: tirx.Buffer, to: ir.Expr, lanes: int) -> None:
    value = load(source, start, lanes)
    if str(target.dtype) == "float32":
        store(target, tirx.Cast(f"float32x{lanes}", value), to, lanes)
        return
    for first in range(0, lanes, 8):
        part = value if lanes == 8 else (low, high)[first // 8](value)
        wide = tirx.Cast("int16x8", part)
        name = "llvm.aarch64.neon.vcvtfxs2fp.v8f16.v8i16"
        value16 = tirx.call_llvm_pure_intrin("float16x8", name, wide, tirx.IntImm("int32", FRACTION))
        store(target, value16, to + first, 8)
