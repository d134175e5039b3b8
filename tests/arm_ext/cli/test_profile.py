# SPDX-License-Identifier: Apache-2.0
import csv
import json
from pathlib import Path

import pytest

from arm_ext import cli
from arm_ext.package.writing import writing
from arm_ext.report.profile.record import ProfileReport
from tests.arm_ext.packages import fill


@pytest.fixture(scope="module")
def outputs(digits_package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("profile")
    names = [f"p{ending}" for ending in (".json", ".csv", ".trace", ".html")]
    options = [word for name in names for word in ("-o", str(folder / name))]
    assert cli.invoke(["profile", str(digits_package), *options]) == 0
    return folder


def test_views_tell_the_same(outputs: Path) -> None:
    report = ProfileReport.model_validate_json((outputs / "p.json").read_bytes())
    rows = list(csv.DictReader((outputs / "p.csv").open()))
    assert [row["anchor"] for row in rows] == [call.anchor for call in report.calls]
    events = json.loads((outputs / "p.trace").read_text())["traceEvents"]
    assert [event["name"] for event in events if event["ph"] == "X"] == [call.anchor for call in report.calls]
    ends = [event["ts"] + event["dur"] for event in events if event["ph"] == "X"]
    assert ends == sorted(ends)


def test_the_table_shows_the_costliest_first(
    digits_package: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.invoke(["profile", str(digits_package)]) == 0
    lines = capsys.readouterr().out.splitlines()
    head = next(index for index, line in enumerate(lines) if "bound by" in line and "layer" in line)
    assert "conv3" in lines[head + 1]


@pytest.mark.parametrize("name", ["p/manifest.json", "p/new.json", "hard.json"])
def test_the_package_is_not_written_into(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with writing(tmp_path / "p") as folder:
        fill(folder)
    (tmp_path / "hard.json").hardlink_to(tmp_path / "p" / "manifest.json")
    assert cli.invoke(["profile", str(tmp_path / "p"), "-o", str(tmp_path / name)]) == 2
    assert "name another --output" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["-o", "page.pdf"], "--output writes files that end with .html"),
        (["--compare", "old.json"], "--compare is for a page in HTML"),
        (["-o", "missing/page.html"], "missing"),
        (["--board", "nowhere:"], "nowhere:"),
    ],
)
def test_wrong_options_fail_before_the_work(
    digits_package: Path,
    options: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.invoke(["profile", str(digits_package), *options]) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_what_is_compared_must_be_a_profile(
    digits_package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "old.json").write_text("{}")
    options = ["--compare", str(tmp_path / "old.json"), "-o", str(tmp_path / "page.html")]
    assert cli.invoke(["profile", str(digits_package), *options]) == 2
    assert "is no profile that --output FILE.json wrote" in capsys.readouterr().err
