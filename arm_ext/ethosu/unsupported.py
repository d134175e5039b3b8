# SPDX-License-Identifier: Apache-2.0
"""The reason why a call of an integer graph is no NPU operator, with advice."""

from collections.abc import Mapping, Sequence
from typing import Any

from tvm.ir import Call, Expr, Var

from arm_ext.ethosu.integer_ops import IN_64_BITS, LONG, name_of
from arm_ext.ethosu.operators import Unread
from arm_ext.ethosu.reading import read_by
from relay_passes.ir.sources import sources_of

NO_FORM, KNOWN = "no TOSA form of its kind is known here", "one of those in docs, Ethos-U limits"
LEAVE = "leave it to the CPU"
_BORDERS = ("quantize", "dequantize")


def unread(
    var: Var, value: Call, routine: Mapping[str, Any] | None, readers: Sequence[Expr], macs: int
) -> Unread:
    """Return the record of a call that is no NPU operator.

    Args:
        var: What it computes.
        value: The call.
        routine: The attributes of the routine that it calls, if it does.
        readers: The values that read its result.
        macs: Multiply-accumulates, of an integer sum.
    """
    name = str(routine["numerics"]).partition(".")[2] if routine else name_of(value)
    dtypes = sorted({str(getattr(x.ty, "dtype", "")) for x in (*read_by(value), var)})
    floats, long = [d for d in dtypes if d.startswith("float")], [d for d in dtypes if d in LONG]
    if floats:
        advice = "have integers on both sides" if name in _BORDERS else "quantise it, or what it reads"
        why = ("it computes in float", "integers", ", ".join(floats), 0, advice)
    elif long:
        why = (IN_64_BITS, "at most 32 bits", ", ".join(long), macs, "count in 32 bits")
    elif routine:
        why = (NO_FORM, KNOWN, name, macs, LEAVE)
    else:
        found = ", ".join(sorted({name_of(other) or "a tuple" for other in readers})) or "the model's output"
        reason, limit = (
            "its sums are not requantised by an operator of their own",
            "read by a requantisation alone",
        )
        why = (reason, limit, f"read by {found}", macs, "quantise its result, and read that alone")
    return Unread(var, sources_of(value), name, *why)
