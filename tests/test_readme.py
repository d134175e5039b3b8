# SPDX-License-Identifier: Apache-2.0
"""The README says what is."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from arm_ext import cli

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


@pytest.fixture
def update_readme() -> ModuleType:
    spec = importlib.util.spec_from_file_location("update_readme", ROOT / "scripts/update_readme.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_table_of_targets_is_current(update_readme: ModuleType) -> None:
    assert update_readme.updated(README) == README, "run scripts/update_readme.py"


def test_every_verb_is_described() -> None:
    described = {line.split("`")[1].split()[0] for line in README.splitlines() if line.startswith("| `")}
    assert set(cli.group.list_commands(None)) <= described


def test_ci_runs_the_test_command_of_the_readme() -> None:
    command = (ROOT / ".ci/run").read_text().splitlines()[-1]
    assert f"    {command}\n" in README
