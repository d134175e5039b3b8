# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import helper
from torch import nn
from torch.nn import functional

from arm_ext.api import digits
from arm_ext.api.advise import advise
from arm_ext.common.errors import UsageError
from arm_ext.ethosu.options import NpuOptions
from arm_ext.report.advice.record import SPENT, AdviceReport
from arm_ext.report.advice.text import text
from tests.arm_ext import npu_models
from tests.arm_ext.frontends.tflite.builder import TfliteBuilder
from tests.arm_ext.models import model

WEIGHTS = np.random.default_rng(0).standard_normal((48, 48, 1, 1), dtype=np.float32) / 7


@pytest.fixture(scope="module")
def of_digits(tmp_path_factory: pytest.TempPathFactory) -> AdviceReport:
    return advise(digits.model_path("fp32"), "cortex-a76", quantize=digits.HELD_OUT)


@pytest.fixture(scope="module")
def of_silu(tmp_path_factory: pytest.TempPathFactory) -> AdviceReport:
    """A convolution with a SiLU."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("Sigmoid", ["c"], ["s"], name="sigmoid"),
        helper.make_node("Mul", ["c", "s"], ["y"], name="mul"),
    ]
    path = tmp_path_factory.mktemp("silu") / "m.onnx"
    onnx.save(model(nodes, {"x": [1, 48, 8, 8]}, ["y"], {"w": WEIGHTS}), path)
    return advise(path, "cortex-a76")


def test_options_are_measured_and_the_best_recommended(of_digits: AdviceReport) -> None:
    found = {each.name: each for each in of_digits.alternatives}
    assert set(found) == {"fp16", "int8"}  # the target has no bf16, and there is no Winograd
    assert all(each.status == "measured" for each in found.values())
    int8 = found["int8"]
    assert int8.gain is not None
    assert int8.gain > 0.4
    assert int8.cost == pytest.approx(of_digits.cost * (1 - int8.gain))
    assert int8.error is not None
    assert 0 < int8.error < 0.05
    assert of_digits.recommended == int8.options == {"quantize": str(digits.HELD_OUT)}
    assert of_digits.gain == int8.gain
    assert not found["fp16"].recommended


def test_the_costliest_layers_are_told_for_each_alternative(of_digits: AdviceReport) -> None:
    assert of_digits.calls[0].anchor == "conv3"
    assert of_digits.calls[0].alternatives
    others = [other for call in of_digits.calls for other in call.alternatives if not other.params]
    assert others
    assert all(f", {other.kernel} x{other.ratio:.2f}" in text(of_digits) for other in others)
    fp16 = next(each for each in of_digits.alternatives if each.name == "fp16")
    assert len(fp16.calls) == len(of_digits.calls)
    assert fp16.calls[0] is not None
    assert fp16.calls[0] < of_digits.calls[0].cost


@pytest.mark.long
def test_gains_are_predicted_from_the_kernels_that_a_build_would_have(tmp_path: Path) -> None:
    # In float32 both are Winograd's, which fp16 has not: twice the products an instruction do not make up for that.
    weights = np.random.default_rng(1).standard_normal((2, 32, 32, 3, 3), dtype=np.float32) / 17
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["c"], name="first", pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("Conv", ["r", "w1"], ["y"], name="second", pads=[1] * 4),
    ]
    path = tmp_path / "m.onnx"
    onnx.save(model(nodes, {"x": [1, 32, 16, 16]}, ["y"], {"w0": weights[0], "w1": weights[1]}), path)
    found = advise(path, "cortex-a76")
    assert {call.kernel for call in found.calls if call.share > 0.1} == {"winograd_f32"}
    fp16, no_winograd, int8 = found.alternatives
    assert (fp16.name, no_winograd.name, int8.name) == ("fp16", "no winograd", "int8")
    assert (int8.status, int8.note) == ("not built", "give samples of yours")
    assert int8.predicted is not None
    assert f"int8 is predicted to save {100 * int8.predicted:.1f} %" in text(found)
    assert fp16.gain is not None
    assert fp16.predicted is not None
    assert fp16.gain < -0.3
    # What the kernels' formulas leave out: they count Winograd's transforms a sixth too low.
    assert 1 - fp16.predicted == pytest.approx(1 - fp16.gain, rel=0.25)
    # No formula is as wrong as that it could be faster.
    assert no_winograd.predicted is not None
    assert no_winograd.predicted < -0.5
    assert (no_winograd.status, no_winograd.note) == ("not built", "predicted to be slower")
    assert found.recommended == {}


def test_predicted_gains_of_a_model_of_products_are_near_the_measured(of_digits: AdviceReport) -> None:
    for each in of_digits.alternatives:
        assert each.predicted == pytest.approx(each.gain, abs=0.1)


@pytest.mark.long
def test_an_error_above_the_bound_is_not_recommended() -> None:
    found = advise(digits.model_path("fp32"), "cortex-a76", max_error=1e-6)
    fp16, _ = found.alternatives
    assert fp16.note == "error above 1e-06"
    assert found.recommended == {}


def test_a_changed_model_is_measured(of_silu: AdviceReport) -> None:
    advice = next(each for each in of_silu.advice if each.rule == "cheaper-activation")
    assert set(advice.sources) == {"sigmoid", "mul"}
    assert advice.gain is not None
    assert 0 < advice.gain < advice.at_most
    assert advice.error is not None
    assert advice.error > 0


class Images(nn.Module):
    """Two convolutions and a SiLU, and a linear layer of a sequence."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Conv2d(3, 28, 3, padding=1), nn.Conv2d(28, 48, 3, padding=1)
        self.linear = nn.Linear(64, 64)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return functional.silu(self.second(functional.relu(self.first(x)))), self.linear(t)


