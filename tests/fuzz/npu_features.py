# SPDX-License-Identifier: Apache-2.0
"""What a histogram of integer operators counts: each kind, and its attributes in classes that hardware treats apart."""

from collections.abc import Callable, Iterator

import numpy as np

from arm_ext.ethosu import facts
from arm_ext.ethosu.operators import Operator
from arm_ext.ethosu.reading import integers
from tests.fuzz.groups import Array

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
    return ",".join(facts.dtypes(operator))


def _batch(operator: Operator) -> str | None:
    return None if not operator.inputs[0].shape else "1" if operator.inputs[0].shape[0] == 1 else ">1"


def _channels(operator: Operator) -> str | None:
    if not operator.output.shape:
        return None
    channels = operator.output.shape[-1]
    return (
        "whole bricks" if channels % _BRICK == 0 else "over a brick" if channels > _BRICK else "below a brick"
    )


def _strides(operator: Operator) -> str | None:
    return str(facts.strides(operator)) if operator.kind in WINDOWS else None


def _dilation(operator: Operator) -> str | None:
    return str(facts.dilation(operator)) if operator.kind in WINDOWS and "pool" not in operator.kind else None


def _window(operator: Operator) -> str | None:
    if operator.kind not in WINDOWS:
        return None
    rows, columns = facts.kernel(operator)
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
    if operator.kind == "nn.max_pool2d":
        found = integers(operator.call.attrs.padding)
    elif "padding" in operator.attributes:
        found = list(operator.attributes["padding"])
    else:
        return None
    return "none" if not any(found) else "even" if found[:2] == found[2:] else "uneven"


def _groups(operator: Operator) -> str | None:
    groups = operator.attributes.get("groups")
    if groups is None:
        return None
    return "1" if groups == 1 else "channels" if groups == operator.inputs[0].shape[-1] else "some"


def _scales(operator: Operator) -> str | None:
    multiplier = operator.attributes.get("multiplier")
    return None if multiplier is None else "one" if multiplier.size == 1 else "by channel"


def _zero(operator: Operator) -> str | None:
    zero = operator.attributes.get("input_zero_point")
    return None if zero is None else "0" if zero == 0 else "other"


def _weights(operator: Operator) -> str | None:
    weight: Array | None = operator.attributes.get("weight")
    if weight is None:
        return None
    if not weight.any():
        return "all zero"
    zeros, values = float(np.mean(weight == 0)), len(np.unique(weight))
    return "mostly zeros" if zeros > 0.5 else "few values" if values <= _PALETTE < weight.size else "any"


def _axes(operator: Operator) -> str | None:
    """Axes from the last, -1."""
    rank = len(operator.inputs[0].shape)
    if "axes" in operator.attributes:
        axes = list(operator.attributes["axes"])
    elif operator.kind == "softmax":
        axes = [operator.attributes["axis"]]
    elif operator.kind in ("max", "min", "concat", "split", "flip", "argmax"):
        found = operator.call.attrs.axis
        axes = integers(found) if operator.kind in ("max", "min") else [int(found)]
    else:
        return None
    return str(sorted(axis % rank - rank for axis in axes))


def _moved(operator: Operator) -> str | None:
    """The order of a transpose's axes; which axes a pad or slice changes, from the last."""
    if operator.kind == "permute_dims":
        axes = operator.call.attrs.axes
        return str(integers(axes) if axes is not None else "reversed")
    if operator.kind not in ("nn.pad", "strided_slice", "broadcast_to", "image.resize2d"):
        return None
    shapes = operator.inputs[0].shape, operator.output.shape
    rank = len(shapes[1])
    if len(shapes[0]) != rank:
        return "rank"
    return str([a - rank for a, (n, m) in enumerate(zip(*shapes, strict=True)) if n != m])


def _parts(operator: Operator) -> str | None:
    return str(len(operator.inputs)) if operator.kind == "concat" else None


def _broadcast(operator: Operator) -> str | None:
    """Of elementwise operators with two operands."""
    if "a_shift" not in operator.attributes:
        return None
    if len(operator.inputs) == 1:
        constant = next(operator.attributes[name] for name in "ab" if name in operator.attributes)
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
