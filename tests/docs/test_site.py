# SPDX-License-Identifier: Apache-2.0
"""The documentation builds strictly, says what is, and needs no network to be read."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from click import Option
from docs_site import figures, hooks, walk

from arm_ext.ethosu.ops.constraints import CONSTRAINTS
from arm_ext.target.profiles import PROFILES
from tests.docs.snippets import PAGES, ROOT

README = (ROOT / "README.md").read_text()
MOST_LINES = 135  # of README, of which some 120 are read and the others mark what is not run
# Options of other programs than ours that pages name.
FOREIGN = {"--ranking", "--help", "--version", "--port", "--tracker", "--update-golden", "--durations"}


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", str(ROOT / "mkdocs.yml")]
    ended = subprocess.run([*build, "-d", str(folder)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return folder


class _Loaded(HTMLParser):
    """What a browser fetches to show a page: not what a reader may click on."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        of = dict(attributes)
        kind = "src" if tag in ("script", "img", "iframe", "source") else "href" if tag == "link" else ""
        if kind and of.get(kind) and of.get("rel") != "canonical":
            self.addresses.append(str(of[kind]))


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(PAGES) / 2
    for page in pages:
        loaded = _Loaded()
        loaded.feed(page.read_text())
        assert loaded.addresses
        assert not [address for address in loaded.addresses if re.match(r"(https?:)?//", address)], page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(https?:)?//|@import", sheet.read_text()), sheet


def test_links_lead_to_files_without_a_server(site: Path) -> None:
    for page in sorted({*site.rglob("*.html")} - {site / "404.html"}):  # which a server shows
        links = re.findall(r"<a [^>]*href=\"([^\"#?]+)[^\"]*\"", page.read_text())
        inside = [link for link in links if not re.match(r"[a-z]+:", link)]
        assert inside
        assert not [link for link in inside if not (page.parent / link).is_file()], page


def test_reference_holds_what_the_code_has(site: Path) -> None:
    text = {page: (site / page).with_suffix(".html").read_text() for page in hooks.PAGES}
    assert not [page for page, html in text.items() if hooks.MARK in html]
    assert all(f">{name}<" in text["reference/targets.md"] for name in PROFILES)
    assert all(f"arm-ext {name}" in text["reference/command-line.md"] for name in hooks.commands())
    assert text["reference/ethos-u-limits.md"].count("<tr>") == len(CONSTRAINTS) + 1
    assert "peak_activation_bytes" in text["reference/files.md"]


def test_every_verb_is_described() -> None:
    rows = (ROOT / "docs/reference/command-line.md").read_text().splitlines()
    described = {line.split("`")[1].split()[0] for line in rows if line.startswith("| `")}
    assert {name.split()[0] for name in hooks.commands()} <= described


def test_options_that_pages_name_exist() -> None:
    options = {
        name
        for command in hooks.commands().values()
        for p in command.params
        if isinstance(p, Option)
        for name in (*p.opts, *p.secondary_opts)
    }
    for page in PAGES:
        named = set(re.findall(r"`(--[a-z][\w-]+)", page.read_text()))
        assert named <= options | FOREIGN, (page, named - options - FOREIGN)


def test_files_that_pages_name_exist() -> None:
    for page in PAGES:
        named = re.findall(
            r"`((?:arm_ext|relay_passes|schedules|scripts|tests|examples|docs)/[\w./-]+)`", page.read_text()
        )
        assert [path for path in named if not (ROOT / path).exists()] == [], page


def test_figures_are_current() -> None:
    for name, text in figures.figures().items():
        assert (figures.FOLDER / name).read_text() == text, f"{name}: run scripts/docs_site/figures.py"


def test_walk_is_current() -> None:
    page = walk.PAGE.read_text()
    assert walk.updated(page) == page, "run scripts/docs_site/walk.py, and read what changed"


def test_ci_runs_the_test_command_of_the_readme() -> None:
    command = (ROOT / ".ci/run").read_text().splitlines()[-1]
    assert f"```bash\n{command}\n```" in README


def test_readme_is_short() -> None:
    assert len(README.splitlines()) <= MOST_LINES
