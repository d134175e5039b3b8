# SPDX-License-Identifier: Apache-2.0
"""Facts of operators that pick elements, or compute with integers as Relax does."""

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
    """Of the values that it moves or computes; not of indices and truths, nor of an operator of Relax's integers."""
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
    """Of all that an operator of Relax's integers reads and computes, and of its constants but for a count of bits."""
    args = () if operator.kind == "logical_right_shift" else operator.call.args
    constants = {str(arg.ty.dtype) for arg in args if isinstance(arg, GenericConst)}
    return tuple(sorted({*dtypes(operator), *constants}))


def defined(operator: Operator) -> bool:
    """Whether TOSA says what it gives, for all that its operands can be."""
    return ranges.fits(operator.kind, operator.attributes["ranges"])


def picked_depth(operator: Operator) -> int:
    """The length of the axis that an index is into; 0 if it is not the last."""
    shape = operator.inputs[0].shape
    return shape[-1] if axis_of(operator) == len(shape) - 1 else 0


def places(operator: Operator) -> int:
    """How many indices it gives, of one image."""
    return math.prod(operator.inputs[0].shape[:-1])


def gathered_row(operator: Operator) -> int | None:
    """Elements that one index picks by GATHER; None where slices do."""
    rows, axis = constant_indices(operator), axis_of(operator)
    if rows is not None and len(runs(rows)) <= MAX_RUNS:
        return None
    return math.prod(int(size) for size in list(operator.call.args[0].ty.shape)[axis + 1 :])


def index_runs(operator: Operator) -> int | None:
    """Stretches of consecutive indices; None if they are computed at run time."""
    rows = constant_indices(operator)
    return None if rows is None else len(runs(rows))


def distinct_rows(operator: Operator) -> str:
    """Whether a scatter's indices are constants that name no row twice."""
    rows = written_rows(operator)
    if rows is None:
        return "indices of run time"
    return "distinct constants" if len(set(rows.tolist())) == rows.size else "an index that is there twice"
