# SPDX-License-Identifier: Apache-2.0
"""Data of kernels that compute in binary32 whatever they read and write.

float16 is widened, which is exact, and rounded once at the end: what a graph computes between casts is computed to the
bit as it says.
"""

from schedules.composites.workload import Workload
from schedules.kernels.common.cost_model import Cost, arithmetic, scalar

DTYPES = ("float32", "float16")

COPIED = arithmetic(0.5) + scalar(0.5)
"""Of a vector of four that goes through a copy: half an LDP and half an STP."""

CONVERTED = arithmetic(1)
"""Of one whose elements are converted: FCVTL or FCVTN."""


def converts(workload: Workload) -> bool:
    """Whether data or result are not float32."""
    return {workload.operands[0].dtype, workload.output_dtype} != {"float32"}


def around(workload: Workload, *, copied: bool) -> Cost:
    """What a vector of four of a row costs beside its work: its conversions, and a copy if it is `copied`."""
    dtypes = (workload.operands[0].dtype, workload.output_dtype)
    cost = CONVERTED * sum(dtype != "float32" for dtype in dtypes)
    return cost + COPIED if copied else cost


def named(what: str, workload: Workload) -> str:
    """What is computed, with the dtype of data and result, or of each."""
    dtypes = dict.fromkeys((workload.operands[0].dtype, workload.output_dtype))
    return f"{' to '.join(dtypes)} {what}"
