# SPDX-License-Identifier: Apache-2.0
"""TFLite_Detection_PostProcess: boxes decoded from anchors, then non-maximum suppression.

    y = dy / y_scale * ah + ay, h = exp(dh / h_scale) * ah, and so on    each anchor's box, by centre and size

"Fast": of each box the best class alone, then non-maximum suppression among all. "Regular": suppression class by class,
then the best of all classes. Upstream has converters; of one operator that it takes, TVM makes no code.
"""

from typing import Any

import numpy as np
from tvm import relax
from tvm.relax.frontend.tflite.tflite_frontend import FlexBufferDecoder

from arm_ext.common.errors import ModelError
from arm_ext.frontends.tflite.operands import data_of, shape_of, take

NAME = "TFLite_Detection_PostProcess"

_R = relax.op

_SCALES = ("y_scale", "x_scale", "h_scale", "w_scale")
_NEEDED = ("max_detections", "num_classes", "nms_iou_threshold", "nms_score_threshold", *_SCALES)
_CENTRE = 2
"""Number of coordinates of a box's centre, which come first of its four numbers."""


def detection_postprocess(c: Any, op: Any) -> relax.Expr:
    """Return boxes [1, k, 4] (top, left, bottom, right), classes [1, k], scores [1, k], and their count [1]."""
    options = FlexBufferDecoder(op.CustomOptionsAsNumpy().tobytes()).decode()
    if missing := [name for name in _NEEDED if name not in options]:
        raise ModelError(f"its options lack {', '.join(missing)}")
    places, scores, anchors = c.get_input_tensors(op)
    count, classes = shape_of(scores)[1:]
    most, own = int(options["max_detections"]), int(options["num_classes"])
    if shape_of(scores)[0] != 1 or not 0 < most <= count or classes - own not in (0, 1):
        raise ModelError(
            f"it has {shape_of(scores)[0]} images, {most} detections and {own} classes; supported are 1 image, at most "
            f"{count} detections (one per box), and {classes} classes or one less"
        )
    boxes = c.bb.emit(_decoded(c, data_of(c, places), c.get_tensor_value(anchors), options))
    # If there is one more score than classes, the first score is that of the background.
    by_class = _R.strided_slice(data_of(c, scores), [2], [classes - own], [classes])
    by_class = c.bb.emit(_R.permute_dims(by_class, [0, 2, 1]))
    best, limit = by_class, int(options.get("detections_per_class", most))
    regular = bool(options.get("use_regular_nms", False))
    if not regular:
        best, limit = c.bb.emit(_R.max(by_class, [1], keepdims=True)), most
    thresholds = (float(options[f"nms_{name}_threshold"]) for name in ("iou", "score"))
    found = c.bb.emit(
        _R.vision.all_class_non_max_suppression(
            boxes,
            best,
            relax.const(limit, "int64"),
            *(relax.const(value, "float32") for value in thresholds),
            output_format="tensorflow",
        )
    )
    indices, values, total = (c.bb.emit(relax.TupleGetItem(found, k)) for k in range(3))
    slots, least = int(values.ty.shape[1]), relax.const(-1.0, "float32")
    filled = _R.less(relax.const(np.arange(slots)[None], "int64"), _R.reshape(total, (1, 1)))
    top = c.bb.emit(_R.topk(_R.where(filled, values, least), most, 1, "both", largest=True, dtype="int64"))
    score, at = (c.bb.emit(relax.TupleGetItem(top, k)) for k in range(2))
    pairs = c.bb.emit(take(_R.squeeze(indices, [0]), _R.squeeze(at, [0]), 0))
    label, box = (c.bb.emit(_R.squeeze(_R.strided_slice(pairs, [1], [k], [k + 1]), [1])) for k in range(2))
    if not regular:
        label = c.bb.emit(take(_R.squeeze(_R.argmax(by_class, 1), [0]), box, 0))
    return _written(c, most, total, (boxes, box, label, score))


def _decoded(
    c: Any, places: relax.Expr, anchors: np.ndarray[Any, Any], options: dict[str, Any]
) -> relax.Expr:
    """Emit box edges [1, n, 4] from offsets [1, n, 4] and anchors [n, 4]; these hold a centre and a size each."""
    scales = np.array([float(options[name]) for name in _SCALES], np.float32)
    centre, size = (np.asarray(part, np.float32) for part in (anchors[:, :_CENTRE], anchors[:, _CENTRE:]))
    scaled = c.bb.emit(_R.divide(places, relax.const(scales)))
    moved, grown = (_R.strided_slice(scaled, [2], [k], [k + _CENTRE]) for k in (0, _CENTRE))
    middle = c.bb.emit(_R.add(_R.multiply(moved, relax.const(size)), relax.const(centre)))
    half = c.bb.emit(_R.multiply(relax.const(np.float32(0.5)), _R.multiply(_R.exp(grown), relax.const(size))))
    return _R.concat([_R.subtract(middle, half), _R.add(middle, half)], -1)


def _written(c: Any, most: int, total: relax.Expr, found: tuple[relax.Expr, ...]) -> relax.Expr:
    """Emit the outputs, filled with 0 after the last detection."""
    boxes, box, label, score = found
    count = c.bb.emit(_R.minimum(_R.reshape(total, (1,)), relax.const([most], "int64")))
    real = c.bb.emit(_R.less(relax.const(np.arange(most), "int64"), count))
    zero = relax.const(0.0, "float32")
    edges = _R.where(_R.expand_dims(real, 1), take(_R.squeeze(boxes, [0]), box, 0), zero)
    labels = _R.where(real, _R.astype(label, "float32"), zero)
    scores = _R.where(real, _R.squeeze(score, [0]), zero)
    outputs = [_R.expand_dims(value, 0) for value in (edges, labels, scores)]
    return relax.Tuple([*outputs, _R.astype(count, "float32")])
