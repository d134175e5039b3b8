# SPDX-License-Identifier: Apache-2.0
"""Several shapes, or any number of samples, together with what else `compile` takes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
import tvm
from onnx import TensorProto, helper
from tvm import relax

import arm_ext
from arm_ext.common.errors import UsageError
from arm_ext.package import SO, Package
from tests.arm_ext import npu_models
from tests.arm_ext.models import mlp, model, residual_cnn

Array = npt.NDArray[Any]
RNG = np.random.default_rng(4)
NPU = arm_ext.NpuOptions("ethos-u55-128", cpu_mhz=10)  # so slow a CPU that every region gains


def machine(package: Package) -> Callable[..., list[Array]]:
    """Functions of a package by name, from numpy to numpy."""
    vm = relax.VirtualMachine(tvm.runtime.load_module(str(package.path / SO)), tvm.cpu())

    def call(name: str, *inputs: Array) -> list[Array]:
        result = vm[name](*map(tvm.runtime.tensor, inputs))
        return [v.numpy() for v in ([result] if isinstance(result, tvm.runtime.Tensor) else result)]

    return call


def normal(*shape: int) -> Array:
    return RNG.standard_normal(shape, dtype=np.float32)


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    """Of mlp's x, seven rows each."""
    np.savez(tmp_path / "samples.npz", x=normal(9, 7, 31))
    return tmp_path / "samples.npz"


def open_cnn() -> onnx.ModelProto:
    """Takes any number of images of any size."""
    proto = residual_cnn()
    dims = proto.graph.input[0].type.tensor_type.shape.dim
    for axis, name in ((0, "n"), (2, "h"), (3, "w")):
        dims[axis].dim_param = name
    return proto


def test_one_calibration_is_for_all_shapes(tmp_path: Path, samples: Path):
    made = arm_ext.compile(mlp("n"), "host", tmp_path / "p", shapes={"x": ([3, 7], 31)}, quantize=samples)
    alone = arm_ext.compile(mlp("n"), "host", tmp_path / "one", shapes={"x": (7, 31)}, quantize=samples)
    manifest = made.package.manifest
    assert manifest.model.calibration == alone.package.manifest.model.calibration
    assert manifest.memory.weight_bytes <= alone.package.manifest.memory.weight_bytes + 64
    x, call = normal(7, 31), machine(made.package)
    (whole,), (part,) = call("main", x), call("main", x[:3])
    np.testing.assert_array_equal(whole, machine(alone.package)("main", x)[0])
    np.testing.assert_array_equal(part, whole[:3])


def test_samples_that_fit_no_shape_are_refused_with_all(tmp_path: Path, samples: Path):
    with pytest.raises(UsageError, match=r"takes \[samples, 3, 31\].*takes \[samples, 4, 31\]"):
        arm_ext.compile(mlp("n"), "host", tmp_path / "p", shapes={"x": ([3, 4], 31)}, quantize=samples)


def test_quantised_models_take_any_number_of_samples(tmp_path: Path):
    np.savez(tmp_path / "samples.npz", x=normal(9, 31))
    options: dict[str, Any] = {"quantize": tmp_path / "samples.npz"}
    many = arm_ext.compile(mlp("n"), "host", tmp_path / "p", shapes={"x": ("n", 31)}, **options)
    one = arm_ext.compile(mlp("n"), "host", tmp_path / "one", shapes={"x": (1, 31)}, **options)
    x, call = normal(5, 31), machine(one.package)
    expected = np.concatenate([call("main", row[None])[0] for row in x])
    np.testing.assert_array_equal(machine(many.package)("main", x)[0], expected)


