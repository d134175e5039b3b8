# SPDX-License-Identifier: Apache-2.0
"""Frames of u8 through models with steps around them, against numpy and onnxruntime."""

import json
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from tvm.ir import Call

from arm_ext.cli import invoke
from arm_ext.common.errors import UsageError
from arm_ext.frontends.common.imported import ImportedModel
from arm_ext.frontends.onnx.importer import import_onnx
from arm_ext.frontends.onnx.reference import run_onnxruntime
from arm_ext.frontends.preprocess.options import Preprocess, read_preprocess
from arm_ext.frontends.preprocess.wrap import preprocessed
from arm_ext.package import SELFTEST, Selftest
from arm_ext.pipeline.phases import PhaseOptions, PhaseResult, last, run_phases
from arm_ext.pipeline.selftest import run_on_host
from arm_ext.quantization.static import quantize
from arm_ext.target.profiles import resolve
from relay_passes.ir.sources import bindings_of, unnamed_calls
from tests.arm_ext.models import model, residual_cnn

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
NORMALIZE = {"normalize": {"divide": 255, "mean": MEAN, "std": STD}}
OUTPUTS = {"y": [{"softmax": {}}, {"top_k": {"k": 3}}], "z": [{"argmax": {"axis": 1}}]}


def spec(frame: list[int], *steps: object, **outputs: object) -> Preprocess:
    inputs = {"x": {"frame": frame, "steps": list(steps)}}
    return Preprocess.model_validate({"inputs": inputs, "outputs": outputs})


def pixels(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).integers(0, 256, shape).astype(np.uint8)


def resized(x: np.ndarray, size: tuple[int, int], mode: str) -> np.ndarray:
    """Resize [H, W, C] as onnx's reference implementation does."""
    sizes = np.array([*size, x.shape[2]], np.int64)
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode=mode)
    proto = model([node], {"x": list(x.shape)}, ["y"], {"sizes": sizes})
    return ReferenceEvaluator(proto).run(None, {"x": x.astype(np.float32)})[0]


def normalized(x: np.ndarray) -> np.ndarray:
    """[H, W, C] → [1, C, H, W]."""
    values = (x / 255 - np.array(MEAN)) / np.array(STD)
    return values.transpose(2, 0, 1)[None].astype(np.float32)


@pytest.fixture(scope="module")
def int8() -> onnx.ModelProto:
    samples = np.random.default_rng(0).normal(size=(4, 3, 9, 7)).astype(np.float32)
    return quantize(residual_cnn(), {"x": samples}, method="minmax")


def check(proto: onnx.ModelProto, given: Preprocess, x: np.ndarray, image: np.ndarray, bound: float) -> None:
    """Compare softmax, its top three and the argmax of what a frame gives with those of onnxruntime for an image."""
    wrapped = preprocessed(import_onnx(proto), given)
    logits, probabilities = run_onnxruntime(proto.SerializeToString(), [image], integers=True)
    powers = np.exp(logits - logits.max())
    softmax = powers / powers.sum()
    order = np.argsort(-softmax, 1)[:, :3]
    for values, indices, label in (run_on_host(wrapped.mod, [x]), wrapped.reference([x])[0]):
        np.testing.assert_allclose(values, np.take_along_axis(softmax, order, 1), rtol=0, atol=bound)
        np.testing.assert_array_equal(indices, order)
        np.testing.assert_array_equal(label, probabilities.argmax(1))


@pytest.mark.parametrize("mode", [pytest.param("linear", marks=pytest.mark.long), "nearest"])
def test_a_frame_goes_in_and_labels_come_out(mode: str):
    steps = ({"crop": {"size": [21, 13]}}, {"resize": {"mode": mode}}, {"channels": [2, 1, 0]}, NORMALIZE)
    x = pixels(24, 15, 3)
    image = normalized(resized(x[1:22, 1:14], (9, 7), mode)[..., ::-1])
    # Sums of at most 72 products, of logits up to about 10.
    check(residual_cnn(), spec([24, 15, 3], *steps, **OUTPUTS), x, image, 1e-5)


