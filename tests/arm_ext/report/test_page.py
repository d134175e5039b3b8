# SPDX-License-Identifier: Apache-2.0
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import arm_ext
from arm_ext.ethosu.options import NpuOptions
from arm_ext.package import REPORT_TEXT
from arm_ext.report.page import WIDTH

pytest.importorskip("torch", reason="the networks are made with torch; pip install -e .[torch]")
import zoo
from architectures import bert_tiny, blocks, mobilenet_v2, yolo
from torch import nn

Golden = Callable[[str, str], None]


def page_of(name: str, tmp_path: Path, target: str, npu: NpuOptions | None = None) -> str:
    """report.txt of a quantised network; the size of model.so is the linker's."""
    model = zoo.quantized_model(name, zoo.float_model(name))
    arm_ext.compile(model, target=target, npu=npu, output=tmp_path / "p")
    text = (tmp_path / "p" / REPORT_TEXT).read_text()
    assert max(map(len, text.splitlines())) <= WIDTH
    return re.sub(r"model\.so [\d,]+ bytes", "model.so N bytes", text)


def test_mobilenet_v2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden):
    monkeypatch.setattr(mobilenet_v2, "STAGES", ((1, 16, 1, 1), (6, 24, 2, 2)))
    golden("mobilenet_v2_int8.txt", page_of("mobilenet_v2", tmp_path, "neoverse-n2"))


def test_bert_tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, golden: Golden):
    monkeypatch.setattr(bert_tiny, "LAYERS", 1)
    monkeypatch.setattr(bert_tiny, "VOCABULARY", 100)
    words = {"tokens": zoo.Input((1, 31), 100), "attend": zoo.Input((1, 31), 2)}
    monkeypatch.setitem(zoo.ZOO, "bert_tiny", zoo.Member(bert_tiny.BertTiny, words))
    golden("bert_tiny_int8.txt", page_of("bert_tiny", tmp_path, "cortex-a76"))


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
