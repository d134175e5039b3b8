# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path

import pytest
import yaml

from arm_ext import cli
from arm_ext.api import advise as api
from arm_ext.api import digits
from arm_ext.errors import EnvError


def test_what_is_recommended_can_be_compiled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = tmp_path / "options.yaml"
    model = str(digits.model_path("fp32"))
    assert cli.invoke(["advise", model, "--target", "cortex-a76", "--apply", str(options)]) == 0
    said = capsys.readouterr().out
    assert "recommended: --precision fp16" in said
    assert "conv3" in said
    assert yaml.safe_load(options.read_text()) == {"target": "cortex-a76", "precision": "fp16"}
    package = str(tmp_path / "m.armpkg")
    assert cli.invoke(["compile", model, "--config", str(options), "-o", package, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)["report"]
    assert (report["target"], report["package"]["precision"]) == ("cortex-a76", "fp16")


def test_a_board_that_is_gone_leaves_what_was_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real, calls = api.profile, []

    def gone(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) > 1:
            raise EnvError("the board does not answer")
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(api, "profile", gone)
    assert cli.invoke(["advise", str(digits.model_path("fp32")), "--target", "cortex-a76", "--json"]) == 3
    said = capsys.readouterr()
    (fp16,) = json.loads(said.out)["alternatives"]
    assert (fp16["status"], fp16["note"]) == ("failed", "the board does not answer")
    assert "the others hold" in said.err


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
