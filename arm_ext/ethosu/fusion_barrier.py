# SPDX-License-Identifier: Apache-2.0
"""Fusion barriers: operators that Vela computes correctly only if they are not fused with what they read.

Of two RESCALEs in a row, the first by 1, Vela 5.2 makes one, which no longer saturates in between. On Ethos-U85 it
hands what a table of 16 bits gives on to the next operator inside of the accelerator: where that has another such
table, both lie in the one place that the table memory has.
"""

from collections.abc import Collection

from arm_ext.ethosu.operators import Operator
from arm_ext.target.npu import Family

_RESCALING = ("rescale", "maximum", "minimum")
_JOINED = "joined with what it reads, it would not saturate in between"
_ONE_TABLE = "the table memory holds one table of 16 bits"


def solitary(claimed: Collection[Operator], family: Family) -> dict[Operator, str]:
    """Return the operators that must begin a region of their own, with the reason."""
    apart = {op: _JOINED for op in claimed if op.kind in _RESCALING}
    if family != "u85":
        return apart
    tables = [op for op in claimed if op.kind == "table" and op.inputs[0].dtype == "int16"]
    looked_up = {op.output.var for op in tables}
    readers = [op for op in claimed if any(tensor.var in looked_up for tensor in op.inputs)]
    return apart | dict.fromkeys((*tables, *readers), _ONE_TABLE)
