# SPDX-License-Identifier: Apache-2.0
"""A quantised network is broken on purpose, each way at a known layer, and the report must name that layer first.

image ─ stem ─ Relu ─┬─ depthwise ─ Relu ─ project ─┐
                     └──────────────────────────────┴─ add ─ Relu ─ pool ─ flatten ─ classes ─ softmax
"""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from selenium import webdriver
from selenium.webdriver.common.by import By

import arm_ext
from arm_ext import cli
from arm_ext.api import digits
from arm_ext.api.accuracy import NPU_SAMPLES
from arm_ext.common.errors import UsageError
from arm_ext.ethosu.model import interpreter
from arm_ext.ethosu.model.machine import Machine
from arm_ext.quantization.histogram import BINS
from arm_ext.quantization.layer_errors import LayerErrors, Values
from arm_ext.quantization.static import Quantizer, quantize
from arm_ext.report.accuracy.gate import Gate
from arm_ext.report.accuracy.html import html
from arm_ext.report.accuracy.record import GOOD_DB, LOW_DB, AccuracyReport
from arm_ext.report.accuracy.views import comma_separated, text
from tests.arm_ext.browser import opened
from tests.arm_ext.models import model
from tests.arm_ext.quantization import uneven

COUNT = 10
CHANNELS = 8


