# SPDX-License-Identifier: Apache-2.0
"""Constant folding of TFLite operators at import: sizes computed from shapes, and loop counters.

SHAPE(x) → STRIDED_SLICE → PACK → RESHAPE(x, ·)    the sizes are constants, whatever the model says they are
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tflite

from arm_ext.common.errors import ModelError
from arm_ext.frontends.tflite.operands import options_of
from relay_passes.canonicalize.define_casts import cast
from relay_passes.canonicalize.define_division import quotient, remainder

_Array = npt.NDArray[Any]
_Fold = Callable[[Any, Any, Sequence[_Array]], Any]
"""Function from a `QdqConverter`, an operator and its inputs to the result."""

_MOST = 1 << 16
"""Most elements of a result: larger ones are data, which later passes fold after layout."""

_ACTIVATED = {
    "ADD": tflite.AddOptions,
    "DIV": tflite.DivOptions,
    "MUL": tflite.MulOptions,
    "SUB": tflite.SubOptions,
}


def folded(c: Any, op: Any, code: str) -> list[_Array] | None:
    """Return an operator's results if its inputs are known and it computes shapes or sizes; else None.

    Args:
        c: A `QdqConverter`.
        op: The operator.
        code: Name of the operator.

    Returns:
        Arrays with the dtypes of the outputs; None if they must be computed at run time.
    """
    outputs = [c.tensor(int(number)) for number in c._indices_or_empty(op.OutputsAsNumpy())]
    if any(output.qnn_params for output in outputs):
        return None
    found: Sequence[Any] | None
    if code in ("SHAPE", "RANK"):
        size = c.shape(op.Inputs(0))
        found = [size if code == "SHAPE" else len(size)]
    else:
        found = _computed(c, op, code)
    arrays = [np.asarray(value) for value in found or ()]
    if not arrays or any(array.size > _MOST for array in arrays):
        return None
    types = (c.get_tensor_type_str(output.tensor.Type()) for output in outputs)
    return [cast(array, dtype) for array, dtype in zip(arrays, types, strict=True)]


def _computed(c: Any, op: Any, code: str) -> Sequence[Any] | None:
    if not {code} & (_FOLDS.keys() | _SPLITS.keys()) or not op.InputsLength():
        return None
    values = [c.known(int(number)) for number in op.InputsAsNumpy()]
    if any(value is None for value in values) or sum(value.size for value in values) > _MOST:
        return None
    if code in _ACTIVATED and options_of(op, _ACTIVATED[code]).FusedActivationFunction():
        return None
    return _SPLITS[code](c, op, values) if code in _SPLITS else [_FOLDS[code](c, op, values)]


def _plain(function: Callable[..., Any]) -> _Fold:
    return lambda _, __, values: function(*values)


def _divided(_: Any, __: Any, values: Sequence[_Array]) -> _Array:
    """Divide integers, rounding towards zero."""
    x, y = values
    return np.asarray(x / y) if x.dtype.kind == "f" else quotient(x, y)


def _floored(integers: Callable[..., _Array], floats: Callable[..., _Array]) -> _Fold:
    return _plain(lambda x, y: floats(x, y) if x.dtype.kind == "f" else integers(x, y, floor=True))


def _pack(c: Any, op: Any, values: Sequence[_Array]) -> _Array:
    return np.stack(values, options_of(op, tflite.PackOptions).Axis())


def _concatenation(c: Any, op: Any, values: Sequence[_Array]) -> _Array:
    return np.concatenate(values, options_of(op, tflite.ConcatenationOptions).Axis())


def _gather(c: Any, op: Any, values: Sequence[_Array]) -> _Array:
    x, places = values
    axis = options_of(op, tflite.GatherOptions).Axis()
    wrong = places[(places < 0) | (places >= x.shape[axis])]
    if wrong.size:
        raise ModelError(f"the index {wrong[0]} is out of bounds for an axis of size {x.shape[axis]}")
    return np.take(x, places, axis)


def _reduced(function: Callable[..., Any]) -> _Fold:
    def fold(c: Any, op: Any, values: Sequence[_Array]) -> Any:
        x, axes = values
        keep = options_of(op, tflite.ReducerOptions).KeepDims()
        return function(x, axis=tuple(map(int, axes.reshape(-1))), keepdims=keep)

    return fold


def _slice(_: Any, __: Any, values: Sequence[_Array]) -> _Array:
    x, begin, size = values
    ends = [int(b + s) if s >= 0 else None for b, s in zip(begin, size, strict=True)]
    return x[tuple(slice(int(b), end) for b, end in zip(begin, ends, strict=True))]


def _strided_slice(c: Any, op: Any, values: Sequence[_Array]) -> _Array:
    x, *bounds = values
    o = options_of(op, tflite.StridedSliceOptions)
    index: list[Any] = []
    for k, (begin, end, step) in enumerate(zip(*(b.tolist() for b in bounds), strict=True)):
        if o.EllipsisMask() >> k & 1:
            index.append(...)
        elif o.NewAxisMask() >> k & 1:
            index.append(None)
        elif o.ShrinkAxisMask() >> k & 1:
            index.append(begin)
        else:
            first, last = o.BeginMask() >> k & 1, o.EndMask() >> k & 1
            index.append(slice(None if first else begin, None if last else end, step))
    return np.asarray(x[tuple(index)])


def _fill(_: Any, __: Any, values: Sequence[_Array]) -> _Array:
    return np.full(values[0].tolist(), values[1])


def _reshaped(_: Any, __: Any, values: Sequence[_Array]) -> _Array:
    return values[0].reshape(values[1].tolist()) if len(values) > 1 else values[0].reshape(-1)


def _squeezed(c: Any, op: Any, values: Sequence[_Array]) -> _Array:
    options = options_of(op, tflite.SqueezeOptions)
    axes = options.SqueezeDimsAsNumpy() if options.SqueezeDimsLength() else None
    return np.squeeze(values[0], None if axes is None else tuple(map(int, axes)))


def _unpack(c: Any, op: Any, values: Sequence[_Array]) -> list[_Array]:
    return list(np.moveaxis(values[0], options_of(op, tflite.UnpackOptions).Axis(), 0))


def _split(c: Any, op: Any, values: Sequence[_Array]) -> list[_Array]:
    axis, x = values
    return np.split(x, options_of(op, tflite.SplitOptions).NumSplits(), int(axis.reshape(())))


def _split_v(_: Any, __: Any, values: Sequence[_Array]) -> list[_Array]:
    x, sizes, axis = values[0], values[1].tolist(), int(values[2].reshape(()))
    if -1 in sizes:  # -1 stands for the remaining elements
        sizes[sizes.index(-1)] = x.shape[axis] - sum(sizes) - 1
    return np.split(x, np.cumsum(sizes[:-1]), axis)


_SPLITS: dict[str, Callable[[Any, Any, Sequence[_Array]], list[_Array]]] = {
    "SPLIT": _split,
    "SPLIT_V": _split_v,
    "UNPACK": _unpack,
}
"""Operators with several outputs."""

_FOLDS: dict[str, _Fold] = {
    "ABS": _plain(np.abs),
    "ADD": _plain(np.add),
    "BROADCAST_ARGS": _plain(lambda x, y: np.broadcast_shapes(tuple(x), tuple(y))),
    "BROADCAST_TO": _plain(lambda x, shape: np.broadcast_to(x, shape.tolist())),
    "CAST": _plain(lambda x: x),
    "CONCATENATION": _concatenation,
    "DIV": _divided,
    "EQUAL": _plain(np.equal),
    "EXPAND_DIMS": _plain(lambda x, axis: np.expand_dims(x, int(axis.reshape(())))),
    "FILL": _fill,
    "FLOOR_DIV": _floored(quotient, np.floor_divide),
    "FLOOR_MOD": _floored(remainder, np.mod),
    "GATHER": _gather,
    "GREATER": _plain(np.greater),
    "GREATER_EQUAL": _plain(np.greater_equal),
    "LESS": _plain(np.less),
    "LESS_EQUAL": _plain(np.less_equal),
    "LOGICAL_AND": _plain(np.logical_and),
    "LOGICAL_NOT": _plain(np.logical_not),
    "LOGICAL_OR": _plain(np.logical_or),
    "MAXIMUM": _plain(np.maximum),
    "MINIMUM": _plain(np.minimum),
    "MUL": _plain(np.multiply),
    "NEG": _plain(np.negative),
    "NOT_EQUAL": _plain(np.not_equal),
    "PACK": _pack,
    "RANGE": _plain(lambda start, stop, step: np.arange(*(v.reshape(()) for v in (start, stop, step)))),
    "REDUCE_MAX": _reduced(np.max),
    "REDUCE_MIN": _reduced(np.min),
    "REDUCE_PROD": _reduced(np.prod),
    "RESHAPE": _reshaped,
    "SELECT": _plain(np.where),
    "SELECT_V2": _plain(np.where),
    "SLICE": _slice,
    "SQUEEZE": _squeezed,
    "STRIDED_SLICE": _strided_slice,
    "SUB": _plain(np.subtract),
    "SUM": _reduced(np.sum),
    "TILE": _plain(lambda x, times: np.tile(x, times.tolist())),
    "TRANSPOSE": _plain(lambda x, order: np.transpose(x, order.tolist())),
    "ZEROS_LIKE": _plain(np.zeros_like),
}
