# SPDX-License-Identifier: Apache-2.0
import json
import pkgutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import jsonschema
import numpy as np
import onnx
import pytest

import arm_ext
from arm_ext import cli
from arm_ext.api import digits
from arm_ext.api.npu_division import DividedEstimate
from arm_ext.quantization.static import Quantizer
from arm_ext.report.accuracy.gate import Gate
from arm_ext.report.accuracy.html import html
from arm_ext.report.accuracy.record import AccuracyReport
from arm_ext.report.accuracy.views import text
from tests.arm_ext.quantization.uneven import uneven_digits

FLOAT = str(digits.model_path("fp32"))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    images, labels = digits.held_out()
    np.savez("data.npz", inputs=images[:24], labels=labels[:24])
    return tmp_path


@cache
def plain() -> AccuracyReport:
    """Return the report of uneven digits in int8, on the samples of `files`."""
    with TemporaryDirectory() as folder:
        onnx.save(uneven_digits(), f"{folder}/uneven.onnx")
        data = {"inputs": digits.held_out()[0][:24], "labels": digits.held_out()[1][:24]}
        return arm_ext.quantize(f"{folder}/uneven.onnx", data, f"{folder}/plain.onnx").accuracy


def test_what_is_written_is_compared(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        cli.invoke(["quantize", FLOAT, "--data", "data.npz", "-o", "int8.onnx", "--calibration", "mse"]) == 0
    )
    told = capsys.readouterr().out
    assert "int8 against digits_fp32, 24 samples" in told
    assert "No layer is to blame" in told
    onnx.checker.check_model("int8.onnx", full_check=True)


def test_nodes_that_are_kept_stay_in_float(files: Path) -> None:
    result = arm_ext.quantize(
        FLOAT, "data.npz", "mixed.onnx", keep_float=["conv2/depthwise", "conv2/depthwise/relu"]
    )
    types = {layer.name: layer.type for layer in result.accuracy.layers}
    assert types["conv2/depthwise"] == "float32"
    assert types["conv3"] == "int8"
    nodes = {node.name: node for node in onnx.load("mixed.onnx").graph.node}
    assert list(nodes["conv2/depthwise"].input[1:]) == ["conv2/depthwise/weight", "conv2/depthwise/bias"]


