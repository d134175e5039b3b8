# SPDX-License-Identifier: Apache-2.0
"""The chain of a program that PT2E quantised: torch in float, QDQ in torch, our integers; what is broken is named.

x ─ stem (batch normalisation, ReLU) ─ deep ─ + ─ mean ─ scores
                              └────────────────────┘
"""

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pytest
import torch
from torch import nn
from torch._higher_order_ops.while_loop import while_loop
from torch.export import ExportedProgram
from torchao.quantization.pt2e import (
    FakeQuantize,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    move_exported_model_to_eval,
)
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_qat_pt2e
from torchao.quantization.pt2e.quantizer import QuantizationAnnotation

from arm_ext.api import digits
from arm_ext.api.accuracy import accuracy
from arm_ext.cli import invoke
from arm_ext.common.errors import UsageError
from arm_ext.frontends.torch.importer import import_torch
from arm_ext.frontends.torch.reference import NodeValues
from arm_ext.quantization.torch_float_layers import TorchFloatLayers
from arm_ext.quantization.torch_layers import TorchMatching
from arm_ext.report.accuracy.gate import Gate
from arm_ext.report.accuracy.record import AccuracyReport, LayerAccuracy
from arm_ext.report.accuracy.views import text
from tests.arm_ext.frontends.torch.quantizer import DATA, WEIGHTS, Dynamic, EveryOperator, quantized

COUNT, CHANNELS = 6, 8


