# SPDX-License-Identifier: Apache-2.0
"""RoiAlign, as onnxruntime computes it."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.frontends.onnx.reference import run_onnxruntime
from arm_ext.pipeline.selftest import run_on_host


def roi_align(opset: int, **attributes: object) -> onnx.ModelProto:
    node = helper.make_node("RoiAlign", ["x", "rois", "batches"], ["y"], name="roi", **attributes)
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
    size = {"output_height": 4, "output_width": 3, "sampling_ratio": 2, "spatial_scale": 0.5, "mode": "max"}
    model = roi_align(10 if place is None else 16, **size, **attributes)
    x = np.random.default_rng(1).standard_normal((2, 3, 7, 9)).astype(np.float32)
    # The second reaches beyond the image on all sides, the third is a point, the fourth is turned over.
    boxes = [[1, 2, 13.5, 11], [-8, -9, 30, 27], [5, 5, 5, 5], [14, 11, 3, 2]]
    rois, batches = np.array(boxes, np.float32), np.array([0, 1, 1, 0])
    (wanted,) = run_onnxruntime(model.SerializeToString(), [x, rois, batches], integers=False)
    (got,) = run_on_host(import_onnx(model).mod, [x, rois, batches])
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_a_number_of_samples_that_boxes_decide_is_refused():
    with pytest.raises(ModelError, match=r"roi \(with sampling_ratio 0, .*: set sampling_ratio"):
        import_onnx(roi_align(16, output_height=4, output_width=3, mode="max"))


@pytest.mark.parametrize("ratio", [0, 2])
@pytest.mark.parametrize("place", ["half_pixel", "output_half_pixel"])
def test_averages_of_every_box_are_defined(ratio: int, place: str):
    model = roi_align(
        16,
        output_height=4,
        output_width=3,
        sampling_ratio=ratio,
        spatial_scale=0.5,
        coordinate_transformation_mode=place,
    )
    x = np.random.default_rng(1).standard_normal((2, 3, 7, 9)).astype(np.float32)
    # As above, and one far to the left, and one far above.
    boxes = [
        [1, 2, 13.5, 11],
        [-8, -9, 30, 27],
        [5, 5, 5, 5],
        [14, 11, 3, 2],
        [-90, 0, -50, 4],
        [0, -90, 200, 90],
    ]
    rois, batches = np.array(boxes, np.float32), np.array([0, 1, 1, 0, 0, 1])
    model.graph.input[1].CopyFrom(helper.make_tensor_value_info("rois", TensorProto.FLOAT, rois.shape))
    model.graph.input[2].CopyFrom(helper.make_tensor_value_info("batches", TensorProto.INT64, batches.shape))
    (wanted,) = run_onnxruntime(model.SerializeToString(), [x, rois, batches], integers=False)
    (got,) = run_on_host(import_onnx(model).mod, [x, rois, batches])
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("far", [1e30, -1e30, np.inf, np.nan])
def test_boxes_beyond_all_bounds_end_and_are_0(far: float):
    model = roi_align(16, output_height=2, output_width=2)
    x = np.ones((2, 3, 7, 9), np.float32)
    rois = np.array([[0, 0, far, 4], [0, 0, 4, far], [-far, -far, far, far], [0, 0, 4, 4]], np.float32)
    (got,) = run_on_host(import_onnx(model).mod, [x, rois, np.zeros(4, np.int64)])
    assert not got[:3].any()
    assert got[3].all()
