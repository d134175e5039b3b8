# SPDX-License-Identifier: Apache-2.0
"""Which workloads are products of 8-bit data by constant weights that the int8 kernels know."""

import ast
import math

from schedules.kernels import requantize_step
from schedules.workload import Workload

LINEAR = "arm.linear_s8"
COMPOSITES = ("arm.conv2d_s8", LINEAR)
TRANSPOSED = "arm.conv2d_transpose_s8"


def misfit_of(workload: Workload) -> tuple[str, str, str] | None:
    """Why a workload is no product: reason, limit and actual value."""
    x, w = workload.operands
    requantize, offset = workload.step("requantize"), workload.step("offset")
    misfit = requantize_step.misfit(workload)
    if misfit is not None or requantize is None:
        return misfit
    if x.dtype not in ("int8", "uint8") or w.dtype != "int8":
        return "operands are not of 8 bits", "int8 or uint8 by int8", f"{x.dtype} by {w.dtype}"
    if w.kind != "constant":
        return "weights are not constant", "constant", w.kind
    if x.axes or w.axes:
        return "an operand is permuted", "its own order", str(x.axes or w.axes)
    unknown = [s.name for s in workload.epilogue if s.name not in ("offset", "requantize")]
    if unknown:
        return "a step has no implementation", "offset, requantize", ", ".join(unknown)
    if math.prod(x.shape) == 0 or math.prod(workload.output_shape) == 0:
        return "a dimension is 0", "1 or more", str(x.shape)
    for operand in (requantize.operand, offset.operand if offset else None):
        if operand is not None and math.prod(operand.shape) not in (1, *operand.shape[-1:]):
            return "a constant is not by column", "one axis, the last", str(operand.shape)
    if workload.composite == LINEAR:
        return None if len(w.shape) == 2 else ("weights are batched", "2 dimensions", str(w.shape))
    if workload.composite == TRANSPOSED:
        return None
    attributes = dict(workload.attributes)
    layouts = (attributes["data_layout"], attributes["kernel_layout"], attributes["out_layout"])
    if layouts not in (("NHWC", "OHWI", "NHWC"), ("NHWC", "OHWI", "")):
        return "layout is not channels-last", "NHWC, OHWI", ", ".join(layouts)
    if workload.pad and any(ast.literal_eval(attributes["padding"])):
        return "data is padded twice", "once", attributes["padding"]
    return None
