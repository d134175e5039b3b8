# SPDX-License-Identifier: Apache-2.0
"""Parsing of the epilogue step that requantises accumulators, of either numerics."""

from collections.abc import Sequence

import numpy as np

from schedules.composites.workload import Step, Workload
from schedules.kernels.common.contract import Array
from schedules.kernels.epilogues import tosa_rescale
from schedules.kernels.epilogues.requantize import Form, Requantization, form_of

DTYPES = ("int8", "uint8")
"""Dtypes that accumulators can be requantised to."""

WIDE = "int16"
"""Dtype that only the numerics `qdq` requantises to, and only where a kernel's stores support it."""

MULTIPLIER = {"qdq": "float32", "tosa": "int32"}
"""Dtype of the multipliers by numerics."""


def misfit(workload: Workload, *, wide: bool = False) -> tuple[str, str, str] | None:
    """Return why no form requantises a workload's accumulators (reason, limit, actual value); None if one does.

    Args:
        workload: Any workload.
        wide: Whether the kernel can store results of the dtype `WIDE`.
    """
    step = workload.step("requantize")
    if step is None or step.operand is None:
        return "accumulators are not requantised", "requantize", workload.output_dtype
    shift, limit = _shift(step), workload.magnitude
    dtypes = (*DTYPES, WIDE) if wide and shift is None else DTYPES
    if workload.output_dtype not in dtypes:
        return "the output has another dtype", " or ".join(dtypes), workload.output_dtype
    dtype = MULTIPLIER["qdq" if shift is None else "tosa"]
    if step.operand.dtype != dtype:
        return "multipliers have another dtype", dtype, step.operand.dtype
    if shift is not None and not tosa_rescale.exact(shift, limit.accumulator if limit else None):
        bound = f"2**{limit.accumulator}" if limit else "unknown"
        return "accumulators may exceed what a RESCALE of that shift takes", f"2**{shift}", bound
    return None


def quantization(workload: Workload) -> tuple[Requantization, Form]:
    """Return the output's quantisation, and the cheapest form that is exact for the accumulator bounds."""
    step = _step(workload)
    zero_point, low, high = (int(step.parameter(p)) for p in ("zero_point", "low", "high"))
    shift, limit = _shift(step), workload.magnitude
    if shift is not None:
        return Requantization(zero_point, low, high, workload.output_dtype, shift), "rescale"
    to = Requantization(zero_point, low, high, workload.output_dtype)
    if limit is None or to.dtype == WIDE:
        return to, "convert"
    # The bounds are exclusive powers of two, so subtract 1 for the maximum.
    return to, form_of((1 << limit.accumulator) - 1, (1 << limit.scaled) - 1, zero_point)


def multipliers(workload: Workload, constants: Sequence[Array]) -> Array:
    """Return the multipliers as a flat float32 array; integer multipliers (`tosa`) are reinterpreted as float32."""
    step = _step(workload)
    assert step.operand is not None
    return np.ascontiguousarray(constants[step.operand.index]).ravel().view(np.float32)


def _step(workload: Workload) -> Step:
    step = workload.step("requantize")
    assert step is not None
    return step


def _shift(step: Step) -> int | None:
    """Return the shift of the step's RESCALE; None in the numerics `qdq`."""
    shift = dict(step.parameters).get("shift")
    return None if shift is None else int(shift)
