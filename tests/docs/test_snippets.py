# SPDX-License-Identifier: Apache-2.0
"""Every command and program in README and docs runs."""

import os
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from docs_site import hooks

from arm_ext import cli
from arm_ext.board.virtual import VirtualServer, emulated_cpu
from tests.docs import models
from tests.docs.snippets import LANGUAGES, PAGES, ROOT, Runner, Snippet, commands, snippets

BY_PAGE = {str(page.relative_to(ROOT)): snippets(page) for page in PAGES if page.is_file()}
ALL = [snippet for found in BY_PAGE.values() for snippet in found]


@pytest.fixture(scope="session")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The models that the pages name, and model.armpkg, compiled once."""
    folder = tmp_path_factory.mktemp("seeds")
    models.write(folder)
    source, package = str(folder / "model.onnx"), str(folder / "model.armpkg")
    assert cli.invoke(["compile", source, "--target", "raspberry-pi-5", "-o", package]) == 0
    return folder


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """A virtual board that is reached like one on a desk."""
    server = VirtualServer(emulated_cpu("cortex-a76"))
    yield f"127.0.0.1:{server.port}"
    server.close()


@pytest.fixture
def runner(seeds: Path, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    folder = tmp_path / "work"
    shutil.copytree(seeds, folder)
    for name in ("scripts", "tests", "examples"):
        (folder / name).symlink_to(ROOT / name)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return Runner(folder, address)


def _pages(*, long: bool) -> list[str]:
    wanted = (lambda s: s.is_long) if long else (lambda s: s.is_run and not s.is_long)
    return [page for page, found in BY_PAGE.items() if any(map(wanted, found))]


@pytest.mark.parametrize("page", _pages(long=False))
def test_snippets_of_a_page_run(runner: Runner, page: str) -> None:
    for snippet in BY_PAGE[page]:
        if (snippet.is_run or snippet.mark == "file") and not snippet.is_long:
            runner.run(snippet)


@pytest.mark.long
@pytest.mark.parametrize("page", _pages(long=True))
def test_all_snippets_of_a_page_run(runner: Runner, page: str) -> None:
    for snippet in BY_PAGE[page]:
        if snippet.is_run or snippet.mark == "file":
            runner.run(snippet)


@pytest.mark.long
def test_the_first_command_of_the_readme_compiles(tmp_path: Path) -> None:
    (block,) = (s.text for s in BY_PAGE["README.md"] if "scripts/compile.py" in s.text)
    _, script, *options = shlex.split(block.partition("&&")[2])
    command = [sys.executable, str(ROOT / script), *options]
    subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    assert len(list(tmp_path.glob("*.armpkg/model.so"))) == 1


@pytest.mark.parametrize("snippet", ALL, ids=lambda s: s.where)
def test_block_says_what_it_is(snippet: Snippet) -> None:
    assert snippet.language in LANGUAGES, f"{snippet.where}: a fence names one of {', '.join(LANGUAGES)}"
    if snippet.mark == "not run":
        assert snippet.about, f"{snippet.where}: a block that is not run says why"
    if snippet.language in ("yaml", "c", "cpp"):
        assert snippet.mark == "file", f"{snippet.where}: the file that it is goes before it"


def test_commands_that_are_not_run_have_the_options_that_they_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor those that take long."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "options.yaml").write_text("precision: fp16\n")
    known = hooks.commands()
    told = [
        line
        for s in ALL
        if s.mark in ("not run", "long") and s.language == "bash"
        for line in commands(s.text)
    ]
    lines = [shlex.split(line, comments=True)[1:] for line in told if line.startswith("arm-ext ")]
    assert lines
    for words in lines:
        name = next(name for name in known if words[: len(name.split())] == name.split())
        known[name].make_context(name, words[len(name.split()) :])


def test_few_snippets_are_not_run() -> None:
    """The list is short, and each reason is one that no machine of ours can mend."""
    left = Counter(s.where.partition(":")[0] for s in ALL if s.mark == "not run")
    assert sum(left.values()) <= sum(s.is_run for s in ALL) / 2, left