def _network(huge: bool = False) -> onnx.ModelProto:
    rng = np.random.default_rng(5)

    def draw(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    depthwise = draw(CHANNELS, 1, 3, 3)
    if huge:
        depthwise[2] *= 500
    held = {
        "stem/w": draw(CHANNELS, 1, 3, 3),
        "stem/b": np.linspace(-0.5, 1.5, CHANNELS).astype(np.float32),
        "depthwise/w": depthwise,
        "depthwise/b": np.linspace(0.2, 0.6, CHANNELS).astype(np.float32),
        "project/w": draw(CHANNELS, CHANNELS, 1, 1) * (0.01 if huge else 1),
        "project/b": draw(CHANNELS),
        "classes/w": draw(10, CHANNELS),
        "classes/b": draw(10),
    }
    same = {"pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["image", "stem/w", "stem/b"], ["stem_out"], "stem", **same),
        helper.make_node("Relu", ["stem_out"], ["active"], "stem_relu"),
        helper.make_node(
            "Conv",
            ["active", "depthwise/w", "depthwise/b"],
            ["deep"],
            "depthwise",
            group=CHANNELS,
            **same,
        ),
        helper.make_node("Relu", ["deep"], ["deep_active"], "depthwise_relu"),
        helper.make_node("Conv", ["deep_active", "project/w", "project/b"], ["projected"], "project"),
        helper.make_node("Add", ["active", "projected"], ["sum"], "add"),
        helper.make_node("Relu", ["sum"], ["sum_active"], "add_relu"),
        helper.make_node("GlobalAveragePool", ["sum_active"], ["pooled"], "pool"),
        helper.make_node("Flatten", ["pooled"], ["flat"], "flatten"),
        helper.make_node("Gemm", ["flat", "classes/w", "classes/b"], ["logits"], "classes", transB=1),
        helper.make_node("Softmax", ["logits"], ["probabilities"], "softmax"),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(value, name) for name, value in held.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _images() -> np.ndarray:
    return digits.held_out()[0][:COUNT]


@cache
def _pair(huge: bool = False) -> tuple[bytes, bytes]:
    source = _network(huge)
    return source.SerializeToString(), quantize(source, {"image": _images()}).SerializeToString()


class Broken:
    """A quantised model whose constants are changed."""

    def __init__(self, huge: bool = False) -> None:
        self.source, self.model = map(onnx.load_model_from_string, _pair(huge))
        self._held = {tensor.name: tensor for tensor in self.model.graph.initializer}

    def get(self, name: str) -> np.ndarray:
        return numpy_helper.to_array(self._held[name])

    def put(self, name: str, value: np.ndarray) -> None:
        dtype = self.get(name).dtype
        self._held[name].CopyFrom(numpy_helper.from_array(np.asarray(value).astype(dtype), name))

    def node(self, name: str) -> onnx.NodeProto:
        return next(node for node in self.model.graph.node if node.name == name)

    def dequantize_otherwise(
        self, tensor: str, parameter: int, change: Callable[[np.ndarray], np.ndarray]
    ) -> None:
        """Give one DequantizeLinear parameters of its own."""
        node = next(
            n
            for n in self.model.graph.node
            if n.op_type == "DequantizeLinear" and n.output[0] == f"{tensor}_DequantizeLinear_Output"
        )
        value = change(self.get(node.input[parameter]))
        name = f"{node.input[parameter]}/other"
        self.model.graph.initializer.append(
            numpy_helper.from_array(np.asarray(value, self.get(node.input[parameter]).dtype), name)
        )
        node.input[parameter] = name

    def report(self, images: np.ndarray | None = None) -> AccuracyReport:
        return arm_ext.accuracy(self.model, self.source, {"image": _images() if images is None else images})


def _scaled(tensor: str, factor: float) -> Callable[[Broken], None]:
    def change(broken: Broken) -> None:
        broken.put(f"{tensor}_scale", broken.get(f"{tensor}_scale") * np.float32(factor))

    return change


def _per_tensor(broken: Broken) -> None:
    weights = numpy_helper.to_array(
        next(tensor for tensor in broken.source.graph.initializer if tensor.name == "depthwise/w")
    )
    scale = np.float32(np.abs(weights).max() / 127)
    broken.put("depthwise/w_quantized", np.round(weights / scale))
    for name, value in (("scale", scale), ("zero_point", np.int8(0))):
        broken.put(f"depthwise/w_{name}", np.asarray(value))


def _reversed(broken: Broken) -> None:
    broken.put("depthwise/w_scale", broken.get("depthwise/w_scale")[::-1] * np.float32([3, 1] * 4))


def _clipped_bias(broken: Broken) -> None:
    broken.put("stem/b_quantized", np.clip(broken.get("stem/b_quantized"), -128, 127))


def _absorbed(broken: Broken) -> None:
    """Drop a ReLU as if its quantiser covered it, and give that a range in which it does not."""
    broken.put("active_zero_point", np.int8(0))
    broken.put("active_scale", broken.get("active_scale") * np.float32(2))


BREAKS: dict[str, tuple[Callable[[Broken], None], str, str]] = {
    "a layer that saturates": (_scaled("deep_active", 1 / 4), "depthwise", "of its values saturate"),
    "a scale too large": (_scaled("projected", 24), "project", "of 256 levels"),
    "a zero point off by one": (
        lambda b: b.dequantize_otherwise("projected", 2, lambda zero: zero + np.int8(1)),
        "project",
        "dequantised with",
    ),
    "a residual with mismatched scales": (
        lambda b: b.dequantize_otherwise("projected", 1, lambda scale: scale * np.float32(1.5)),
        "project",
        "quantised with the scale",
    ),
    "a zero point in the middle of a ReLU's range": (
        lambda b: b.put("active_zero_point", np.int8(0)),
        "stem",
        "of its values saturate",
    ),
    "a truncated bias": (_clipped_bias, "stem", "its bias of channel"),
    "a wrong weight scale": (_scaled("classes/w", 2), "classes", "come out 2 times"),
    "a filter of another sign": (
        lambda b: b.put(
            "stem/w_quantized",
            np.where(np.arange(8)[:, None, None, None] == 5, -1, 1) * b.get("stem/w_quantized"),
        ),
        "stem",
        "channel 5 of its weights keeps -6.0 dB",
    ),
    "filters in another order": (
        lambda b: b.put("depthwise/w_quantized", b.get("depthwise/w_quantized")[::-1]),
        "depthwise",
        "in another order, or of another training",
    ),
    "weight scales of other channels": (_reversed, "depthwise", "weights"),
    "a weight zero point off by one": (
        lambda b: b.put("project/w_zero_point", b.get("project/w_zero_point") + np.int8(1)),
        "project",
        "weights are shifted by -0.98 steps",
    ),
    "a ReLU that was dropped": (_absorbed, "stem", ""),
    "softmax in coarse int8": (_scaled("probabilities", 40), "softmax", "levels"),
}


@cache
def reported(name: str = "") -> AccuracyReport:
    """Return the report of the sound model, or of a broken one."""
    broken = Broken()
    if name:
        change, _, _ = BREAKS[name]
        change(broken)
    return broken.report()


def test_a_sound_model_has_nothing_to_blame() -> None:
    report = reported()
    assert [layer.name for layer in report.layers] == [
        *("image", "stem", "depthwise", "project", "add", "pool", "flatten", "classes", "softmax")
    ]
    assert report.layers[4].nodes == ("add", "add_relu")
    assert report.to_blame() == []
    assert "No layer is to blame" in text(report)
    assert report.uncovered == ()
    assert report.samples == report.given == COUNT


def test_our_integers_of_products_equal_those_of_onnxruntime() -> None:
    report = arm_ext.accuracy(
        digits.model_path("int8"), digits.model_path("fp32"), {"inputs": digits.held_out()[0][:40]}
    )
    assert {layer.operator for layer in report.layers} >= {"Conv", "Gemm"}
    assert [layer.differing for layer in report.layers] == [0] * len(report.layers)
    assert all(
        layer.integers.sqnr_db == pytest.approx(layer.fake.sqnr_db, abs=0.1) for layer in report.layers
    )


def test_scales_that_training_found_are_kept() -> None:
    """Quantisation-aware training has scales of its own: of no samples, and of no power of two."""
    broken = Broken()
    learned = {"projected": 0.0291, "sum_active": 0.0173}
    for name, scale in learned.items():
        broken.put(f"{name}_scale", np.float32(scale))
    report = broken.report()
    layers = {layer.tensor: layer for layer in report.layers}
    assert {name: layers[name].scale for name in learned} == {
        name: float(np.float32(scale)) for name, scale in learned.items()
    }
    assert {layers[name].differing for name in learned} == {0}


def test_own_error_is_told_apart_from_what_layers_before_lost() -> None:
    layers = {layer.name: layer for layer in reported("a layer that saturates").layers}
    assert layers["depthwise"].own.sqnr_db == pytest.approx(layers["depthwise"].fake.sqnr_db, abs=1)
    # What follows is fed with exact values there, and is as good as in the sound model.
    sound = {layer.name: layer for layer in reported().layers}
    assert layers["project"].own.sqnr_db == pytest.approx(sound["project"].own.sqnr_db, abs=0.5)
    assert layers["project"].fake.sqnr_db < sound["project"].fake.sqnr_db - 6


def test_layers_are_sorted_by_a_column_and_coloured_by_its_thresholds(
    browser: webdriver.Chrome, tmp_path: Path
) -> None:
    report = reported("a layer that saturates")
    opened(browser, tmp_path, html(report))
    names = [layer.title for layer in report.layers]

    def shown() -> list[str]:
        return [cell.text for cell in browser.find_elements(By.CSS_SELECTOR, ".layers td.name")]

    assert shown() == names
    own = browser.find_element(By.CSS_SELECTOR, '.layers th button[title="Sort by own"]')
    own.click()
    order = sorted(report.layers, key=lambda layer: layer.own.sqnr_db)
    assert shown() == [layer.title for layer in order]
    own.click()
    assert shown()[-1] == order[0].title
    browser.find_element(By.CSS_SELECTOR, '.layers th button[title="Sort by layer"]').click()
    assert shown() == sorted(names)
    found = {
        row.find_element(By.CLASS_NAME, "name").text: str(
            row.find_element(By.CLASS_NAME, "db").get_attribute("class")
        )
        for row in browser.find_elements(By.CSS_SELECTOR, ".layers tbody tr")
    }
    assert {name for name, kind in found.items() if "low" in kind} == {
        layer.title for layer in report.layers if layer.own.sqnr_db < LOW_DB
    }
    assert {name for name, kind in found.items() if "good" in kind} == {
        layer.title for layer in report.layers if layer.own.sqnr_db >= GOOD_DB
    }
    assert browser.get_log("browser") == []


def test_the_link_that_loses_is_told() -> None:
    report = reported("a layer that saturates")
    assert "The quantised model has this error by itself" in text(report)
    assert "The quantised model has this error by itself" in html(report)
    (output,) = report.outputs
    worse = output.integers.model_copy(update={"sqnr_db": output.fake.sqnr_db - 5})
    other = report.model_copy(update={"outputs": (output.model_copy(update={"integers": worse}),)})
    assert "Our integers lose 5.0 dB more than QDQ in float at output probabilities" in text(other)


# Their causes are those of others here, or of those in test_accuracy_tflite.
LONG = {
    "a scale too large",
    "a zero point in the middle of a ReLU's range",
    "a wrong weight scale",
    "weight scales of other channels",
    "a ReLU that was dropped",
    "softmax in coarse int8",
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] if name in LONG else []) for name in BREAKS]
)
def test_the_layer_that_was_broken_is_named_first(name: str) -> None:
    _, layer, cause = BREAKS[name]
    report = reported(name)
    first = report.worst()[0]
    assert first.name == layer, [(each.name, each.own.sqnr_db, each.causes) for each in report.worst()]
    assert first.is_to_blame
    assert cause in first.because()
    assert f"  {layer}" in text(report).partition("to blame:")[2].splitlines()[1]


