# SPDX-License-Identifier: Apache-2.0
"""One name for one thing: the three kinds of cycles of a CPU are called in results what the glossary calls them."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import arm_ext
from arm_ext import cli
from arm_ext.api import digits
from arm_ext.measure.peers.comparison import Comparison
from arm_ext.measure.profile import CountReport
from arm_ext.report.explanation import ExplainReport
from arm_ext.report.profile.record import ProfileReport
from arm_ext.report.report import CompileReport

GLOSSARY = Path(__file__).parents[3] / "docs" / "glossary.md"
ESTIMATED, CACHES, SELECTION = "estimated cycles", "cycles with caches", "selection cost"
# Limits, the cycles of an NPU, and those in cycles of the CPU's clock.
OTHERS = (
    *("limit_cycles", "bound_cycles", "npu_cycles", "dense_cycles", "dense_npu_cycles", "access_cycles"),
    "cpu_clock_cycles",
    "critical_cycles",
)


def test_the_glossary_has_them():
    terms = re.findall(r"^\| ([^|]+) \|", GLOSSARY.read_text(), re.MULTILINE)
    assert {ESTIMATED, CACHES, SELECTION} <= set(terms)


def fields(record: type[BaseModel]) -> Iterator[tuple[str, dict[str, Any]]]:
    schema = record.model_json_schema()
    for part in (schema, *schema.get("$defs", {}).values()):
        yield from part.get("properties", {}).items()


@pytest.mark.parametrize(
    ("record", "kinds"),
    [
        (CompileReport, {SELECTION, CACHES}),
        (ExplainReport, {SELECTION, CACHES}),
        (CountReport, {ESTIMATED, CACHES}),
        (Comparison, {ESTIMATED, CACHES}),
        (ProfileReport, {ESTIMATED, CACHES, SELECTION}),
    ],
)
def test_fields_of_json(record: type[BaseModel], kinds: set[str]):
    found = set()
    for name, field in fields(record):
        if not re.search("cycles|cost", name) or name in OTHERS:
            continue
        if name == "cycles":
            assert "NPU" in field["description"], f"{record.__name__}.{name} is of no kind"
            continue
        found.add(name.replace("_", " "))
    assert found == kinds


def said(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> set[str]:
    """Return the kinds of cycles that the output of a command names."""
    assert cli.invoke([str(argument) for argument in arguments]) == 0
    text = " ".join(capsys.readouterr().out.split())
    return {
        kind for kind in (ESTIMATED, CACHES, SELECTION, "est. cycles", "cycles estimated") if kind in text
    }


def test_text_of_each_verb(digits_package: Path, capsys: pytest.CaptureFixture[str]):
    assert said(capsys, "bench", digits_package) == {CACHES, ESTIMATED}
    assert said(capsys, "profile", digits_package) == {CACHES}
    assert said(capsys, "explain", digits.model_path(), "--target", "cortex-a76") == {CACHES}
    report = (digits_package / "report.txt").read_text()
    assert CACHES in report
    assert ESTIMATED not in report


def test_the_page_of_a_profile():
    page = (Path(arm_ext.__file__).parent / "report" / "profile" / "page.js").read_text()
    assert all(f'"{kind}"' in page or f"`{kind} " in page for kind in (ESTIMATED, CACHES, SELECTION))