@pytest.fixture(scope="module")
def of_torch(tmp_path_factory: pytest.TempPathFactory) -> AdviceReport:
    path = tmp_path_factory.mktemp("torch") / "m.pt2"
    given = torch.zeros(1, 3, 16, 16), torch.zeros(1, 33, 64)
    torch.export.save(torch.export.export(Images().eval(), given), path)
    return advise(path, "cortex-a76")


def test_int8_of_a_program_of_torch_is_predicted_and_single_layers_are_measured(
    of_torch: AdviceReport,
) -> None:
    (whole,) = (each for each in of_torch.alternatives if each.name == "int8")
    assert whole.predicted is not None
    assert whole.predicted > 0.3
    costliest = next(each for each in of_torch.layers if "second/conv2d" in each.sources)
    assert costliest.status == "measured"
    assert costliest.cost is not None
    assert costliest.cost < costliest.now / 2


def test_changes_of_a_program_of_torch_are_measured(of_torch: AdviceReport) -> None:
    found = {each.rule: each for each in of_torch.advice}
    silu, border = found["cheaper-activation"], found["border-layout"]
    assert (silu.sources, silu.estimated) == (("silu",), None)
    assert silu.gain is not None
    assert 0.01 < silu.gain < silu.at_most
    assert silu.error is not None
    assert silu.error > 0
    assert (set(border.sources), border.estimated) == ({"first/conv2d", "silu"}, None)
    assert border.gain is not None
    assert border.gain > 0.01
    assert border.error is not None
    assert border.error < 1e-5  # the same numbers at other places; another kernel may sum in another order
    tiles, size = (
        each for rule in ("full-tiles", "size-above-block") for each in of_torch.declined if each.rule == rule
    )
    assert tiles.sources == ("first/conv2d",)
    assert "28 → 32 channels (1)" in tiles.reason
    assert size.sources == ("t",)
    for each in (tiles, size):
        assert "built and measured, it" in each.reason