def test_one_huge_channel_is_named_with_its_number() -> None:
    broken = Broken(huge=True)
    assert broken.report().to_blame() == []
    _per_tensor(broken)
    first = broken.report().worst()[0]
    assert first.name == "depthwise"
    assert "channel 2 is" in first.because()
    assert "quantise them per channel" in first.because()


def test_samples_of_another_scale_are_told_from_broken_layers() -> None:
    report = Broken().report(8 * _images())
    said = "saturate, each fed with the float model's values: the samples may"
    assert said in " ".join(text(report).split())
    assert said in html(report).replace("&#x27;", "'")
    assert "the samples may" not in text(reported("a layer that saturates"))


def test_channels_that_take_the_range_are_named_where_they_are_computed() -> None:
    """The SQNR of their tensor is good, as they are most of its signal; what reads it needs the other channels."""
    source = uneven.feed_forward()
    rng = np.random.default_rng(1)
    data = {"x": rng.standard_normal((8, 1, 6, uneven.WIDTH)).astype(np.float32)}
    report = arm_ext.accuracy(quantize(source, data), source, data)
    first, layers = report.worst()[0], {layer.name: layer for layer in report.layers}
    assert first.name == "norm"
    assert first.own.sqnr_db > 30
    assert f"channel {uneven.OUTLIERS[0]} is " in first.because()
    # What the product is left with, by channels' sums, is what it has in the chain.
    assert first.read_db == pytest.approx(layers["up"].fake.sqnr_db, abs=1)


