# SPDX-License-Identifier: Apache-2.0
"""ONNX operators that move data, by reshapes, transposes, gathers and selections."""

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.expansion import Expansion
from arm_ext.frontends.onnx.forms import at, ints, part, reshape, up_to


def axes_in_a_list(e: Expansion) -> None:
    """Replace the axis of an Unsqueeze or Squeeze that is one number, as in onnx's own functions, by a list."""
    if len(e.node.input) < 2 or (axes := e.value(e.node.input[1])) is None or axes.ndim:
        return
    e.emit(e.node.op_type, [e.node.input[0], e.constant(axes.reshape(1))], e.node.output[0])


def space_to_depth(e: Expansion) -> None:
    """Replace SpaceToDepth: [n, c, h b, w b] → [n, b b c, h, w], or with mode CRD [n, c b b, h, w]."""
    (x,) = e.inputs("input")
    (n, c, h, w), b = e.dims(x), int(e.attribute("blocksize", 1))
    channels = [1, 3, 5] if e.text("mode", "DCR") == "CRD" else [3, 5, 1]
    blocks = e.emit("Transpose", [reshape(e, x, n, c, h // b, b, w // b, b)], perm=[0, *channels, 2, 4])
    reshape(e, blocks, n, c * b * b, h // b, w // b, output=e.node.output[0])


def col2im(e: Expansion) -> None:
    """Replace Col2Im: a sum of overlapping blocks is a transposed convolution whose taps read a channel each."""
    columns, size, block = e.inputs("input image_shape block_shape")
    image, kernel = (_known(e, value) for value in (size, block))
    rank = len(kernel)
    strides, dilations = ([*map(int, e.numbers(name) or [1] * rank)] for name in ("strides", "dilations"))
    pads = [*map(int, e.numbers("pads") or [0] * 2 * rank)]
    taps, (n, rows, _) = int(np.prod(kernel)), e.dims(columns)
    channels = rows // taps
    spans = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    counts = [(image[a] + pads[a] + pads[a + rank] - spans[a]) // strides[a] + 1 for a in range(rank)]
    # What the last window does not reach is zero, and belongs to the image.
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
    """Replace Compress with a constant condition by a gather; leave others."""
    data, condition = e.inputs("input condition")
    taken = e.value(condition)
    if taken is None:
        return
    flat = not any(a.name == "axis" for a in e.node.attribute)
    rows = reshape(e, data, -1) if flat else data
    index = ints(e, *np.flatnonzero(taken).tolist())
    e.emit("Gather", [rows, index], e.node.output[0], axis=0 if flat else int(e.attribute("axis", 0)))


def concat(e: Expansion) -> None:
    """Leave out operands of Concat without elements, such as the rest of a pad by 0; TVM loads no empty constants."""
    kept = [name for name in e.node.input if not _is_empty(e, name)]
    if 0 < len(kept) < len(e.node.input):
        e.emit("Concat", kept, e.node.output[0], e.attributes())


def _is_empty(e: Expansion, name: str) -> bool:
    """Whether a value is known to have no elements."""
    try:
        return 0 in e.dims(name)
    except ModelError:
        return False


def reverse_sequence(e: Expansion) -> None:
    """Replace ReverseSequence by a gather: the first `length` steps of each batch are reversed."""
    x, lengths = e.inputs("input sequence_lens")
    time, batch = int(e.attribute("time_axis", 0)), int(e.attribute("batch_axis", 1))
    dims = e.dims(x)
    t = e.constant(np.arange(dims[time]).reshape([-1 if a == time else 1 for a in range(len(dims))]))
    ends = reshape(e, up_to(e, lengths, dims[time]), *(-1 if a == batch else 1 for a in range(len(dims))))
    mirrored = e.emit("Sub", [e.emit("Sub", [ends, ints(e, 1)]), t])
    index = e.emit("Where", [e.emit("Less", [t, ends]), mirrored, t])
    whole = e.emit("Expand", [index, ints(e, *dims)])
    e.emit("GatherElements", [x, whole], e.node.output[0], axis=time)


def tensor_scatter(e: Expansion) -> None:
    """Replace TensorScatter, which writes `update` into a cache from each batch's position on, by a gather."""
    cache, update, places = e.inputs("past_cache update write_indices?")
    dims, length = e.dims(cache), e.dims(update)
    axis = int(e.attribute("axis", -2)) % len(dims)
    first = reshape(e, places, -1, *[1] * (len(dims) - 1)) if places else ints(e, 0)
    row = e.constant(np.arange(dims[axis]).reshape([-1 if a == axis else 1 for a in range(len(dims))]))
    at = e.emit("Sub", [row, first])
    if e.text("mode", "linear") == "circular":
        at = e.emit("Mod", [at, ints(e, dims[axis])])
    last = ints(e, length[axis])
    reaches = e.emit("And", [e.emit("Less", [at, last]), e.emit("Not", [e.emit("Less", [at, ints(e, 0)])])])
    inside = e.emit("Max", [e.emit("Min", [at, ints(e, length[axis] - 1)]), ints(e, 0)])
    index = e.emit("Expand", [inside, ints(e, *dims)])
    new = e.emit("GatherElements", [update, index], axis=axis)
    e.emit("Where", [reaches, new, cache], e.node.output[0])


def eye_like(e: Expansion) -> None:
    """Replace EyeLike by a constant."""
    (x,) = e.inputs("input")
    kinds = [a.i for a in e.node.attribute if a.name == "dtype"]
    rows, columns = e.dims(x)
    eye = e.constant(np.eye(rows, columns, int(e.attribute("k", 0)), np.float32))
    kind = kinds[0] if kinds else e.declared(x).type.tensor_type.elem_type
    e.emit("Cast", [eye], e.node.output[0], to=kind or TensorProto.FLOAT)


def one_hot(e: Expansion) -> None:
    """Replace OneHot by a comparison with all indices: TVM's converter makes float64 of float32 values."""
    indices, depth, values = e.inputs("indices depth values")
    (count,), rank = _known(e, depth), e.rank(indices)
    axis = int(e.attribute("axis", -1)) % (rank + 1)
    index = e.emit("Cast", [indices], to=TensorProto.INT64)
    positive = e.emit(
        "Where", [e.emit("Less", [index, ints(e, 0)]), e.emit("Add", [index, ints(e, count)]), index]
    )
    dims = e.dims(indices)
    column = reshape(e, positive, *dims[:axis], 1, *dims[axis:])
    every = e.constant(np.arange(count).reshape([-1 if a == axis else 1 for a in range(rank + 1)]))
    off, on = (at(e, values, k) for k in range(2))
    e.emit("Where", [e.emit("Equal", [column, every]), on, off], e.node.output[0])


def pad(e: Expansion) -> None:
    """Replace Pad that wraps what it also crops, and Pad by a value known only at run time; leave others."""
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
    """Crop, and then wrap what is left, as onnxruntime and PyTorch do; the definition has no order.

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
    """Pad zeros, then select."""
    if (widths < 0).any():
        raise ModelError(
            "it crops, and pads by a value that is computed at run time; make the value a constant"
        )
    dims = e.dims(data)
    inside = e.constant(np.pad(np.ones(dims, np.bool_), widths))
    zeros = e.emit("Pad", [data, ints(e, *widths.T.reshape(-1))])
    e.emit("Where", [inside, zeros, reshape(e, value, *[1] * len(dims))], e.node.output[0])


def cumulative_product(e: Expansion) -> None:
    """Replace CumProd: products with elements 1, 2, 4, … places before."""
    x, axis_name = e.inputs("x axis")
    dims = e.dims(x)
    axis = _known(e, axis_name)[0] % len(dims)
    length, back = dims[axis], bool(e.attribute("reverse", 0))

    def shifted(value: str, by: int) -> str:
        by = min(by, length)
        ones = e.constant(np.ones([by if a == axis else n for a, n in enumerate(dims)], e.dtype(x)))
        kept = part(e, value, by if back else 0, length if back else length - by, axis)
        return e.emit("Concat", [kept, ones] if back else [ones, kept], axis=axis)

    value, step = shifted(x, 1) if e.attribute("exclusive", 0) else x, 1
    while step < length:
        value = e.emit("Mul", [value, shifted(value, step)])
        step *= 2
    e.emit("Identity", [value], e.node.output[0])


def _known(e: Expansion, name: str) -> list[int]:
    return [int(number) for number in e.known(name).reshape(-1)]


def bound_boxes(e: Expansion) -> None:
    """Limit the boxes per class to the number of boxes, for models in which it is the greatest integer."""
    boxes, scores, most, *thresholds = e.node.input
    value, count = e.value(most) if most else None, e.dims(boxes)[1]
    if value is not None and value.size == 1 and value.item() > count:
        bound = e.constant(np.array([count], np.int64))
        e.emit(
            "NonMaxSuppression", [boxes, scores, bound, *thresholds], e.node.output[0], copied=e.attributes()
        )


def transposed_to_shape(e: Expansion) -> None:
    """Replace ConvTranspose with output_shape by one with the padding that results in it; leave others.

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
        # The odd one is cut off the end with SAME_UPPER, else off the beginning.
        first = cut // 2 if e.text("auto_pad", "NOTSET") == "SAME_UPPER" else cut - cut // 2
        begins.append(first)
        ends.append(cut - first)
        missing.append(added[k] + max(wanted[k] - whole, 0))
        if missing[-1] >= strides[k]:
            raise ModelError(
                f"its output_shape {wanted} is beyond what its data reach, by {missing[-1]} where less than the stride "
                f"{strides[k]} can be added"
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
