# SPDX-License-Identifier: Apache-2.0
"""Fusion barriers: operators that Vela computes correctly only if they are not fused with what they read."""

from collections.abc import Collection
from typing import Any

from arm_ext.ethosu.operators import Operator
from arm_ext.ethosu.ops.registry import quirks_of
from arm_ext.target.npu import Family


def solitary(claimed: Collection[Operator[Any]], family: Family) -> dict[Operator[Any], str]:
    """Return the operators that must begin a region of their own, with the reason."""
    behind = {op.output.var: why for op in claimed if (why := quirks_of(op).barrier_behind(op, family))}
    apart = dict[Operator[Any], str]()
    for operator in claimed:
        of_read = (behind[tensor.var] for tensor in operator.inputs if tensor.var in behind)
        why = next(of_read, None) or quirks_of(operator).barrier(operator, family)
        if why is not None:
            apart[operator] = why
    return apart