@cache
def _single_product() -> tuple[bytes, bytes]:
    """One product of the digits' pixels, which compiles in no time, and quantised."""
    weights = np.random.default_rng(8).standard_normal((64, 10)).astype(np.float32)
    nodes = [
        helper.make_node("Flatten", ["inputs"], ["flat"], "flatten"),
        helper.make_node("MatMul", ["flat", "w"], ["logits"], "product"),
    ]
    source = model(nodes, {"inputs": [1, 1, 8, 8]}, ["logits"], {"w": weights})
    return source.SerializeToString(), quantize(source, {"inputs": _images()}).SerializeToString()


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    images, labels = digits.held_out()
    np.savez("data.npz", inputs=images[:20], labels=labels[:20])
    for name, content in zip(("product", "product_int8"), _single_product(), strict=True):
        Path(f"{name}.onnx").write_bytes(content)
    return tmp_path


def _accuracy(*options: str, data: str = "data.npz") -> int:
    models = [str(digits.model_path("int8")), "--against", str(digits.model_path("fp32"))]
    return cli.invoke(["accuracy", *models, "--data", data, *options])


def _accuracy_of_product(*options: str, data: str = "data.npz") -> int:
    return cli.invoke(
        ["accuracy", "product_int8.onnx", "--against", "product.onnx", "--data", data, *options]
    )


