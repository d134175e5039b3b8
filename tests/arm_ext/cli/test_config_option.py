# SPDX-License-Identifier: Apache-2.0
import json
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from arm_ext import cli
from arm_ext.api import digits
from arm_ext.cli.compile import compile
from arm_ext.cli.config_option import options_of


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "options.yaml"


def test_a_file_sets_options_and_the_command_line_goes_before(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(
        "precision: fp16\nwithout-kernel: [depthwise_f32]\nwinograd: false\ntarget: cortex-a72\n"
    )
    argv = ["compile", str(digits.model_path("fp32")), "--config", str(config), "--target", "cortex-a76"]
    assert cli.invoke([*argv, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)["report"]
    assert report["target"] == "cortex-a76"
    assert report["package"]["precision"] == "fp16"
    assert "depthwise_f32" not in {kernel["kernel"] for kernel in report["kernels"]}


def test_every_option_of_compile_can_stand_in_a_file(config: Path) -> None:
    values: dict[str, Any] = {
        name: [_sample(option)] if option.multiple else _sample(option)
        for name, option in options_of(compile).items()
    }
    config.write_text(yaml.safe_dump(values))
    context = compile.make_context("compile", ["--config", str(config)])
    given = {option.name: context.params[option.name] for option in options_of(compile).values()}
    assert all(value not in (None, ()) for value in given.values()), given
    assert given["shapes"] == (("x", (1, 3)),)
    assert given["cpu_ops"] == ("a", "b")
    assert given["winograd"] is False
    assert given["memory_budget"] == 7


def _sample(option: click.Option) -> object:
    if option.is_flag:
        return not option.default
    if isinstance(option.type, click.Choice):
        return option.type.choices[-1]
    by_kind: dict[str, object] = {"shape": "x=1,3", "pair": "a=b", "names": ["a", "b"], "text": "word"}
    return 7 if "range" in option.type.name else by_kind.get(option.type.name, "file")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("precison: fp16", "no option 'precison'; did you mean precision?"),
        ("precision: fp17", "'fp17' is not one of"),
        ("precision: [fp16]", "options.yaml: precision: expected a value, not ['fp16']"),
        ("precision:", "options.yaml: precision: expected a value, not nothing"),
        ("winograd: 3", "options.yaml: winograd: expected true or false, not 3"),
        ("shape: {x: 3}", "options.yaml: shape: expected a value or a list of them, not a mapping"),
        ("memory-budget: much", "'much' is not a valid integer"),
        ("precision: fp16\nprecision: fp32", "the key 'precision' appears twice"),
        ("config: more.yaml", "no option 'config'"),
        (
            "without-kernel: gemm_f33",
            "--without-kernel gemm_f33: there is no such kernel; did you mean gemm_f32",
        ),
        ("[fp16]", "expected a mapping with options of this command"),
    ],
)
def test_wrong_files_are_usage_errors(
    config: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config.write_text(text)
    assert cli.invoke(["compile", "--config", str(config)]) == 2
    assert said in capsys.readouterr().err
    assert [file.name for file in config.parent.iterdir()] == ["options.yaml"]


def test_a_missing_file_is_named(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.invoke(["compile", "--config", str(config)]) == 2
    assert "options.yaml: no such file" in capsys.readouterr().err
