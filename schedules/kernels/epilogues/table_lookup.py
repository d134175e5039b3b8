# SPDX-License-Identifier: Apache-2.0
"""Sixteen look-ups in a table of 256 bytes, in vector registers: one TBL, three TBX and three subtractions.

The table occupies 16 registers, so callers load it once, before a loop.
"""

from collections.abc import Sequence

import numpy as np
from tvm import ir, tirx

from schedules.intrinsics.registers import VECTOR
from schedules.intrinsics.table import ENTRIES, tbl4, tbx4
from schedules.kernels.common.contract import Array
from schedules.tir.emit import i64, load

SIZE = 256
"""Entries of a table."""


def pack(entries: Array, dtype: str) -> Array:
    """Return a table with its entries in order of the bit patterns, instead of the values, of the input.

    Args:
        entries: int8 or uint8 [256].
        dtype: Dtype of the values that are looked up.
    """
    return np.roll(entries, SIZE // 2) if dtype == "int8" else entries


def registers(buffer: tirx.Buffer) -> list[ir.Expr]:
    """Emit the loads of a packed table, 16 vectors."""
    return [load(buffer, i64(at), VECTOR) for at in range(0, SIZE, VECTOR)]


def look_up16(table: Sequence[ir.Expr], q: ir.Expr) -> ir.Expr:
    """Emit the look-up of 16 values, int8x16 or uint8x16."""
    per_table = ENTRIES // VECTOR
    index = tirx.reinterpret("uint8x16", q)
    value = tbl4(table[:per_table], index)
    for first in range(per_table, len(table), per_table):
        # An index below this part of the table wraps around to a value beyond its end, which TBX ignores.
        index = index - tirx.Broadcast(tirx.IntImm("uint8", ENTRIES), VECTOR)
        value = tbx4(value, table[first : first + per_table], index)
    return value
