# SPDX-License-Identifier: Apache-2.0
"""TFLite_Detection_PostProcess against LiteRT: the same boxes in the same order."""

from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from flatbuffers import flexbuffers

from arm_ext.common.errors import ModelError
from arm_ext.frontends.tflite.importer import import_tflite
from arm_ext.frontends.tflite.reference import run_litert
from arm_ext.pipeline.selftest import run_on_host
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder

BOXES, CLASSES = 40, 5


def model(most: int, *, regular: bool, quantized: bool, left_out: str = "") -> TfliteBuilder:
    m = TfliteBuilder()
    dtype = "uint8" if quantized else "float32"
    kinds = ({"scale": 0.05, "zero": 128}, {"scale": 1 / 256}) if quantized else ({}, {})
    x = [m.take(dtype, 1, BOXES, size, **kind) for size, kind in zip((4, CLASSES + 1), kinds, strict=True)]
    centres, sizes = m.rng.uniform(0, 1, (BOXES, 2)), m.rng.uniform(0.1, 0.4, (BOXES, 2))
    places = np.concatenate([centres, sizes], axis=1)
    anchors = m.hold(places / 0.005, "uint8", scale=0.005) if quantized else m.hold(places, "float32")
    shapes = ((1, most, 4), (1, most), (1, most), (1,))
    op, code, options = schema.OperatorT(), schema.OperatorCodeT(), flexbuffers.Builder()
    code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
    code.customCode, code.version = b"TFLite_Detection_PostProcess", 1
    with options.Map():
        numbers = {"max_detections": most, "max_classes_per_detection": 1, "num_classes": CLASSES}
        for name, value in (numbers | {"detections_per_class": most}).items():
            options.Int(name, value)
        options.Bool("use_regular_nms", regular)
        scales = {"y_scale": 10.0, "x_scale": 10.0, "h_scale": 5.0, "w_scale": 5.0}
        limits = {"nms_iou_threshold": 0.5, "nms_score_threshold": 0.6}
        for name, value in (scales | limits).items():
            if name != left_out:
                options.Float(name, value)
    op.opcodeIndex, op.inputs, op.outputs = (
        0,
        [*x, anchors],
        [m.tensor("float32", *shape) for shape in shapes],
    )
    op.customOptions = list(options.Finish())
    m.codes, m.operators = [code], [op]
    return m


@pytest.mark.parametrize(("most", "regular", "quantized"), [(10, True, True), (39, False, False)])
def test_equals_litert(tmp_path: Path, most: int, regular: bool, quantized: bool):
    m = model(most, regular=regular, quantized=quantized)
    if quantized:
        inputs = [m.rng.integers(90, 166, (1, BOXES, 4)), m.rng.integers(0, 256, (1, BOXES, CLASSES + 1))]
        inputs = [value.astype(np.uint8) for value in inputs]
    else:
        inputs = [m.rng.standard_normal((1, BOXES, 4)), m.rng.uniform(0, 1, (1, BOXES, CLASSES + 1))]
        inputs = [value.astype(np.float32) for value in inputs]
    path = tmp_path / "model.tflite"
    path.write_bytes(m.build())
    ours, theirs = run_on_host(import_tflite(path).mod, inputs), run_litert(path.read_bytes(), inputs)
    assert 1 < theirs[3] <= most
    count = int(theirs[3][0])
    assert ours[3] == theirs[3]
    for found, expected in zip(ours[:3], theirs[:3], strict=True):
        # LiteRT does not write behind the last one.
        np.testing.assert_allclose(found[:, :count], expected[:, :count], rtol=0, atol=1e-6)
        assert not found[:, count:].any()


def test_missing_options_are_named(tmp_path: Path):
    path = tmp_path / "model.tflite"
    path.write_bytes(model(10, regular=False, quantized=False, left_out="y_scale").build())
    with pytest.raises(ModelError, match="its options lack y_scale"):
        import_tflite(path)