def test_the_command_prints_and_writes_one_report(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bounds = ["--min-sqnr", "30", "--min", "top1=0.05", "--max-drop", "10%"]
    written = ["-o", "r.json", "-o", "r.html", "-o", "r.csv"]
    assert _accuracy_of_product("--json", *written, *bounds) == 0
    report = AccuracyReport.model_validate_json(capsys.readouterr().out)
    assert AccuracyReport.model_validate_json(Path("r.json").read_bytes()) == report
    assert Path("r.csv").read_text() == comma_separated(report)
    assert Path("r.html").read_text() == html(report)
    assert all(layer.title in html(report) for layer in report.layers)
    assert json.loads(Path("r.json").read_text())["schema_version"] == 1
    assert report.metric is not None
    assert (report.metric.name, report.metric.source) == ("top1", 0.1)
    check_histograms(json.loads(Path("r.json").read_text()))
    assert Path("r.html").read_text().count("<svg ") == 2 * len(report.layers)


def check_histograms(document: dict[str, Any]) -> None:
    """Check that all histograms of a layer count its elements."""
    jsonschema.validate(document, arm_ext.schema("accuracy"))
    for layer in document["layers"]:
        values, errors = layer["values"], layer["differences"]
        for counts in (values["source"], values["integers"], errors["own"], errors["integers"]):
            assert sum(counts) == layer["elements"]
            assert len(counts) <= BINS
        # The greatest error is in a bin at an end.
        ends = errors["start"], errors["start"] + errors["width"] * len(errors["integers"])
        assert max(map(abs, ends)) >= layer["integers"]["max_error"]


def test_the_histogram_of_a_shifted_layer_is_shifted() -> None:
    case = "a zero point off by one"
    layer = next(layer for layer in reported(case).layers if layer.name == BREAKS[case][1])
    assert layer.scale is not None
    assert layer.differences is not None
    starts = layer.differences.start + layer.differences.width * np.arange(len(layer.differences.own))
    mean = np.average(starts + layer.differences.width / 2, weights=layer.differences.own)
    assert mean == pytest.approx(layer.own.mean_shift, abs=layer.differences.width)
    assert abs(mean) > layer.scale / 2


def test_a_bound_that_is_missed_exits_with_1_and_names_layers(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _accuracy_of_product("--min-sqnr", "90") == 1
    told = capsys.readouterr().err
    assert "output logits has" in told
    assert "own errors are largest at product (" in told


@pytest.mark.parametrize(
    "name",
    [
        "a layer that saturates",
        *(
            pytest.param(name, marks=pytest.mark.long)
            for name in ("a wrong weight scale", "softmax in coarse int8")
        ),
    ],
)
def test_bisect_names_the_layer_that_was_broken(name: str) -> None:
    change, layer, _ = BREAKS[name]
    broken = Broken()
    change(broken)
    report = arm_ext.accuracy(
        broken.model,
        broken.source,
        {"image": _images()},
        metric="cosine",
        bisect=Gate(max_drop=1e-4),
        target="cortex-a53",
    )
    assert report.metric is not None
    assert report.metric.drop > 1e-4
    assert report.mixed is not None
    (chosen,) = (each for each in report.mixed.choices if each.chosen)
    assert layer in (raised := {*chosen.layers, *chosen.int16})
    assert len(raised) <= 3
    assert chosen.holds
    assert report.mixed.target == "cortex-a53"


def test_bisect_puts_layers_back_that_held_a_batch_norm() -> None:
    rng = np.random.default_rng(4)
    held = {"w": rng.standard_normal((8, 1, 3, 3)), "fc": rng.standard_normal((288, 5))}
    held |= {name: rng.uniform(0.5, 1.5, 8) for name in ("gamma", "beta", "mean", "var")}
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["c"], "conv"),
        helper.make_node("BatchNormalization", ["c", "gamma", "beta", "mean", "var"], ["n"], "norm"),
        helper.make_node("Relu", ["n"], ["r"], "relu"),
        helper.make_node("Flatten", ["r"], ["f"], "flatten"),
        helper.make_node("MatMul", ["f", "fc"], ["y"], "fc"),
    ]
    weights = {name: value.astype(np.float32) for name, value in held.items()}
    source = model(nodes, {"image": [1, 1, 8, 8]}, ["y"], weights)
    quantized = quantize(source, {"image": _images()})
    report = arm_ext.accuracy(
        quantized, source, {"image": _images()}, metric="cosine", bisect=Gate(max_drop=1e-5)
    )
    assert report.mixed is not None
    (chosen,) = (each for each in report.mixed.choices if each.chosen)
    assert chosen.metric > 1 - 1e-5
    assert {*chosen.layers, *chosen.float16} == {"conv", "fc"}


