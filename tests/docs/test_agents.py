# SPDX-License-Identifier: Apache-2.0
"""The tasks of docs/agents.md are solved by a program that reads nothing but that page."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from arm_ext import cli
from arm_ext.target.profiles import PROFILES
from tests.docs import models
from tests.docs.snippets import ROOT

TASK = re.compile(
    r"^### (.+?)\n\n(<!-- not run.*?-->\n)?```bash\n(.+?)\n```\n\nField: `([^`]+)`", re.MULTILINE | re.DOTALL
)
TASKS = TASK.findall((ROOT / "docs" / "agents.md").read_text())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("agent")
    models.write(path)
    return path


def fields(document: Any, path: str) -> Iterator[Any]:
    """Yield what stands at a path such as "calls[].share"."""
    name, _, rest = path.partition(".")
    found = document[name.removesuffix("[]")]
    for each in found if name.endswith("[]") else [found]:
        if rest:
            yield from fields(each, rest)
        else:
            yield each


def test_there_are_ten_tasks_and_more() -> None:
    assert len(TASKS) >= 10


@pytest.mark.parametrize("task", [task for task in TASKS if not task[1]], ids=lambda task: task[0])
def test_a_task(
    task: tuple[str, str, str, str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    question, _, command, path = task
    monkeypatch.chdir(folder)
    if "pi.armpkg" in command and not Path("pi.armpkg").exists():
        assert (
            cli.invoke(["compile", "model_int8.onnx", "--target", "raspberry-pi-5", "-o", "pi.armpkg"]) == 0
        )
    capsys.readouterr()
    assert cli.invoke(shlex.split(command)[1:]) == 0, question
    found = list(fields(json.loads(capsys.readouterr().out), path))
    if path != "report.left_float[]":  # nothing is left in float
        assert found, question
    assert all(each is not None for each in found), question


def test_every_target_of_a_product_exists() -> None:
    text = (ROOT / "docs" / "reference" / "targets.md").read_text()
    rows = re.findall(r"^\| .+ \| .+ \| `(\w[\w-]+)`", text.partition("## Products")[2], re.MULTILINE)
    assert len(rows) >= 14
    assert set(rows) <= set(PROFILES)
