# SPDX-License-Identifier: Apache-2.0
"""The chain of a TFLite model: float in LiteRT, LiteRT's integers, ours, and the NPU; broken on purpose, it is named.

t0 ─ stem ─ deep ─ flat ─ scores
"""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

import arm_ext
from arm_ext.api import digits
from arm_ext.api.accuracy import accuracy
from arm_ext.cli import invoke
from arm_ext.common.errors import EnvError, UsageError
from arm_ext.ethosu.model import convolution
from arm_ext.ethosu.model.machine import Machine
from arm_ext.frontends.tflite import reference
from arm_ext.report.accuracy.gate import Gate
from arm_ext.report.accuracy.html import html
from arm_ext.report.accuracy.record import AccuracyReport, LayerAccuracy
from arm_ext.report.accuracy.views import text
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder
from tests.arm_ext.frontends.tflite.test_graphs import program

SHARED = Path(__file__).parents[4] / "shared" / "models"
SAME, RELU = 0, 1
COUNT = 12
FED = {"strideH": 1, "strideW": 1, "padding": SAME, "fusedActivationFunction": RELU}
Ranges = dict[str, tuple[float, float]]


def draw(seed: int, *shape: int) -> np.ndarray:
    found = np.random.default_rng(seed).standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
    return found.astype(np.float32)


WEIGHTS = {"stem": draw(1, 8, 3, 3, 4), "deep": draw(2, 1, 3, 3, 8) * 8, "scores": draw(3, 5, 512)}
BIASES = {"stem": draw(4, 8) / 3, "deep": draw(5, 8) / 3, "scores": draw(6, 5) / 3}
AXES = {"stem": 0, "deep": 3, "scores": 0}


def samples() -> np.ndarray:
    return np.random.default_rng(7).standard_normal((COUNT, 8, 8, 4)).astype(np.float32)


class Network:
    """The network in float, or in int8 where it has ranges of its tensors; `factors` of scales break it."""

    def __init__(self, ranges: Ranges | None = None, **factors: float) -> None:
        self._ranges, self._factors, self._m = ranges, factors, TfliteBuilder()
        self._scales: dict[int, float] = {}

    def build(self) -> bytes:
        m = self._m
        x = m.take(self._type, 1, 8, 8, 4, **self._parameters("t0"))
        if self._ranges:
            self._scales[x] = self._parameters("t0")["scale"]
        stem = self._product("CONV_2D", "stem", x, (1, 8, 8, 8), **FED)
        deep = self._product("DEPTHWISE_CONV_2D", "deep", stem, (1, 8, 8, 8), depthMultiplier=1, **FED)
        flat = self._tensor("flat", (1, 512), like="deep")
        m.op("RESHAPE", [deep, m.hold([1, 512])], [flat])
        self._product("FULLY_CONNECTED", "scores", flat, (1, 5))
        return m.build()

    @property
    def _type(self) -> str:
        return "int8" if self._ranges else "float32"

    def _parameters(self, name: str) -> dict:
        if self._ranges is None:
            return {}
        least, greatest = min(self._ranges[name][0], 0.0), max(self._ranges[name][1], 0.0)
        scale = (greatest - least) / 255 * self._factors.get(name, 1.0)
        return {"scale": scale, "zero": int(np.clip(round(-128 - least / scale), -128, 127))}

    def _tensor(self, name: str, shape: tuple[int, ...], like: str = "") -> int:
        parameters = self._parameters(like or name)
        number = self._m.tensor(self._type, *shape, name=name, **parameters)
        if parameters:
            self._scales[number] = parameters["scale"]
        return number

    def _product(self, op: str, name: str, x: int, shape: tuple[int, ...], **options: object) -> int:
        m, weight, bias = self._m, WEIGHTS[name], BIASES[name]
        if self._ranges is None:
            inputs = [x, m.hold(weight, "float32"), m.hold(bias, "float32")]
        else:
            axis = AXES[name]
            others = tuple(each for each in range(weight.ndim) if each != axis)
            scales = np.abs(weight).max(others, keepdims=True) / 127
            held = np.rint(weight / scales)
            told = scales.reshape(-1) * self._factors.get(f"{name} weights", 1.0)
            sums = self._scales[x] * told
            inputs = [
                x,
                m.hold(held, "int8", scale=told, axis=axis),
                m.hold(np.rint(bias / sums), "int32", scale=sums),
            ]
        output = self._tensor(name, shape)
        m.op(op, inputs, [output], **options)
        return output


