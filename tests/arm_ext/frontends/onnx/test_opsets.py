# SPDX-License-Identifier: Apache-2.0
"""Forms that operators have in one opset and not in another, all of an opset in a model, against onnxruntime."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx.version_converter
import pytest
from onnx import TensorProto, helper, numpy_helper

from arm_ext.frontends.common.inputs import random_inputs
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.frontends.onnx.reference import run_onnxruntime
from arm_ext.pipeline.selftest import run_on_host
from tests.arm_ext.frontends.onnx.one_node import set_output_shapes
from tests.arm_ext.models import mlp, residual_cnn

BOOL, FLOAT, INT64 = TensorProto.BOOL, TensorProto.FLOAT, TensorProto.INT64
SHAPE = (2, 4, 6, 5)
NEWEST = min(onnx.defs.onnx_opset_version(), 23)  # onnxruntime's kernels lag behind


@dataclass
class Forms:
    """A model of an opset, of nodes that all read x [2, 4, 6, 5], or positive numbers of its shape."""

    opset: int
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)
    outputs: dict[str, int] = field(default_factory=dict)

    def hold(self, value: object, dtype: str = "int64") -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def add(
        self, op: str, *inputs: str, kinds: tuple[int, ...] = (FLOAT,), of: str = "x", **attributes: object
    ) -> None:
        """Add a node with outputs of `kinds`; its inputs behind `of` are constants."""
        names = [f"y{len(self.nodes)}_{k}" for k in range(len(kinds))]
        self.nodes.append(helper.make_node(op, [of, *inputs], names, f"{op}{len(self.nodes)}", **attributes))
        self.outputs |= dict(zip(names, kinds, strict=True))

    def build(self) -> onnx.ModelProto:
        ends = [helper.make_tensor_value_info(name, kind, None) for name, kind in self.outputs.items()]
        data = [helper.make_tensor_value_info("x", FLOAT, SHAPE)]
        graph = helper.make_graph(self.nodes, "forms", data, ends, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=9)


def _norm(
    f: Forms, op: str = "BatchNormalization", channels: int = 4, vectors: int = 4, **attributes: object
) -> None:
    held = [f.hold(np.linspace(0.5, 2, channels), "float32") for _ in range(vectors)]
    f.add(op, *held, **attributes)


def axes_by_attributes(f: Forms) -> None:
    """Opsets before 13 (18 for reductions)."""
    f.add("ReduceSum", axes=[1, -1], keepdims=0)
    f.add("ReduceMean", axes=[2])
    f.add("Unsqueeze", axes=[0, 5])
    f.add("Split", kinds=(FLOAT,) * 2, axis=1, split=[1, 3])
    f.add("Split", kinds=(FLOAT,) * 2, axis=2)
    f.add("Softmax", axis=2)
    f.add("LogSoftmax", axis=1)
    f.add("Hardmax", axis=1)


def opset_9(f: Forms) -> None:
    axes_by_attributes(f)
    f.add("Upsample", f.hold([1, 1, 2, 3], "float32"), mode="nearest")
    f.add("Upsample", f.hold([1, 1, 2, 2], "float32"), mode="linear")
    f.add("Slice", axes=[2, 3], starts=[1, -3], ends=[5, 1000])
    f.add("Slice", starts=[0, 1], ends=[2, 3])
    f.add("Pad", pads=[0, 0, 1, 2, 0, 0, 3, 0], value=0.5)
    f.add("Pad", pads=[0, 0, 1, 2, 0, 0, 3, 0], mode="reflect")
    f.add("Pad", pads=[0, 0, -1, 0, 0, 0, 0, 1], mode="constant")
    f.add("Clip", min=-0.5, max=0.25)
    f.add("Clip", max=0.25)
    f.add("TopK", kinds=(FLOAT, INT64), k=2, axis=1)
    f.add("Dropout", ratio=0.5)
    f.add("Flatten", axis=2)
    f.add("MaxPool", kernel_shape=[2, 2], strides=[2, 2])
    f.add("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)
    f.add("PRelu", f.hold(np.full((4, 1, 1), 0.2), "float32"))
    f.add("Cast", to=FLOAT)
    _norm(f)
    _norm(f, "InstanceNormalization", vectors=2)


def opset_10(f: Forms) -> None:
    f.add("Resize", f.hold([1, 1, 2, 3], "float32"), mode="nearest")
    f.add("Resize", f.hold([1, 1, 0.5, 2], "float32"), mode="linear")
    f.add("Slice", f.hold([4, 0]), f.hold([0, 4]), f.hold([2, 3]), f.hold([-2, 1]))
    f.add("TopK", f.hold([2]), kinds=(FLOAT, INT64))
    f.add("Dropout", kinds=(FLOAT, BOOL))
    f.add("MaxPool", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)


def opset_11(f: Forms) -> None:
    axes_by_attributes(f)
    half, place = f.hold([1, 1, 0.5, 2], "float32"), f.hold([], "float32")
    for mode in ("nearest", "linear", "cubic"):
        f.add("Resize", place, half, mode=mode)
    f.add(
        "Resize",
        place,
        place,
        f.hold([2, 4, 9, 10]),
        mode="linear",
        coordinate_transformation_mode="align_corners",
    )
    f.add(
        "Resize",
        place,
        half,
        mode="nearest",
        nearest_mode="floor",
        coordinate_transformation_mode="asymmetric",
    )
    f.add("Clip", "", f.hold(0.25, "float32"))
    f.add("Clip", f.hold(-0.5, "float32"))
    f.add("Pad", f.hold([0, 0, 1, 2, 0, 0, 3, 0]), f.hold(0.5, "float32"))
    f.add("Squeeze", of="y2_0", axes=[0, 5])
    f.add("TopK", f.hold([2]), kinds=(FLOAT, INT64), largest=0)


def axes_by_inputs(f: Forms) -> None:
    """Opsets from 13 on."""
    f.add("ReduceSum", f.hold([1, -1]), keepdims=0)
    f.add("ReduceSum")
    f.add("ReduceSum", noop_with_empty_axes=1)
    f.add("Unsqueeze", f.hold([0, 5]))
    f.add("Squeeze", f.hold([0, 5]), of="y3_0")
    f.add("Squeeze", of="y3_0")
    f.add("Split", f.hold([1, 3]), kinds=(FLOAT,) * 2, axis=1)
    f.add("Softmax", axis=1)
    f.add("LogSoftmax")


def opset_13(f: Forms) -> None:
    axes_by_inputs(f)
    f.add("ReduceMean", axes=[2])
    f.add("Split", kinds=(FLOAT,) * 2, axis=1)
    f.add("Dropout", f.hold(0.5, "float32"), kinds=(FLOAT, BOOL))
    f.add("Resize", "", "", f.hold([2, 4, 9, 7]), mode="nearest")


def opset_15(f: Forms) -> None:
    _norm(f, epsilon=1e-3)
    f.add("Reshape", f.hold([0, -1]), allowzero=0)
    f.add("Pow", f.hold(2))
    f.add("Shape", kinds=(INT64,), start=1)


def opset_18(f: Forms) -> None:
    axes_by_inputs(f)
    f.add("ReduceMean", f.hold([1, 3]))
    f.add("ReduceMax", f.hold([2]), keepdims=0)
    f.add("Split", kinds=(FLOAT,) * 3, axis=2, num_outputs=3)
    f.add("Split", kinds=(FLOAT,) * 2, axis=3, num_outputs=2)
    f.add("Pad", f.hold([1, 0, 0, 2]), f.hold(0.5, "float32"), f.hold([3, 1]))
    f.add("Resize", "", f.hold([0.5, 1.5], "float32"), mode="linear", axes=[2, 3], antialias=1)
    f.add(
        "Resize", "", "", f.hold([12, 15]), axes=[2, 3], keep_aspect_ratio_policy="not_larger", mode="linear"
    )
    _norm(f, "GroupNormalization", 2, vectors=2, num_groups=2)
    f.add("CenterCropPad", f.hold([4, 8]), axes=[2, 3])


def opset_19(f: Forms) -> None:
    f.add(
        "Resize",
        "",
        f.hold([1, 1, 0.5, 2], "float32"),
        coordinate_transformation_mode="half_pixel_symmetric",
        mode="linear",
    )
    f.add("Pad", f.hold([0, 1, 1, 2, 0, 1, 1, 2]), mode="wrap")
    f.add("AveragePool", kernel_shape=[2, 2], dilations=[2, 2])
    f.add("Cast", to=FLOAT, saturate=1)


def newest(f: Forms) -> None:
    axes_by_inputs(f)
    _norm(f, "GroupNormalization", 4, vectors=2, num_groups=2)
    f.add("Gelu", approximate="tanh")
    f.add("Transpose", perm=[0, 2, 3, 1])
    f.add("RMSNormalization", f.hold(np.linspace(0.5, 2, 5), "float32"))


FORMS = {
    9: opset_9,
    10: opset_10,
    11: opset_11,
    13: opset_13,
    15: opset_15,
    18: opset_18,
    19: opset_19,
    NEWEST: newest,
}


def expected_of(proto: onnx.ModelProto, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """onnxruntime's outputs, whose shapes the model then declares, as every exporter does."""
    expected = run_onnxruntime(proto.SerializeToString(), inputs, integers=False)
    set_output_shapes(proto, expected)
    return expected