def test_changes_of_a_tflite_file_are_measured(tmp_path: Path) -> None:
    m = TfliteBuilder()
    sizes = ((33, 48), (33, 48), (48, 33), (48, 33), (33, 48), (33, 48))
    t, *between, y = (m.tensor("float32", 1, *size) for size in sizes)
    m.inputs = [t]
    matrix, turn = m.hold(m.rng.standard_normal((48, 48)) / 7, "float32"), m.hold([0, 2, 1])
    m.op("FULLY_CONNECTED", [t, matrix, -1], [between[0]], keepNumDims=True)
    m.op("TRANSPOSE", [between[0], turn], [between[1]])
    m.op("SOFTMAX", [between[1]], [between[2]], beta=1.0)
    m.op("TRANSPOSE", [between[2], turn], [between[3]])
    m.op("FULLY_CONNECTED", [between[3], matrix, -1], [y], keepNumDims=True)
    x = m.take("float32", 1, 6, 6, 3)
    c, z = m.tensor("float32", 1, 6, 6, 28), m.tensor("float32", 1, 6, 6, 48, name="last")
    for inputs, output, size in (([x], c, (28, 3)), ([c], z, (48, 28))):
        filters, bias = m.rng.standard_normal((size[0], 3, 3, size[1])) / 9, np.zeros(size[0])
        m.op(
            "CONV_2D",
            [*inputs, m.hold(filters, "float32"), m.hold(bias, "float32")],
            [output],
            strideH=1,
            strideW=1,
        )
    (tmp_path / "m.tflite").write_bytes(m.build(y, z))
    found = advise(tmp_path / "m.tflite", "cortex-a76")
    (moved,) = (each for each in found.advice if each.rule == "moved-data")
    assert moved.gain is not None
    assert 0.01 < moved.gain < 1.5 * moved.at_most
    assert (moved.error, moved.estimated) == (None, None)
    (tiles,) = (each for each in found.declined if each.rule == "full-tiles")
    assert "28 → 32 channels (1)" in tiles.reason
    assert "built and measured, it" in tiles.reason
    assert "border-layout" not in {each.rule for each in (*found.advice, *found.declined)}


@pytest.mark.long  # a changed model is measured above, and the rule has tests of its own
def test_a_reshape_of_channels_last_is_measured(tmp_path: Path) -> None:
    """A product that mixes the pixels of each channel behind a convolution, as in MLP-Mixer.

    Of a product that reads all as one row the compiler permutes the weights by itself.
    """
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("Reshape", ["c", "pixels"], ["p"], name="reshape"),
        helper.make_node("MatMul", ["p", "mixed"], ["y"], name="mix"),
    ]
    weights = {
        "w": WEIGHTS,
        "pixels": np.array([1, 48, 64]),
        "mixed": WEIGHTS.reshape(-1)[:256].reshape(64, 4),
    }
    onnx.save(model(nodes, {"x": [1, 48, 8, 8]}, ["y"], weights), tmp_path / "m.onnx")
    found = advise(tmp_path / "m.onnx", "cortex-a76")
    (forced,) = (each for each in found.advice if each.rule == "reshape-layout")
    assert forced.sources == ("reshape",)
    assert "a reshape of channels first forces a transposition" in forced.evidence
    assert forced.gain is not None
    assert forced.gain > 0.01
    assert forced.error is None  # other elements stand side by side
    assert "train it again" in forced.how


@pytest.mark.long
def test_a_change_that_is_measured_to_be_slower_is_not_advised(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c"], name="first"),
        helper.make_node("Conv", ["c", "w2"], ["y"], name="last"),
    ]
    weights = {"w1": WEIGHTS[:27], "w2": WEIGHTS[:, :27]}
    onnx.save(model(nodes, {"x": [1, 48, 8, 8]}, ["y"], weights), path)
    found = advise(path, "cortex-a72")
    assert "full-tiles" not in {each.rule for each in found.advice}
    (declined,) = found.declined
    assert (declined.rule, declined.sources) == ("full-tiles", ("first",))
    assert "27 → 32 channels" in declined.reason
    assert "% more" in declined.reason