@cache
def ranges() -> tuple[tuple[str, float, float], ...]:
    content = Network().build()
    run = reference.Tensors(content, "float")
    names = {
        index: name for name, index in (("t0", 0), ("stem", 3), ("deep", 6), ("flat", 7), ("scores", 11))
    }
    seen = [run([sample[None]], list(names)) for sample in samples()]
    return tuple(
        (name, float(min(s[index].min() for s in seen)), float(max(s[index].max() for s in seen)))
        for index, name in names.items()
    )


def files(folder: Path, **factors: float) -> tuple[Path, Path]:
    found = {name: (least, greatest) for name, least, greatest in ranges()}
    int8, source = folder / "int8.tflite", folder / "source.tflite"
    int8.write_bytes(Network(found, **factors).build())
    source.write_bytes(Network().build())
    return int8, source


def report_of(folder: Path, **factors: float) -> AccuracyReport:
    return accuracy(*files(folder, **factors), {"t0": samples()})


@cache
def sound() -> AccuracyReport:
    with TemporaryDirectory() as folder:
        return report_of(Path(folder))


def by_name(report: AccuracyReport) -> dict[str, LayerAccuracy]:
    return {layer.name: layer for layer in report.layers}


def test_a_good_model_has_nobody_to_blame():
    report = sound()
    assert (report.middle, report.reference) == ("LiteRT", "source")
    assert report.runtime.startswith("LiteRT ")
    layers = by_name(report)
    assert list(layers) == ["t0", "stem", "deep", "flat", "scores"]
    assert report.to_blame() == []
    assert report.uncovered == ()
    (output,) = report.outputs
    assert output.fake.sqnr_db > 25
    assert output.integers.sqnr_db > 25
    # Both round, each in its way: a step here and there.
    assert layers["stem"].differing is not None
    assert layers["stem"].differing < 0.02 * layers["stem"].elements
    assert layers["flat"].own.sqnr_db == 200
    assert layers["scores"].own.sqnr_db > layers["scores"].integers.sqnr_db
    # "flat" is a row of pixels by channels, of which "deep" has no reader; scales do not differ by channel here.
    assert [layer.name for layer in report.layers if layer.read_db is not None] == ["t0", "stem", "flat"]
    assert abs(layers["stem"].read_db - layers["stem"].own.sqnr_db) < 6
    assert "LiteRT" in text(report)
    assert "QDQ" not in text(report)
    assert "LiteRT" in html(report)


BROKEN = {
    "a saturating tensor": ({"deep": 0.3}, "deep", "saturate"),
    "a coarse tensor": ({"stem": 20.0}, "stem", "levels"),
    "the scale of weights": ({"deep weights": 2.0}, "deep", "its weights come out 2 times the source's"),
    "the last layer": ({"scores weights": 0.5}, "scores", "come out 0.5 times"),
}


# Their causes are those of others here, or of those in test_accuracy.
LONG = {"a saturating tensor", "the last layer"}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.long] if case in LONG else []) for case in BROKEN]
)
def test_a_layer_that_is_broken_is_named_first(case: str, tmp_path: Path):
    factors, name, cause = BROKEN[case]
    report = report_of(tmp_path, **factors)
    worst = report.worst()[0]
    assert worst.name == name
    assert cause in worst.because()
    assert {layer.name for layer in report.to_blame()} <= {name, "flat"}


def test_without_the_float_model_litert_is_the_reference(tmp_path: Path):
    int8, _ = files(tmp_path)
    integers = np.clip(np.rint(samples() * 20), -128, 127).astype(np.int8)
    report = accuracy(int8, None, {"t0": integers})
    assert report.samples == COUNT
    assert report.reference == "LiteRT"
    assert report.outputs[0].fake.sqnr_db == 200
    assert all(layer.own.sqnr_db > 35 for layer in report.layers)


