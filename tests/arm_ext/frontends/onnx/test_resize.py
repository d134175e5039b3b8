# SPDX-License-Identifier: Apache-2.0
"""Resize in every mode against onnx's reference implementation."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from arm_ext.common.errors import ModelError
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.pipeline.selftest import run_on_host
from tests.arm_ext.frontends.onnx.one_node import set_output_shapes

PLACES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")
SHAPE = (1, 3, 7, 5)


def resize(
    output: tuple[int, ...] | None,
    scales: tuple[float, ...] | None,
    shape: tuple[int, ...] = SHAPE,
    **attributes: object,
) -> onnx.ModelProto:
    weights = []
    if scales is not None:
        weights.append(numpy_helper.from_array(np.array(scales, np.float32), "scales"))
    else:
        weights.append(numpy_helper.from_array(np.array(output, np.int64), "sizes"))
    inputs = ["x", "", "scales"] if scales is not None else ["x", "", "", "sizes"]
    node = helper.make_node("Resize", inputs, ["y"], "resize", **attributes)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", 1, shape)],
        [helper.make_tensor_value_info("y", 1, None)],
        weights,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)


def check(proto: onnx.ModelProto) -> None:
    x = np.random.default_rng(3).normal(size=SHAPE).astype(np.float32)
    (expected,) = ReferenceEvaluator(proto).run(None, {"x": x})
    set_output_shapes(proto, [expected])
    (found,) = run_on_host(import_onnx(proto).mod, [x])
    assert found.shape == expected.shape
    # The weights are rounded to binary32 and the sums taken in another order.
    np.testing.assert_allclose(found, expected, rtol=0, atol=4e-6)


@pytest.mark.each_once
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_sizes(mode: str, place: str):
    # Larger along one axis, smaller along the other.
    check(resize((1, 3, 4, 8), None, mode=mode, coordinate_transformation_mode=place))


@pytest.mark.each_once
@pytest.mark.parametrize("scale", [(1.0, 1.0, 0.6, 0.6), (1.0, 1.0, 2.0, 1.5)])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_scales_that_leave_a_rest(mode: str, scale: tuple[float, ...]):
    check(resize(None, scale, mode=mode, coordinate_transformation_mode="half_pixel"))


@pytest.mark.parametrize("nearest", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_nearest(nearest: str):
    check(resize((1, 3, 14, 8), None, nearest_mode=nearest, coordinate_transformation_mode="half_pixel"))


@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_antialias_and_outside(mode: str):
    check(resize((1, 3, 4, 3), None, mode=mode, antialias=1))
    if mode == "cubic":  # onnx before 1.22 fails at this for linear
        check(resize((1, 3, 4, 9), None, mode=mode, exclude_outside=1))


@pytest.mark.parametrize("policy", ["not_larger", "not_smaller"])
def test_aspect_ratio_is_kept(policy: str):
    check(resize((10, 20), None, axes=[2, 3], keep_aspect_ratio_policy=policy))


def test_sizes_at_run_time_are_refused():
    proto = resize((1, 3, 10, 8), None)
    proto.graph.ClearField("initializer")
    proto.graph.input.append(helper.make_tensor_value_info("sizes", 7, (4,)))
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", 1, (1, 3, 10, 8)))
    with pytest.raises(
        ModelError,
        match=r"Resize \(1x\): resize \(its scales or sizes are computed at run time; make them constants\)",
    ):
        import_onnx(proto)


def elements(proto: onnx.ModelProto, size: int, outputs: int) -> list[int]:
    """Which elements the outputs are, of an image of one row."""
    x = np.arange(size, dtype=np.float32).reshape(1, 1, 1, size)
    expected = np.empty((1, 1, 1, outputs), np.float32)
    set_output_shapes(proto, [expected])
    (found,) = run_on_host(import_onnx(proto).mod, [x])
    assert found.shape == expected.shape
    return found.reshape(-1).astype(int).tolist()


@pytest.mark.parametrize(
    ("place", "nearest", "size", "outputs", "middle"),
    [
        # In binary32 the product of x + 0.5 and 4 / 14 is greater than 3, that of 20.5 and 2 / 41 less than 1.
        ("half_pixel", "round_prefer_floor", 4, 14, (10, 2)),
        ("pytorch_half_pixel", "round_prefer_floor", 4, 14, (10, 2)),
        ("half_pixel", "round_prefer_ceil", 2, 41, (20, 1)),
        ("pytorch_half_pixel", "round_prefer_ceil", 2, 41, (20, 1)),
        ("asymmetric", "round_prefer_ceil", 7, 46, (23, 4)),
        ("asymmetric", "round_prefer_floor", 3, 42, (21, 1)),
        ("align_corners", "round_prefer_ceil", 8, 47, (23, 4)),
        ("align_corners", "round_prefer_floor", 3, 29, (21, 1)),
        # Those in binary64 are wrong, too.
        ("half_pixel", "floor", 7, 9, (4, 3)),
        ("half_pixel", "round_prefer_floor", 14, 17, (8, 6)),
        ("asymmetric", "round_prefer_ceil", 7, 18, (9, 4)),
    ],
)
def test_the_middle_between_two_elements(
    place: str, nearest: str, size: int, outputs: int, middle: tuple[int, int]
):
    attributes = {"coordinate_transformation_mode": place, "nearest_mode": nearest}
    proto = resize((1, 1, 1, outputs), None, (1, 1, 1, size), **attributes)
    output, expected = middle
    assert elements(proto, size, outputs)[output] == expected


def test_outputs_are_counted_in_binary32():
    proto = resize(None, (1, 1, 1, 3 / 31), (1, 1, 1, 31), nearest_mode="floor")
    assert elements(proto, 31, 3) == [4, 15, 25]


@pytest.mark.parametrize("scale", [0.2, 0.3])
def test_the_only_output_of_pytorch_half_pixel_is_the_first_element(scale: float):
    place = "pytorch_half_pixel"
    proto = resize(None, (1, 1, 1, scale), (1, 1, 1, 5), coordinate_transformation_mode=place)
    assert elements(proto, 5, 1) == [0]


@pytest.mark.parametrize("factor", [2, 3])
def test_usual_factors_stay_one_operator(factor: int):
    # Two gathers would read the image twice, and no NPU takes them.
    mod = import_onnx(resize(None, (1, 1, factor, factor), coordinate_transformation_mode="asymmetric")).mod
    assert "image.resize2d" in mod["main"].script()
