# SPDX-License-Identifier: Apache-2.0
import json
import os
import signal
import socket
import subprocess
import sys
from io import StringIO
from pathlib import Path
from time import monotonic, sleep

import pytest
from rich.console import Console

from arm_ext import cli
from arm_ext.api import tune
from arm_ext.cli import tune_view
from arm_ext.common.scratch import TEMPORARY, remove_dead
from arm_ext.tune.database import Database
from arm_ext.tune.measure import Result
from arm_ext.tune.progress import start
from arm_ext.tune.report import TuneReport
from tests.arm_ext.tune.standins import StandIn, hashed, model_file, record, tasks

_SCRIPT = Path(__file__).parents[3] / "scripts" / "tune.py"
_SECONDS = 900  # of which it takes few, but on a machine under load


class _Fleet(StandIn):
    """In the place of boards: costs without building anything."""

    def __init__(self, *_: object) -> None:
        super().__init__(hashed)

    def __enter__(self) -> "_Fleet":
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def fleet(monkeypatch: pytest.MonkeyPatch) -> type[_Fleet]:
    monkeypatch.setattr(tune, "Fleet", _Fleet)
    return _Fleet


def _tune(folder: Path, *options: str) -> int:
    line = ["tune", str(model_file(folder)), "--target", "cortex-a76", "--db", str(folder / "db"), *options]
    return cli.invoke(line)


def _report(capsys: pytest.CaptureFixture[str]) -> TuneReport:
    return TuneReport.model_validate_json(capsys.readouterr().out)


@pytest.mark.usefixtures("fleet")
def test_a_run_that_is_repeated_measures_nothing_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _tune(tmp_path, "--trials", "20", "--json") == 0
    first = _report(capsys)
    assert (first.trials, first.reused, first.stopped) == (20, 0, "done")
    assert _tune(tmp_path, "--trials", "20", "--json") == 0
    again = _report(capsys)
    assert (again.trials, again.reused) == (20, 20)
    assert [(t.best, t.candidate) for t in again.tasks] == [(t.best, t.candidate) for t in first.tasks]
    assert again.before is not None
    assert again.after is not None
    assert again.after <= again.before


@pytest.mark.usefixtures("fleet")
def test_the_tables_show_tasks_and_what_to_do_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _tune(tmp_path, "--trials", "9", "--tasks", "linear.2", "--shape", "x=2,31") == 0
    shown = capsys.readouterr()
    assert "linear.2" in shown.err.splitlines()[1]
    assert "linear.1" not in shown.out + shown.err
    assert "9, 0 of them known" in shown.out
    assert f"--target cortex-a76 --shape x=2,31 --tuned {tmp_path / 'db'}" in shown.out


@pytest.mark.usefixtures("fleet")
def test_a_budget_that_is_used_up_ends_the_search(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _tune(tmp_path, "--budget", "0.000001s", "--trials", "40", "--json") == 3
    assert "not one of 0 candidates could be measured" in capsys.readouterr().err
    assert len(Database(tmp_path / "db").all()) == 1  # the preflight's


def test_a_board_that_is_not_there_is_told_before_any_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        board = f"127.0.0.1:{taken.getsockname()[1]}"
        line = ["tune", str(tmp_path / "no.onnx"), "--budget", "20s", "--db", str(tmp_path / "db")]
        assert cli.invoke([*line, "--board", board]) == 3
        assert f"no RPC server of a board answers at {board}" in capsys.readouterr().err
        assert cli.invoke([*line, "--board", f"tracker-{board}/rpi"]) == 3
        assert "tracker" in capsys.readouterr().err
    assert not (tmp_path / "db").exists()


def test_nothing_measured_is_never_a_success(
    tmp_path: Path, fleet: type[_Fleet], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(self: _Fleet, *_: object) -> None:
        StandIn.__init__(self, lambda *_: Result(None, failure="run", detail="boom"))

    monkeypatch.setattr(fleet, "__init__", broken)
    assert _tune(tmp_path, "--trials", "4") == 3
    assert "without tuning, failed (run): boom" in capsys.readouterr().err
    assert _tune(tmp_path, "--rerank", "local") == 3
    assert (
        "has no records of these tasks for cortex-a76 to time again; search first" in capsys.readouterr().err
    )


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--tasks", "conv*"), "matches no task; the tasks are: linear.1, linear.2"),
        (("--budget", "soon"), "'soon' is no time such as 30m"),
        (("--budget", "-3m"), "is no time"),
    ],
)
def test_wrong_arguments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], message: str
) -> None:
    assert _tune(tmp_path, *options) == 2
    assert message in capsys.readouterr().err


