# SPDX-License-Identifier: Apache-2.0
"""The reason why a call of an integer graph is not an NPU operator, with advice."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tvm.ir import Call, Expr, Var

from arm_ext.ethosu.ops.common.operators import UnsupportedCall
from arm_ext.ethosu.ops.common.reading import LONG, name_of, read_by
from arm_ext.ethosu.ops.constraints import KNOWN, LEAVE, NO_FORM
from relay_passes.ir.sources import sources_of
from schedules.diagnostic import Diagnostic

IN_64_BITS = "its integers have 64 bits"
QUANTIZE_IT = "quantise it, or what it reads"
"""Advice for an operator that computes in float."""
CONVERSIONS = ("quantize", "dequantize")
"""Operators between float and quantised values, which no NPU has."""


def unsupported_call(
    var: Var, value: Call, routine: Mapping[str, Any] | None, readers: Sequence[Expr], macs: int
) -> UnsupportedCall:
    """Return the record of a call that was not parsed as an NPU operator.

    Args:
        var: The variable that it is bound to.
        value: The call.
        routine: The attributes of the numerics routine that it calls, if it calls one.
        readers: The values that read its result.
        macs: Number of multiply-accumulates, if it is an integer sum.
    """
    name = str(routine["numerics"]).partition(".")[2] if routine else name_of(value)
    dtypes = sorted({str(getattr(x.ty, "dtype", "")) for x in (*read_by(value), var)})
    floats, long = [d for d in dtypes if d.startswith("float")], [d for d in dtypes if d in LONG]
    if floats:
        advice = "have integers on both sides" if name in CONVERSIONS else QUANTIZE_IT
        why = Diagnostic("it computes in float", "integers", ", ".join(floats), hint=advice)
        macs = 0
    elif long:
        why = Diagnostic(IN_64_BITS, "at most 32 bits", ", ".join(long), hint="use int32")
    elif routine:
        why = Diagnostic(NO_FORM, KNOWN, name, hint=LEAVE)
    else:
        found = ", ".join(sorted({name_of(other) or "a tuple" for other in readers})) or "the model's output"
        why = Diagnostic(
            "its int32 sums are read by more or others than one requantisation",
            "a requantisation to 8 or 16 bits as the only reader",
            found,
            hint="quantise its result, and read that alone",
        )
    return UnsupportedCall(var, replace(why, nodes=sources_of(value), operator=name), macs)