def images_and_tokens(path: Path) -> Path:
    """Images in and out of a convolution, and a sequence of 33 with two transpositions around a softmax."""
    rng = np.random.default_rng(2)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1] * 4),
        helper.make_node("Relu", ["c"], ["y"], name="relu"),
        helper.make_node("MatMul", ["t", "w1"], ["h"], name="fc1"),
        helper.make_node("Transpose", ["h"], ["ht"], name="there", perm=[0, 2, 1]),
        helper.make_node("Softmax", ["ht"], ["s"], name="softmax"),
        helper.make_node("Transpose", ["s"], ["st"], name="back", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["st", "w2"], ["z"], name="fc2"),
    ]
    weights = {
        "w": rng.standard_normal((16, 8, 3, 3), dtype=np.float32) / 7,
        "w1": rng.standard_normal((48, 64), dtype=np.float32) / 7,
        "w2": rng.standard_normal((64, 48), dtype=np.float32) / 7,
    }
    onnx.save(model(nodes, {"x": [2, 8, 15, 15], "t": [1, 33, 48]}, ["y", "z"], weights), path)
    return path


@pytest.fixture(scope="module")
def of_both(tmp_path_factory: pytest.TempPathFactory) -> AdviceReport:
    return advise(images_and_tokens(tmp_path_factory.mktemp("both") / "m.onnx"), "cortex-a76")


@pytest.mark.long
def test_a_changed_layout_is_measured(of_both: AdviceReport) -> None:
    border = next(each for each in of_both.advice if each.rule == "border-layout")
    assert border.gain is not None
    assert border.gain > 0.01
    assert (border.estimated, border.basis) == (None, "")
    assert border.error is not None
    assert border.error < 1e-5  # the same numbers at other places; another kernel may sum in another order


@pytest.mark.long
def test_moves_that_a_model_can_do_without_are_measured(of_both: AdviceReport) -> None:
    (moved,) = (each for each in of_both.advice if each.rule == "moved-data")
    assert moved.sources == ("there", "back")
    assert moved.gain is not None
    assert 0.01 < moved.gain < 1.5 * moved.at_most  # their neighbours find more in the caches, too
    assert moved.error is None  # the outputs are other ones


@pytest.mark.long
def test_a_smaller_size_that_saves_no_more_than_its_work_is_not_advised(of_both: AdviceReport) -> None:
    (size,) = (each for each in of_both.declined if each.rule == "size-above-block")
    assert size.sources == ("t",)
    # Kernels compute 33 rows in little more than 33/32 of the time of 32.
    assert "sequence size 33 is 1 above 32" in size.reason
    assert "built and measured, it saves" in size.reason


@pytest.mark.long
def test_a_single_layer_in_int8_is_measured(of_both: AdviceReport) -> None:
    conv = next(each for each in of_both.layers if each.anchor == "conv")
    assert (conv.name, conv.status, conv.sources) == ("int8", "measured", ("conv", "relu"))
    assert conv.cost is not None
    assert conv.cost < conv.now
    assert conv.gain is not None
    assert conv.gain > 0.05
    assert conv.layer_error is not None
    # Some steps of 8 bits of what the convolution reads and gives.
    assert 0 < conv.layer_error < 0.05
    assert f"--only {','.join(conv.sources)}" in conv.how


@pytest.mark.long
def test_nothing_that_is_slower_is_advised(of_both: AdviceReport, of_digits: AdviceReport) -> None:
    for found in (of_both, of_digits):
        assert all(each.gain is None or each.gain > 0.01 for each in found.advice)
        assert all(each.gain is not None and each.gain > 0 for each in found.layers if each.helps)
        assert found.gain >= 0
    # Softmax in int8 takes longer with its conversions, and the model without Winograd's too.
    losing = [each for each in (*of_both.layers, *of_both.alternatives) if (each.gain or 0) < -0.005]
    assert losing
    assert all(each.note == "slower" for each in losing)