def test_an_int8_model_takes_frames_too(int8: onnx.ModelProto):
    x = pixels(1, 9, 7, 3)
    # The quantised softmax is the same to the bit unless a value lies at a tie.
    check(int8, spec([1, 9, 7, 3], NORMALIZE, **OUTPUTS), x, normalized(x[0]), 1e-6)


def test_what_an_int8_model_takes_of_each_value_is_one_table(int8: onnx.ModelProto):
    wrapped = preprocessed(import_onnx(int8), spec([9, 7, 3], {"normalize": {"mean": 128, "std": 64}}))
    results = dict(run_phases(PhaseResult(wrapped.mod), PhaseOptions(resolve("arm"))))
    assert not results["plan"].left_float
    called = [k.kernel for k in results["plan"].kernels if k.sources[0] == "preprocess:x"]
    assert "elementwise_s8" in called
    assert "permute_dims" not in results["integerize"].mod.script()


def integer_model() -> onnx.ModelProto:
    """Return relu from int8 to uint8, of a shape that may be NCHW or NHWC."""
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "sx", "zx"], ["f"], name="dq"),
        helper.make_node("Relu", ["f"], ["r"], name="relu"),
        helper.make_node("QuantizeLinear", ["r", "sy", "zy"], ["y"], name="q"),
    ]
    weights = {"sx": np.float32(0.02), "zx": np.int8(3), "sy": np.float32(0.013), "zy": np.uint8(5)}
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", onnx.TensorProto.INT8, [1, 3, 7, 3])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.UINT8, [1, 3, 7, 3])],
        [numpy_helper.from_array(np.array(value), name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_integers_are_quantised_before_and_real_again_behind():
    steps = [{"normalize": {"mean": 128, "std": 64}}, {"quantize": {"scale": 0.02, "zero_point": 3}}]
    frame = {"frame": [7, 3, 3], "layout": "NCHW", "steps": steps}
    outputs = {"y": [{"dequantize": {"scale": 0.013, "zero_point": 5}}]}
    given = Preprocess.model_validate({"inputs": {"x": frame}, "outputs": outputs})
    wrapped = preprocessed(import_onnx(integer_model()), given)
    x = pixels(7, 3, 3)
    q = np.clip(np.rint((x.astype(np.float32) - 128) / 64 / np.float32(0.02)) + 3, -128, 127).astype(np.int8)
    (y,) = run_onnxruntime(integer_model().SerializeToString(), [q.transpose(2, 0, 1)[None]], integers=False)
    expected = (y.astype(np.float32) - 5) * np.float32(0.013)
    for (found,) in (run_on_host(wrapped.mod, [x]), wrapped.reference([x])[0]):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        ({"frame": [7, 3, 3]}, "inputs.x.layout: x int8[1, 3, 7, 3] may be NCHW or NHWC; say which"),
        (
            {"frame": [7, 3, 3], "layout": "NCHW"},
            "inputs.x: the model's input is x int8[1, 3, 7, 3], and the steps",
        ),
        (
            {"frame": [7, 3, 3], "layout": "NCHW", "steps": [{"quantize": {"scale": 1, "zero_point": 128}}]},
            "inputs.x.steps[0].quantize.zero_point: 128 is no int8",
        ),
    ],
)
def test_what_does_not_fit_an_integer_input_is_refused_by_its_key(frame: dict[str, object], reason: str):
    given = Preprocess.model_validate({"inputs": {"x": frame}})
    with pytest.raises(UsageError, match=re.escape(f"preprocess: {reason}")):
        preprocessed(import_onnx(integer_model()), given)


def test_the_scale_goes_into_the_first_convolution_and_the_layout_away():
    wrapped = preprocessed(import_onnx(residual_cnn()), spec([9, 7, 3], NORMALIZE))
    assert not unnamed_calls(wrapped.mod)
    mod = last(run_phases(PhaseResult(wrapped.mod), PhaseOptions(resolve("arm")), until="layout")).mod
    before = [b for b in bindings_of(mod["main"]) if b.var.name.startswith("preprocess")]
    assert [b.value.op.name for b in before] == ["relax.reshape", "relax.astype", "relax.add"]


