# SPDX-License-Identifier: Apache-2.0
import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import arm_ext
from arm_ext import cli
from arm_ext.common.text import PAGE
from arm_ext.common.trace import TraceDump
from arm_ext.package.writing import writing
from arm_ext.report.profile.record import ProfileReport
from tests.arm_ext.board.processes import eventually, processes_of
from tests.arm_ext.cli.test_process import COMMAND
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


def slow_at_the_end() -> onnx.ModelProto:
    """Two small convolutions, and one that an emulator takes a good part of a second for."""
    size = 56
    x = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 3, size, size])
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    nodes, weights, of, channels = [], [], "x", 3
    for name, out, kernel in (("first", 4, 1), ("second", 64, 1), ("slow", 64, 3)):
        weight = np.full((out, channels, kernel, kernel), 0.01, np.float32)
        weights.append(onnx.numpy_helper.from_array(weight, f"{name}_w"))
        to = "y" if name == "slow" else f"{name}_y"
        nodes.append(helper.make_node("Conv", [of, f"{name}_w"], [to], name, pads=[kernel // 2] * 4))
        of, channels = to, out
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize(
    ("ends", "code", "said"),
    [
        # As in tests/arm_ext/api/test_profile.py, whose board goes away, too.
        pytest.param("board", 3, "went away in the middle", marks=pytest.mark.long),
        ("SIGTERM", 128 + signal.SIGTERM, "it was interrupted"),
    ],
)
def test_what_was_measured_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: str, code: int, said: str
) -> None:
    onnx.save(slow_at_the_end(), tmp_path / "m.onnx")
    arm_ext.compile(tmp_path / "m.onnx", output=tmp_path / "m.armpkg")
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    command = [*COMMAND, "profile", "m.armpkg", "-o", "p.json", "-o", "p.html"]
    process = subprocess.Popen(
        command, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )

    def is_in_the_slow_call() -> bool:
        (dump,) = [*tmp_path.glob("tmp/*/arm-ext-board-*/dump")] or [None]
        sections = TraceDump.read(dump, complete=False).sections if dump is not None else []
        # Sections of the program surround each of three calls: the input's layout, "first" and "second".
        return len([section for section in sections if section.begin]) >= 9

    assert eventually(is_in_the_slow_call, every=0.005)
    if ends == "board":
        os.killpg(processes_of(process.pid)[-1], signal.SIGKILL)
    else:
        process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=300)
    assert process.returncode == code, err
    report = ProfileReport.model_validate_json((tmp_path / "p.json").read_bytes())
    assert report.broken_off is not None
    assert 0 < report.broken_off.measured == len(report.calls) < report.broken_off.planned
    assert said in report.broken_off.why
    assert sum(call.share for call in report.calls) + report.around.share == pytest.approx(1)
    assert f"broken off {report.broken_off.text()}" in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= PAGE
    assert report.broken_off.why in (tmp_path / "p.html").read_text()
    assert ("error: board" if ends == "board" else "aborted") in err
