# SPDX-License-Identifier: Apache-2.0
"""Functions of two 8-bit tensors as workloads give them: of which composites, of which numerics, by which scales."""

import math

from schedules.composites.workload import Workload
from schedules.kernels.elementwise.binary_forms import OPS, Binary, Op, Per, Rescaled
from schedules.numerics.tosa import Scale

BINARY: dict[str, Op] = {f"arm.{prefix}{op}_s8": op for prefix in ("", "tosa_") for op in OPS}


def is_rescaled(workload: Workload) -> bool:
    """Whether a workload of `BINARY` is of the numerics `tosa`."""
    return "y_shift" in dict(workload.attributes)


def scale_of(workload: Workload, name: str) -> Scale:
    """The RESCALE of "a", "b" or the result "y", of the numerics `tosa`."""
    attributes = dict(workload.attributes)
    return Scale(int(attributes[f"{name}_multiplier"]), int(attributes[f"{name}_shift"]))


def per_of(workload: Workload, name: str, dtype: str) -> Per:
    """How "a", "b" or "y" is quantised; of the numerics `tosa` its scale is in steps of y."""
    attributes = dict(workload.attributes)
    zero_point = int(attributes[f"{name}_zero_point"])
    if not is_rescaled(workload):
        return Per(float(attributes[f"{name}_scale"]), zero_point, dtype)
    scales = [scale_of(workload, each) for each in ((name, "y") if name != "y" else ())]
    return Per(math.prod(math.ldexp(s.multiplier, -s.shift) for s in scales), zero_point, dtype)


def binary_of(workload: Workload) -> Binary:
    """What a workload of `BINARY` computes of two tensors of run time."""
    attributes, op = dict(workload.attributes), BINARY[workload.composite]
    a, b = (per_of(workload, *each) for each in zip("ab", (x.dtype for x in workload.operands), strict=True))
    y = per_of(workload, "y", workload.output_dtype)
    low, high = int(attributes["low"]), int(attributes["high"])
    if not is_rescaled(workload):
        return Binary(op, a, b, y, low, high)
    scales = scale_of(workload, "a"), scale_of(workload, "b"), scale_of(workload, "y")
    return Rescaled(op, a, b, y, low, high, scales)


def overflow(what: Rescaled) -> tuple[str, str, str]:
    """Why a function is not computed RESCALE by RESCALE: reason, limit and actual value."""
    shifts = ", ".join(str(scale.shift) for scale in what.scales)
    return "a RESCALE of that shift may overflow", "as many bits as its operand", shifts
