# SPDX-License-Identifier: Apache-2.0
"""ONNX operators that move data, by reshapes, transposes, gathers and selections."""

import math

import numpy as np
import numpy.typing as npt

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.expansion import Expansion
from arm_ext.frontends.onnx.opset_forms import ints, part, reshape


def axes_in_a_list(e: Expansion) -> None:
    """Replace an Unsqueeze or Squeeze whose axis is a scalar, as in onnx's own functions, by one with a list."""
    if len(e.node.input) < 2 or (axes := e.value(e.node.input[1])) is None or axes.ndim:
        return
    e.emit(e.node.op_type, [e.node.input[0], e.constant(axes.reshape(1))], e.node.output[0])


def col2im(e: Expansion) -> None:
    """Replace Col2Im by a transposed convolution, which sums overlapping blocks; each tap reads one channel."""
    columns, size, block = e.inputs("input image_shape block_shape")
    image, kernel = (_known(e, value) for value in (size, block))
    rank = len(kernel)
    strides, dilations = ([*map(int, e.numbers(name) or [1] * rank)] for name in ("strides", "dilations"))
    pads = [*map(int, e.numbers("pads") or [0] * 2 * rank)]
    taps, (n, rows, _) = int(np.prod(kernel)), e.dims(columns)
    channels = rows // taps
    spans = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    counts = [(image[a] + pads[a] + pads[a + rank] - spans[a]) // strides[a] + 1 for a in range(rank)]
    # Rows and columns that the last window does not reach are part of the image, and are zero.
    rest = [
        image[a] + pads[a] + pads[a + rank] - (counts[a] - 1) * strides[a] - spans[a] for a in range(rank)
    ]
    weights = np.zeros((channels, taps, 1, taps), e.dtype(columns))
    weights[:, np.arange(taps), 0, np.arange(taps)] = 1
    e.emit(
        "ConvTranspose",
        [reshape(e, columns, n, rows, *counts), e.constant(weights.reshape(rows, 1, *kernel))],
        e.node.output[0],
        strides=strides,
        dilations=dilations,
        pads=pads,
        output_padding=rest,
        group=channels,
    )


def compress(e: Expansion) -> None:
    """Replace Compress with a constant condition by a gather; leave other Compress nodes unchanged."""
    data, condition = e.inputs("input condition")
    taken = e.value(condition)
    if taken is None:
        return
    flat = not any(a.name == "axis" for a in e.node.attribute)
    rows = reshape(e, data, -1) if flat else data
    index = ints(e, *np.flatnonzero(taken).tolist())
    e.emit("Gather", [rows, index], e.node.output[0], axis=0 if flat else int(e.attribute("axis", 0)))


def concat(e: Expansion) -> None:
    """Remove operands of Concat without elements, such as a pad of width 0; TVM cannot load empty constants."""
    kept = [name for name in e.node.input if not _is_empty(e, name)]
    if 0 < len(kept) < len(e.node.input):
        e.emit("Concat", kept, e.node.output[0], e.attributes())


def _is_empty(e: Expansion, name: str) -> bool:
    """Whether a value is known to have no elements."""
    try:
        return 0 in e.dims(name)
    except ModelError:
        return False


def pad(e: Expansion) -> None:
    """Replace Pad that wraps and crops, or pads by a run-time value; leave other Pads unchanged."""
    data, pads, value, axes = e.inputs("data pads? value? axes?")
    mode = e.text("mode", "constant")
    if mode == "wrap" and e.value(pads) is not None:
        _wrap_cropped(e, data, _widths(e, data, pads, axes))
    elif mode == "constant" and value and e.value(value) is None:
        _pad_by_value(e, data, _widths(e, data, pads, axes), value)


def _widths(e: Expansion, data: str, pads: str, axes: str) -> npt.NDArray[np.int64]:
    """Return the pads of each axis, [axes, 2]."""
    rank = e.rank(data)
    widths = np.zeros((rank, 2), np.int64)
    along = _known(e, axes) if axes else range(rank)
    widths[list(along)] = np.array(_known(e, pads)).reshape(2, -1).T
    return widths


def _wrap_cropped(e: Expansion, data: str, widths: npt.NDArray[np.int64]) -> None:
    """Crop first, then wrap the cropped data, as onnxruntime and PyTorch do; ONNX does not define the order.

    TVM's operator wraps into what was cropped.
    """
    cropped = data
    for axis, (size, (before, after)) in enumerate(zip(e.dims(data), widths.tolist(), strict=True)):
        if min(before, after) < 0 < max(before, after):
            cropped = part(e, cropped, max(-before, 0), size + min(after, 0), axis)
            widths[axis] = max(before, 0), max(after, 0)
    if cropped != data:
        e.emit("Pad", [cropped, ints(e, *widths.T.reshape(-1))], e.node.output[0], mode="wrap")


def _pad_by_value(e: Expansion, data: str, widths: npt.NDArray[np.int64], value: str) -> None:
    """Pad the data with zeros, then select `value` outside of the data."""
    if (widths < 0).any():
        raise ModelError(
            "it crops, and pads by a value that is computed at run time; make the value a constant"
        )
    dims = e.dims(data)
    inside = e.constant(np.pad(np.ones(dims, np.bool_), widths))
    zeros = e.emit("Pad", [data, ints(e, *widths.T.reshape(-1))])
    e.emit("Where", [inside, zeros, reshape(e, value, *[1] * len(dims))], e.node.output[0])


def _known(e: Expansion, name: str) -> list[int]:
    return [int(number) for number in e.known(name).reshape(-1)]


def bound_boxes(e: Expansion) -> None:
    """Limit NonMaxSuppression's boxes per class to the number of boxes; models may pass the largest int64."""
    boxes, scores, most, *thresholds = e.node.input
    value, count = e.value(most) if most else None, e.dims(boxes)[1]
    if value is not None and value.size == 1 and value.item() > count:
        bound = e.constant(np.array([count], np.int64))
        e.emit(
            "NonMaxSuppression", [boxes, scores, bound, *thresholds], e.node.output[0], copied=e.attributes()
        )


def explicit_padding(e: Expansion) -> None:
    """Replace a convolution or pool with auto_pad SAME_UPPER or SAME_LOWER by one with explicit padding.

    TVM's importer emits a pad of its own, which a kernel computes even where its widths are 0.
    """
    mode = e.text("auto_pad", "NOTSET")
    if mode not in ("SAME_UPPER", "SAME_LOWER") or sum(map(bool, e.node.output)) > 1:
        return
    sizes = e.dims(e.node.input[0])[2:]
    kernel = [int(n) for n in e.numbers("kernel_shape")] or e.dims(e.node.input[1])[2:]
    strides, dilations = (
        [int(n) for n in e.numbers(name)] or [1] * len(sizes) for name in ("strides", "dilations")
    )
    begins, ends = [], []
    for size, window, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        last = (math.ceil(size / stride) - 1) * stride + (window - 1) * dilation + 1
        added = max(last - size, 0)
        begins.append(added // 2 if mode == "SAME_UPPER" else added - added // 2)
        ends.append(added - begins[-1])
    kept = e.attributes("auto_pad", "pads", "ceil_mode")
    e.emit(e.node.op_type, e.node.input, e.node.output[0], copied=kept, pads=[*begins, *ends])


def transposed_to_shape(e: Expansion) -> None:
    """Replace ConvTranspose with output_shape by one with explicit padding; leave other ConvTranspose nodes unchanged.

    Excess over the wanted shape is cropped, half at each side; missing elements are added at the end.
    """
    wanted = [int(size) for size in e.numbers("output_shape")]
    if not wanted:
        return
    data, weight, *_ = e.node.input
    axes = len(e.dims(data)) - 2
    wanted = wanted[-axes:]  # some exporters write batch and channels, too
    strides, dilations = (
        [int(n) for n in e.numbers(name)] or [1] * axes for name in ("strides", "dilations")
    )
    added = [int(n) for n in e.numbers("output_padding")] or [0] * axes
    begins, ends, missing = [], [], []
    for k, (size, window) in enumerate(zip(e.dims(data)[2:], e.dims(weight)[2:], strict=True)):
        whole = strides[k] * (size - 1) + added[k] + (window - 1) * dilations[k] + 1
        cut = max(whole - wanted[k], 0)
        # If the number of elements to cut is odd, one more is cut from the end with SAME_UPPER, else from the
        # beginning.
        first = cut // 2 if e.text("auto_pad", "NOTSET") == "SAME_UPPER" else cut - cut // 2
        begins.append(first)
        ends.append(cut - first)
        missing.append(added[k] + max(wanted[k] - whole, 0))
        if missing[-1] >= strides[k]:
            raise ModelError(
                f"its output_shape {wanted} exceeds the largest possible output by {missing[-1]}; it can exceed "
                "it by less than the stride "
                f"{strides[k]}"
            )
    kept = e.attributes("output_shape", "output_padding", "pads", "auto_pad")
    e.emit(
        "ConvTranspose",
        e.node.input,
        e.node.output[0],
        copied=kept,
        pads=[*begins, *ends],
        output_padding=missing,
    )
