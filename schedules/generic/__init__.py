# SPDX-License-Identifier: Apache-2.0
"""Vector code for operators without a hand-written kernel, from the TIR loops that LegalizeOps and FuseTIR emit.

    parse.parse         a PrimFunc to stages, one loop nest each
    fusion.fuse         inlines elementwise stages into their readers
    nest.nests          stages to nests with flat offsets, split at conditions, with merged axes
    elementwise, transpose, reduce     emit a nest, with vectors along its contiguous axis

A function with other statements (a parallel loop, a sort) is not changed.
"""

from schedules.generic.innermost import stored_axis_innermost
from schedules.generic.legalize import LEGALIZE
from schedules.generic.schedule import Scheduled, schedule

__all__ = ["LEGALIZE", "Scheduled", "schedule", "stored_axis_innermost"]