def _start(folder: Path, records: int) -> subprocess.Popen[str]:
    """A run of its own, when the database has so many records."""
    command = [sys.executable, str(_SCRIPT), str(model_file(folder)), "--target", "cortex-a76", "--json"]
    run = subprocess.Popen(
        [*command, "--db", str(folder / "db"), "--jobs", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(_SCRIPT.parents[1])},
        text=True,
    )
    deadline = monotonic() + _SECONDS
    while not (folder / "db").exists() or len(Database(folder / "db").all()) < records:
        assert run.poll() is None, run.communicate()[1]
        assert monotonic() < deadline
        sleep(0.1)
    return run


@pytest.mark.long
def test_a_run_that_is_killed_leaves_its_records_and_no_files(tmp_path: Path) -> None:
    for records in (2, 5, 8):
        run = _start(tmp_path, records)
        run.kill()
        run.communicate()
        deadline = monotonic() + _SECONDS
        while list(tmp_path.glob(f"{TEMPORARY}*")):
            assert monotonic() < deadline
            sleep(0.1)
            remove_dead(tmp_path, TEMPORARY)  # as the next run does
    found = [(r.task, json.dumps(r.candidate)) for r in Database(tmp_path / "db").all()]
    assert len(found) == len(set(found)) >= 8


def test_on_real_boards_an_interrupt_keeps_what_was_found(tmp_path: Path) -> None:
    run = _start(tmp_path, 3)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=_SECONDS)
    assert run.returncode == 0, err
    report = TuneReport.model_validate(json.loads(out))
    assert report.stopped == "interrupted"
    assert report.trials >= 2
    assert all(record.cost for record in Database(tmp_path / "db").all())
    assert not list(tmp_path.glob("arm-ext-*"))


def test_a_terminal_has_a_table_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    console = Console(force_terminal=True, width=120, height=11, file=StringIO())
    monkeypatch.setattr(tune_view, "stderr", console)
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    progress = start(tasks(), StandIn(hashed), lambda: 90.0, 40)
    progress.rows[0].note(tasks()[0].default, Result(2000.0))
    progress.rows[0].note(tasks()[0].default, Result(None, failure="timeout", detail="slow"))
    with tune_view.view() as (on_start, on_progress), console.capture() as captured:
        on_start(progress)
        on_progress(progress)
        console.print(tune_view._screen(progress))
    text = captured.get()
    assert "2,000 cycles" in text
    assert "1 timeout" in text
    assert "1:30 left" in text


def test_databases_are_shown_merged_and_pruned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = tasks()[0]
    a, b = (Database(tmp_path / name, create=True) for name in "ab")
    shared = record(task, cost=200.0)
    a.append([shared, record(task, cost=None, failure="wrong values", default=False)])
    b.append([shared, *(record(task, cost=float(cost), default=False) for cost in range(100, 120))])
    merged = tmp_path / "c"
    assert cli.invoke(["db", "merge", str(a.folder), str(b.folder), "-o", str(merged)]) == 0
    assert "22 records added" in capsys.readouterr().out
    assert cli.invoke(["db", "merge", str(a.folder), "-o", str(merged), "--json"]) == 0
    said: dict[str, object] = {
        "schema_version": 2,
        "folder": str(merged),
        "added": 0,
        "skipped": {},
        "records": 22,
    }
    assert json.loads(capsys.readouterr().out) == said
    assert cli.invoke(["db", "show", str(merged), "--json"]) == 0
    (book,) = json.loads(capsys.readouterr().out)["books"]
    (entry,) = book["entries"]
    assert (entry["trials"], entry["failed"], entry["default"], entry["best"]) == (22, 1, 200.0, 100.0)
    assert entry["used"]
    assert cli.invoke(["db", "prune", str(merged), "--keep", "2"]) == 0
    assert "19 records removed" in capsys.readouterr().out
    assert cli.invoke(["db", "prune", str(merged), "--keep", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "schema_version": 2,
        "folder": str(merged),
        "removed": 0,
        "skipped": {},
        "records": 3,
    }
    assert cli.invoke(["db", "show", str(merged)]) == 0
    shown = capsys.readouterr().out
    assert "50.0 %" in shown
    assert "linear 2x31 31x9" in shown
    assert cli.invoke(["db", "show", str(tmp_path / "none")]) == 2


@pytest.mark.parametrize("options", [("--board", "over there"), ("--rerank", "virtual")])
def test_a_wrong_name_leaves_no_folder_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, str]
) -> None:
    assert _tune(tmp_path, *options) == 2
    assert "error: " in capsys.readouterr().err
    assert not (tmp_path / "db").exists()