def test_bisect_needs_a_bound_and_a_model_that_was_not_rescaled(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _accuracy("--bisect") == 2
    assert "--bisect needs a bound: give --max-drop or --min" in capsys.readouterr().err
    assert _accuracy_of_product("--bisect", "--max-drop", "100%") == 0
    assert "of 2 layers 0 in int16, 0 in float16 and 0 in float;" in " ".join(capsys.readouterr().out.split())
    assert _accuracy_of_product("--bisect", "--min", "top1=0.99") == 1
    assert "the bound is missed even with all 2 layers in float" in capsys.readouterr().err
    np.savez("unlabelled.npz", inputs=np.zeros((2, 1, 8, 8), np.float32))
    assert _accuracy("--bisect", "--max-drop", "1%", data="unlabelled.npz") == 2
    assert "--bisect: the data has no array 'labels'" in capsys.readouterr().err
    source, samples = digits.model_path("fp32"), {"inputs": digits.held_out()[0][:20]}
    equal = Quantizer(source, samples, "minmax", ({},), corrections=["equalize"]).quantized({})
    with pytest.raises(UsageError, match=r"channels of \w+ were rescaled"):
        arm_ext.accuracy(equal, source, "data.npz", bisect=Gate(max_drop=0.1))


BAD_DATA = {
    "shape": ({"inputs": np.zeros((4, 3, 8, 8), np.float32)}, (), "the model takes [samples, 1, 1, 8, 8]"),
    "NaN": ({"inputs": np.full((4, 1, 8, 8), np.nan, np.float32)}, (), "some values are not finite"),
    "no samples": ({"inputs": np.zeros((0, 1, 8, 8), np.float32)}, (), "the samples are empty"),
    "no labels": (
        {"inputs": np.zeros((4, 1, 8, 8), np.float32)},
        ("--metric", "top1"),
        "the data has no array 'labels'",
    ),
    "labels of another number": (
        {"inputs": np.zeros((4, 1, 8, 8), np.float32), "labels": np.arange(3)},
        (),
        "4 samples but 3 labels",
    ),
    "labels of other classes": (
        {"inputs": np.zeros((2, 1, 8, 8), np.float32), "labels": np.array([3, 10])},
        (),
        "labels go to 10, but output 'logits' has 10 classes",
    ),
    "labels of pixels": (
        {"inputs": np.zeros((2, 1, 8, 8), np.float32), "labels": np.zeros((2, 8, 8), np.int64)},
        (),
        "expected a list of integers; --metric iou takes such labels",
    ),
    "too few samples": (
        {"inputs": np.zeros((2, 1, 8, 8), np.float32), "labels": np.array([3, 4])},
        ("--max-drop", "1%"),
        "give at least 100",
    ),
    "no such metric": (
        {"inputs": np.zeros((2, 1, 8, 8), np.float32)},
        ("--metric", "map"),
        "unknown; expected top1",
    ),
    "no such module": (
        {"inputs": np.zeros((2, 1, 8, 8), np.float32)},
        ("--metric", "nowhere_at_all:f"),
        "nowhere_at_all cannot be imported",
    ),
    "a metric that raises": (
        {"inputs": np.zeros((2, 1, 8, 8), np.float32)},
        ("--metric", "own_metric:failing"),
        "raised KeyError: 'boxes'",
    ),
    "a metric that is no number": (
        {"inputs": np.zeros((2, 1, 8, 8), np.float32)},
        ("--metric", "own_metric:nan"),
        "returned nan",
    ),
    "a metric of several numbers": (
        {"inputs": np.zeros((2, 1, 8, 8), np.float32)},
        ("--metric", "own_metric:row"),
        "returned float32[1, 10]; expected a number",
    ),
}


@pytest.mark.parametrize("fault", BAD_DATA)
def test_bad_data_is_refused_in_a_sentence(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    arrays, options, message = BAD_DATA[fault]
    np.savez("bad.npz", **arrays)
    Path("own_metric.py").write_text(
        "def failing(outputs, data):\n    return data['boxes']\n\ndef nan(outputs, data):\n    return float('nan')\n"
        "def row(outputs, data):\n    return outputs['logits'][0]\n"
    )
    monkeypatch.setattr("arm_ext.api.accuracy.host_runner", None)  # it is told before any work
    assert _accuracy_of_product(*options, data="bad.npz") == 2
    assert message in capsys.readouterr().err


def test_a_metric_of_ones_own_takes_outputs_and_data(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("counting_metric.py").write_text(
        "def share(outputs, data):\n    return (outputs['logits'].argmax(-1)[:, 0] == data['labels']).mean()\n"
    )
    assert _accuracy_of_product("--metric", "counting_metric:share", "--json") == 0
    own = AccuracyReport.model_validate_json(capsys.readouterr().out).metric
    assert _accuracy_of_product("--json") == 0
    top1 = AccuracyReport.model_validate_json(capsys.readouterr().out).metric
    assert own is not None
    assert top1 is not None
    assert (own.source, own.integers) == (top1.source, top1.integers)


def test_a_metric_that_fails_on_our_integers_alone_keeps_the_rest(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("exact_metric.py").write_text(
        "def share(outputs, data):\n    if abs(outputs['logits'][:, 0] - data['exact']).max() > 1e-4:\n"
        "        raise KeyError('boxes')\n    return 1.0\n"
    )
    images = digits.held_out()[0][:4]
    product = onnx.load("product.onnx")
    weights = numpy_helper.to_array(product.graph.initializer[0])
    np.savez("exact.npz", inputs=images, exact=images.reshape(4, 64) @ weights)
    assert _accuracy_of_product(*("--metric", "exact_metric:share", "-o", "r.html"), data="exact.npz") == 2
    captured = capsys.readouterr()
    said = "raised KeyError: 'boxes', when computed from the outputs of the quantised model"
    assert said in captured.err
    assert "The metric was not measured: " in captured.out
    assert said in " ".join(captured.out.split())
    assert "output logits" in captured.out
    assert "KeyError" in Path("r.html").read_text()
    bounds = ["--metric", "exact_metric:share", "--max-drop", "1%", "--bisect"]
    assert _accuracy_of_product(*bounds, data="exact.npz") == 2
    assert said in capsys.readouterr().err


def test_models_that_do_not_belong_together_are_refused() -> None:
    source, quantized = map(onnx.load_model_from_string, _pair())
    data = {"image": _images()}
    with pytest.raises(UsageError, match="has no DequantizeLinear"):
        arm_ext.accuracy(source, source, data)
    with pytest.raises(UsageError, match="is itself quantised"):
        arm_ext.accuracy(quantized, quantized, data)
    with pytest.raises(UsageError, match="only one of them has logits, probabilities"):
        arm_ext.accuracy(quantized, digits.model_path("fp32"), data)


def test_an_interrupted_run_keeps_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    broken, seen = Broken(), []
    add = LayerErrors.add

    def interrupted(self: LayerErrors, values: Values) -> None:
        seen.append(self)
        if len(seen) > 3 * 9:
            raise KeyboardInterrupt
        add(self, values)

    monkeypatch.setattr(LayerErrors, "add", interrupted)
    report = arm_ext.accuracy(
        broken.model, broken.source, {"image": _images()}, metric="cosine", bisect=Gate(max_drop=1e-9)
    )
    assert (report.samples, report.given) == (3, COUNT)
    assert report.mixed is None  # a search would begin after the user asked to stop
    assert f"3 samples (stopped, of {COUNT})" in text(report)


def test_a_run_that_is_interrupted_in_the_search_keeps_the_comparison(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: object, **_options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("arm_ext.api.accuracy.choose_precisions", interrupted)
    source, quantized = map(onnx.load_model_from_string, _single_product())
    data = {"inputs": digits.held_out()[0][:2]}
    report = arm_ext.accuracy(quantized, source, data, metric="cosine", bisect=Gate(max_drop=1e-5))
    assert report.mixed is None
    assert report.samples == 2


def test_a_board_gives_the_same_integers_as_this_machine() -> None:
    source, quantized = map(onnx.load_model_from_string, _single_product())
    here, there = (
        arm_ext.accuracy(quantized, source, {"inputs": digits.held_out()[0][:2]}, **on)
        for on in ({}, {"board": "virtual:cortex-a76"})
    )
    assert there.board == "virtual:cortex-a76"
    assert [layer.integers for layer in here.layers] == [layer.integers for layer in there.layers]


def test_a_pair_for_each_reader_is_one_layer_and_tensors_may_have_other_names() -> None:
    """As onnxruntime's DedicatedQDQPair; and a quantiser that renames tensors keeps the names of nodes."""
    broken = Broken()
    pairs = [
        n for n in broken.model.graph.node if n.name in ("active_QuantizeLinear", "active_DequantizeLinear")
    ]
    add = broken.node("add")
    at = list(broken.model.graph.node).index(pairs[1]) + 1
    for position, node in enumerate(pairs):
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.name, copy.output[0] = f"{node.name}/again", f"{node.output[0]}/again"
        if node.op_type == "DequantizeLinear":
            copy.input[0] = f"{node.input[0]}/again"
        broken.model.graph.node.insert(at + position, copy)
    add.input[0] = f"{add.input[0]}/again"
    ends = {"image", "probabilities"}
    for node in broken.model.graph.node:
        node.input[:] = [name if name in ends or not name else f"t/{name}" for name in node.input]
        node.output[:] = [name if name in ends else f"t/{name}" for name in node.output]
    for tensor in broken.model.graph.initializer:
        tensor.name = f"t/{tensor.name}"
    del broken.model.graph.value_info[:]
    report = broken.report()
    assert [layer.title for layer in report.layers] == [
        *("image", "stem", "depthwise", "project", "add", "pool", "flatten", "classes", "softmax")
    ]
    assert report.to_blame() == []


NPU = ["--npu", "ethos-u55-128", "--npu-ops", "conv2d,depthwise_conv2d"]


def test_the_chain_goes_on_to_the_npu(files: Path, capsys: pytest.CaptureFixture[str]):
    assert _accuracy("-o", "r.json", *NPU) == 0
    report = AccuracyReport.model_validate_json(Path("r.json").read_bytes())
    assert report.npu is not None
    assert report.npu.equal
    assert report.npu.samples == min(NPU_SAMPLES, report.samples)
    assert {"conv1", "conv3"} <= {node for region in report.npu.regions for node in region.sources}
    assert "values differ from our integers" in " ".join(capsys.readouterr().out.split())
    assert "0 of " in html(report)


def test_an_npu_that_computes_otherwise_is_a_defect(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    depthwise = interpreter._OPERATIONS["op_depthwise"]

    def planted(machine: Machine) -> None:
        machine.registers.values["ofm_zero_point"] += 3
        depthwise(machine)
        machine.registers.values["ofm_zero_point"] -= 3

    monkeypatch.setitem(interpreter._OPERATIONS, "op_depthwise", planted)
    assert _accuracy(*NPU) == 4
    captured = capsys.readouterr()
    assert "begin to differ at" in captured.out
    assert "conv2/depthwise" in captured.err
    assert "where the NPU is not what" in " ".join(captured.err.split())


def test_a_model_that_stays_on_the_cpu_says_so(files: Path, capsys: pytest.CaptureFixture[str]):
    assert _accuracy_of_product(*NPU[:2]) == 0
    assert "no region gains" in capsys.readouterr().out


def test_a_bound_that_cannot_be_told_is_refused_before_any_work(
    files: Path, capsys: pytest.CaptureFixture[str]
):
    np.savez("unlabelled.npz", inputs=digits.held_out()[0][:20])
    assert _accuracy("--max-drop", "10%", data="unlabelled.npz") == 2
    captured = capsys.readouterr()
    assert "name a --metric" in captured.err
    assert not captured.out
