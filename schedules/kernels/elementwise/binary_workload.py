# SPDX-License-Identifier: Apache-2.0
"""Parsing of workloads of elementwise functions of two 8-bit tensors, of either numerics."""

import math
from collections.abc import Sequence

from schedules.composites.workload import Operand, Workload
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import declined
from schedules.kernels.elementwise.binary_forms import OPS, Op, Per, QuantizedBinary, Rescaled
from schedules.numerics.tosa import RescaleFactor

BINARY: dict[str, Op] = {f"arm.{prefix}{op}_s8": op for prefix in ("", "tosa_") for op in OPS}


def is_rescaled(workload: Workload) -> bool:
    """Whether a workload of a composite in `BINARY` is computed in the numerics `tosa`, not `qdq`."""
    return "y_shift" in dict(workload.attributes)


def scale_of(workload: Workload, name: str) -> RescaleFactor:
    """Return the RESCALE of "a", "b" or the result "y" of a workload in the numerics `tosa`."""
    attributes = dict(workload.attributes)
    return RescaleFactor(int(attributes[f"{name}_multiplier"]), int(attributes[f"{name}_shift"]))


def per_of(workload: Workload, name: str, dtype: str) -> Per:
    """Return the quantisation of "a", "b" or "y"; in the numerics `tosa`, scales of a and b are relative to y."""
    attributes = dict(workload.attributes)
    zero_point = int(attributes[f"{name}_zero_point"])
    if not is_rescaled(workload):
        return Per(float(attributes[f"{name}_scale"]), zero_point, dtype)
    scales = [scale_of(workload, each) for each in ((name, "y") if name != "y" else ())]
    return Per(math.prod(math.ldexp(s.multiplier, -s.shift) for s in scales), zero_point, dtype)


def binary_of(workload: Workload) -> QuantizedBinary:
    """Return the function of two run-time tensors that a workload of `BINARY` computes."""
    attributes, op = dict(workload.attributes), BINARY[workload.composite]
    a, b = (per_of(workload, *each) for each in zip("ab", (x.dtype for x in workload.operands), strict=True))
    y = per_of(workload, "y", workload.output_dtype)
    low, high = int(attributes["low"]), int(attributes["high"])
    if not is_rescaled(workload):
        return QuantizedBinary(op, a, b, y, low, high)
    scales = scale_of(workload, "a"), scale_of(workload, "b"), scale_of(workload, "y")
    return Rescaled(op, a, b, y, low, high, scales)


def tensors_misfit(name: str, workload: Workload, tensors: Sequence[Operand]) -> Diagnostic | None:
    """Return why a kernel cannot read operands as flat arrays of 8-bit elements; None if it can.

    Args:
        name: Name of the kernel.
        workload: The workload.
        tensors: The operands that have to be tensors of run time.
    """
    dtypes = {o.dtype for o in workload.operands if o.kind == "input"} | {workload.output_dtype}
    if not dtypes <= {"int8", "uint8"}:
        return declined(
            name, "a tensor is not of 8 bits", "int8, uint8", ", ".join(sorted(dtypes)), unfit=True
        )
    if math.prod(workload.output_shape) == 0:
        return declined(name, "a dimension is 0", "1 or more", str(workload.output_shape))
    if any(operand.kind != "input" for operand in tensors):
        return declined(name, "an operand is constant", "tensors of run time", "a constant", unfit=True)
    return None


def shapes_misfit(name: str, workload: Workload) -> Diagnostic | None:
    """Return why a kernel for tensors of one shape cannot read operands that broadcast; None if they have one shape."""
    shapes = [operand.shape for operand in workload.operands]
    if any(shape != workload.output_shape for shape in shapes):
        return declined(name, "operands broadcast", "one shape", " and ".join(map(str, shapes)), unfit=True)
    return None


def overflow(what: Rescaled) -> tuple[str, str, str]:
    """Return why a `tosa` function is not computed step by step: reason, limit and actual value."""
    shifts = ", ".join(str(scale.shift) for scale in what.scales)
    return "a RESCALE of that shift may overflow", "as many bits as its operand", shifts