def test_a_board_gives_the_same_integers_as_this_machine(tmp_path: Path):
    int8, source = files(tmp_path)
    there = accuracy(int8, source, {"t0": samples()}, board="local", target="host")
    assert there.board == "local"
    assert [layer.integers for layer in sound().layers] == [layer.integers for layer in there.layers]


def test_a_float_model_is_compared_too(tmp_path: Path):
    _, source = files(tmp_path)
    report = accuracy(source, None, {"inputs": samples()})
    assert {layer.type for layer in report.layers} == {"float32"}
    assert report.outputs[0].integers.sqnr_db > 100


def test_the_chain_goes_on_to_the_npu(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    int8, source = map(str, files(tmp_path))
    np.savez(tmp_path / "data.npz", t0=samples(), labels=np.zeros(COUNT, np.int64))
    given = ["accuracy", int8, "--against", source, "--data", str(tmp_path / "data.npz"), "--json"]
    assert invoke([*given, "--npu", "ethos-u55-128", "--npu-ops", "conv2d,depthwise_conv2d"]) == 0
    report = AccuracyReport.model_validate_json(capsys.readouterr().out)
    assert report.npu is not None
    assert report.npu.equal
    assert {"stem", "deep"} <= {node for region in report.npu.regions for node in region.sources}
    assert report.metric is not None
    assert report.metric.name == "top1"


def test_what_tflite_models_do_not_take(tmp_path: Path):
    int8, source = files(tmp_path)
    data = {"t0": samples()}
    for options, said in (
        (
            {"bisect": Gate(max_drop=0.1), "metric": "cosine"},
            "int8 is TFLite, which has no float weights",
        ),
        ({"state": {"t0": "t1"}}, "--state is for ONNX models; a TFLite model's variables are states"),
        ({"values": {"t0": 1}}, "--value is for ONNX models; convert or export"),
    ):
        with pytest.raises(UsageError, match=said):
            accuracy(int8, source, data, **options)
    with pytest.raises(UsageError, match="is itself quantised"):
        accuracy(int8, int8, data)
    with pytest.raises(UsageError, match="but --against is not: name the float TFLite model"):
        accuracy(int8, digits.model_path("fp32"), data)
    with pytest.raises(UsageError, match=r"gone\.tflite: no such model file"):
        accuracy(tmp_path / "gone.tflite", None, data)
    with pytest.raises(UsageError, match="name the float model that it was quantised from"):
        accuracy(digits.model_path(), None, data)
    with pytest.raises(UsageError, match=r"the model takes \[samples, 1, 8, 8, 4\]"):
        accuracy(int8, source, {"t0": samples()[:, :5]})
    m = TfliteBuilder()
    x = m.take("float32", 1, 8, 8, 4)
    m.op("RELU", [x], [m.tensor("float32", 1, 8, 8, 4, name="other")])
    (tmp_path / "other.tflite").write_bytes(m.build())
    with pytest.raises(UsageError, match=r"outputs of int8 and --against other are .*not of the same model"):
        accuracy(int8, tmp_path / "other.tflite", data)


def test_what_has_no_name_of_the_float_model_is_told(tmp_path: Path):
    int8, source = files(tmp_path)
    source.write_bytes(source.read_bytes().replace(b"deep", b"keep"))
    report = accuracy(int8, source, {"t0": samples()})
    assert report.uncovered == ("deep",)
    assert list(by_name(report)) == ["t0", "stem", "flat", "scores"]


def test_without_litert_the_message_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    int8, source = files(tmp_path)
    monkeypatch.setattr(reference, "_LITERT", "no-such-distribution")
    with pytest.raises(EnvError, match="LiteRT, which is not installed: pip install"):
        arm_ext.accuracy(int8, source, {"t0": samples()})


FRAMES, UNITS, STEPS = 3, 6, 7
STEP_SCALES = {"x": 0.03, "state": 0.002, "y": 0.015, "scores": 0.02}
SCORES = 7
"""Number of the last tensor of `streaming`."""


def streaming(folder: Path, *, quantized: bool, state: float = 1.0) -> Path:
    """An SVDF, which keeps the frames before, and a linear layer; `state` is a factor of the kept frames' scale."""
    scales = STEP_SCALES | {"state": STEP_SCALES["state"] * state}
    weights = {"features": draw(11, UNITS, 5), "time": draw(12, UNITS, FRAMES), "linear": draw(13, 4, UNITS)}
    m = TfliteBuilder()

    def tensor(name: str, *shape: int) -> int:
        scale = scales[name] if quantized else None
        # Its ReLU is the range of the integers.
        zero = -128 if quantized and name == "y" else 0
        return m.tensor("int8" if quantized else "float32", *shape, scale=scale, zero=zero, name=name)

    def hold(name: str, dtype: str) -> int:
        if not quantized:
            return m.hold(weights[name], "float32")
        step = float(np.abs(weights[name]).max()) / np.iinfo(dtype).max
        scales[name] = step
        return m.hold(np.rint(weights[name] / step), dtype, scale=step)

    x = m.take("int8", 1, 5, scale=scales["x"]) if quantized else m.take("float32", 1, 5)
    features, time = hold("features", "int8"), hold("time", "int16")
    kept = m.variable(
        1, UNITS * FRAMES, **({"dtype": "int16", "scale": scales["state"]} if quantized else {})
    )
    zeros = np.zeros(UNITS)
    bias = m.bias(UNITS, scales["state"] * scales["time"]) if quantized else m.hold(zeros, "float32")
    m.buffers[m.tensors[bias].buffer].data = list(
        (zeros.astype(np.int32 if quantized else np.float32)).tobytes()
    )
    y = tensor("y", 1, UNITS)
    m.op("SVDF", [x, features, time, bias, kept], [y], rank=1, fusedActivationFunction=RELU)
    m.op("FULLY_CONNECTED", [y, hold("linear", "int8"), -1], [tensor("scores", 1, 4)])
    path = folder / f"{'int8' if quantized else 'source'}.tflite"
    path.write_bytes(m.build())
    return path


def steps() -> np.ndarray:
    return np.random.default_rng(14).standard_normal((STEPS, 1, 5)).astype(np.float32)


def test_samples_of_a_model_with_variables_are_steps(tmp_path: Path):
    int8, source = streaming(tmp_path, quantized=True), streaming(tmp_path, quantized=False)
    report = accuracy(int8, source, {"inputs": steps()})
    assert report.to_blame() == []
    (output,) = report.outputs
    assert output.integers.sqnr_db > 25
    # LiteRT goes on from its variables by itself: one interpreter through all steps.
    interpreter = reference.Tensors(source.read_bytes(), "source")
    exact = np.stack([interpreter([step], [SCORES])[SCORES] for step in steps()])
    assert report.layers[-1].elements == exact.size
    values = by_name(report)["scores"].values
    assert values is not None
    assert values.start <= exact.min()
    assert exact.max() <= values.start + values.width * len(values.source)
    # A step alone knows nothing of the frames before: the chain is worse from the second step on.
    alone = accuracy(int8, source, {"inputs": steps()[-1:]})
    assert alone.outputs[0].integers != output.integers


def test_kept_frames_that_saturate_are_named(tmp_path: Path):
    int8, source = streaming(tmp_path, quantized=True, state=1 / 64), streaming(tmp_path, quantized=False)
    report = accuracy(int8, source, {"inputs": steps()})
    first = report.worst()[0]
    assert (first.name, first.operator) == ("y", "SVDF")
    assert first.is_to_blame


def test_variables_of_the_two_models_must_agree(tmp_path: Path):
    int8 = streaming(tmp_path, quantized=True)
    m = TfliteBuilder()
    x = m.take("float32", 1, 5)
    m.op("FULLY_CONNECTED", [x, m.hold(draw(15, 4, 5), "float32"), -1], [m.tensor("float32", 1, 4)])
    (tmp_path / "other.tflite").write_bytes(m.build())
    with pytest.raises(
        UsageError, match=r"the states of int8 and --against other are .* not of the same model"
    ):
        accuracy(int8, tmp_path / "other.tflite", {"inputs": steps()})


def counting(folder: Path, *, quantized: bool) -> Path:
    """x + s, which is s then; s is a variable by name, and begins with 1, 2, 3."""
    m, begin = TfliteBuilder(), TfliteBuilder()
    dtype, scale = ("int8", 0.05) if quantized else ("float32", None)
    m.op("CALL_ONCE", [], [], initSubgraphIndex=1)
    for graph in (m, begin):
        handle = graph.tensor("int32", name="handle")
        graph.tensors[handle].type = schema.TensorType.RESOURCE
        graph.op("VAR_HANDLE", [], [handle], sharedName="kept")
    first = np.array([[1, 2, 3]])
    begin.op("ASSIGN_VARIABLE", [0, begin.hold(np.rint(first / (scale or 1)), dtype, scale=scale)], [])
    old = m.tensor(dtype, 1, 3, scale=scale, name="old")
    m.op("READ_VARIABLE", [0], [old])
    x, new = m.take(dtype, 1, 3, scale=scale), m.tensor(dtype, 1, 3, scale=scale, name="sum")
    m.op("ADD", [x, old], [new])
    m.op("ASSIGN_VARIABLE", [0, new], [])
    path = folder / f"{'int8' if quantized else 'source'}.tflite"
    path.write_bytes(program(m, begin, outputs={0: [new], 1: []}))
    return path


def test_samples_of_a_model_with_variables_by_name_are_steps(tmp_path: Path):
    int8, source = counting(tmp_path, quantized=True), counting(tmp_path, quantized=False)
    values = np.random.default_rng(15).uniform(-1, 1, (4, 1, 3)).astype(np.float32)
    for against, least in ((source, 30), (None, 100)):
        report = accuracy(int8, against, {"inputs": values})
        assert report.uncovered == ()
        (_, layer) = report.layers
        assert (layer.name, layer.elements) == ("sum", 12)
        assert report.outputs[0].integers.sqnr_db > least
    # The sum of all steps, and what the variable begins with.
    exact = np.array([[1, 2, 3]]) + np.cumsum(values, 0)
    assert layer.values is not None
    last = accuracy(int8, source, {"inputs": values}).layers[-1].values
    assert last is not None
    assert last.start <= exact.min()
    assert exact.max() <= last.start + last.width * len(last.source)


TRAINED = {
    "kws_ref_model": ("kws_ref_model_float32", "conv2d,depthwise_conv2d,linear"),
    "pretrainedResnet_quant": ("pretrainedResnet", "conv2d,add"),
}


@pytest.mark.long
@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("npu", ["ethos-u55-128", "ethos-u85-256"])
def test_the_chain_of_a_trained_model_ends_in_0_differences(name: str, npu: str):
    source, operators = TRAINED[name]
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED} is not there")
    rng = np.random.default_rng(11)
    shape = (3, 49, 10, 1) if name.startswith("kws") else (3, 32, 32, 3)
    data = {"inputs": rng.integers(-110, 20, shape).astype(np.float32) + (128 if len(shape) == 3 else 0)}
    options = arm_ext.NpuOptions(npu, npu_ops=tuple(operators.split(",")))
    report = accuracy(SHARED / f"{name}.tflite", SHARED / f"{source}.tflite", data, npu=options)
    assert report.npu is not None
    assert report.npu.regions
    assert [region.differing for region in report.npu.regions] == [0] * len(report.npu.regions)


@pytest.mark.long
def test_a_convolution_amid_a_trained_model_that_the_npu_computes_otherwise_is_named(
    monkeypatch: pytest.MonkeyPatch,
):
    """The only one of ResNet-8 from 32 channels to as many."""
    path = SHARED / "pretrainedResnet_quant.tflite"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    accumulate = convolution.accumulate

    def planted(machine: Machine, total: np.ndarray, joined: np.ufunc = np.add) -> None:
        depths = machine.registers.size("ifm_depth"), total.shape[-1]
        wrong = machine.running.name == "op_conv" and depths == (32, 32)
        accumulate(machine, total + 3000 if wrong else total, joined)

    monkeypatch.setattr(convolution, "accumulate", planted)
    images = np.random.default_rng(1).integers(0, 256, (1, 32, 32, 3)).astype(np.float32)
    link = accuracy(path, None, {"inputs": images}, npu="ethos-u55-128").npu
    assert link is not None
    (region,) = link.regions
    assert region.differing
    assert region.begins is not None
    assert region.begins.nodes == ("model/batch_normalization_4/FusedBatchNormV3",)
    assert region.begins.wrong == "NPU"
