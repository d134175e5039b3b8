# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

import jsonschema
import numpy as np
import onnx
import pytest
from onnx import helper

import arm_ext
from arm_ext.api import digits
from arm_ext.package import REPORT_JSON, load_package
from arm_ext.report.page import render_all as render
from arm_ext.report.report import CompileReport, build_report
from schedules.cores import CORES
from schedules.diagnostic import Diagnostic
from tests.arm_ext.models import mlp, model
from tests.arm_ext.pruned_models import pruned_digits
from tests.board.qdq_models import QdqModel


def with_log_softmax() -> onnx.ModelProto:
    """Log softmax, which no numerics defines in integers, beside a sigmoid, which is a table."""
    model = QdqModel((1 / 32, 0), (1 / 8, 3), 1 / 256)
    model.branch("Norm", "LogSoftmax", [model.quantized_input("Norm")])
    model.branch("Gate", "Sigmoid", [model.quantized_input("Gate")])
    return model.build()


def test_integer_model_is_said_to_be_one(tmp_path: Path):
    result = arm_ext.compile(digits.model_path("int8"), output=tmp_path / "p")
    numerics = {node.numerics for node in result.report.nodes if node.mac_share}
    assert numerics == {"qdq"}
    assert result.report.left_float == ()
    assert "Nothing is left in float" in render(load_package(tmp_path / "p").report(CompileReport))
    check = result.package.manifest.check
    assert (check.relative_bound, check.differing) == (0, 0)
    assert "every operator is computed in integers" in check.reason


def test_what_is_left_in_float_stands_in_report_and_check(tmp_path: Path):
    result = arm_ext.compile(with_log_softmax(), output=tmp_path / "p")
    assert [(c.nodes, c.operator) for c in result.report.left_float] == [(("Norm",), "nn.log_softmax")]
    nodes = {node.source: node.numerics for node in result.report.nodes}
    assert (nodes["Norm"], nodes["Gate"]) == ("float", "qdq")
    text = render(load_package(tmp_path / "p").report(CompileReport))
    _, left = text.split("Left in float although the model is quantised (1):\n")
    assert " %  Norm  nn.log_softmax: no integer form of nn.log_softmax is defined\n" in left
    check = result.package.manifest.check
    assert check.relative_bound == 0.1
    assert "1 operator computed in float (nn.log_softmax)" in check.reason


def test_choice_and_what_else_was_considered_stand_in_the_report_with_their_estimates(tmp_path: Path):
    result = arm_ext.compile(
        digits.model_path("int8"), target="neoverse-n2", mattr="-sve,-sve2", output=tmp_path / "p"
    )
    call = next(call for call in result.report.kernels if call.kernel == "gemm_s8_mmla")
    assert {"row_pairs", "column_pairs"} <= call.params.keys()
    other = call.other_kernels[0]
    assert other.kernel == "gemm_s8_sdot"
    assert call.selection_cost < other.selection_cost
    assert len(call.others) > len(call.other_kernels) > 0
    assert all("times the selection cost" in each.lost for each in call.others)
    text = render(load_package(tmp_path / "p").report(CompileReport))
    _, others = text.split("Next best kernels of the slowest layers")
    row = next(row for row in result.report.calls if row.symbol == call.symbol)
    price = other.selection_cost / row.selection_cost
    assert f"{row.anchor}" in others
    assert f"gemm_s8_sdot at {price:.2f} times the selection cost of gemm_s8_mmla" in others
    written = json.loads((tmp_path / "p" / REPORT_JSON).read_text())
    jsonschema.validate(written, arm_ext.schema("report"))
    generic = [call for call in result.report.kernels if call.kernel == "generic"]
    assert all((call.selection_cost, call.others) == (None, ()) for call in generic)


def test_float_model_computes_in_float(tmp_path: Path):
    result = arm_ext.compile(mlp(), output=tmp_path / "p")
    assert result.report.left_float == ()
    assert {node.numerics for node in result.report.nodes} == {"float"}
    assert result.package.manifest.check.relative_bound == pytest.approx(1e-4)


