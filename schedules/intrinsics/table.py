# SPDX-License-Identifier: Apache-2.0
"""TBL and TBX: look-ups of 16 bytes in a table of 64 bytes, which are four registers."""

from collections.abc import Sequence

from tvm import ir, tirx

from schedules.intrinsics.operands import check

ENTRIES = 64
"""Entries of a table in four vector registers."""


def tbl4(table: Sequence[ir.Expr], index: ir.Expr) -> ir.Expr:
    """Emit TBL: table[index] for 16 lanes; 0 if the unsigned index is 64 or more.

    Args:
        table: Four vectors of 16 bytes.
        index: uint8x16.
    """
    dtype = _dtype(table)
    check("tbl4", (index, "uint8x16"))
    return tirx.call_llvm_pure_intrin(dtype, "llvm.aarch64.neon.tbl4.v16i8", *table, index)


def tbx4(otherwise: ir.Expr, table: Sequence[ir.Expr], index: ir.Expr) -> ir.Expr:
    """Emit TBX: table[index] as in `tbl4`, but the lane of `otherwise` if the index is 64 or more."""
    dtype = _dtype(table)
    check("tbx4", (otherwise, dtype), (index, "uint8x16"))
    return tirx.call_llvm_pure_intrin(dtype, "llvm.aarch64.neon.tbx4.v16i8", otherwise, *table, index)


def _dtype(table: Sequence[ir.Expr]) -> str:
    dtypes = {str(vector.ty.dtype) for vector in table}
    if len(table) != 4 or dtypes not in ({"int8x16"}, {"uint8x16"}):
        raise ValueError(
            f"a table is four vectors of 16 bytes, not {len(table)} of {', '.join(sorted(dtypes))}"
        )
    return dtypes.pop()