def test_resized_frames_keep_their_bytes_until_they_are_summed():
    wrapped = preprocessed(import_onnx(residual_cnn()), spec([24, 15, 3], {"resize": {}}))
    bindings = bindings_of(wrapped.mod["main"])
    taken = [b.var for b in bindings if isinstance(b.value, Call) and b.value.op.name == "relax.take"]
    assert [str(var.ty.dtype) for var in taken] == ["uint8", "uint8", "float32", "float32"]


def test_the_manifest_has_the_frame_and_the_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "camera.yaml"
    path.write_text(
        "inputs:\n  x:\n    frame: [9, 7, 3]\n    steps:\n      - normalize: {divide: 255}\n"
        "outputs:\n  z: [argmax: {}]\n"
    )
    out = tmp_path / "p"
    command = ["compile", str(tmp_path / "model.onnx"), "--preprocess", str(path), "-o", str(out), "--json"]
    onnx.save(residual_cnn(), command[1])
    assert invoke(command) == 0
    manifest = json.loads(capsys.readouterr().out)["manifest"]
    assert manifest["inputs"] == [{"name": "x", "shape": [9, 7, 3], "dtype": "uint8"}]
    assert [y["dtype"] for y in manifest["outputs"]] == ["float32", "int64"]
    selftest = Selftest.load(out / SELFTEST)
    np.testing.assert_array_equal(selftest.expected[1], selftest.source[1])


BAD_FILES = {
    "image: {}": "image: unknown key",
    "inputs: {x: {frame: [8, 8, 3], step: []}}": "inputs.x.step: unknown key",
    "inputs: {x: {steps: []}}": "inputs.x: expected `frame: [height, width, channels]`, or `frames:` ",
    "inputs: {x: {frame: [8, 8, 3], frames: [[8, 8, 3]]}}": "inputs.x: expected `frame: [height, width, channels]`, ",
    "inputs: {x: {frame: [8, 8, '3']}}": "inputs.x.frame[2]: input should be a valid integer",
    "inputs: {x: {frame: [8, 8]}}": "inputs.x.frame: list should have at least 3 items",
    "inputs: {x: {frame: [8, 8, 3], steps: [resize: {mode: cubic}]}}": "inputs.x.steps[0].resize.mode: input should "
    "be 'linear' or 'nearest'",
    "inputs: {x: {frame: [8, 8, 3], steps: [{crop: {size: [4, 4]}, resize: {}}]}}": "inputs.x.steps[0]: a step must "
    "have exactly one of the keys crop, resize, channels, normalize, quantize",
    "inputs: {x: {frame: [8, 8, 3], steps: [resize: ]}}": "inputs.x.steps[0]: resize has no value",
    "inputs: {x: {frame: [8, 8, 3], steps: [normalize: {std: 0}]}}": "inputs.x.steps[0].normalize.std",
    "outputs: {y: [top_k: {k: 0}]}": "outputs.y[0].top_k.k: input should be greater than 0",
    "inputs: {x: {frame: [1099511627776, 8, 3]}}": "inputs.x.frame[0]: input should be less than or equal to",
    "inputs: {x: {frame: [65536, 65536, 3]}}": "inputs.x.frame: a frame of 12,884,901,888 samples; at most ",
    f"inputs: {{x: {{frame: [{'9' * 5000}, 8, 3]}}}}": "not YAML: Exceeds the limit",
    "inputs: {}\ninputs: {}": "not YAML: the key 'inputs' appears twice",
    "? [1, 2]\n: 3": "not YAML",
    "a: 2020-13-45": "not YAML: month must be",
    "[1, 2": "not YAML",
    "": "expected a mapping",
}


@pytest.mark.parametrize(("text", "reason"), BAD_FILES.items())
def test_a_bad_file_is_refused_by_its_key(tmp_path: Path, text: str, reason: str):
    path = tmp_path / "p.yaml"
    path.write_text(text)
    with pytest.raises(UsageError, match=re.escape(f"{path}: {reason}")):
        read_preprocess(path)