class Network(nn.Module):
    """Two convolutions with a residual, and a linear layer; the offset is an input that is added in place."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, CHANNELS, 3, bias=False), nn.BatchNorm2d(CHANNELS)
        self.deep = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, groups=CHANNELS)
        self.scores = nn.Linear(CHANNELS, 5)

    def forward(self, x: torch.Tensor, offset: torch.Tensor) -> torch.Tensor:
        features = torch.relu(self.norm(self.stem(x)))
        return self.scores((self.deep(features) + features).mean((2, 3)).add_(offset))


def samples() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    shapes = {"x": (COUNT, 3, 9, 7), "offset": (COUNT, 1, CHANNELS)}
    return {name: rng.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}


@cache
def programs() -> tuple[ExportedProgram, ExportedProgram]:
    """The quantised and the float program."""
    torch.manual_seed(3)
    net = Network().eval()
    net.norm.running_var.uniform_(0.1, 2)
    rows = [
        tuple(map(torch.from_numpy, row))
        for row in zip(samples()["x"][:, None], samples()["offset"], strict=True)
    ]
    return quantized(net, rows), torch.export.export(net, rows[0])


def report_of(change: Callable[[ExportedProgram], None] = lambda program: None) -> AccuracyReport:
    program, source = programs()
    program = copy.deepcopy(program)
    change(program)
    return accuracy(program, source, samples())


@cache
def sound() -> AccuracyReport:
    return report_of()


def by_name(report: AccuracyReport) -> dict[str, LayerAccuracy]:
    return {layer.name: layer for layer in report.layers}


def test_a_good_program_has_nobody_to_blame() -> None:
    report = sound()
    layers = by_name(report)
    assert list(layers) == [
        *("x", "offset", "stem/conv2d", "deep/conv2d", "add", "mean", "add_", "scores/linear"),
    ]
    assert layers["stem/conv2d"].nodes == ("stem/conv2d", "norm/batch_norm", "relu")
    assert (report.middle, report.uncovered, report.to_blame()) == ("QDQ", (), [])
    assert report.runtime.startswith("torch ")
    assert report.outputs[0].integers.sqnr_db > 25
    # torch computes in float what we compute in integers: a tie may go the other way.
    assert all(layer.differing < 0.01 * layer.elements for layer in report.layers)
    assert layers["stem/conv2d"].read_db is not None
    assert layers["deep/conv2d"].own.sqnr_db > layers["deep/conv2d"].fake.sqnr_db > 25


def scaled(layer: str, factor: float) -> Callable[[ExportedProgram], None]:
    """Scales what a node of the quantised program is quantised and dequantised by."""

    def change(program: ExportedProgram) -> None:
        (value,) = next(node for node in program.graph.nodes if node.name == layer).users
        for node in (value, *value.users):
            node.args = (node.args[0], node.args[1] * factor, *node.args[2:])

    return change


def with_weights_scaled(program: ExportedProgram) -> None:
    product = next(node for node in program.graph.nodes if node.name == "conv2d_1")
    scale = product.args[1].args[1].name
    target = program.graph_signature.inputs_to_buffers[scale]
    {**program.constants, **program.state_dict}[target].mul_(2)


BROKEN = {
    "a saturating tensor": (scaled("conv2d_1", 0.3), "deep/conv2d", "saturate"),
    "a coarse tensor": (scaled("relu", 20.0), "stem/conv2d", "levels"),
    "the scale of weights": (with_weights_scaled, "deep/conv2d", "its weights come out 2 times the source's"),
}


# Their causes are those of others in test_accuracy and test_accuracy_tflite.
LONG = {"a saturating tensor", "a coarse tensor"}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.long] if case in LONG else []) for case in BROKEN]
)
def test_a_layer_that_is_broken_is_named_first(case: str) -> None:
    change, name, cause = BROKEN[case]
    worst = report_of(change).worst()[0]
    assert worst.name == name
    assert cause in worst.because()


def test_the_modules_to_leave_in_float_are_found() -> None:
    program, source = programs()
    program = copy.deepcopy(program)
    with_weights_scaled(program)
    found = accuracy(
        program, source, samples(), metric="cosine", bisect=Gate(max_drop=1e-3), target="neoverse-v2"
    )
    assert found.mixed is not None
    (chosen,) = (each for each in found.mixed.choices if each.chosen)
    assert chosen.holds
    assert chosen.layers == ("deep/conv2d",)
    assert found.mixed.modules == ("deep",)
    integers, floats = found.mixed.choices[0], max(found.mixed.choices, key=lambda each: len(each.layers))
    assert (integers.layers, len(floats.layers)) == ((), 6)
    assert integers.cycles < chosen.cycles
    assert integers.bytes < floats.bytes
    # With all layers in float it is the float program, but for the rounding of what was folded.
    assert floats.metric == pytest.approx(1, abs=1e-7)
    assert "let PT2E's quantiser leave out these modules: deep" in " ".join(text(found).split())


def test_a_program_with_layers_in_float_is_the_float_program_there() -> None:
    program, source = programs()
    both = TorchMatching(NodeValues(program, "int8"), NodeValues(source, "float"))
    layers = TorchFloatLayers(both, both.layers(import_torch(program).mod))
    whole = layers.with_float([node for unit in layers.units for node in unit.nodes])
    assert not [node for node in whole.graph.nodes if "quantize" in str(node.target)]
    x = samples()["x"][:1], samples()["offset"][0]
    exact = import_torch(source).reference(list(x))[0][0]
    # Folded batch normalisation rounds otherwise.
    np.testing.assert_allclose(import_torch(whole).reference(list(x))[0][0], exact, rtol=1e-5, atol=1e-6)
    some = layers.with_float(["conv2d_1"])
    left = {node.name for node in program.graph.nodes} - {node.name for node in some.graph.nodes}
    # Its weights and bias alone: an addition in integers reads what it computes, as it reads what it is made of.
    assert len(left) == 2
    assert all(name.startswith("dequantize") for name in left)


def test_a_board_gives_the_same_integers_as_this_machine() -> None:
    program, source = programs()
    there = accuracy(program, source, samples(), board="local", target="host")
    assert there.board == "local"
    assert [layer.integers for layer in sound().layers] == [layer.integers for layer in there.layers]


def test_without_the_float_program_torch_is_the_reference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.export.save(programs()[0], tmp_path / "plain.pt2")
    # As torch never writes it, so that it must be trusted.
    with (
        ZipFile(tmp_path / "plain.pt2") as plain,
        ZipFile(tmp_path / "int8.pt2", "w", ZIP_DEFLATED) as packed,
    ):
        for name in plain.namelist():
            packed.writestr(name, plain.read(name))
    np.savez(tmp_path / "data.npz", **samples())
    given = ["accuracy", str(tmp_path / "int8.pt2"), "--data", str(tmp_path / "data.npz"), "--json"]
    assert invoke(given) == 2
    assert "add --trust" in capsys.readouterr().err
    given.append("--trust")
    assert invoke(given) == 0
    report = AccuracyReport.model_validate_json(capsys.readouterr().out)
    assert (report.model, report.reference) == ("int8", "QDQ")
    assert report.outputs[0].fake.sqnr_db == 200
    assert all(layer.own.sqnr_db > 35 for layer in report.layers)


class Stream(nn.Module):
    """A convolution over the frames of this step and the two before, which a buffer keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.scores = nn.Conv1d(4, CHANNELS, 3), nn.Linear(CHANNELS, 5)
        self.register_buffer("past", torch.zeros(1, 4, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        frames = torch.cat([self.past, x], 2)
        self.past.copy_(frames.split((3, 2), 2)[1])
        return self.scores(torch.relu(self.conv(frames)).mean(2))


@cache
def streams() -> tuple[ExportedProgram, ExportedProgram]:
    """The quantised and the float program of a stream; the quantised begins where calibration ended."""
    torch.manual_seed(5)
    net = Stream().eval()
    program = quantized(copy.deepcopy(net), [(x,) for x in torch.from_numpy(frames())])
    return program, torch.export.export(net, (torch.zeros(1, 4, 3),))


def frames() -> np.ndarray:
    """Frames of growing size, so that a state that is forgotten shows."""
    size = np.linspace(0.2, 1, COUNT)[:, None, None, None]
    return (np.random.default_rng(8).uniform(-1, 1, (COUNT, 1, 4, 3)) * size).astype(np.float32)


@pytest.mark.parametrize("functional", [False, True])
def test_samples_of_a_program_with_buffers_are_steps(functional: bool) -> None:
    program, source = streams()
    begin = program.state_dict["past"].clone()
    if functional:
        program, source = (each.run_decompositions({}) for each in (program, source))
    report = accuracy(program, source, {"x": frames()})
    layers = by_name(report)
    assert list(layers) == ["cat", "split_with_sizes", "conv/conv1d", "relu", "mean", "scores/linear"]
    found = {}
    for name, each in (("float", source), ("quantised", program)):
        module = copy.deepcopy(each).module()
        module.past.copy_(begin)
        found[name] = np.stack([module(x).detach().numpy() for x in torch.from_numpy(frames())])
    error = np.sum((found["float"] - found["quantised"]) ** 2, dtype=np.float64)
    expected = 10 * np.log10(np.sum(found["float"] ** 2, dtype=np.float64) / error)
    (output,) = report.outputs
    assert output.fake.sqnr_db == pytest.approx(expected, abs=0.01)
    assert output.integers.sqnr_db == pytest.approx(expected, abs=1)
    assert torch.equal(program.state_dict["past"], begin)  # no run has changed it


def test_states_in_the_data_are_inputs() -> None:
    program, source = streams()
    given = np.random.default_rng(9).uniform(-1, 1, (COUNT, 1, 4, 2)).astype(np.float32)
    report = accuracy(program, source, {"x": frames(), "past": given})
    module, rows = copy.deepcopy(source).module(), []
    for x, past in zip(frames(), given, strict=True):
        module.past.copy_(torch.from_numpy(past))
        rows.append(module(torch.from_numpy(x)).detach().numpy())
    values = by_name(report)["scores/linear"].values
    assert values is not None
    assert values.start <= np.min(rows) < values.start + values.width
    end = values.start + values.width * len(values.source)
    assert end - values.width < np.max(rows) <= end


@pytest.mark.long
def test_the_search_measures_steps() -> None:
    program, source = streams()
    found = accuracy(program, source, {"x": frames()}, metric="cosine", bisect=Gate(max_drop=1e-6))
    assert found.mixed is not None
    assert found.metric is not None
    assert found.mixed.choices[0].metric == pytest.approx(found.metric.fake, abs=1e-9)
    assert max(each.metric for each in found.mixed.choices) > 1 - 1e-6


def test_steps_without_the_float_program() -> None:
    program, _ = streams()
    alone = accuracy(program, None, {"x": frames()})
    assert alone.outputs[0].fake.sqnr_db == 200
    assert all(layer.own.sqnr_db > 35 for layer in alone.layers)


class Deciding(nn.Module):
    """A branch and a loop between linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.scores = nn.Linear(CHANNELS, CHANNELS), nn.Linear(CHANNELS, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.first(x))
        z = torch.cond(y.sum() > 1.5, lambda v: v * 2 + 0.5, lambda v: v - 1.0, (y,))
        _, z = while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * 0.9), (torch.tensor(0), z))
        return self.scores(z)


def test_programs_with_control_flow_are_compared_outside_of_it() -> None:
    torch.manual_seed(4)
    net = Deciding().eval()
    rows = torch.randn(COUNT, 1, CHANNELS) * torch.linspace(0.3, 2, COUNT)[:, None, None]
    program = quantized(net, [(row,) for row in rows])
    taken = {bool(torch.relu(net.first(row)).sum() > 1.5) for row in rows}
    assert taken == {False, True}
    report = accuracy(program, torch.export.export(net, (rows[0],)), {"x": rows.numpy()})
    layers = by_name(report)
    assert list(layers) == ["x", "first/linear", "sum_1", "cond", "while_loop", "scores/linear"]
    assert (report.uncovered, report.to_blame()) == ((), [])
    assert report.outputs[0].integers.sqnr_db > 25
    assert [layer.differing for layer in report.layers] == [0] * len(report.layers)
    # The branch is fed with the float program's values where the layer is alone.
    assert layers["cond"].own.sqnr_db > layers["cond"].fake.sqnr_db
    with pytest.raises(UsageError, match="has branches or loops; its layers can be compared"):
        accuracy(program, None, {"x": rows.numpy()})


class Trained(EveryOperator):
    """Quantises while the network trains, a convolution with the normalisation and the ReLU behind it."""

    def annotate(self, model: torch.fx.GraphModule) -> torch.fx.GraphModule:
        super().annotate(model)
        nodes = {node.name: node for node in model.graph.nodes}
        for name in ("conv2d", "batch_norm", "relu"):
            inputs = nodes[name].meta["quantization_annotation"].input_qspec_map if name == "conv2d" else {}
            nodes[name].meta["quantization_annotation"] = QuantizationAnnotation(
                inputs, DATA if name == "relu" else None, _annotated=True
            )
        for each in (node.meta.get("quantization_annotation") for node in model.graph.nodes):
            if each is not None:
                each.input_qspec_map = {
                    node: LEARNED.get(spec, spec) for node, spec in each.input_qspec_map.items()
                }
                each.output_qspec = LEARNED.get(each.output_qspec, each.output_qspec)
        return model


LEARNED = {
    spec: replace(spec, observer_or_fake_quant_ctr=FakeQuantize.with_args(observer=observer))
    for spec, observer in (
        (DATA, MovingAverageMinMaxObserver),
        (WEIGHTS, MovingAveragePerChannelMinMaxObserver),
    )
}


@pytest.mark.long  # torchao takes half a minute to prepare a program for training
def test_a_program_that_was_trained_in_integers_keeps_its_scales() -> None:
    torch.manual_seed(6)
    net = nn.Sequential(nn.Conv2d(3, CHANNELS, 3, bias=False), nn.BatchNorm2d(CHANNELS), nn.ReLU())
    x, y = torch.from_numpy(samples()["x"]), torch.randn(COUNT, CHANNELS, 7, 5).relu()
    prepared = prepare_qat_pt2e(torch.export.export(net, (x,)).module(), Trained())
    optimizer = torch.optim.SGD(prepared.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        nn.functional.mse_loss(prepared(x), y).backward()
        optimizer.step()
    move_exported_model_to_eval(prepared)
    program = torch.export.export(convert_pt2e(prepared), (x,))
    told = [node.args[1:3] for node in program.graph.nodes if "quantize_per_tensor.d" in str(node.target)]
    report = accuracy(program, None, {"inputs": x.numpy()[None]})
    assert [layer.name for layer in report.layers] == ["input", "conv2d"]
    assert [(layer.scale, layer.zero_point) for layer in report.layers] == [*dict.fromkeys(told)]
    # torch adds up in float: a tie may go the other way.
    assert all(layer.differing <= 0.002 * layer.elements for layer in report.layers)


def test_what_does_not_belong_together_is_refused() -> None:
    program, source = programs()
    other = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).eval()
    image = (torch.zeros(1, 3, 9, 7),)
    for model, against, options, said in (
        (source, None, {}, "has no quantize"),
        (program, program, {}, r"is itself quantised \(dequantize_per_channel\)"),
        (program, torch.export.export(other, image), {}, "the inputs of model and --against model are"),
        (quantized(other, [image], Dynamic()), None, {}, "no tensor is quantised with a constant scale"),
        (program, source, {"values": {"offset": [0]}}, "--value is for ONNX models"),
        (program, source, {"state": {"x": "y"}}, "--state is for ONNX models; buffers that"),
        (program, None, {"bisect": Gate(max_drop=0.1), "metric": "cosine"}, "name it by --against"),
        (
            program,
            digits.model_path("fp32"),
            {},
            r"digits_fp32\.onnx: not a program that torch\.export\.save wrote",
        ),
        (program, "gone.pt2", {}, "gone.pt2: no such model file"),
        (other, None, {}, "a Sequential is neither a model file nor an exported program"),
    ):
        with pytest.raises(UsageError, match=said):
            accuracy(model, against, samples(), **options)
