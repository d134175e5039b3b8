# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import yaml
from onnx import helper

from arm_ext import cli
from arm_ext.api import advise_builds as api
from arm_ext.api import digits
from arm_ext.common.errors import EnvError
from tests.arm_ext.models import model


@pytest.fixture
def convolution(tmp_path: Path) -> str:
    """A convolution that fp16 makes faster: few kernels are built and counted."""
    weights = np.random.default_rng(0).standard_normal((48, 48, 1, 1), dtype=np.float32) / 7
    node = helper.make_node("Conv", ["x", "w"], ["y"], name="conv")
    onnx.save(model([node], {"x": [1, 48, 8, 8]}, ["y"], {"w": weights}), tmp_path / "m.onnx")
    return str(tmp_path / "m.onnx")


def test_what_is_recommended_can_be_compiled(
    convolution: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = tmp_path / "options.yaml"
    assert cli.invoke(["advise", convolution, "--target", "cortex-a76", "--apply", str(options)]) == 0
    said = capsys.readouterr().out
    assert "recommended: --precision fp16" in said
    assert "conv" in said
    assert yaml.safe_load(options.read_text()) == {"target": "cortex-a76", "precision": "fp16"}
    package = str(tmp_path / "m.armpkg")
    assert cli.invoke(["compile", convolution, "--config", str(options), "-o", package, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)["report"]
    assert (report["target"], report["package"]["precision"]) == ("cortex-a76", "fp16")


def test_a_board_that_is_gone_leaves_what_was_measured(
    convolution: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real, calls = api.profile_package, []

    def gone(*arguments: Any, **options: Any) -> object:
        calls.append(arguments)
        if len(calls) > 1:
            raise EnvError("the board does not answer")
        return real(*arguments, **options)

    monkeypatch.setattr(api, "profile_package", gone)
    assert cli.invoke(["advise", convolution, "--target", "cortex-a76", "--json"]) == 3
    said = capsys.readouterr()
    fp16, _ = json.loads(said.out)["alternatives"]
    assert (fp16["status"], fp16["note"]) == ("failed", "the board does not answer")
    assert "all other rows are valid" in said.err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--apply", "missing/options.yaml"], "missing"),
        (["--max-error", "-1"], "--max-error"),
        (["--budget", "soon"], "is no time such as 30m"),
        (["--target", "nothing"], "unknown target"),
        (["--quantize", "missing.npz"], "missing.npz"),
    ],
)
def test_wrong_options_fail_before_the_work(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.invoke(["advise", str(digits.model_path()), *options]) == 2
    assert said in capsys.readouterr().err


def test_npus_are_priced_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [tmp_path / f"npu{ending}" for ending in (".html", ".json", ".csv")]
    outputs = [word for file in files for word in ("-o", str(file))]
    words = ["advise", str(digits.model_path()), "--npu", "ethos-u55-128", "--handover-us", "1", *outputs]
    assert cli.invoke([*words, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [each["accelerator"] for each in printed["prices"]] == ["ethos-u55-128"] * 4
    assert json.loads(files[1].read_text()) == printed
    assert files[0].read_text().startswith("<!doctype html>")
    assert len(files[2].read_text().splitlines()) == 1 + 4


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--npu", "all", "--apply", "o.yaml"], "--apply is for measured builds"),
        (["--npu", "all", "--board", "local"], "--board is for measured builds"),
        (["--cpu-mhz", "800"], "--cpu-mhz needs --npu"),
        (["-o", "m.html"], "--output needs --npu"),
        (["--npu", "all", "-o", "m.txt"], "m.txt: --output writes files that end with .html, .json, .csv"),
        (["--measure"], "--measure compares one accelerator"),
        (["--npu", "all", "--measure"], "--measure compares one accelerator"),
        (["--npu", "ethos-u55-128", "--measure", "-o", "m.html"], "--output needs --npu"),
        (["--npu", "u55"], "unknown accelerator 'u55'"),
    ],
)
def test_options_of_npus_and_of_builds_stay_apart(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.invoke(["advise", str(digits.model_path()), *options]) == 2
    assert said in capsys.readouterr().err
