# SPDX-License-Identifier: Apache-2.0
"""Facts of an operator that constraints compare with their limits: functions of the operator alone."""

import math

import numpy as np

from arm_ext.ethosu.operators import Operator
from arm_ext.ethosu.reading import integers
from arm_ext.ethosu.tosa.products import WIDE_SUMS
from schedules.numerics.tosa import fits, rescale


def dtypes(operator: Operator) -> tuple[str, ...]:
    """Of all that it reads and writes."""
    return tuple(sorted({tensor.dtype for tensor in (*operator.inputs, operator.output)}))


def rank(operator: Operator) -> int:
    """The greatest of its tensors."""
    return max(len(tensor.shape) for tensor in (*operator.inputs, operator.output))


def smallest_axis(operator: Operator) -> int:
    """Of all its tensors."""
    return min(dim for tensor in (*operator.inputs, operator.output) for dim in (*tensor.shape, 1))


def largest_axis(operator: Operator) -> int:
    """Of all its tensors."""
    return max(dim for tensor in (*operator.inputs, operator.output) for dim in (*tensor.shape, 1))


def kernel(operator: Operator) -> tuple[int, int]:
    """Rows and columns of its window."""
    if operator.kind == "nn.max_pool2d":
        rows, columns = integers(operator.call.attrs.pool_size)
    elif operator.kind == "average_pool2d":
        rows, columns = operator.attributes["kernel"]
    elif operator.kind == "run_time_conv2d":
        rows, columns = operator.inputs[1].shape[1:3]
    else:
        rows, columns = operator.attributes["weight"].shape[-3:-1]
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
    return 1 if not any(given["padding"]) and set(given["dilation"]) == {1} else greatest_stride(operator)


def padded_kernel(operator: Operator) -> int:
    """The longer side of a window that reads beyond the data; 0 of one that does not."""
    return max(kernel(operator)) if any(operator.attributes["padding"]) else 0


def dilation(operator: Operator) -> tuple[int, ...]:
    """Of its window."""
    if operator.kind == "nn.max_pool2d":
        return tuple(integers(operator.call.attrs.dilation))
    return tuple(operator.attributes["dilation"])


_MOST_STRIDE = 3
"""Of one command (Vela 5.2, SUPPORTED_OPS.md)."""


def blind_dilation(operator: Operator) -> int:
    """The dilation of a window one of whose taps sees nothing but padding, wherever it stands; 1 of any other.

    Windows of strides above 3 Vela computes one by one: there each counts.
    """
    found, given = 1, operator.attributes
    sides = zip(given["padding"][:2], operator.inputs[0].shape[1:3], operator.output.shape[1:3], strict=True)
    for axis, (before, size, outputs) in enumerate(sides):
        dilation = given["dilation"][axis]
        seen = np.arange(outputs) * given["strides"][axis] - before
        places = seen + dilation * np.arange(kernel(operator)[axis])[:, None]
        inside = (places >= 0) & (places < size)
        seeing = inside.all(axis=1) if given["strides"][axis] > _MOST_STRIDE else inside.any(axis=1)
        if not seeing.all():
            found = max(found, dilation)
    return found


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
    given = operator.attributes
    if operator.kind not in WIDE_SUMS or operator.inputs[0].dtype != "int16":
        return fits(given["magnitude"], given["shift"])
    # Of 48 bits it takes any, but what it gives has 32.
    return int(rescale(given["magnitude"], given["multiplier"], given["shift"]).max()) < 1 << 31


def bias_by_channel(operator: Operator) -> bool:
    """Whether its bias varies along the channels alone."""
    bias = operator.attributes["bias"]
    return bias.ndim == 1 and bias.size in (1, operator.output.shape[-1])


def pool_stride(operator: Operator) -> int:
    """The greatest stride of a pool that has more than one window along its axis; 1 if none has."""
    sizes = operator.inputs[0].shape[1:3]
    moving = [
        stride
        for size, taps, stride in zip(sizes, kernel(operator), strides(operator), strict=True)
        if taps < size
    ]
    return max(moving, default=1)


def padded_stride(operator: Operator) -> int:
    """The greatest stride of a pool whose windows may read beyond the data; 1 of one whose windows do not."""
    attrs = operator.call.attrs
    pads = integers(attrs.padding) if operator.kind == "nn.max_pool2d" else operator.attributes["padding"]
    beyond = any(pads) or bool(getattr(attrs, "ceil_mode", False))
    return pool_stride(operator) if beyond else 1


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
        str(attrs.method) == "nearest_neighbor" and 0 not in resize_factors(operator) and _repeats(operator)
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
