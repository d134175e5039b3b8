# SPDX-License-Identifier: Apache-2.0
"""ONNX Resize of any mode, axis by axis, as a weighted sum of gathered rows.

    nearest          →    x[index]
    linear, cubic    →    Σ w_k x[index_k], two or four taps, more with antialias

What upstream's importer computes by the definition stays as it is: nearest and linear over the last two of four axes,
whose sizes and scales agree. Coordinates are computed exactly, since those of nearest often lie in the middle between
two elements: rounded to binary32, as upstream and onnxruntime compute them, or to binary64, as onnx's reference
implementation does, some of them select the other element. Source: ONNX operator definition Resize-19 and its
reference implementation.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from onnx import TensorProto, helper

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.expansion import Expansion

Array = npt.NDArray[np.float64]
Single = npt.NDArray[np.float32]

_AXES_OF_IMAGES = 4

_CROP = "tf_crop_and_resize"

_PLACES_BY_ATTRIBUTE = 11
"""First opset in which an attribute of Resize selects the coordinate transformation."""

_UPSTREAM = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
"""Coordinate transformation modes that upstream's importer supports."""


_HALF = Fraction(1, 2)
_WHOLE = (Fraction(0), Fraction(1))
"""Region of interest that is the whole axis."""


class _Axis:
    """Parameters of the resize along one axis."""

    def __init__(self, size: int, outputs: int, scale: Fraction, roi: tuple[Fraction, Fraction]) -> None:
        self.size, self.outputs, self.scale, self.roi = size, outputs, scale, roi

    def coordinates(self, mode: str) -> list[Fraction]:
        """Return the position of each output on the input's axis."""
        at = self._transformation(mode)
        return [at(Fraction(x)) for x in range(self.outputs)]

    def _transformation(self, mode: str) -> Callable[[Fraction], Fraction]:
        size, scale, last = self.size, self.scale, self.size - 1
        start, end = self.roi
        span = scale * size  # not an integer if the output size was rounded
        match mode:
            case "half_pixel":
                return lambda x: (x + _HALF) / scale - _HALF
            case "half_pixel_symmetric":
                offset = Fraction(size, 2) * (1 - self.outputs / span)
                return lambda x: offset + (x + _HALF) / scale - _HALF
            case "pytorch_half_pixel":
                # onnx's reference implementation compares with the fraction; ONNX's text and onnxruntime compare
                # with the number of outputs.
                return lambda x: (x + _HALF) / scale - _HALF if self.outputs > 1 else Fraction(0)
            case "align_corners":
                return lambda x: x * last / (span - 1) if self.outputs > 1 else Fraction(0)
            case "asymmetric":
                return lambda x: x / scale
            case "tf_crop_and_resize":
                if self.outputs > 1:
                    return lambda x: start * last + x * (end - start) * last / (span - 1)
                return lambda _x: _HALF * (start + end) * last
        raise ModelError(f"its coordinate_transformation_mode {mode} is not one of ONNX's")

    def nearest(self, mode: "_Mode") -> list[int]:
        """Return, for each output, the index of the input element that it copies."""
        index = map(_NEAREST[mode.nearest], self.coordinates(mode.place))
        return [min(max(number, 0), self.size - 1) for number in index]

    def selects_alike_upstream(self, mode: "_Mode") -> bool:
        """Whether TVM's kernel, which computes coordinates in binary32, selects the same elements."""
        expected = self.nearest(mode)
        return all(
            np.clip(_UPSTREAM_NEAREST[mode.nearest](at), 0, self.size - 1).astype(int).tolist() == expected
            for at in self._upstream(mode.place)
        )

    def _upstream(self, mode: str) -> list[Single]:
        """Return `topi.image.get_inx`'s binary32 coordinates, with and without contraction of `* -` to an FMA."""
        x = np.arange(self.outputs, dtype=np.float32)
        ratio, half = np.float32(self.size) / np.float32(self.outputs), np.float32(0.5)
        match mode:
            case "asymmetric":
                return [ratio * x]
            case "align_corners":
                return [np.float32(self.size - 1) / np.float32(self.outputs - 1) * x]
            case _ if mode == "pytorch_half_pixel" and self.outputs == 1:
                return [np.zeros_like(x)]
        fused = (x + half).astype(np.float64) * np.float64(ratio) - 0.5
        return [(x + half) * ratio - half, fused.astype(np.float32)]