def test_a_region_of_an_npu_is_compared_with_its_fallback(tmp_path: Path) -> None:
    path = tmp_path / "whole.onnx"
    onnx.save(npu_models.normalized(), path)
    found = advise(path, "cortex-a55", npu=NpuOptions("ethos-u55-128", handover_us=1))
    region, _ = found.layers
    _tell_of_layer_norm(found)
    assert (region.name, region.status, region.note, region.layer_error) == (
        "ethos-u55-128",
        "measured",
        "",
        None,
    )
    assert region.cost is not None
    assert region.gain is not None
    assert 0 < region.cost < region.now
    assert region.gain == pytest.approx((region.now - region.cost) / found.cost, rel=0.2)
    assert "Vela's estimate" in region.how


@pytest.mark.long
def test_a_region_that_is_handed_over_too_slowly_is_none(tmp_path: Path) -> None:
    path = tmp_path / "whole.onnx"
    onnx.save(npu_models.whole(), path)
    slow = advise(path, "cortex-a55", npu=NpuOptions("ethos-u55-128", handover_us=1e6))
    (none,) = slow.layers
    assert (none.status, none.failure, none.helps) == ("not built", "", False)
    assert "stays on the CPU" in none.note


def _tell_of_layer_norm(found: AdviceReport) -> None:
    (norm,) = (each for each in found.advice if each.rule == "npu-operators")
    assert norm.sources == ("norm",)
    assert norm.gain is None  # nothing is measured on an NPU
    assert norm.estimated is not None
    assert norm.estimated > 0.01
    assert "no TOSA form" in norm.evidence
    assert "there is 1 region with" in norm.evidence
    assert "on the NPU; now there are 2 regions" in norm.evidence
    assert "take batch normalisation in the place of LayerNormalization" in norm.how


def test_an_npu_is_not_compared_on_a_real_board() -> None:
    with pytest.raises(UsageError, match="leave --board out"):
        advise(digits.model_path(), board="local", npu="ethos-u55-128")


def test_what_cannot_be_built_is_told_in_its_row(tmp_path: Path) -> None:
    (tmp_path / "no_database").mkdir()
    found = advise(digits.model_path(), "cortex-a76", tuned=tmp_path / "no_database")
    tuned = next(each for each in found.alternatives if each.name == "tuned")
    assert (tuned.status, tuned.failure) == ("failed", "model")
    assert "no_database" in tuned.note
    assert any(each.status == "measured" for each in found.alternatives)


def test_a_budget_that_is_used_up_builds_nothing_more() -> None:
    found = advise(digits.model_path(), "cortex-a76", budget=1e-6)
    assert {each.note for each in found.alternatives} == {SPENT}
    assert found.cost > 0


def test_what_the_budget_left_out_is_told_with_its_prediction(of_digits: AdviceReport) -> None:
    left = [
        each.model_copy(update={"status": "not built", "note": SPENT, "predicted": 0.35})
        for each in of_digits.alternatives
        if each.name == "fp16"
    ]
    said = " ".join(text(of_digits.model_copy(update={"alternatives": tuple(left), "gain": 0.2})).split())
    assert left
    assert (
        "fp16 is predicted to save 35.0 %: the budget was used up before it was built; give more by" in said
    )


def test_a_package_is_refused(digits_package: Path) -> None:
    with pytest.raises(UsageError, match="advise builds a model with other options"):
        advise(digits_package)


def test_what_only_its_error_keeps_from_being_recommended_is_told(of_digits: AdviceReport) -> None:
    strict = of_digits.model_copy(update={"recommended": {}, "gain": 0.0, "max_error": 1e-6})
    said = " ".join(text(strict).split())
    assert "recommended: none; no option that was measured saves anything within an error of 1e-06" in said
    assert "int8 would save" in said
    assert "raise --max-error" in said
    assert "would save" not in text(of_digits)