def test_a_byte_order_mark_is_no_key(tmp_path: Path):
    path = tmp_path / "p.yaml"
    path.write_bytes(b"\xef\xbb\xbfinputs: {x: {frame: [8, 8, 3]}}")
    assert read_preprocess(path) == spec([8, 8, 3])


def test_many_faults_are_counted_and_not_all_told(tmp_path: Path):
    path = tmp_path / "p.yaml"
    path.write_text("inputs: {x: {frame: [8, 8, 3], steps: [" + "crop, " * 1000 + "]}}")
    with pytest.raises(UsageError) as raised:
        read_preprocess(path)
    lines = str(raised.value).splitlines()
    assert len(lines) < 25
    assert re.search("and 980 more faults", lines[-1])


def test_all_bad_keys_of_a_file_are_told(tmp_path: Path):
    path = tmp_path / "p.yaml"
    path.write_text("inputs: {x: {frame: 3, steps: 4}, y: 5}")
    with pytest.raises(UsageError) as told:
        read_preprocess(path)
    assert len(str(told.value).splitlines()) == 3


def named(name: str, *steps: object, **outputs: object) -> Preprocess:
    frame = {"frame": [9, 7, 3], "steps": list(steps)}
    return Preprocess.model_validate({"inputs": {name: frame}, "outputs": outputs})


MISFITS = [
    (named("image"), "inputs.image: the model has no such name; it has x"),
    (named("x", scores=[]), "outputs.scores: the model has no such name; it has y, z"),
    (
        spec([9, 7, 4]),
        "inputs.x: its steps give 4 channels, which do not fit the model's x float32[1, 3, 9, 7]",
    ),
    (spec([9, 8, 3]), "inputs.x: its steps give [1, 3, 9, 8]; the model's input is x float32[1, 3, 9, 7]"),
    (spec([2, 9, 7, 3]), "inputs.x: its steps give [2, 3, 9, 7]"),
    (
        named("x", {"channels": [0, 1, 3]}),
        "inputs.x.steps[0].channels: there is no channel 3; the frame has 3 here",
    ),
    (named("x", {"crop": {"size": [9, 8]}}), "inputs.x.steps[0].crop: [9, 8] at [0, 0] leaves the frame"),
    (
        named("x", {"normalize": {"mean": [1, 2]}}),
        "inputs.x.steps[0].normalize.mean: 2 numbers for 3 channels",
    ),
    (
        named("x", {"normalize": {"std": 1e-300}}),
        "inputs.x.steps[0].normalize: divide, mean and std leave float32",
    ),
    (
        named("x", {"normalize": {"mean": [0, 0, 1e300]}}),
        "inputs.x.steps[0].normalize: divide, mean and std leave",
    ),
    (named("x", {"quantize": {"scale": 1}}), "inputs.x.steps[0].quantize: the model's input is x float32"),
    (named("x", y=[{"dequantize": {"scale": 1}}]), "outputs.y[0].dequantize: it is y float32[1, 5]"),
    (named("x", y=[{"softmax": {"axis": 2}}]), "outputs.y[0].softmax.axis: y float32[1, 5] has no axis 2"),
    (
        named("x", y=[{"top_k": {"k": 6}}]),
        "outputs.y[0].top_k: k is 6, and axis -1 of y float32[1, 5] is shorter",
    ),
    (
        named("x", y=[{"argmax": {}}, {"softmax": {}}]),
        "outputs.y[1].softmax: it is y int64[1]; expected float32",
    ),
    (named("x", y=[{"top_k": {"k": 1}}, {"softmax": {}}]), "outputs.y[1].softmax: nothing can follow top_k"),
]


@pytest.fixture(scope="module")
def imported() -> ImportedModel:
    return import_onnx(residual_cnn())


@pytest.mark.parametrize(("given", "reason"), MISFITS)
def test_what_does_not_fit_the_model_is_refused_by_its_key(
    imported: ImportedModel, given: Preprocess, reason: str
):
    with pytest.raises(UsageError, match=re.escape(f"preprocess: {reason}")):
        preprocessed(imported, given)
