# SPDX-License-Identifier: Apache-2.0
"""The list of all NPU operators, in the order in which the docs list them and parsers try their patterns."""

from collections.abc import Mapping
from typing import Any

from arm_ext.ethosu.ops import (
    argmax,
    astype,
    binary,
    concat,
    convolution,
    convolution_3d,
    flip,
    integer_arithmetic,
    integer_extremum,
    integer_logic,
    linear,
    matmul,
    pad,
    permute_dims,
    pooling,
    reduce_extremum,
    reduce_sum,
    rescale,
    reshape,
    resize_bilinear,
    resize_nearest,
    run_time_convolution,
    scatter,
    softmax,
    split,
    strided_slice,
    table,
    take,
    tile,
    transposed_convolution,
)
from arm_ext.ethosu.ops.common.contract import Operation, Quirks
from arm_ext.ethosu.ops.common.operators import Operator

OPERATIONS: tuple[Operation[Any], ...] = (
    convolution.CONV2D,
    convolution.DEPTHWISE,
    transposed_convolution.OPERATION,
    convolution_3d.OPERATION,
    run_time_convolution.OPERATION,
    linear.OPERATION,
    matmul.OPERATION,
    pooling.AVERAGE,
    pooling.MAXIMUM,
    reduce_sum.OPERATION,
    binary.ARITHMETIC,
    binary.EXTREMA,
    table.OPERATION,
    rescale.OPERATION,
    softmax.OPERATION,
    reshape.OPERATION,
    permute_dims.OPERATION,
    concat.OPERATION,
    split.OPERATION,
    strided_slice.OPERATION,
    pad.OPERATION,
    reduce_extremum.MAXIMUM,
    reduce_extremum.MINIMUM,
    tile.WHOLE,
    tile.REPEAT,
    flip.OPERATION,
    take.OPERATION,
    scatter.OPERATION,
    argmax.OPERATION,
    resize_nearest.OPERATION,
    resize_bilinear.OPERATION,
    integer_extremum.OPERATION,
    integer_arithmetic.ON_ALL,
    integer_arithmetic.RIGHT_SHIFT,
    integer_arithmetic.ON_U85,
    integer_logic.COMPARISONS,
    integer_logic.LOGICAL,
    integer_logic.BITWISE,
    integer_logic.WHERE,
    # After the operators above, which may contain a cast.
    astype.OPERATION,
)

BY_KIND: Mapping[str, Operation[Any]] = {
    kind: operation for operation in OPERATIONS for kind in operation.kinds
}


def quirks_of(operator: Operator[Any]) -> Quirks:
    """Return the defects of Vela for an operator's kind."""
    return BY_KIND[operator.kind].quirks
