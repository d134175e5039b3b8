# SPDX-License-Identifier: Apache-2.0
"""Dtypes of kernels that compute in binary32: float32 or float16 data and results.

float16 data is converted to float32, which is exact, and the result is rounded once: a graph that casts to float32,
computes and casts back gets the same bits.
"""

from schedules.composites.workload import Workload
from schedules.kernels.common.cost_model import Cost, arithmetic, scalar

DTYPES = ("float32", "float16")

COPIED = arithmetic(0.5) + scalar(0.5)
"""Cost of copying a vector of four: half an LDP and half an STP."""

CONVERTED = arithmetic(1)
"""Cost of converting a vector of four: FCVTL or FCVTN."""


def converts(workload: Workload) -> bool:
    """Whether the data or the result is not float32."""
    return {workload.operands[0].dtype, workload.output_dtype} != {"float32"}


def around(workload: Workload, *, copied: bool) -> Cost:
    """Return the cost of converting four elements from and to float16, plus a copy of them if the row is `copied`."""
    dtypes = (workload.operands[0].dtype, workload.output_dtype)
    cost = CONVERTED * sum(dtype != "float32" for dtype in dtypes)
    return cost + COPIED if copied else cost


def named(what: str, workload: Workload) -> str:
    """Return a description of the computation with its dtypes, such as "float16 to float32 softmax"."""
    dtypes = dict.fromkeys((workload.operands[0].dtype, workload.output_dtype))
    return f"{' to '.join(dtypes)} {what}"
