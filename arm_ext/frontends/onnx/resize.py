# SPDX-License-Identifier: Apache-2.0
"""ONNX Resize of any mode, axis by axis, as a weighted sum of gathered rows.

    nearest          →    x[index]
    linear, cubic    →    Σ w_k x[index_k], two or four taps, more with antialias

What upstream's importer computes by the definition stays as it is: nearest and linear over the last two of four axes,
whose sizes and scales agree. Source: ONNX operator definition Resize-19 and its reference implementation.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.expansion import Expansion

Array = npt.NDArray[np.float64]

_AXES_OF_IMAGES = 4

_CROP = "tf_crop_and_resize"

_PLACES_BY_ATTRIBUTE = 11
"""First opset in which an attribute of Resize selects the coordinate transformation."""

_UPSTREAM = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
"""Coordinate transformation modes that upstream's importer supports."""


class _Axis:
    """Parameters of the resize along one axis."""

    def __init__(self, size: int, outputs: int, scale: float, roi: tuple[float, float]) -> None:
        self.size, self.outputs, self.scale, self.roi = size, outputs, scale, roi

    def coordinates(self, mode: str) -> Array:
        """Return the position of each output on the input's axis."""
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


@dataclass(frozen=True)
class _Mode:
    """Interpolation between elements: a node's attributes, by ONNX's names."""

    mode: str
    place: str
    nearest: str
    antialias: bool = False
    cubic: float = -0.75
    exclude_outside: bool = False

    @classmethod
    def of(cls, e: Expansion) -> "_Mode":
        """Read the mode of a Resize node."""
        return cls(
            e.text("mode", "nearest"),
            e.text("coordinate_transformation_mode", "half_pixel"),
            e.text("nearest_mode", "round_prefer_floor"),
            bool(e.attribute("antialias", 0)),
            e.attribute("cubic_coeff_a", cls.cubic),
            bool(e.attribute("exclude_outside", 0)),
        )


def resize(e: Expansion) -> None:
    """Replace a Resize node that upstream's importer does not compute by the definition."""
    if e.opset() < _PLACES_BY_ATTRIBUTE:
        upsample(e)
        return
    x, roi, scales, sizes = e.inputs("X roi? scales? sizes?")
    dims, axes, mode = e.dims(x), _axes(e, x), _Mode.of(e)
    factors, outputs = _factors(e, [dims[axis] for axis in axes], scales, sizes)
    exact = all(o == f * dims[a] for a, f, o in zip(axes, factors, outputs, strict=True))
    plain = mode.mode != "cubic" and not mode.antialias and mode.place in _UPSTREAM
    images = len(dims) == _AXES_OF_IMAGES and not any(a.name == "axes" for a in e.node.attribute)
    # Upstream divides by the outputs but one.
    divides = mode.place == "align_corners" and 1 in outputs[2:]
    if images and exact and plain and not divides and factors[:2] == [1, 1]:
        if scales and sizes:  # before opset 13 an input that is not used is an empty tensor
            e.emit("Resize", [x, "", "", sizes], e.node.output[0], e.attributes())
        return
    regions = [_region(e, roi, mode, number, len(axes)) for number in range(len(axes))]
    spans = map(_Axis, (dims[axis] for axis in axes), outputs, factors, regions)
    _along(e, x, dict(zip(axes, spans, strict=True)), mode)


def upsample(e: Expansion) -> None:
    """Replace an Upsample node, or the Resize of opset 10, which is the same."""
    x, scales = e.inputs("X scales?")
    given = scales or e.constant(np.array(e.numbers("scales"), np.float32))
    dims = e.dims(x)
    factors, outputs = _factors(e, dims, given, "")
    spans = {a: _Axis(size, outputs[a], factors[a], (0.0, 1.0)) for a, size in enumerate(dims)}
    _along(e, x, spans, _Mode(e.text("mode", "nearest"), "asymmetric", "floor"))


