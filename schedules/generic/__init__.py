# SPDX-License-Identifier: Apache-2.0
"""Vector code for the TIR loops that LegalizeOps and FuseTIR leave for operators that no hand-written kernel takes.

    parse.parse         a PrimFunc as stages, one loop nest each
    fusion.fuse         elementwise stages go into their readers
    nest.nests          flat offsets, cut at conditions, long axes
    elementwise, transpose, reduce     one nest each, along the axis that is contiguous

A function with something else in it (a loop that is not plain, a sort) stays as it is.
"""

from schedules.generic.innermost import stored_axis_innermost
from schedules.generic.legalize import LEGALIZE
from schedules.generic.schedule import Scheduled, schedule

__all__ = ["LEGALIZE", "Scheduled", "schedule", "stored_axis_innermost"]
