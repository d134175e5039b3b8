# SPDX-License-Identifier: Apache-2.0
"""ONNX Resize, axis by axis, as a weighted sum of gathered rows, which is right for every mode.

    nearest          →    x[index]
    linear, cubic    →    Σ w_k x[index_k], two or four taps, more with antialias

What upstream's importer computes by the definition stays as it is: nearest and linear over the last two of four axes,
whose sizes and scales agree. Source: ONNX operator definition Resize-19 and its reference implementation.
"""

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper

from arm_ext.errors import ModelError
from arm_ext.frontends.onnx_expansion import Expansion

Array = npt.NDArray[np.float64]

_AXES_OF_IMAGES = 4

_UPSTREAM = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
"""Places that upstream's importer has."""


class _Axis:
    """How one axis is resized."""

    def __init__(self, size: int, outputs: int, scale: float, roi: tuple[float, float]) -> None:
        self.size, self.outputs, self.scale, self.roi = size, outputs, scale, roi

    def coordinates(self, mode: str) -> Array:
        """Where each output lies on the input's axis."""
        x, size, scale = np.arange(self.outputs, dtype=np.float64), self.size, self.scale
        start, end = self.roi
        span = scale * size if self.outputs != scale * size else float(self.outputs)
        match mode:
            case "half_pixel":
                return (x + 0.5) / scale - 0.5
            case "half_pixel_symmetric":
                adjustment = self.outputs / (scale * size)
                return size / 2 * (1 - adjustment) + (x + 0.5) / scale - 0.5
            case "pytorch_half_pixel":
                return (x + 0.5) / scale - 0.5 if span > 1 else np.zeros_like(x)
            case "align_corners":
                return x * (size - 1) / (span - 1) if span > 1 else np.zeros_like(x)
            case "asymmetric":
                return x / scale
            case "tf_crop_and_resize":
                if self.outputs > 1:
                    return start * (size - 1) + x * (end - start) * (size - 1) / (span - 1)
                return np.full_like(x, 0.5 * (start + end) * (size - 1))
        raise ModelError(f"its coordinate_transformation_mode {mode} is not one of ONNX's")


_NEAREST: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def resize(e: Expansion) -> None:
    """Replace a Resize node that upstream's importer does not compute by the definition."""
    x, roi, scales, sizes = e.inputs("X roi? scales? sizes?")
    dims, axes = e.dims(x), _axes(e, x)
    factors, outputs = _factors(e, [dims[axis] for axis in axes], scales, sizes)
    mode, place = e.text("mode", "nearest"), e.text("coordinate_transformation_mode", "half_pixel")
    exact = all(o == f * dims[a] for a, f, o in zip(axes, factors, outputs, strict=True))
    plain = mode != "cubic" and not e.attribute("antialias", 0) and place in _UPSTREAM
    images = len(dims) == _AXES_OF_IMAGES and not any(a.name == "axes" for a in e.node.attribute)
    # Upstream divides by the outputs but one.
    divides = place == "align_corners" and 1 in outputs[2:]
    if images and exact and plain and not divides and factors[:2] == [1, 1]:
        return
    kind = helper.np_dtype_to_tensor_dtype(e.dtype(x))
    value = x
    for number, axis in enumerate(axes):
        roi_of = _region(e, roi, number, len(axes))
        along = _Axis(dims[axis], outputs[number], factors[number], roi_of)
        if factors[number] == 1 and outputs[number] == dims[axis] and place != "tf_crop_and_resize":
            continue
        value = _resized(e, value, axis, along, len(dims))
    e.emit("Cast", [value], e.node.output[0], to=kind)


def upsample(e: Expansion) -> None:
    """Replace an Upsample node, the Resize of opsets before 10."""
    x, scales = e.inputs("X scales?")
    given = scales or e.constant(np.array(e.numbers("scales"), np.float32))
    dims, value = e.dims(x), x
    factors, outputs = _factors(e, dims, given, "")
    for axis, (size, factor, output) in enumerate(zip(dims, factors, outputs, strict=True)):
        at = _Axis(size, output, factor, (0.0, 1.0)).coordinates("asymmetric")
        if factor == 1:
            continue
        if e.text("mode", "nearest") == "nearest":
            value = _gathered(e, value, np.floor(at), size, axis)
        else:
            along = _Axis(size, output, factor, (0.0, 1.0))
            value = _summed(e, value, axis, along, _taps(e, at, along), len(dims))
    e.emit("Identity", [value], e.node.output[0])


