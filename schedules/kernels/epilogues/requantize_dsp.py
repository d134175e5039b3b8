# SPDX-License-Identifier: Apache-2.0
"""Words of 8-bit data, and requantisation of single accumulators, on Cortex-M with DSP and an FPU."""

import numpy as np
from tvm import ir, tirx
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from schedules.intrinsics import dsp
from schedules.intrinsics.dsp import WORD
from schedules.kernels.epilogues.requantize import Form, Requantization
from schedules.tir.emit import load

INSTRUCTIONS = 9
"""A load of the multiplier, a move, a conversion, a product, VCVTR, a move, an addition, SSAT or USAT, and a store."""

_FLIP = np.array(0x80808080, np.uint32).astype(np.int32).item()


def word_of(source: tirx.Buffer, start: ir.Expr, *, flipped: bool) -> ir.Expr:
    """Emit the load of four bytes as an int32; those of uint8 data (`flipped`) less 128."""
    value = tirx.reinterpret("int32", load(source, start, WORD))
    return T.Bind(value ^ tirx.IntImm("int32", _FLIP) if flipped else value)


def requantized(acc: ir.Expr, multiplier: ir.Expr, to: Requantization, form: Form) -> ir.Expr:
    """Emit the output of an int32 accumulator; the multiplier is float32, or of "rescale" the bits of an int32."""
    if form == "rescale":
        rounded = dsp.rescale(acc, T.Bind(tirx.reinterpret("int32", multiplier)), to.shift)
    else:
        rounded = dsp.vcvtr(T.Bind(tirx.Cast("float32", acc) * multiplier))
    moved = T.Bind(rounded + tirx.IntImm("int32", to.zero_point))
    low, high = tirx.IntImm("int32", to.low), tirx.IntImm("int32", to.high)
    return tirx.Cast(to.dtype, tirx.min(tirx.max(moved, low), high))
