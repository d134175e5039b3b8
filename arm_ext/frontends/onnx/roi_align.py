# SPDX-License-Identifier: Apache-2.0
"""RoiAlign: averages as one call, and mode max as other operators.

In mode max it is, of each sample's four corners, the greatest product of a value and its weight: onnxruntime and onnx's
own tests compute that; upstream takes the greatest of the interpolated samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper
from tvm import relax

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.expansion import Expansion
from arm_ext.frontends.onnx.opset_forms import like, part, reduce, reshape

AVERAGE = "RoiAverage"
"""Operator in the domain `OWN`: the averages of images in boxes [boxes, image and four limits]."""

_PLACES_BY_ATTRIBUTE = 16
"""First opset in which an attribute selects the coordinate transformation of boxes."""


@dataclass(frozen=True)
class _Corners:
    """The pixels next to samples along an axis, as pairs (index, weight), each [boxes, samples]."""

    low: tuple[str, str]
    high: tuple[str, str]


def roi_align(e: Expansion) -> None:
    """Replace a RoiAlign node by the operator `AVERAGE` or, in mode max, by standard operators.

    Raises:
        ModelError: Mode max takes a number of samples that depends on the boxes.
    """
    x, rois, batches = e.inputs("X rois batch_indices")
    if e.text("mode", "avg") != "max":
        _average(e, x, rois, batches)
        return
    if (ratio := int(e.attribute("sampling_ratio", 0))) < 1:
        raise ModelError(
            "with sampling_ratio 0, the number of samples depends on the boxes: set sampling_ratio to a positive "
            "number"
        )
    n, c, h, w = e.dims(x)
    (count, _), out_h, out_w = (
        e.dims(rois),
        *(int(e.attribute(f"output_{s}", 1)) for s in ("height", "width")),
    )
    rows, columns = _corners(e, rois, 1, h, out_h, ratio), _corners(e, rois, 0, w, out_w, ratio)
    pixels = reshape(e, e.emit("Transpose", [x], perm=[0, 2, 3, 1]), n * h * w, c)
    image = e.emit("Mul", [reshape(e, batches, count, 1, 1), e.constant(np.array(h, np.int64))])
    products = [
        _product(e, pixels, (image, w, count), row, column)
        for row in (rows.low, rows.high)
        for column in (columns.low, columns.high)
    ]
    samples = reshape(e, e.emit("Max", products), count, out_h, ratio, out_w, ratio, c)
    best = reduce(e, "ReduceMax", samples, [2, 4], keepdims=False)
    e.emit("Transpose", [best], e.node.output[0], perm=[0, 3, 1, 2])


def _average(e: Expansion, x: str, rois: str, batches: str) -> None:
    """Emit the operator `AVERAGE`, whose boxes are in pixels of the data."""
    half = _is_half_pixel(e)
    boxes = e.emit("Mul", [rois, like(e, e.attribute("spatial_scale", 1.0), rois)])
    boxes = e.emit("Sub", [boxes, like(e, 0.5, rois)]) if half else boxes
    (_, c, *_), (count, _) = e.dims(x), e.dims(rois)
    kind = helper.np_dtype_to_tensor_dtype(e.dtype(rois))
    images = reshape(e, e.emit("Cast", [batches], to=kind), count, 1)
    sizes = [int(e.attribute(f"output_{side}", 1)) for side in ("height", "width")]
    averaged = e.emit_own(
        AVERAGE,
        [x, e.emit("Concat", [images, boxes], axis=1)],
        e.dtype(x),
        [count, c, *sizes],
        sizes=sizes,
        sampling_ratio=int(e.attribute("sampling_ratio", 0)),
        aligned=int(half),
    )
    e.emit("Identity", [averaged], e.node.output[0])


def convert_average(
    builder: relax.BlockBuilder, node: onnx.NodeProto, inputs: Sequence[relax.Expr | None]
) -> relax.Expr:
    """Convert the operator `AVERAGE`."""
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    call = relax.op.vision.roi_align(
        *inputs,
        pooled_size=tuple(attributes["sizes"]),
        spatial_scale=1.0,
        sample_ratio=attributes["sampling_ratio"],
        aligned=bool(attributes["aligned"]),
        layout="NCHW",
        mode="avg",
    )
    return builder.emit(call)


def _is_half_pixel(e: Expansion) -> bool:
    by_attribute = e.opset() >= _PLACES_BY_ATTRIBUTE
    return by_attribute and e.text("coordinate_transformation_mode", "half_pixel") == "half_pixel"


def _corners(e: Expansion, rois: str, first: int, size: int, bins: int, ratio: int) -> _Corners:
    """Return, for samples along an axis of `size` pixels, the neighbouring pixels and their weights.

    Columns `first` and `first` + 2 of `rois` are the limits of the boxes.
    """

    def number(value: float) -> str:
        return like(e, value, rois)

    def row(values: npt.NDArray[Any]) -> str:
        return e.constant(values.astype(e.dtype(rois))[None])

    places = np.arange(bins * ratio)
    half = _is_half_pixel(e)
    scale = number(e.attribute("spatial_scale", 1.0))
    start, end = (e.emit("Mul", [part(e, rois, k, k + 1, axis=1), scale]) for k in (first, first + 2))
    if half:
        start, end = (e.emit("Sub", [limit, number(0.5)]) for limit in (start, end))
    extent = e.emit("Sub", [end, start])
    if not half:
        extent = e.emit("Max", [extent, number(1)])
    width = e.emit("Div", [extent, number(bins)])
    within = e.emit("Div", [e.emit("Mul", [width, row(places % ratio + 0.5)]), number(ratio)])
    y = e.emit("Add", [e.emit("Add", [start, e.emit("Mul", [width, row(places // ratio)])]), within])
    limits = [
        e.emit("Where", [e.emit(kind, [y, number(limit)]), number(0), number(1)])
        for kind, limit in (("Less", -1), ("Greater", size))
    ]
    inside = e.emit("Mul", limits)
    y = e.emit("Min", [e.emit("Max", [y, number(0)]), number(size - 1)])
    low = e.emit("Floor", [y])
    share = e.emit("Sub", [y, low])
    high = e.emit("Min", [e.emit("Add", [low, number(1)]), number(size - 1)])
    weights = (e.emit("Sub", [number(1), share]), share)
    low_corner, high_corner = (
        (
            e.emit("Cast", [index], to=TensorProto.INT64),
            e.emit("Mul", [inside, weight]),
        )
        for index, weight in zip((low, high), weights, strict=True)
    )
    return _Corners(low_corner, high_corner)


def _product(
    e: Expansion, pixels: str, image: tuple[str, int, int], row: tuple[str, str], column: tuple[str, str]
) -> str:
    """Emit [boxes, rows, columns, channels]: the values at one corner of each sample times their weights.

    Args:
        e: Emitter at the node.
        pixels: [images * height * width, channels].
        image: The first row of each box's image, an image's width, and the number of boxes.
        row: Index and weight of each sample's row.
        column: Index and weight of each sample's column.
    """
    first, width, count = image
    line = e.emit("Add", [first, reshape(e, row[0], count, -1, 1)])
    start = e.emit("Mul", [line, e.constant(np.array(width, np.int64))])
    place = e.emit("Add", [start, reshape(e, column[0], count, 1, -1)])
    weight = e.emit("Mul", [reshape(e, row[1], count, -1, 1, 1), reshape(e, column[1], count, 1, -1, 1)])
    return e.emit("Mul", [weight, e.emit("Gather", [pixels, place], axis=0)])