def test_what_keeps_its_layout_stands_in_the_report(tmp_path: Path):
    # Filters of run time cannot be put into another layout at compile time.
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], name="relu"),
        helper.make_node("Conv", ["r", "w"], ["y"], name="conv"),
    ]
    inputs = {"x": [1, 3, 9, 7], "w": [8, 3, 3, 3]}
    result = arm_ext.compile(model(nodes, inputs, ["y"]), output=tmp_path / "p")
    (kept,) = result.report.kept_layout
    assert (kept.nodes, kept.operator) == (("conv",), "nn.conv2d")
    text = render(load_package(tmp_path / "p").report(CompileReport))
    _, left = text.split("Only copied or rearranged (1):\n")
    assert "conv nn.conv2d keeps the model's layout: " + kept.reason in " ".join(left.split())


def test_a_comparison_names_limit_and_actual():
    call = Diagnostic(
        "it interpolates", "nearest_neighbor", "linear", nodes=("up",), operator="image.resize2d"
    )
    assert call.why() == "it interpolates (expected nearest_neighbor, found linear)"
    report = build_report("m", "arm", {"up": "Resize"}, {}, [], CORES["cortex-a76"], [call, call])
    assert "Left in float although the model is quantised (2):\n" in render(report)


def test_dead_channels_stand_in_the_report(tmp_path: Path):
    """conv2's depthwise convolution loses the channels of its input, and conv2 those that nothing reads."""
    model, dead = pruned_digits("int8", 0.3)
    whole = arm_ext.compile(digits.model_path("int8"), output=tmp_path / "whole").report
    report = arm_ext.compile(model, output=tmp_path / "p").report
    removed = {each.nodes[0]: each for each in report.removed_channels}
    in_pair = tuple(sorted({*dead["conv1"], *dead["conv2/depthwise"]}))
    assert removed["conv1"].channels == removed["conv2/depthwise"].channels == in_pair
    assert removed["conv3"].channels == removed["logits"].inputs == dead["conv3"]
    assert removed["logits"].channels == report.kept_channels == whole.removed_channels == ()
    assert report.macs == whole.macs - sum(each.macs for each in removed.values())
    assert sum(call.selection_cost for call in report.calls) < sum(
        call.selection_cost for call in whole.calls
    )
    text = render(load_package(tmp_path / "p").report(CompileReport))
    assert "Share of MACs saved by channels that are constant or that nothing reads (5):\n" in text
    assert "19 of 64, and 9 of 32 that it reads: 145.9 K MACs and 9,117 bytes of weights less\n" in text


def test_dead_channels_behind_a_factor_that_the_weights_take_up(tmp_path: Path):
    """The product is also named after the factor, which has no multiply-accumulates of its own."""
    weights = np.linspace(-1, 1, 8 * 3 * 9, dtype=np.float32).reshape(8, 3, 3, 3)
    weights[[1, 4]] = 0
    nodes = [
        helper.make_node("Mul", ["x", "factors"], ["scaled"], name="scale"),
        helper.make_node("Conv", ["scaled", "w"], ["c"], name="conv"),
        helper.make_node("Conv", ["c", "v"], ["y"], name="next"),
    ]
    held = {
        "factors": np.array([2, 3, 5], np.float32).reshape(1, 3, 1, 1),
        "w": weights,
        "v": np.ones((5, 8, 1, 1), np.float32),
    }
    report = arm_ext.compile(model(nodes, {"x": [1, 3, 9, 7]}, ["y"], held), output=tmp_path / "p").report
    assert report.macs == 7 * 5 * (6 * 27 + 5 * 6)


def test_constants_that_stay_are_told_with_their_reason(tmp_path: Path):
    model, _ = pruned_digits("fp32", 0.3, biases=False)
    report = arm_ext.compile(model, output=tmp_path / "p").report
    (kept,) = report.kept_channels
    assert (kept.nodes, kept.operator) == (("conv3",), "nn.conv2d")
    text = render(load_package(tmp_path / "p").report(CompileReport))
    assert "Constant channels that stay (1):\n" in text
    assert "nn.conv2d: 6 constant channels of its data stay: they are not 0, and it pads" in text
