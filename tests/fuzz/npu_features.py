# SPDX-License-Identifier: Apache-2.0
"""What a histogram of integer operators counts: each kind, and its attributes in classes that hardware treats apart."""

from collections.abc import Callable, Iterator

import numpy as np

from arm_ext.ethosu.ops.binary import Binary
from arm_ext.ethosu.ops.common.constraint import dtypes
from arm_ext.ethosu.ops.common.operators import Operator
from arm_ext.ethosu.ops.common.sums import SumAttributes, Weighted
from arm_ext.ethosu.ops.common.windows import Window
from arm_ext.ethosu.ops.concat import Concat
from arm_ext.ethosu.ops.permute_dims import Permutation

_BRICK = 16  # channels of a brick
_PALETTE = 32  # greatest number of values that a palette of weights has

WINDOWS = ("conv2d", "depthwise_conv2d", "conv2d_transpose", "average_pool2d", "nn.max_pool2d")


def features(operator: Operator) -> Iterator[str]:
    """A kind, and "kind.attribute=class" for each attribute that the kind has."""
    yield operator.kind
    for name, of in _ATTRIBUTES.items():
        value = of(operator)
        if value is not None:
            yield f"{operator.kind}.{name}={str(value).replace(' ', '')}"


def _dtype(operator: Operator) -> str:
    return ",".join(dtypes(operator))


def _batch(operator: Operator) -> str | None:
    return None if not operator.inputs[0].shape else "1" if operator.inputs[0].shape[0] == 1 else ">1"


def _channels(operator: Operator) -> str | None:
    if not operator.output.shape:
        return None
    channels = operator.output.shape[-1]
    return (
        "whole bricks" if channels % _BRICK == 0 else "over a brick" if channels > _BRICK else "below a brick"
    )


def _window_of(operator: Operator) -> Window | None:
    return operator.attributes.window if operator.kind in WINDOWS else None


def _strides(operator: Operator) -> str | None:
    window = _window_of(operator)
    return None if window is None else str(window.strides)


def _dilation(operator: Operator) -> str | None:
    window = _window_of(operator)
    return None if window is None or "pool" in operator.kind else str(window.dilation)


def _window(operator: Operator) -> str | None:
    window = _window_of(operator)
    if window is None:
        return None
    rows, columns = window.kernel
    return (
        "1x1"
        if rows == columns == 1
        else "line"
        if 1 in (rows, columns)
        else "even"
        if rows == columns
        else "uneven"
    )


def _padding(operator: Operator) -> str | None:
    window = getattr(operator.attributes, "window", None)
    if window is None:
        return None
    before, after = zip(*window.sides, strict=True)
    return "none" if not any(window.padding) else "even" if before == after else "uneven"


def _groups(operator: Operator) -> str | None:
    groups = getattr(operator.attributes, "groups", None)
    if groups is None:
        return None
    return "1" if groups == 1 else "channels" if groups == operator.inputs[0].shape[-1] else "some"


def _scales(operator: Operator) -> str | None:
    if not isinstance(operator.attributes, SumAttributes):
        return None
    return "one" if operator.attributes.requantization.multiplier.size == 1 else "by channel"


def _zero(operator: Operator) -> str | None:
    zero = getattr(operator.attributes, "input_zero_point", None)
    return None if zero is None else "0" if zero == 0 else "other"


def _weights(operator: Operator) -> str | None:
    if not isinstance(operator.attributes, Weighted):
        return None
    weight = operator.attributes.weight
    if not weight.any():
        return "all zero"
    zeros, values = float(np.mean(weight == 0)), len(np.unique(weight))
    return "mostly zeros" if zeros > 0.5 else "few values" if values <= _PALETTE < weight.size else "any"


def _axes(operator: Operator) -> str | None:
    """Axes from the last, -1."""
    given, rank = operator.attributes, len(operator.inputs[0].shape)
    axes = [given.axis] if hasattr(given, "axis") else getattr(given, "axes", None)
    if axes is None or isinstance(given, Permutation):
        return None
    return str(sorted(axis % rank - rank for axis in axes))


def _moved(operator: Operator) -> str | None:
    """The order of a transpose's axes; which axes a pad or slice changes, from the last."""
    if isinstance(operator.attributes, Permutation):
        return str(list(operator.attributes.axes))
    if operator.kind not in ("nn.pad", "strided_slice", "broadcast_to", "image.resize2d"):
        return None
    shapes = operator.inputs[0].shape, operator.output.shape
    rank = len(shapes[1])
    if len(shapes[0]) != rank:
        return "rank"
    return str([a - rank for a, (n, m) in enumerate(zip(*shapes, strict=True)) if n != m])


def _parts(operator: Operator) -> str | None:
    return str(len(operator.inputs)) if isinstance(operator.attributes, Concat) else None


def _broadcast(operator: Operator) -> str | None:
    """Of elementwise operators with two operands."""
    given = operator.attributes
    if not isinstance(given, Binary):
        return None
    constant = given.a.constant if given.b.constant is None else given.b.constant
    if constant is not None:
        return "constant, one" if constant.size == 1 else "constant"
    a, b = (tensor.shape for tensor in operator.inputs)
    return "none" if a == b else "rank" if len(a) != len(b) else "axes"


_ATTRIBUTES: dict[str, Callable[[Operator], str | None]] = {
    "dtype": _dtype,
    "batch": _batch,
    "channels": _channels,
    "strides": _strides,
    "dilation": _dilation,
    "window": _window,
    "padding": _padding,
    "groups": _groups,
    "scales": _scales,
    "zero_point": _zero,
    "weights": _weights,
    "axes": _axes,
    "moves": _moved,
    "inputs": _parts,
    "broadcast": _broadcast,
}