def _along(e: Expansion, x: str, spans: Mapping[int, _Axis], mode: _Mode) -> None:
    """Resize along each axis in turn."""
    rank, value = e.rank(x), x
    for axis, span in spans.items():
        if span.scale != 1 or span.outputs != span.size or mode.place == _CROP:
            value = _resized(e, value, axis, span, mode, rank)
    e.emit("Cast", [value], e.node.output[0], to=helper.np_dtype_to_tensor_dtype(e.dtype(x)))


def _axes(e: Expansion, x: str) -> list[int]:
    rank = e.rank(x)
    return [int(axis) % rank for axis in e.numbers("axes")] or list(range(rank))


def _factors(e: Expansion, dims: list[int], scales: str, sizes: str) -> tuple[list[float], list[int]]:
    """Return the scale and the output size of each axis."""
    given = e.value(scales) if scales else None
    if given is not None and given.size:
        factors = [float(number) for number in given]
        return factors, [math.floor(size * factor) for size, factor in zip(dims, factors, strict=True)]
    wanted = e.value(sizes) if sizes else None
    if wanted is None:
        raise ModelError("its scales or sizes are computed at run time; make them constants")
    outputs = [int(number) for number in wanted]
    policy = e.text("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return [o / size for o, size in zip(outputs, dims, strict=True)], outputs
    choose = min if policy == "not_larger" else max
    factor = choose(o / size for o, size in zip(outputs, dims, strict=True))
    # ONNX rounds half up.
    return [factor] * len(dims), [math.floor(factor * size + 0.5) for size in dims]


def _region(e: Expansion, roi: str, mode: _Mode, number: int, axes: int) -> tuple[float, float]:
    if mode.place != _CROP:
        return 0.0, 1.0
    if not roi:
        raise ModelError("it crops (tf_crop_and_resize), and has no input roi")
    value = e.known(roi)
    return float(value[number]), float(value[number + axes])


def _resized(e: Expansion, value: str, axis: int, span: _Axis, mode: _Mode, rank: int) -> str:
    at = span.coordinates(mode.place)
    outside = (at < 0) | (at > span.size - 1)
    if mode.mode == "nearest":
        out = _gathered(e, value, _NEAREST[mode.nearest](at), span.size, axis)
    else:
        out = _summed(e, value, axis, span, _taps(at, span, mode), rank)
    if mode.place == _CROP and outside.any():
        flags = e.constant(outside.reshape([-1 if a == axis else 1 for a in range(rank)]))
        filler = e.constant(np.array(e.attribute("extrapolation_value", 0.0), e.dtype(e.node.input[0])))
        out = e.emit("Where", [flags, filler, out])
    return out


def _gathered(e: Expansion, value: str, index: Array, size: int, axis: int) -> str:
    inside = np.clip(index, 0, size - 1).astype(np.int64)
    return e.emit("Gather", [value, e.constant(inside)], axis=axis)


def _summed(e: Expansion, value: str, axis: int, along: _Axis, taps: tuple[Array, Array], rank: int) -> str:
    """Emit the sum over taps [outputs, k] of rows times weights, in binary32."""
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


def _taps(at: Array, span: _Axis, mode: _Mode) -> tuple[Array, Array]:
    """Return indices and weights, [outputs, k]."""
    cubic = mode.mode == "cubic"
    radius = 2.0 if cubic else 1.0
    stretch = min(span.scale, 1.0) if mode.antialias else 1.0
    reach = math.ceil(radius / stretch)
    index: Array = np.floor(at)[:, None] + np.arange(1.0 - reach, reach + 1)[None, :]
    distance = np.abs(at[:, None] - index) * stretch
    weights = _cubic(distance, mode.cubic) if cubic else np.maximum(1 - distance, 0)
    if mode.exclude_outside:
        weights = np.where((index < 0) | (index > span.size - 1), 0, weights)
    return index, weights / weights.sum(axis=1, keepdims=True)


def _cubic(x: Array, a: float) -> Array:
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return np.where(x <= 1, near, np.where(x < 2, far, 0))