def compare(proto: onnx.ModelProto, inputs: list[np.ndarray], expected: list[np.ndarray]) -> None:
    found = run_on_host(import_onnx(proto).mod, inputs)
    for value, ours, theirs in zip(proto.graph.output, found, expected, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), value.name
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5 * np.abs(theirs).max(), err_msg=value.name)


def drawn(opset: int) -> np.ndarray:
    return np.random.default_rng(opset).standard_normal(SHAPE).astype(np.float32)


@pytest.mark.parametrize("opset", FORMS)
def test_forms_of_opset(opset: int):
    forms = Forms(opset)
    FORMS[opset](forms)
    proto, inputs = forms.build(), [drawn(opset)]
    compare(proto, inputs, expected_of(proto, inputs))


# onnx's converter leaves GroupNormalization's scales a group each, which is right for opset 18 alone.
CONVERTED = [(a, b) for a in FORMS for b in (11, 13, 18, NEWEST) if a < b and a != 18]


@pytest.mark.long
@pytest.mark.parametrize(("opset", "newer"), CONVERTED)
def test_converted_forms(opset: int, newer: int):
    """Against onnxruntime on the converted model: the converter changes what some nodes mean (Hardmax' axis)."""
    forms = Forms(opset)
    FORMS[opset](forms)
    proto, inputs = onnx.version_converter.convert_version(forms.build(), newer), [drawn(opset)]
    compare(proto, inputs, expected_of(proto, inputs))


