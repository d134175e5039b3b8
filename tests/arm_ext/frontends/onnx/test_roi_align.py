# SPDX-License-Identifier: Apache-2.0
"""RoiAlign in mode max, as onnxruntime computes it."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.frontends.onnx.reference import run_onnxruntime
from arm_ext.pipeline.selftest import run_on_host


def roi_align(opset: int, **attributes: object) -> onnx.ModelProto:
    node = helper.make_node("RoiAlign", ["x", "rois", "batches"], ["y"], name="roi", mode="max", **attributes)
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3, 7, 9]),
        helper.make_tensor_value_info("rois", TensorProto.FLOAT, [4, 4]),
        helper.make_tensor_value_info("batches", TensorProto.INT64, [4]),
    ]
    graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info("y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


@pytest.mark.parametrize("place", [None, "half_pixel", "output_half_pixel"])
def test_as_onnxruntime(place: str | None):
    attributes = {} if place is None else {"coordinate_transformation_mode": place}
    size = {"output_height": 4, "output_width": 3, "sampling_ratio": 2, "spatial_scale": 0.5}
    model = roi_align(10 if place is None else 16, **size, **attributes)
    x = np.random.default_rng(1).standard_normal((2, 3, 7, 9)).astype(np.float32)
    # The second reaches beyond the image on all sides, the third is a point, the fourth is turned over.
    boxes = [[1, 2, 13.5, 11], [-8, -9, 30, 27], [5, 5, 5, 5], [14, 11, 3, 2]]
    rois, batches = np.array(boxes, np.float32), np.array([0, 1, 1, 0])
    (wanted,) = run_onnxruntime(model.SerializeToString(), [x, rois, batches], integers=False)
    (got,) = run_on_host(import_onnx(model).mod, [x, rois, batches])
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_a_number_of_samples_that_boxes_decide_is_refused():
    with pytest.raises(ModelError, match=r"roi \(with sampling_ratio 0 .*set it"):
        import_onnx(roi_align(16, output_height=4, output_width=3))