def _axes(e: Expansion, x: str) -> list[int]:
    rank = e.rank(x)
    return [int(axis) % rank for axis in e.numbers("axes")] or list(range(rank))


def _factors(e: Expansion, dims: list[int], scales: str, sizes: str) -> tuple[list[float], list[int]]:
    """The scale and the output's size of each axis."""
    given = e.value(scales) if scales else None
    if given is not None and given.size:
        factors = [float(number) for number in given]
        return factors, [math.floor(size * factor) for size, factor in zip(dims, factors, strict=True)]
    wanted = e.value(sizes) if sizes else None
    if wanted is None:
        raise ModelError("its scales or sizes are not constant")
    outputs = [int(number) for number in wanted]
    policy = e.text("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return [o / size for o, size in zip(outputs, dims, strict=True)], outputs
    choose = min if policy == "not_larger" else max
    factor = choose(o / size for o, size in zip(outputs, dims, strict=True))
    # ONNX rounds half up.
    return [factor] * len(dims), [math.floor(factor * size + 0.5) for size in dims]


def _region(e: Expansion, roi: str, number: int, axes: int) -> tuple[float, float]:
    if e.text("coordinate_transformation_mode", "") != "tf_crop_and_resize":
        return 0.0, 1.0
    value = e.value(roi) if roi else None
    if value is None:
        raise ModelError("its roi is not constant")
    return float(value[number]), float(value[number + axes])


def _resized(e: Expansion, value: str, axis: int, along: _Axis, rank: int) -> str:
    at = along.coordinates(e.text("coordinate_transformation_mode", "half_pixel"))
    outside = (at < 0) | (at > along.size - 1)
    if e.text("mode", "nearest") == "nearest":
        index = _NEAREST[e.text("nearest_mode", "round_prefer_floor")](at)
        out = _gathered(e, value, index, along.size, axis)
    else:
        out = _summed(e, value, axis, along, _taps(e, at, along), rank)
    if e.text("coordinate_transformation_mode", "") == "tf_crop_and_resize" and outside.any():
        flags = e.constant(outside.reshape([-1 if a == axis else 1 for a in range(rank)]))
        filler = e.constant(np.array(e.attribute("extrapolation_value", 0.0), e.dtype(e.node.input[0])))
        out = e.emit("Where", [flags, filler, out])
    return out


def _gathered(e: Expansion, value: str, index: Array, size: int, axis: int) -> str:
    inside = np.clip(index, 0, size - 1).astype(np.int64)
    return e.emit("Gather", [value, e.constant(inside)], axis=axis)


def _summed(e: Expansion, value: str, axis: int, along: _Axis, taps: tuple[Array, Array], rank: int) -> str:
    """The sum over taps [outputs, k] of rows times weights, in binary32."""
    index, weights = taps
    single = e.emit("Cast", [value], to=TensorProto.FLOAT)
    shape = [-1 if a == axis else 1 for a in range(rank)]
    total = ""
    for k in range(index.shape[1]):
        if not weights[:, k].any():
            continue
        row = _gathered(e, single, index[:, k], along.size, axis)
        term = e.emit("Mul", [row, e.constant(weights[:, k].astype(np.float32).reshape(shape))])
        total = e.emit("Add", [total, term]) if total else term
    return total


def _taps(e: Expansion, at: Array, along: _Axis) -> tuple[Array, Array]:
    """Indices and weights, [outputs, k]."""
    cubic = e.text("mode", "nearest") == "cubic"
    radius = 2.0 if cubic else 1.0
    a = e.attribute("cubic_coeff_a", -0.75)
    stretch = min(along.scale, 1.0) if e.attribute("antialias", 0) else 1.0
    reach = math.ceil(radius / stretch)
    index: Array = np.floor(at)[:, None] + np.arange(1.0 - reach, reach + 1)[None, :]
    distance = np.abs(at[:, None] - index) * stretch
    weights = _cubic(distance, a) if cubic else np.maximum(1 - distance, 0)
    if e.attribute("exclude_outside", 0):
        weights = np.where((index < 0) | (index > along.size - 1), 0, weights)
    return index, weights / weights.sum(axis=1, keepdims=True)


def _cubic(x: Array, a: float) -> Array:
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))
