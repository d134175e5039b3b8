# SPDX-License-Identifier: Apache-2.0
"""Records that nobody should trust, in each place that reads a database."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
import pytest
import tvm
from onnx import helper

import arm_ext
from arm_ext.api.tune import _usable
from arm_ext.cli import invoke
from arm_ext.frontends.load import import_model
from arm_ext.pipeline.phases import PhaseOptions
from arm_ext.tune.candidate import Candidate, encode_workload
from arm_ext.tune.database import LONGEST, NO_RECORD, OTHER_BOOK, TOO_LONG, TORN, Database
from arm_ext.tune.record import Record, book_of
from arm_ext.tune.soundness import IMPOSSIBLE, NO_KERNEL, UNKNOWN_CORE, WRONG_WORKLOAD, sound, told
from arm_ext.tune.space import space
from arm_ext.tune.task import Task, extract
from arm_ext.tune.tuned import Tuned
from schedules.generic import metaschedule_trace
from tests.arm_ext import models
from tests.arm_ext.tune import standins
from tests.arm_ext.tune.standins import A76, tasks


def _record(task: Task, tried: Candidate | None = None, **fields: object) -> Record:
    usual = standins.record(task, tried, tvm=tvm.__version__)
    return Record.model_validate({**usual.model_dump(), **fields})


def _line(**fields: object) -> str:
    """A record that would win, with other fields."""
    return json.dumps({**_record(tasks()[0], cost=1.0).model_dump(), **fields})


def _params(**params: object) -> Mapping[str, Any]:
    candidate = space(tasks()[0])[1].encode()
    return {"kernel": candidate["kernel"], "params": {**candidate["params"], **params}}


FOREIGN_LINES = {
    _line()[:-20]: TORN,
    "\x00\x01\xff": TORN,
    "[" * 100_000: TORN,
    _line(detail="x" * LONGEST): TOO_LONG,
    _line(cost=-1.0): NO_RECORD,
    _line(cost=0): NO_RECORD,
    _line(cost=1.0).replace('"cost": 1.0', '"cost": 1e400'): NO_RECORD,
    _line(cost=float("nan")): NO_RECORD,
    _line(cost="fast"): NO_RECORD,
    _line(failure="run"): NO_RECORD,
    _line(instructions=-5): NO_RECORD,
    _line(when="tomorrow"): NO_RECORD,
    _line(surplus=1): NO_RECORD,
    "null": NO_RECORD,
    "17": NO_RECORD,
    _line(tvm="0.1"): OTHER_BOOK,
    _line(core="cortex-a55"): OTHER_BOOK,
    _line(features=["sve"]): OTHER_BOOK,
}

IMPOSSIBLE_RECORDS: dict[str, tuple[Mapping[str, object], str]] = {
    "a parameter of -1": ({"candidate": _params(rows=-1)}, NO_KERNEL),
    "a parameter of no space": ({"candidate": _params(row_block=6 * 10**9)}, IMPOSSIBLE),
    "a parameter of another type": ({"candidate": _params(row_block="six")}, NO_KERNEL),
    "a list for a parameter": ({"candidate": _params(sve=[4])}, IMPOSSIBLE),
    "a kernel of another workload": (
        {"candidate": {"kernel": "metaschedule", "params": {"trace": "[]"}}},
        IMPOSSIBLE,
    ),
    "a parameter that there is not": ({"candidate": _params(speed=1)}, NO_KERNEL),
    "no parameters": ({"candidate": {"kernel": "gemm_f32", "params": 3}}, NO_KERNEL),
    "an unknown kernel": ({"candidate": {"kernel": "magic", "params": {}}}, NO_KERNEL),
    "no kernel": ({"candidate": {}}, NO_KERNEL),
    "another task's workload": ({"workload": encode_workload(tasks()[1].workload)}, WRONG_WORKLOAD),
    "no workload": ({"workload": {"composite": 3}}, WRONG_WORKLOAD),
    "an unknown core": ({"core": "zx81"}, UNKNOWN_CORE),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A good record among foreign lines and impossible records."""
    path = tmp_path / "db"
    good = _record(tasks()[0], space(tasks()[0])[1], cost=80.0)
    Database(path, create=True).append([good])
    bad = [_line(**fields) for fields, reason in IMPOSSIBLE_RECORDS.values() if reason != UNKNOWN_CORE]
    with (path / f"{book_of(A76)}.jsonl").open("ab") as file:
        file.write("".join(f"{line}\n" for line in (*FOREIGN_LINES, *bad)).encode("latin-1"))
    return path


