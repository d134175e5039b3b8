# SPDX-License-Identifier: Apache-2.0
"""Facts of an operator that constraints compare with their limits: functions of the operator alone."""

import math

import numpy as np

from arm_ext.ethosu.operators import Operator
from arm_ext.ethosu.sums import integers
from schedules.numerics.tosa import fits


def dtypes(operator: Operator) -> tuple[str, ...]:
    """Of all that it reads and writes."""
    return tuple(sorted({tensor.dtype for tensor in (*operator.inputs, operator.output)}))


def rank(operator: Operator) -> int:
    """The greatest of its tensors."""
    return max(len(tensor.shape) for tensor in (*operator.inputs, operator.output))


def largest_axis(operator: Operator) -> int:
    """Of all its tensors."""
    return max(dim for tensor in (*operator.inputs, operator.output) for dim in (*tensor.shape, 1))


def kernel(operator: Operator) -> tuple[int, int]:
    """Rows and columns of its window."""
    if operator.kind == "nn.max_pool2d":
        rows, columns = integers(operator.call.attrs.pool_size)
    elif operator.kind == "average_pool2d":
        rows, columns = operator.attributes["kernel"]
    else:
        rows, columns = operator.attributes["weight"].shape[1:3]
    return rows, columns


def kernel_rows(operator: Operator) -> int:
    """Rows of its window, taps of a dilated one apart."""
    rows, _ = kernel(operator)
    return rows


def kernel_area(operator: Operator) -> int:
    """Taps of its window."""
    return math.prod(kernel(operator))


def strides(operator: Operator) -> tuple[int, ...]:
    """Of its window."""
    if operator.kind == "nn.max_pool2d":
        return tuple(integers(operator.call.attrs.strides))
    return tuple(operator.attributes["strides"])


def greatest_stride(operator: Operator) -> int:
    """Of its window."""
    return max(strides(operator))


def stride_in_place(operator: Operator) -> int:
    """The greatest stride; 1 where windows are neither padded nor dilated, and can be gathered one by one."""
    given = operator.attributes
    return 1 if not any(given["padding"]) and given["dilation"] == (1, 1) else greatest_stride(operator)


def padded_kernel(operator: Operator) -> int:
    """The longer side of a window that reads beyond the data; 0 of one that does not."""
    return max(kernel(operator)) if any(operator.attributes["padding"]) else 0


def dilation(operator: Operator) -> tuple[int, ...]:
    """Of its window."""
    if operator.kind == "nn.max_pool2d":
        return tuple(integers(operator.call.attrs.dilation))
    return tuple(operator.attributes["dilation"])


def groups(operator: Operator) -> int:
    """Of its channels."""
    return int(operator.attributes["groups"])


def batch(operator: Operator) -> int:
    """The first axis of the data."""
    return operator.inputs[0].shape[0]


def weight_dtype(operator: Operator) -> str:
    """Of its constants."""
    return str(operator.attributes["weight"].dtype)


def weight_sum(operator: Operator) -> int:
    """The greatest sum of |weights| that one output is of."""
    weight = np.abs(operator.attributes["weight"].astype(np.int64))
    summed = (0,) if operator.kind == "linear" else tuple(range(1, weight.ndim))
    return int(weight.sum(summed).max(initial=0))


def accumulators_fit(operator: Operator) -> bool:
    """Whether RESCALE is defined for every accumulator that the weights allow."""
    return fits(operator.attributes["magnitude"], operator.attributes["shift"])


def scales_by_channel(operator: Operator) -> bool:
    """Whether its multiplier varies along the channels alone."""
    multiplier = operator.attributes["multiplier"]
    return multiplier.size in (1, operator.output.shape[-1]) and multiplier.size == multiplier.shape[-1]


def bias_by_channel(operator: Operator) -> bool:
    """Whether its bias varies along the channels alone."""
    bias = operator.attributes["bias"]
    return bias.ndim == 1 and bias.size in (1, operator.output.shape[-1])


def leading_axes(operator: Operator) -> tuple[tuple[int, ...], ...]:
    """Of a matrix product's operands, all but the matrices."""
    return tuple(tensor.shape[:-2] for tensor in operator.inputs)


def slice_steps(operator: Operator) -> int:
    """The greatest |step|, negative ones counting as 0."""
    steps = integers(operator.call.args[4].fields) if len(operator.call.args) > 4 else [1]
    return max(steps) if min(steps) > 0 else 0


def pool_stride(operator: Operator) -> int:
    """The greatest stride of a pool that has more than one window along its axis; 1 if none has."""
    sizes = operator.inputs[0].shape[1:3]
    moving = [
        stride
        for size, taps, stride in zip(sizes, kernel(operator), strides(operator), strict=True)
        if taps < size
    ]
    return max(moving, default=1)


def layout(operator: Operator) -> str:
    """Of its data."""
    return str(operator.call.attrs.layout)


def pad_mode(operator: Operator) -> str:
    """What a border holds."""
    return str(operator.call.attrs.pad_mode)


def resize_factors(operator: Operator) -> tuple[int, int]:
    """Pixels that each becomes, by rows and columns; 0 where they are no whole number."""
    rows, columns = (
        out // own if out % own == 0 else 0
        for out, own in zip(operator.output.shape[1:3], operator.inputs[0].shape[1:3], strict=True)
    )
    return rows, columns


def resize(operator: Operator) -> str:
    """How a resize finds a pixel's value; "repeats …" where each pixel becomes a block of its value."""
    attrs = operator.call.attrs
    found = f"{attrs.method}, {attrs.coordinate_transformation_mode}, {attrs.rounding_method}"
    exact = (
        str(attrs.layout) == "NHWC"
        and str(attrs.method) == "nearest_neighbor"
        and 0 not in resize_factors(operator)
        and _repeats(operator)
    )
    return f"repeats: {found}" if exact else found


def _repeats(operator: Operator) -> bool:
    """Whether output i shows pixel i // factor, along both axes."""
    attrs = operator.call.attrs
    mode, rounding = str(attrs.coordinate_transformation_mode), str(attrs.rounding_method)
    if mode == "asymmetric" and rounding == "floor":
        return True
    # The centres of the outputs fall between those of the pixels, never on the middle for even factors.
    odd_or_half = all(factor == 1 or factor % 2 == 0 for factor in resize_factors(operator))
    return (
        mode == "half_pixel"
        and rounding in ("round", "round_prefer_floor", "round_prefer_ceil")
        and odd_or_half
    )


def flipped(operator: Operator) -> str:
    """Which axis a flip reverses."""
    axis = int(operator.call.attrs.axis) % len(operator.output.shape)
    names = {len(operator.output.shape) - 3: "rows", len(operator.output.shape) - 2: "columns"}
    return names.get(axis, f"axis {axis}")