def test_frames_of_several_sizes_choose_the_shape(tmp_path: Path):
    sizes = [(9, 7), (12, 8)]
    frames = [[*size, 3] for size in sizes]
    given = arm_ext.Preprocess.model_validate(
        {"inputs": {"x": {"frames": frames, "steps": [{"normalize": {"divide": 255}}]}}}
    )
    shapes = {"x": (1, 3, [9, 12], [7, 8])}
    package = arm_ext.compile(open_cnn(), "host", tmp_path / "p", shapes=shapes, preprocess=given).package
    assert [bucket.inputs[0].shape for bucket in package.manifest.buckets] == frames
    assert package.manifest.inputs == package.manifest.buckets[1].inputs
    size = sizes[1]
    frame = RNG.integers(0, 256, (*size, 3), np.uint8)
    own = arm_ext.compile(open_cnn(), "host", tmp_path / "own", shapes={"x": (1, 3, *size)}).package
    image = (frame / np.float32(255)).astype(np.float32).transpose(2, 0, 1)[None]
    for found, expected in zip(machine(package)("main", frame), machine(own)("main", image), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_frames_alone_make_shapes_of_one_model(tmp_path: Path):
    given = arm_ext.Preprocess.model_validate(
        {"inputs": {"x": {"frames": [[9, 7, 3], [18, 14, 3]], "steps": [{"resize": {}}]}}}
    )
    package = arm_ext.compile(residual_cnn(), "host", tmp_path / "p", preprocess=given).package
    assert [bucket.selftest for bucket in package.manifest.buckets] == ["selftest_9x7x3.npz", "selftest.npz"]
    small = np.full((9, 7, 3), 9, np.uint8)
    call = machine(package)
    for found, expected in zip(
        call("main", small), call("main", small.repeat(2, 0).repeat(2, 1)), strict=True
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_any_number_of_frames_goes_in(tmp_path: Path):
    given = arm_ext.Preprocess.model_validate(
        {
            "inputs": {
                "x": {"frame": [18, 14, 3], "steps": [{"resize": {}}, {"normalize": {"divide": 255}}]}
            },
            "outputs": {"z": [{"top_k": {"k": 2}}]},
        }
    )
    shapes = {"x": ("n", 3, 9, 7)}
    package = arm_ext.compile(open_cnn(), "host", tmp_path / "p", shapes=shapes, preprocess=given).package
    assert package.manifest.inputs[0].spec().describe() == "x uint8[n, 18, 14, 3]"
    frames, call = RNG.integers(0, 256, (4, 18, 14, 3), np.uint8), machine(package)
    together = call("main", frames)
    assert [y.shape for y in together] == [(4, 5), (4, 2), (4, 2)]
    for k, frame in enumerate(frames):
        for found, expected in zip(call("main", frame[None]), together, strict=True):
            assert found.tobytes() == expected[k : k + 1].tobytes()


def test_a_frame_that_hides_the_size_is_refused(tmp_path: Path):
    given = arm_ext.Preprocess.model_validate(
        {"inputs": {"x": {"frame": [9, 7, 3], "steps": [{"resize": {}}]}}}
    )
    shapes = {"x": (1, 3, [9, 12], [7, 8])}
    with pytest.raises(UsageError, match=r"x uint8\[9, 7, 3\] both for 9x7 and for 12x8.*frames:"):
        arm_ext.compile(open_cnn(), "host", tmp_path / "p", shapes=shapes, preprocess=given)


def total(rows: str | int = "n") -> onnx.ModelProto:
    """The state h is the sum of all rows that came, and the second output too."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"], name="product"),
        helper.make_node("ReduceSum", ["m"], ["s"], name="sum", keepdims=1),
        helper.make_node("Add", ["h", "s"], ["hn"], name="add"),
        helper.make_node("Relu", ["hn"], ["y"], name="relu"),
    ]
    return model(nodes, {"h": [1, 1], "x": [rows, 9]}, ["y", "hn"], {"w": np.ones((9, 1), np.float32)})


def test_steps_of_several_shapes_share_a_state(tmp_path: Path):
    initial = {"h": np.full((1, 1), 2, np.float32)}
    package = arm_ext.compile(
        total(), output=tmp_path / "p", shapes={"x": ([1, 7], 9)}, state={"h": "hn"}, state_init=initial
    ).package
    checks = arm_ext.run(package, check=True).checks
    assert len(checks) == 6  # y, hn and the steps of each shape
    assert all(check.passed for check in checks)
    host = arm_ext.compile(
        total(), "host", tmp_path / "h", shapes={"x": ([1, 7], 9)}, state={"h": "hn"}, state_init=initial
    ).package
    call = machine(host)
    found = [call("step", np.ones((rows, 9), np.float32))[0].item() for rows in (1, 7, 7, 1)]
    assert found == [11, 74, 137, 146]
    call("reset")
    assert call("step", np.ones((7, 9), np.float32))[0].item() == 65


def test_a_state_of_several_shapes_is_refused(tmp_path: Path):
    nodes = [helper.make_node("Add", ["x", "h"], ["hn"], name="add"), helper.make_node("Relu", ["hn"], ["y"])]
    proto = model(nodes, {"x": ["n", 4], "h": ["n", 4]}, ["y", "hn"])
    shapes = {"x": ([1, 2], 4), "h": ([1, 2], 4)}
    with pytest.raises(UsageError, match=r"state h=hn: it is \[1, 4\] for 1 of shapes and \[2, 4\] for 2"):
        arm_ext.compile(proto, "host", tmp_path / "p", shapes=shapes, state={"h": "hn"})
    with pytest.raises(UsageError, match=r"'n' in shapes computes samples one by one.*the state h"):
        arm_ext.compile(
            proto, "host", tmp_path / "p", shapes={"x": ("n", 4), "h": ("n", 4)}, state={"h": "hn"}
        )


def test_samples_of_a_model_with_states_are_its_steps(tmp_path: Path):
    """Without them, the range of h would be that of its first value."""
    np.savez(tmp_path / "samples.npz", x=np.ones((5, 1, 9), np.float32))
    package = arm_ext.compile(
        total(1),
        "host",
        tmp_path / "p",
        quantize=tmp_path / "samples.npz",
        state={"h": "hn"},
        state_init={"h": np.full((1, 1), 2, np.float32)},
    ).package
    assert package.manifest.states[0].initial == "given"
    call = machine(package)
    found = [call("step", np.ones((1, 9), np.float32))[0].item() for _ in range(5)]
    np.testing.assert_allclose(found, [11, 20, 29, 38, 47], atol=47 / 256)


def small_npu_model() -> onnx.ModelProto:
    """Three convolutions, for any number of images of any size."""
    proto = npu_models.whole()
    (x,), (y,) = proto.graph.input, proto.graph.output
    for axis, name in ((0, "n"), (2, "h"), (3, "w")):
        x.type.tensor_type.shape.dim[axis].dim_param = name
        y.type.tensor_type.shape.dim[axis].dim_param = name
    del proto.graph.value_info[:]
    assert y.type.tensor_type.elem_type == TensorProto.INT8
    return proto


def test_each_shape_has_regions_for_the_npu(tmp_path: Path):
    shapes = {"x": (1, 3, [6, 8], [6, 4])}
    made = arm_ext.compile(small_npu_model(), output=tmp_path / "p", shapes=shapes, npu=NPU)
    npu, report = made.package.manifest.npu, made.report.npu
    assert npu is not None
    assert report is not None
    assert [region.inputs[0].shape[2:] for region in npu.regions] == [[6, 6], [8, 4]]
    assert [region.index for region in report.regions] == [0, 1]
    assert {row.where for row in made.report.nodes if row.op == "Conv"} == {"npu"}
    assert arm_ext.verify(made.package).equal
    result = arm_ext.run(made.package, check=True)
    assert all(check.passed for check in result.checks)
    assert result.npu is not None
    assert [(region.region, region.cpu) for region in result.npu.regions] == [(0, 1), (1, 1)]


def test_samples_go_through_the_npu_one_by_one(tmp_path: Path):
    made = arm_ext.compile(small_npu_model(), output=tmp_path / "p", shapes={"x": ("n", 3, 6, 6)}, npu=NPU)
    result = arm_ext.run(made.package, check=True)
    assert all(check.passed for check in result.checks)
    assert result.npu is not None
    assert [(region.region, region.cpu) for region in result.npu.regions] == [(0, 3)]
    assert arm_ext.verify(made.package).equal