@pytest.mark.parametrize(("line", "reason"), FOREIGN_LINES.items(), ids=range(len(FOREIGN_LINES)))
def test_a_foreign_line_is_counted_and_no_record(tmp_path: Path, line: str, reason: str) -> None:
    database = Database(tmp_path)
    database.append([_record(tasks()[0])])
    with (tmp_path / f"{book_of(A76)}.jsonl").open("ab") as file:
        file.write(f"{line}\n".encode("latin-1"))
    database.append([_record(tasks()[1])])
    assert [record.task for record in database.records(A76)] == [task.key for task in tasks()]
    assert database.skipped == {reason: 1}


@pytest.mark.parametrize("name", IMPOSSIBLE_RECORDS)
def test_an_impossible_record_is_counted_and_not_used(name: str) -> None:
    fields, reason = IMPOSSIBLE_RECORDS[name]
    good = _record(tasks()[0])
    found, faults = sound([good, _record(tasks()[0], **fields)])
    assert (found, faults) == ([good], {reason: 1})


def test_all_that_a_search_tries_is_sound() -> None:
    records = [_record(task, candidate) for task in tasks() for candidate in space(task)]
    assert sound(records) == (records, {})


def test_the_sentence_says_how_many_and_why() -> None:
    assert told("db", {}) == ""
    assert told("db", {TORN: 1}) == "1 record of db is not used: 1 on torn lines"
    assert told("db", {TORN: 2, NO_KERNEL: 3}) == f"5 records of db are not used: 3 {NO_KERNEL}; 2 {TORN}"


def test_compile_uses_what_is_sound(folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    result = arm_ext.compile(models.mlp(), "cortex-a76", tmp_path / "p", tuned=folder)
    assert [kernel.task for kernel in result.package.manifest.tuned] == [tasks()[0].key]
    assert result.package.manifest.tuned[0].candidate == space(tasks()[0])[1].encode()
    (message,) = (record.message for record in caplog.records if record.name.startswith("arm_ext"))
    assert message.startswith(
        f"{len(FOREIGN_LINES) + len(IMPOSSIBLE_RECORDS) - 1} records of {folder} are not used: "
    )


def test_a_trace_that_does_not_fit_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (task, *_) = extract(import_model(_sine()).mod, PhaseOptions(A76))
    junk = {"kernel": metaschedule_trace.NAME, "params": {"trace": "[[], []"}}
    Database(tmp_path, create=True).append([_record(task, cost=9.0), _record(task, candidate=junk, cost=1.0)])
    known = Tuned(tmp_path, A76)(task.workload, A76.core)
    assert known is not None
    assert known.params == task.default.params
    assert "is not used: the trace does not fit" in caplog.text


def _sine() -> onnx.ModelProto:
    return models.model([helper.make_node("Sin", ["x"], ["y"], name="sin")], {"x": [64, 64]}, ["y"])


def test_databases_are_shown_merged_and_pruned(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    count = len(FOREIGN_LINES) + len(IMPOSSIBLE_RECORDS) - 1
    assert invoke(["db", "show", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert f"{count} records of {folder} are not used: " in shown
    assert "80 cycles" in shown
    assert "-1" not in shown.replace(str(folder), "")
    assert invoke(["db", "show", str(folder), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["records"], sum(document["skipped"].values())) == (1, count)
    assert invoke(["db", "merge", str(folder), "-o", str(tmp_path / "other")]) == 0
    assert (
        f"1 records added to {tmp_path / 'other'}\n{count} records of {folder} are not"
        in capsys.readouterr().out
    )
    assert [record.cost for record in Database(tmp_path / "other").all()] == [80.0]
    assert invoke(["db", "prune", str(folder)]) == 0
    assert f"{count} records of {folder} are not used" in capsys.readouterr().out
    database = Database(folder)
    assert [record.cost for record in database.all()] == [80.0]
    assert TOO_LONG not in database.skipped
    assert database.skipped[OTHER_BOOK] == 3  # may be of use to somebody else


def test_a_search_begins_without_them(folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert [record.cost for record in _usable(Database(folder))] == [80.0]
    assert "are not used" in caplog.text