# What has not changed since opset 9; onnx converts models upwards alone.
@pytest.mark.long
@pytest.mark.parametrize("opset", [*range(9, 17), *range(18, NEWEST + 1)])
@pytest.mark.parametrize("build", [mlp, residual_cnn])
def test_models_of_every_opset_are_the_same(build: Callable[[], onnx.ModelProto], opset: int):
    proto = build()
    inputs = random_inputs(import_onnx(proto).inputs)
    expected = expected_of(proto, inputs)
    proto.opset_import[0].version = 9
    compare(onnx.version_converter.convert_version(proto, opset), inputs, expected)


def test_an_axis_may_be_one_number():
    nodes = [
        helper.make_node("Unsqueeze", ["x", "last"], ["wide"]),
        helper.make_node("Squeeze", ["wide", "first"], ["y"]),
    ]
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 3]), ("y", [3, 1]))
    ]
    axes = [numpy_helper.from_array(np.array(axis), name) for name, axis in (("last", -1), ("first", 0))]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], axes)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    x = np.arange(3, dtype=np.float32).reshape(1, 3)
    np.testing.assert_array_equal(run_on_host(import_onnx(model).mod, [x])[0], x.reshape(3, 1), strict=True)


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("dtype", ["uint16", "uint32", "uint64"])
def test_top_k_of_unsigned_integers(dtype: str, largest: int):
    most = np.iinfo(dtype).max
    x = np.array([[0, most, most // 2 + 1, most - 1, most // 2, 7, 1]], dtype)
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    values, places = (helper.make_tensor_value_info(n, k, [1, 4]) for n, k in (("y", kind), ("i", INT64)))
    node = helper.make_node("TopK", ["x", "k"], ["y", "i"], largest=largest)
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info("x", kind, x.shape)],
        [values, places],
        [numpy_helper.from_array(np.array([4]), "k")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)
    order = sorted(range(7), key=lambda i: int(x[0, i]), reverse=bool(largest))[:4]
    found, at = run_on_host(import_onnx(model).mod, [x])
    np.testing.assert_array_equal(found, x[:, order])
    np.testing.assert_array_equal(at, [order])