_NEAREST: dict[str, Callable[[Fraction], int]] = {
    "round_prefer_floor": lambda x: math.ceil(x - _HALF),
    "round_prefer_ceil": lambda x: math.floor(x + _HALF),
    "floor": math.floor,
    "ceil": math.ceil,
}

_EPSILON = np.float32(1e-5)
_UPSTREAM_NEAREST: dict[str, Callable[[Single], Single]] = {
    "round_prefer_floor": lambda x: np.ceil(x - np.float32(0.5)),
    "round_prefer_ceil": lambda x: np.floor(x + np.float32(0.5)),
    "floor": lambda x: np.floor(x + _EPSILON),
    "ceil": lambda x: np.ceil(x - _EPSILON),
}
"""How `topi.image.get_closest_index` rounds coordinates."""


@dataclass(frozen=True)
class _Mode:
    """Attributes of a Resize node that define its interpolation."""

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
    """Replace a Resize node by ONNX's definition, unless TVM's importer computes it exactly."""
    if e.opset() < _PLACES_BY_ATTRIBUTE:
        upsample(e)
        return
    x, roi, scales, sizes = e.inputs("X roi? scales? sizes?")
    dims, axes, mode = e.dims(x), _axes(e, x), _Mode.of(e)
    factors, outputs = _factors(e, [dims[axis] for axis in axes], scales, sizes)
    regions = [_region(e, roi, mode, number, len(axes)) for number in range(len(axes))]
    spans = [*map(_Axis, (dims[axis] for axis in axes), outputs, factors, regions)]
    images = len(dims) == _AXES_OF_IMAGES and not any(a.name == "axes" for a in e.node.attribute)
    if images and _is_exact_upstream(spans, mode):
        if scales and sizes:  # before opset 13 an input that is not used is an empty tensor
            e.emit("Resize", [x, "", "", sizes], e.node.output[0], e.attributes())
        return
    _along(e, x, dict(zip(axes, spans, strict=True)), mode)


def _is_exact_upstream(spans: Sequence[_Axis], mode: _Mode) -> bool:
    """Whether TVM's importer computes the resize of an image exactly as ONNX defines it."""
    if mode.mode == "cubic" or mode.antialias or mode.place not in _UPSTREAM:
        return False
    *unscaled, height, width = spans
    if any(span.scale != 1 for span in unscaled):
        return False
    if any(span.outputs != span.scale * span.size for span in spans):
        return False
    # Upstream divides by the number of outputs minus 1.
    if mode.place == "align_corners" and 1 in (height.outputs, width.outputs):
        return False
    return mode.mode != "nearest" or all(span.selects_alike_upstream(mode) for span in (height, width))


def upsample(e: Expansion) -> None:
    """Replace an Upsample node, or a Resize of opset 10, which has the same definition."""
    x, scales = e.inputs("X scales?")
    given = scales or e.constant(np.array(e.numbers("scales"), np.float32))
    dims = e.dims(x)
    factors, outputs = _factors(e, dims, given, "")
    spans = {a: _Axis(size, outputs[a], factors[a], _WHOLE) for a, size in enumerate(dims)}
    _along(e, x, spans, _Mode(e.text("mode", "nearest"), "asymmetric", "floor"))


def _along(e: Expansion, x: str, spans: Mapping[int, _Axis], mode: _Mode) -> None:
    """Resize along one axis after the other."""
    rank, value = e.rank(x), x
    for axis, span in spans.items():
        if span.scale != 1 or span.outputs != span.size or mode.place == _CROP:
            value = _resized(e, value, axis, span, mode, rank)
    e.emit("Cast", [value], e.node.output[0], to=helper.np_dtype_to_tensor_dtype(e.dtype(x)))


