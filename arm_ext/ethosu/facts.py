# SPDX-License-Identifier: Apache-2.0
"""Properties of an operator that constraints compare with their limits."""

import math

import numpy as np

from arm_ext.ethosu.operators import Operator
from arm_ext.ethosu.reading import integers
from arm_ext.ethosu.tosa.products import WIDE_SUMS
from schedules.numerics.tosa import fits, rescale


def dtypes(operator: Operator) -> tuple[str, ...]:
    """Return the dtypes of all inputs and of the output, sorted."""
    return tuple(sorted({tensor.dtype for tensor in (*operator.inputs, operator.output)}))


def rank(operator: Operator) -> int:
    """Return the greatest rank of the operator's tensors."""
    return max(len(tensor.shape) for tensor in (*operator.inputs, operator.output))


def smallest_axis(operator: Operator) -> int:
    """Return the smallest dimension of the operator's tensors."""
    return min(dim for tensor in (*operator.inputs, operator.output) for dim in (*tensor.shape, 1))


def largest_axis(operator: Operator) -> int:
    """Return the largest dimension of the operator's tensors."""
    return max(dim for tensor in (*operator.inputs, operator.output) for dim in (*tensor.shape, 1))


def kernel(operator: Operator) -> tuple[int, int]:
    """Return the window's rows and columns, in taps."""
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
    """Return the window's rows in taps, without dilation."""
    rows, _ = kernel(operator)
    return rows


def kernel_area(operator: Operator) -> int:
    """Return the number of taps of the window."""
    return math.prod(kernel(operator))


def strides(operator: Operator) -> tuple[int, ...]:
    """Return the window's strides."""
    if operator.kind == "nn.max_pool2d":
        return tuple(integers(operator.call.attrs.strides))
    return tuple(operator.attributes["strides"])


def greatest_stride(operator: Operator) -> int:
    """Return the greatest stride of the window."""
    return max(strides(operator))


def stride_in_place(operator: Operator) -> int:
    """Return the greatest stride; 1 if windows have neither padding nor dilation, so that they can be gathered."""
    given = operator.attributes
    return 1 if not any(given["padding"]) and set(given["dilation"]) == {1} else greatest_stride(operator)


def padded_kernel(operator: Operator) -> int:
    """Return the longer side of a padded window; 0 if there is no padding."""
    return max(kernel(operator)) if any(operator.attributes["padding"]) else 0


def dilation(operator: Operator) -> tuple[int, ...]:
    """Return the window's dilation."""
    if operator.kind == "nn.max_pool2d":
        return tuple(integers(operator.call.attrs.dilation))
    return tuple(operator.attributes["dilation"])


_MOST_STRIDE = 3
"""Of one command (Vela 5.2, SUPPORTED_OPS.md)."""


def blind_dilation(operator: Operator) -> int:
    """Return the dilation of a window that has a tap which only ever reads padding; 1 for other windows.

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
    """Return the number of channel groups."""
    return int(operator.attributes["groups"])


def batch(operator: Operator) -> int:
    """Return the size of the data's first axis."""
    return operator.inputs[0].shape[0]


def weight_dtype(operator: Operator) -> str:
    """Return the dtype of the weights."""
    return str(operator.attributes["weight"].dtype)


def weight_sum(operator: Operator) -> int:
    """Return the greatest sum of |weights| over the products of one output."""
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
    """Whether the bias varies along the channel axis alone."""
    bias = operator.attributes["bias"]
    return bias.ndim == 1 and bias.size in (1, operator.output.shape[-1])


def pool_stride(operator: Operator) -> int:
    """Return the greatest stride along axes on which a pool has several windows; 1 if there is none."""
    sizes = operator.inputs[0].shape[1:3]
    moving = [
        stride
        for size, taps, stride in zip(sizes, kernel(operator), strides(operator), strict=True)
        if taps < size
    ]
    return max(moving, default=1)


def padded_stride(operator: Operator) -> int:
    """Return the greatest stride of a pool with padding or ceil mode; 1 for other pools."""
    attrs = operator.call.attrs
    pads = integers(attrs.padding) if operator.kind == "nn.max_pool2d" else operator.attributes["padding"]
    beyond = any(pads) or bool(getattr(attrs, "ceil_mode", False))
    return pool_stride(operator) if beyond else 1


def resize_factors(operator: Operator) -> tuple[int, int]:
    """Return the upscaling factors of rows and columns; 0 for a factor that is not an integer."""
    rows, columns = (
        out // own if out % own == 0 else 0
        for out, own in zip(operator.output.shape[1:3], operator.inputs[0].shape[1:3], strict=True)
    )
    return rows, columns


def resize(operator: Operator) -> str:
    """Describe a resize: method, coordinates and rounding, with "repeats: " in front if it repeats each pixel."""
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
