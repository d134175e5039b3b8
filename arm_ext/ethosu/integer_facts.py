# SPDX-License-Identifier: Apache-2.0
"""Properties of operators that select elements, or that compute with Relax's integer arithmetic."""

import math

from tvm.ir import GenericConst

from arm_ext.ethosu import ranges
from arm_ext.ethosu.facts import dtypes
from arm_ext.ethosu.integer_ops import INDICES
from arm_ext.ethosu.operators import Operator
from arm_ext.ethosu.tosa.integers import ARITHMETIC, BITWISE, COMPARISONS, EXTREMA, LOGICAL
from arm_ext.ethosu.tosa.picks import MAX_RUNS, axis_of, constant_indices, runs
from arm_ext.ethosu.tosa.scatter import SCATTERS, written_rows

INTEGER_KINDS = (*ARITHMETIC, *BITWISE, *COMPARISONS, *EXTREMA, *LOGICAL, "astype", "where")
"""Of Relax's own arithmetic of integers and truths."""
EXTREMES = ("max", "min")
"""Reductions, which of truths tell whether any is true, or all are."""


def data_dtypes(operator: Operator) -> tuple[str, ...]:
    """Return the dtypes of the values that are moved or computed, without indices, booleans and Relax's integers."""
    tensors = [*operator.inputs, operator.output]
    if operator.kind in INTEGER_KINDS:
        tensors = []
    elif operator.kind in INDICES:
        tensors = [operator.inputs[0]]
    elif operator.kind in ("take", *SCATTERS):
        tensors = [operator.output]
    elif operator.kind in EXTREMES and operator.output.dtype == "bool":
        tensors = []
    return tuple(sorted({tensor.dtype for tensor in tensors}))


def integer_dtypes(operator: Operator) -> tuple[str, ...]:
    """Return the dtypes of an integer operator's tensors and constants, without a shift's constant count."""
    args = () if operator.kind == "logical_right_shift" else operator.call.args
    constants = {str(arg.ty.dtype) for arg in args if isinstance(arg, GenericConst)}
    return tuple(sorted({*dtypes(operator), *constants}))


def defined(operator: Operator) -> bool:
    """Whether TOSA defines the result for all values that the operands can have."""
    return ranges.fits(operator.kind, operator.attributes["ranges"])


def picked_depth(operator: Operator) -> int:
    """Return the length of the axis that is reduced to an index; 0 if it is not the last axis."""
    shape = operator.inputs[0].shape
    return shape[-1] if axis_of(operator) == len(shape) - 1 else 0


def places(operator: Operator) -> int:
    """Return the number of indices that are computed for one image."""
    return math.prod(operator.inputs[0].shape[:-1])


def gathered_row(operator: Operator) -> int | None:
    """Return the number of elements that GATHER reads per index; None if slices are used."""
    rows, axis = constant_indices(operator), axis_of(operator)
    if rows is not None and len(runs(rows)) <= MAX_RUNS:
        return None
    return math.prod(int(size) for size in list(operator.call.args[0].ty.shape)[axis + 1 :])


def index_runs(operator: Operator) -> int | None:
    """Return the number of runs of consecutive indices; None for run-time indices."""
    rows = constant_indices(operator)
    return None if rows is None else len(runs(rows))


def distinct_rows(operator: Operator) -> str:
    """Describe a scatter's indices: distinct constants, repeated ones, or run-time indices."""
    rows = written_rows(operator)
    if rows is None:
        return "indices of run time"
    return "distinct constants" if len(set(rows.tolist())) == rows.size else "an index that is there twice"
