# SPDX-License-Identifier: Apache-2.0
"""What a user gets wrong with an NPU, and how the options are read."""

import json
from pathlib import Path

import onnx
import pytest

from arm_ext.cli import invoke
from arm_ext.cli.npu_options import read_npu_options
from arm_ext.ethosu.options import NpuOptions
from tests.arm_ext import npu_models
from tests.arm_ext.models import mlp

NONE = {
    **dict.fromkeys(("accelerator", "fallback_ops", "system_config", "memory_mode", "vela_config")),
    **dict.fromkeys(("sram_budget", "cpu_mhz", "npu_mhz", "handover_us", "on_npu_error")),
    "npu_ops": (),
    "cpu_ops": (),
}
INI = "[System_Config.Mine]\naxi0_port=Sram\n[Memory_Mode.Sram_Only]\nconst_mem_area=Axi0\n"
U55 = ["--npu", "ethos-u55-128"]

WRONG = [
    ("unknown accelerator", ["--npu", "ethos-u65-128"], 2, "unknown accelerator 'ethos-u65-128'; did you mean"),
    ("system configuration", [*U55, "--system-config", "Ethos_U55_High_End"], 2, "Ethos_U55_High_End_Embedded"),
    ("memory mode", [*U55, "--memory-mode", "Shared"], 2, "did you mean Shared_Sram"),
    ("no such vela.ini", [*U55, "--vela-config", "mine.ini"], 2, "mine.ini: Vela's configuration cannot be read"),
    ("vela.ini without clock", [*U55, "--vela-config", "own.ini", "--system-config", "Mine", "--memory-mode",
                                "Sram_Only"], 2, "no core_clock in [System_Config.Mine]"),
    ("unknown operator", [*U55, "--npu-ops", "conv3"], 2, "--npu-ops: the model has no operator 'conv3'"),
    ("unknown node", [*U55, "--cpu-ops", "conv2d,depthwize"], 2, "did you mean depthwise"),
    ("unknown watched", [*U55, "--fail-on-fallback=sofmax"], 2, "did you mean softmax"),
    ("budget", [*U55, "--sram-budget", "16", "--fail-on-fallback"], 1, "in use at the widest layers:"),
    ("fallback", [*U55, "--cpu-ops", "depthwise", "--fail-on-fallback"], 1, "--cpu-ops keeps it on the CPU"),
    ("clock", [*U55, "--cpu-mhz", "0"], 2, "--cpu-mhz"),
    ("hand-over", [*U55, "--handover-us", "-1"], 2, "--handover-us"),
    ("no such policy", [*U55, "--on-npu-error", "ignore"], 2, "'fallback', 'fail'"),
    ("policy without NPU", ["--on-npu-error", "fail"], 2, "--on-npu-error needs an NPU"),
    ("option without NPU", ["--npu-ops", "conv2d"], 2, "--npu-ops needs an NPU; name it with --npu"),
    ("wish without NPU", ["--fail-on-fallback"], 2, "--fail-on-fallback needs an NPU"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "code", "says"), [c[1:] for c in WRONG], ids=[c[0] for c in WRONG])
def test_what_is_wrong_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    code: int,
    says: str,
):
    monkeypatch.chdir(tmp_path)
    onnx.save(npu_models.whole(), "m.onnx")
    Path("own.ini").write_text(INI)
    before = sorted(tmp_path.rglob("*"))
    assert invoke(["compile", "m.onnx", *options]) == code
    captured = capsys.readouterr()
    assert says in captured.err
    assert captured.out == ""
    assert sorted(tmp_path.rglob("*")) == before


def test_a_float_model_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    onnx.save(mlp(), tmp_path / "m.onnx")
    assert invoke(["compile", str(tmp_path / "m.onnx"), *U55]) == 2
    assert "--npu needs a quantised model" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["--fail-on-fallback", "--fail-on-fallback=conv2d,Conv"])
def test_what_follows_a_bare_flag_is_the_model(tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: str):
    model, output = tmp_path / "m.onnx", tmp_path / "p"
    onnx.save(npu_models.whole(), model)
    assert invoke(["compile", "--json", *U55, flag, str(model), "-o", str(output)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["manifest"]["npu"]["accelerator"] == "ethos-u55-128"
    assert document["report"]["npu"]["regions"][0]["operators"][1] == "conv2d"


def test_options_become_a_record():
    assert read_npu_options(NONE) is None
    given = {**NONE, "accelerator": "ethos-u55-64", "cpu_ops": ("a", "b"), "npu_mhz": 250.0}
    assert read_npu_options(given) == NpuOptions("ethos-u55-64", cpu_ops=("a", "b"), npu_mhz=250.0)
    given = {**NONE, "accelerator": "ethos-u55-64", "handover_us": 0.0}
    assert read_npu_options(given) == NpuOptions("ethos-u55-64", handover_us=0.0)
    given = {**NONE, "accelerator": "ethos-u55-64", "fallback_ops": ()}
    assert read_npu_options(given) == NpuOptions("ethos-u55-64", fail_on_fallback=True)