def _axes(e: Expansion, x: str) -> list[int]:
    rank = e.rank(x)
    return [int(axis) % rank for axis in e.numbers("axes")] or list(range(rank))


def _factors(e: Expansion, dims: list[int], scales: str, sizes: str) -> tuple[list[Fraction], list[int]]:
    """Return the scale and the output size of each axis."""
    given = e.value(scales) if scales else None
    if given is not None and given.size:
        # The product is computed in binary32, as in onnx's shape inference: 31 times the float32 next to 3/31 is 3.
        products = np.floor(np.array(dims, np.float32) * given.astype(np.float32))
        return [Fraction(float(number)) for number in given], [int(product) for product in products]
    wanted = e.value(sizes) if sizes else None
    if wanted is None:
        raise ModelError("its scales or sizes are computed at run time; make them constants")
    outputs = [int(number) for number in wanted]
    policy = e.text("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch":
        return [Fraction(o, size) for o, size in zip(outputs, dims, strict=True)], outputs
    choose = min if policy == "not_larger" else max
    factor = choose(Fraction(o, size) for o, size in zip(outputs, dims, strict=True))
    # ONNX rounds half up.
    return [factor] * len(dims), [math.floor(factor * size + _HALF) for size in dims]


def _region(e: Expansion, roi: str, mode: _Mode, number: int, axes: int) -> tuple[Fraction, Fraction]:
    if mode.place != _CROP:
        return _WHOLE
    if not roi:
        raise ModelError("it crops (coordinate_transformation_mode tf_crop_and_resize), but has no input roi")
    value = e.known(roi)
    return Fraction(float(value[number])), Fraction(float(value[number + axes]))


def _resized(e: Expansion, value: str, axis: int, span: _Axis, mode: _Mode, rank: int) -> str:
    at = np.array(span.coordinates(mode.place), np.float64)
    outside = (at < 0) | (at > span.size - 1)
    if mode.mode == "nearest":
        out = _gathered(e, value, span.nearest(mode), axis)
    else:
        out = _summed(e, value, axis, span, _taps(at, span, mode), rank)
    if mode.place == _CROP and outside.any():
        flags = e.constant(outside.reshape([-1 if a == axis else 1 for a in range(rank)]))
        filler = e.constant(np.array(e.attribute("extrapolation_value", 0.0), e.dtype(e.node.input[0])))
        out = e.emit("Where", [flags, filler, out])
    return out


def _gathered(e: Expansion, value: str, index: npt.ArrayLike, axis: int) -> str:
    return e.emit("Gather", [value, e.constant(np.array(index, np.int64))], axis=axis)


def _summed(e: Expansion, value: str, axis: int, along: _Axis, taps: tuple[Array, Array], rank: int) -> str:
    """Emit, in binary32, the sum over taps of the gathered rows times their weights, both [outputs, k]."""
    index, weights = taps
    single = e.emit("Cast", [value], to=TensorProto.FLOAT)
    shape = [-1 if a == axis else 1 for a in range(rank)]
    total = ""
    for k in range(index.shape[1]):
        if not weights[:, k].any():
            continue
        row = _gathered(e, single, np.clip(index[:, k], 0, along.size - 1), axis)
        term = e.emit("Mul", [row, e.constant(weights[:, k].astype(np.float32).reshape(shape))])
        total = e.emit("Add", [total, term]) if total else term
    return total


def _taps(at: Array, span: _Axis, mode: _Mode) -> tuple[Array, Array]:
    """Return indices and weights of the input elements that each output is a sum of, both [outputs, k]."""
    cubic = mode.mode == "cubic"
    radius = 2.0 if cubic else 1.0
    stretch = min(float(span.scale), 1.0) if mode.antialias else 1.0
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