def test_only_the_named_nodes_are_quantised(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    only = ["--only", "conv2/depthwise,conv2/depthwise/relu"]
    assert cli.invoke(["quantize", FLOAT, "--data", "data.npz", "-o", "one.onnx", *only, "--json"]) == 0
    report = AccuracyReport.model_validate_json(capsys.readouterr().out)
    types = {layer.name: layer.type for layer in report.layers}
    assert (types["conv2/depthwise"], types["conv2/pointwise"], types["conv3"]) == (
        "int8",
        "float32",
        "float32",
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--only", "conv4"], "--only conv4: digits_fp32 has no such node"),
        (["--only", "conv3", "--keep-float", "conv1"], "exclude each other"),
    ],
)
def test_nodes_to_quantise_that_are_wrong_are_told(
    options: list[str], said: str, files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.invoke(["quantize", FLOAT, "--data", "data.npz", "-o", "one.onnx", *options]) == 2
    assert said in capsys.readouterr().err
    assert not Path("one.onnx").exists()


def test_activations_of_int16_are_compared_layer_by_layer(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(uneven_digits(), "uneven.onnx")
    reports = {"int8": plain()}
    for name, options in {
        "some": ["--int16", "conv2/depthwise,conv2/pointwise"],
        "all": ["--activations", "int16"],
    }.items():
        arguments = [
            "quantize",
            "uneven.onnx",
            "--data",
            "data.npz",
            "-o",
            f"{name}.onnx",
            *options,
            "--json",
        ]
        assert cli.invoke(arguments) == 0
        reports[name] = AccuracyReport.model_validate_json(capsys.readouterr().out)
    types = {layer.name: layer.type for layer in reports["some"].layers}
    # What the layers read.
    assert [name for name, kind in types.items() if kind == "int16"] == ["conv1", "conv2/depthwise"]
    assert {layer.type for layer in reports["all"].layers} == {"int16"}
    assert [layer.nodes for layer in reports["all"].layers] == [
        layer.nodes for layer in reports["int8"].layers
    ]
    noise = [reports[name].outputs[0].integers.sqnr_db for name in ("int8", "some", "all")]
    assert noise[0] + 4 < noise[1] <= noise[2] + 0.5
    # Half a step of 16 bits, of values that 8-bit weights compute: next to the weights' error it is nothing.
    own = {name: {layer.name: layer.own.sqnr_db for layer in reports[name].layers} for name in reports}
    assert own["all"]["image"] > own["int8"]["image"] + 40


def test_rescaled_channels_are_compared_with_a_float_model_that_has_them(files: Path) -> None:
    onnx.save(uneven_digits(), "uneven.onnx")
    made = arm_ext.quantize("uneven.onnx", "data.npz", "equal.onnx", correct=["equalize", "bias"]).accuracy
    assert made.reference == plain().reference == "uneven"
    assert [layer.name for layer in made.layers] == [layer.name for layer in plain().layers]
    assert min(layer.own.sqnr_db for layer in plain().layers) < 25
    assert min(layer.own.sqnr_db for layer in made.layers) > 30
    assert made.outputs[0].integers.sqnr_db > plain().outputs[0].integers.sqnr_db + 10
    # Against the model as it was, a layer goes from one tensor that was not rescaled to the next.
    against = arm_ext.accuracy("equal.onnx", "uneven.onnx", "data.npz")
    assert {"conv1", "conv2/depthwise", "conv3"} <= set(against.layers[1].nodes)
    assert against.to_blame() == []


def test_layers_are_in_int16_or_float_where_a_bound_asks_for_it(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arm_ext.quantization.mixed_precision._FRONT", 2)  # fewer choices to price
    onnx.save(uneven_digits(), "uneven.onnx")
    bound = ["--metric", "cosine", "--max-drop", "0.1%", "--target", "cortex-a76"]
    assert (
        cli.invoke(["quantize", "uneven.onnx", "--data", "data.npz", "-o", "mixed.onnx", *bound, "--json"])
        == 0
    )
    report = AccuracyReport.model_validate_json(capsys.readouterr().out)
    assert report.mixed is not None
    (chosen,) = (each for each in report.mixed.choices if each.chosen)
    assert report.metric is not None
    assert report.metric.fake == pytest.approx(chosen.metric, abs=1e-6)
    assert report.metric.drop < 0.001
    assert report.mixed.in_integers
    assert "Our integers of this model miss" not in text(report)
    missed = report.model_copy(update={"mixed": report.mixed.model_copy(update={"in_integers": False})})
    assert "Our integers of this model miss the bound" in text(missed)
    integers, floats = report.mixed.choices[0], report.mixed.choices[-1]
    assert (integers.layers, integers.int16, len(floats.layers)) == ((), (), 6)
    raised = {*chosen.int16, *chosen.float16, *chosen.layers}
    assert raised == {"conv1", "conv2/depthwise", "conv2/pointwise"}
    assert any(layer.float16_cycles for layer in report.mixed.layers)  # the target has it
    assert not integers.holds
    assert integers.cycles < chosen.cycles < floats.cycles
    assert integers.bytes < chosen.bytes < floats.bytes
    # A Pareto front: what is dearer is better.
    assert [each.metric for each in report.mixed.choices] == sorted(
        each.metric for each in report.mixed.choices
    )
    # The list by hand makes the same model.
    mixed = report.mixed
    lists = {"--keep-float": mixed.nodes, "--int16": mixed.int16_nodes, "--float16": mixed.float16_nodes}
    by_hand = Quantizer(
        "uneven.onnx",
        dict(np.load("data.npz")),
        "minmax",
        ({},),
        keep_float=mixed.nodes,
        int16=mixed.int16_nodes,
        float16=mixed.float16_nodes,
    )
    assert by_hand.quantized({}).SerializeToString() == Path("mixed.onnx").read_bytes()
    assert all(f"{option} {','.join(nodes)}" in text(report) for option, nodes in lists.items() if nodes)
    assert "Layers in int16 and float" in html(report)


def test_the_npu_restricts_the_choice_and_is_priced_with_it(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Fewer choices to price, each of which is divided and lowered.
    monkeypatch.setattr("arm_ext.api.mixed_precision._CHEAPEST", 2)
    monkeypatch.setattr("arm_ext.quantization.mixed_precision._FRONT", 2)
    onnx.save(uneven_digits(), "uneven.onnx")
    asked = ["--metric", "cosine", "--max-drop", "0.1%", "--target", "cortex-a53", "--npu", "ethos-u55-128"]
    assert (
        cli.invoke(["quantize", "uneven.onnx", "--data", "data.npz", "-o", "q.onnx", *asked, "--json"]) == 0
    )
    report = AccuracyReport.model_validate_json(capsys.readouterr().out)
    jsonschema.validate(json.loads(report.model_dump_json()), arm_ext.schema("accuracy"))
    mixed = report.mixed
    assert mixed is not None
    assert mixed.npu is not None
    assert mixed.without_float16 == "cortex-a53 lacks fullfp16"
    assert all({"int8"} <= set(layer.npu) <= {"int8", "int16"} for layer in mixed.layers)
    # What leaves the NPU costs its hand-over and the CPU's cycles.
    integers, floats = mixed.choices[0], mixed.choices[-1]
    assert integers.npu is not None
    assert floats.npu is not None
    assert (integers.npu.regions, integers.npu.mac_share) == (1, 1)
    assert (floats.npu.regions, floats.npu.mac_share, floats.npu.cpu_cycles) == (0, 0, floats.cycles)
    npu = integers.npu.cycles * mixed.npu.cpu_mhz / mixed.npu.npu_mhz
    handover = mixed.npu.handover_us * mixed.npu.cpu_mhz
    assert integers.cycles == pytest.approx(integers.npu.cpu_cycles + npu + handover, rel=0.01)
    shares = [each.npu.mac_share for each in mixed.choices if each.npu is not None]
    assert shares == sorted(shares, reverse=True)
    (chosen,) = (each for each in mixed.choices if each.chosen)
    assert chosen.holds
    assert chosen.npu is not None
    assert 0 < chosen.npu.mac_share < 1
    assert report.npu is not None
    assert report.npu.regions
    assert report.npu.equal
    told = " ".join(text(report).split())
    assert "cortex-a53 at 800 MHz with ethos-u55-128 at 500 MHz" in told
    assert f"{100 * chosen.npu.mac_share:.1f} %" in told


@pytest.mark.long
def test_bisect_with_an_npu_finds_the_same_choice(files: Path) -> None:
    onnx.save(uneven_digits(), "uneven.onnx")
    asked = {"metric": "cosine", "target": "cortex-a53", "npu": "ethos-u55-128"}
    searched = arm_ext.quantize("uneven.onnx", "data.npz", "q.onnx", max_drop=0.001, **asked).accuracy.mixed
    arm_ext.quantize("uneven.onnx", "data.npz", "int8.onnx")
    bisected = arm_ext.accuracy(
        "int8.onnx", "uneven.onnx", "data.npz", bisect=Gate(max_drop=0.001), **asked
    ).mixed
    assert searched is not None
    assert bisected is not None
    first, second = (
        next((each.layers, each.int16) for each in mixed.choices if each.chosen)
        for mixed in (searched, bisected)
    )
    assert first == second


@pytest.mark.long
def test_a_layer_that_int16_takes_off_the_npu_goes_to_float_at_once(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx.save(uneven_digits(), "uneven.onnx")
    of = DividedEstimate.on_npu

    def without_wide(found: DividedEstimate) -> frozenset[str]:
        """Stand in for an NPU that does not take 16 bits in one layer."""
        wide = found.cycles != first[0] if first else first.append(found.cycles) or False
        return frozenset(of.fget(found) - ({"conv2/pointwise"} if wide else set()))

    first: list[int] = []
    monkeypatch.setattr(DividedEstimate, "on_npu", property(without_wide))
    result = arm_ext.quantize(
        "uneven.onnx",
        "data.npz",
        "q.onnx",
        metric="cosine",
        max_drop=0.001,
        target="cortex-a53",
        npu="ethos-u55-128",
    )
    mixed = result.accuracy.mixed
    assert mixed is not None
    layers = {layer.name: layer for layer in mixed.layers}
    assert (layers["conv2/pointwise"].npu, layers["conv2/pointwise"].int16_cycles) == (("int8",), None)
    assert layers["conv3"].int16_cycles is not None
    assert not any("conv2/pointwise" in choice.int16 for choice in mixed.choices)


def interrupt(monkeypatch: pytest.MonkeyPatch, name: str, calls: int) -> None:
    """Ctrl-C at the call of a function after so many others."""
    real, left = pkgutil.resolve_name(name), iter(range(calls))

    def called(*args: object, **kwargs: object) -> object:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return real(*args, **kwargs)

    monkeypatch.setattr(name, called)


def test_a_search_that_is_interrupted_writes_the_best_choice_so_far(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx.save(uneven_digits(), "uneven.onnx")
    # In the search; while choices are priced, after those of one precision throughout; and while the best is compared.
    interrupt(monkeypatch, "arm_ext.quantization.mixed_precision.Pool.map", 3)
    interrupt(monkeypatch, "arm_ext.api.mixed_precision.estimate", 4)
    interrupt(monkeypatch, "arm_ext.api.quantize.accuracy", 0)
    bound = ["--metric", "cosine", "--max-drop", "1%", "--target", "cortex-a76"]
    assert cli.invoke(["quantize", "uneven.onnx", "--data", "data.npz", "-o", "mixed.onnx", *bound]) == 0
    said = capsys.readouterr().out
    assert said.startswith("mixed: not compared with uneven: interrupted\n\nFor cosine at most 1 % worse")
    assert "(stopped before the search came to its end)" in " ".join(said.split())
    assert "\n*  " in said
    assert any(node.op_type == "DequantizeLinear" for node in onnx.load("mixed.onnx").graph.node)


def test_a_float_model_that_is_the_fastest_is_left_as_it_is(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(uneven_digits(), "uneven.onnx")
    bound = ["--metric", "cosine", "--max-drop", "1%", "--target", "cortex-a53"]
    assert cli.invoke(["quantize", "uneven.onnx", "--data", "data.npz", "-o", "mixed.onnx", *bound]) == 1
    assert "the float model is the fastest by the estimates for cortex-a53" in capsys.readouterr().err
    assert not Path("mixed.onnx").exists()


def test_a_search_that_is_interrupted_before_its_first_choice_writes_nothing(
    files: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    onnx.save(uneven_digits(), "uneven.onnx")
    interrupt(monkeypatch, "arm_ext.quantization.mixed_precision.Pool.map", 0)
    bound = ["--metric", "cosine", "--max-drop", "0.1%", "--target", "cortex-a53"]
    assert cli.invoke(["quantize", "uneven.onnx", "--data", "data.npz", "-o", "mixed.onnx", *bound]) == 1
    assert "the search was stopped before it found another choice" in capsys.readouterr().err
    assert not Path("mixed.onnx").exists()


def test_fail_on_fallback_contradicts_layers_in_float(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["--metric", "cosine", "--max-drop", "1%", "--npu", "ethos-u55-128", "--fail-on-fallback"]
    assert cli.invoke(["quantize", FLOAT, "--data", "data.npz", "-o", "q.onnx", *asked]) == 2
    assert "--fail-on-fallback cannot be combined with --max-drop" in capsys.readouterr().err
    assert not Path("q.onnx").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "q.onnx", "--keep-float", "conv2/depthwis"], "did you mean conv2/depthwise"),
        (["-o", "q.onnx", "--int16", "conv2/depthwis"], "did you mean conv2/depthwise"),
        (["-o", "q.onnx", "--int16", "conv3", "--keep-float", "conv3"], "is also named by --keep-float"),
        (["-o", "q.onnx", "--int16", "conv1/relu"], "it is part of the layer conv1; name that"),
        (["-o", "q.onnx", "--int16", "flatten"], "it is part of the layer pool; name that"),
        (["-o", "q.onnx", "--float16", "conv2/depthwis"], "did you mean conv2/depthwise"),
        (["-o", "q.onnx", "--float16", "conv3", "--int16", "conv3"], "is also named by --int16"),
        (["-o", "q.onnx", "--float16", "pool"], "GlobalAveragePool is computed in float32"),
        (["-o", "q.onnx", "--npu", "ethos-u56"], "unknown accelerator"),
        (["-o", "q.onnx", "--cpu-mhz", "800"], "name it with --npu"),
        (["-o", "q.onnx", "--activations", "int4"], "'int4' is not one of 'int8', 'int16'"),
        (["-o", "q.tflite"], "name a file that ends with .onnx"),
        (["-o", "q.onnx", "--metric", "map"], "unknown; expected top1"),
        (["-o", "q.onnx", "--correct", "bias,rounds"], "correct='rounds': must be one of 'equalize'"),
        (["-o", "q.onnx", "--max-drop", "1%", "--metric", "cosine", "--target", "cray"], "unknown target"),
        (["-o", "q.onnx", "--max-drop", "1%"], "cannot be measured on 24 samples"),
        (["-o", "q.onnx", "--max-drop", "2"], "is no share"),
        (["-o", FLOAT], "would overwrite the input"),
    ],
)
def test_what_is_wrong_is_told(
    files: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert cli.invoke(["quantize", FLOAT, "--data", "data.npz", *options]) == 2
    assert message in capsys.readouterr().err
    assert not list(files.glob("q.*")), "what is wrong is told before a file is written"


def test_a_comparison_that_fails_leaves_no_model(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images, _ = digits.held_out()
    np.savez("bad.npz", inputs=images[:2], labels=[3, 10])
    assert cli.invoke(["quantize", FLOAT, "--data", "bad.npz", "-o", "q.onnx"]) == 2
    assert "labels go to 10" in capsys.readouterr().err
    assert not Path("q.onnx").exists()


def test_pruned_weights_are_compared_with_all_of_them(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Pruning by magnitude alone costs most of the accuracy here; bias correction restores most of it."""
    right: dict[str, float] = {}
    for name, correct in {"plain": [], "biased": ["--correct", "bias"]}.items():
        options = ["--sparsity", "2:4", "--metric", "top1", *correct, "--json"]
        assert cli.invoke(["quantize", FLOAT, "--data", "data.npz", "-o", f"{name}.onnx", *options]) == 0
        report = AccuracyReport.model_validate_json(capsys.readouterr().out)
        assert report.metric is not None
        right[name] = report.metric.integers
        assert report.pruned == ("conv2/pointwise", "conv3", "logits")
        assert {layer.name for layer in report.to_blame()} == set(report.pruned)
    assert right["plain"] < 0.6 < 0.9 <= right["biased"]
    said = text(report)
    assert (
        "Half of the weights of 3 layers are 0, the two smallest of each four (2:4): conv2/pointwise" in said
    )
    assert "conv3: 48 % of its weights are 0 that are not small in the source: they were pruned" in said


def test_pruning_that_cannot_be_is_refused(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["quantize", FLOAT, "--data", "data.npz", "-o", "p.onnx", "--sparsity", "2:4"]
    assert cli.invoke([*common, "--correct", "equalize"]) == 2
    assert "--sparsity and --correct equalize cannot be combined" in capsys.readouterr().err
    onnx.save(without_products(), "relu.onnx")
    np.savez("relu.npz", x=np.ones((2, 1, 4), "float32"))
    assert (
        cli.invoke(["quantize", "relu.onnx", "--data", "relu.npz", "-o", "p.onnx", "--sparsity", "2:4"]) == 1
    )
    assert "it has no weights to prune 2:4" in capsys.readouterr().err


def without_products() -> onnx.ModelProto:
    """A model without products."""
    values = [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1, 4]) for n in ("x", "y")]
    node = onnx.helper.make_node("Relu", ["x"], ["y"], name="relu")
    graph = onnx.helper.make_graph([node], "relu", values[:1], values[1:])
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


def test_weights_alone_need_no_samples(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = ["--data", "data.npz", "--metric", "top1"]
    for options, samples, drop, least in (
        (["--weights", "int8", *data], 24, 0.0, 40),
        (["--weights", "int4", "--group", "16"], 1, None, 15),
    ):
        assert cli.invoke(["quantize", FLOAT, "-o", "narrow.onnx", *options, "--json"]) == 0
        report = AccuracyReport.model_validate_json(capsys.readouterr().out)
        assert {layer.type for layer in report.layers} == {"float32"}
        assert report.outputs[0].integers.sqnr_db > least
        assert report.to_blame() == []
        assert (report.samples, report.metric and report.metric.drop) == (samples, drop)
        onnx.checker.check_model("narrow.onnx", full_check=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "--data is missing: quantising activations needs calibration samples"),
        (["--weights", "int3"], "'int3' is not one of 'int8', 'int4'"),
        (["--weights", "int4", "--group", "0"], "--group 0: a group has at least one weight"),
        (
            ["--weights", "int4", "--group", "99999999999"],
            "--group 99999999999: a group has at most 65536 weights",
        ),
        (["--weights", "int8", "--group", "32"], "--group is for --weights int4"),
        (["--group", "32"], "--group is for --weights int4"),
        (
            ["--weights", "int4", "--correct", "bias"],
            "--data is missing: --correct needs calibration samples",
        ),
        (
            ["--weights", "int4", "--calibration", "mse"],
            "--calibration mse cannot be combined with --weights",
        ),
        (["--weights", "int4", "--correct", "smooth"], "--correct smooth cannot be combined with --weights"),
        (["--weights", "int8", "--sparsity", "2:4"], "--sparsity cannot be combined with --weights"),
        (["--weights", "int8", "--keep-float", "logit"], "did you mean logits"),
        (["--weights", "int8", "--activations", "int16"], "int16 cannot be combined with --weights"),
        (["--weights", "int8", "--int16", "logits"], "int16 cannot be combined with --weights"),
        (["--weights", "int8", "--float16", "logits"], "--float16 cannot be combined with --weights"),
        (["--weights", "int8", "--npu", "ethos-u55-128"], "--npu cannot be combined with --weights"),
    ],
)
def test_what_is_wrong_with_weights_alone_is_told(
    files: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert cli.invoke(["quantize", FLOAT, "-o", "q.onnx", *options]) == 2
    assert message in capsys.readouterr().err
    assert not list(files.glob("q.*"))


def test_a_model_without_products_has_no_weights_to_quantise(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(without_products(), "relu.onnx")
    assert cli.invoke(["quantize", "relu.onnx", "-o", "q.onnx", "--weights", "int8"]) == 1
    assert "relu: there are no weights for weight-only quantisation" in capsys.readouterr().err
