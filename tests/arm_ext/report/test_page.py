# SPDX-License-Identifier: Apache-2.0
import re
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from click.testing import CliRunner

import arm_ext
from arm_ext.cli.explain import explain
from arm_ext.common.text import PAGE
from arm_ext.ethosu.options import NpuOptions
from arm_ext.package import REPORT_TEXT
from arm_ext.report.page import MOST_LINES

pytest.importorskip("torch", reason="the networks are made with torch; pip install -e .[torch]")
import zoo
from architectures import bert_tiny, blocks, mobilenet_v2, yolo
from torch import nn

Golden = Callable[[str, str], None]


def page_of(name: str, tmp_path: Path, target: str, npu: NpuOptions | None = None) -> str:
    """report.txt of a quantised network, which is written; the size of model.so is the linker's."""
    model = zoo.quantized_model(name, zoo.float_model(name))
    onnx.save(model, tmp_path / f"{name}.onnx")
    arm_ext.compile(model, target=target, npu=npu, output=tmp_path / "p")
    text = (tmp_path / "p" / REPORT_TEXT).read_text()
    assert max(map(len, text.splitlines())) <= PAGE
    assert len(text.splitlines()) <= MOST_LINES
    return re.sub(r"model\.so [\d,]+ bytes", "model.so N bytes", text)


def explanation_of(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, *options: str
) -> str:
    """What `arm-ext explain` prints about the network that `page_of` wrote."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["arm-ext"])
    ran = CliRunner().invoke(explain, [f"{name}.onnx", "--target", target, *options])
    assert ran.exit_code == 0
    assert max(map(len, ran.stdout.splitlines())) <= PAGE
    return ran.stdout


@pytest.mark.long
def test_mobilenet_v2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden):
    monkeypatch.setattr(mobilenet_v2, "STAGES", ((1, 16, 1, 1), (6, 24, 2, 2)))
    golden("mobilenet_v2_int8.txt", page_of("mobilenet_v2", tmp_path, "neoverse-n2"))
    golden("mobilenet_v2_explain.txt", explanation_of("mobilenet_v2", tmp_path, monkeypatch, "neoverse-n2"))


@pytest.mark.long  # the detector's page below has every part of a page, and those of one with an NPU
def test_bert_tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden):
    monkeypatch.setattr(bert_tiny, "LAYERS", 1)
    monkeypatch.setattr(bert_tiny, "VOCABULARY", 100)
    words = {"tokens": zoo.Input((1, 31), 100), "attend": zoo.Input((1, 31), 2)}
    monkeypatch.setitem(zoo.ZOO, "bert_tiny", zoo.Member(bert_tiny.BertTiny, words))
    golden("bert_tiny_int8.txt", page_of("bert_tiny", tmp_path, "cortex-a76"))
    golden("bert_tiny_explain.txt", explanation_of("bert_tiny", tmp_path, monkeypatch, "cortex-a76"))


def detector() -> nn.Module:
    """The blocks of a YOLO, one each, with an end that no NPU takes."""
    parts = (yolo.SplitJoin(8, 16, residual=True), yolo.PyramidPool(16), nn.Conv2d(16, 11, 1))
    return nn.Sequential(blocks.conv_norm(3, 8, 3, stride=2, act=nn.SiLU), *parts, nn.LogSoftmax(1))


def test_yolo_with_npu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden):
    pytest.importorskip("ethosu.vela", reason="pip install -e .[npu]")
    member = zoo.Member(detector, {"image": zoo.Input((1, 3, 32, 32))})
    monkeypatch.setitem(zoo.ZOO, "yolo", member)
    golden(
        "yolo_int8_npu.txt", page_of("yolo", tmp_path, "cortex-a55", NpuOptions("ethos-u65-256", cpu_mhz=200))
    )
    golden(
        "yolo_explain.txt",
        explanation_of("yolo", tmp_path, monkeypatch, "cortex-a55", "--npu", "ethos-u65-256"),
    )
