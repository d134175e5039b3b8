# SPDX-License-Identifier: Apache-2.0
import multiprocessing
import os
import random
import signal
from pathlib import Path
from time import sleep

import pytest
import tvm

from arm_ext.common.errors import UsageError
from arm_ext.tune import search
from arm_ext.tune.candidate import Candidate
from arm_ext.tune.database import TORN, Database, best_of
from arm_ext.tune.measure import Result
from arm_ext.tune.record import Record
from arm_ext.tune.recorded import Recorded
from arm_ext.tune.task import Task
from tests.arm_ext.tune.standins import A72, A76, StandIn, hashed, record, tasks

_KILLS = 4
_TRIALS = 40
_TIMES = 50


def test_what_is_appended_is_read_again_oldest_first(tmp_path: Path) -> None:
    database = Database(tmp_path / "db", create=True)
    records = [record(tasks()[0], cost=cost) for cost in (3.0, 1.0, 2.0)]
    database.append(records[:2])
    Database(tmp_path / "db").append(records[2:])
    assert [r.id for r in database.all()] == [r.id for r in records]


def test_a_torn_line_is_ignored_and_does_not_tear_the_next_one(tmp_path: Path) -> None:
    database = Database(tmp_path)
    database.append([record(tasks()[0], cost=1.0), record(tasks()[0], cost=2.0)])
    (book,) = tmp_path.glob("*.jsonl")
    book.write_bytes(book.read_bytes()[:-20])
    assert [r.cost for r in database.all()] == [1.0]
    database.append([record(tasks()[0], cost=3.0)])
    assert [r.cost for r in database.all()] == [1.0, 3.0]
    assert database.skipped == {TORN: 1}


def test_a_record_is_for_the_features_that_it_was_measured_with(tmp_path: Path) -> None:
    # The same core name, workload and version of TVM, with dotprod and without.
    database = Database(tmp_path)
    with_dotprod, without = tasks(A76)[0], tasks(A72)[0]
    assert with_dotprod.key == without.key
    database.append([record(with_dotprod, tvm=tvm.__version__, core="cortex-a72")])
    assert not database.records(A72)
    assert database.best(A72, without.key) is None
    database.append([record(without, tvm=tvm.__version__, cost=7.0)])
    best = database.best(A72, without.key)
    assert best is not None
    assert best.cost == 7.0
    database.append([record(without, tvm="0.0", cost=1.0)])
    again = database.best(A72, without.key)
    assert again is not None
    assert again.id == best.id


def test_the_best_is_of_the_last_place_and_times_stand_above_estimates() -> None:
    task = tasks()[0]
    estimate = record(task, cost=1.0, when="2026-01-09T00:00:00+00:00")
    old = record(task, unit="seconds", where="a", cost=1e-6, when="2026-01-01T00:00:00+00:00")
    slow, fast, wrong = (
        record(task, unit="seconds", where="b", when="2026-01-02T00:00:00+00:00", cost=cost, **more)
        for cost, more in ((9e-6, {}), (5e-6, {}), (None, {"failure": "wrong values"}))
    )
    assert best_of([estimate, old, slow, fast, wrong]) == fast
    assert best_of([estimate, old]) == old
    assert best_of([estimate, wrong]) == estimate
    assert best_of([wrong]) is None


def test_two_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    # Longer than what a pipe or a page of the file system writes at once.
    lines = [record(tasks()[0], detail=str(number) * 9000) for number in range(3)]
    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=_write, args=(tmp_path, line)) for line in lines]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    database = Database(tmp_path)
    found = [record.id for record in database.all()]
    assert sorted(found) == sorted(line.id for line in lines for _ in range(_TIMES))
    assert not database.skipped


def test_pruning_loses_nothing_that_is_written_meanwhile(tmp_path: Path) -> None:
    line = record(tasks()[0])
    Database(tmp_path).append([line])
    writer = multiprocessing.get_context("fork").Process(target=_write, args=(tmp_path, line))
    writer.start()
    while writer.is_alive():
        Database(tmp_path).rewrite(_all)
    assert writer.exitcode == 0
    assert len(Database(tmp_path).all()) == _TIMES + 1
    assert [path.suffix for path in tmp_path.iterdir()] == [".jsonl"]


def _all(records: list[Record]) -> list[Record]:
    sleep(0.001)
    return records


def _write(folder: Path, line: Record) -> None:
    for _ in range(_TIMES):
        Database(folder).append([line])


def test_no_database_and_one_that_cannot_be_made_are_usage_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"tune MODEL --db"):
        Database(tmp_path / "none")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be made"):
        Database(tmp_path / "file" / "db", create=True)


def test_killed_at_four_moments_it_is_whole_and_no_finished_trial_is_repeated(tmp_path: Path) -> None:
    # A fork of this process could hang: other tests have begun threads of OpenMP in it, which xgboost waits for.
    runs = multiprocessing.get_context("spawn").Process(target=_kill_at_moments, args=(tmp_path,))
    runs.start()
    runs.join()
    assert runs.exitcode == 0
    alone = StandIn(hashed)
    search.tune(tasks(), alone, seed=1, trials=_TRIALS)
    records = Database(tmp_path / "db").all()
    assert _trials_of(records) == {(key, candidate.text()) for key, candidate in alone.seen}


def _kill_at_moments(folder: Path) -> None:
    """Kill and resume a search, look at what is there each time, and let it end."""
    rng = random.Random(7)
    finished: set[tuple[str, str]] = set()
    for run in range(_KILLS + 1):
        child = os.fork()
        if child == 0:
            _search(folder, run)
        if run < _KILLS:
            sleep(rng.uniform(0.02, 0.25))
            os.kill(child, signal.SIGKILL)
        ended = os.waitpid(child, 0)[1]
        assert run < _KILLS or ended == 0
        finished = _check_run(folder, run, finished)


def _search(folder: Path, run: int) -> None:
    """A search whose trials take some milliseconds; each is noted in a file of the run as it begins."""
    log = (folder / f"run-{run}").open("a", buffering=1)

    def cost(task: Task, candidate: Candidate) -> Result:
        log.write(f"{task.key}\t{candidate.text()}\n")
        sleep(0.005)
        return hashed(task, candidate)

    code = 1
    try:
        recorded = Recorded(StandIn(cost), Database(folder / "db", create=True), seed=1)
        search.tune(tasks(), recorded, seed=1, trials=_TRIALS)
        code = 0
    finally:
        os._exit(code)


def _check_run(folder: Path, run: int, before: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """What the database holds after a run; it held `before`, of which nothing was begun again."""
    log = folder / f"run-{run}"
    begun = {tuple(line.split("\t")) for line in log.read_text().splitlines()} if log.exists() else set()
    assert not begun & before
    if not (folder / "db").exists():
        return before
    records = Database(folder / "db").all()
    found = _trials_of(records)
    assert len(found) == len(records)
    assert before <= found
    # All that was begun but the last one, which the kill may have met.
    assert len(begun - found) <= 1
    return found


def _trials_of(records: list[Record]) -> set[tuple[str, str]]:
    return {(record.task, Candidate.decode(record.candidate).text()) for record in records}


def test_a_rewrite_leaves_the_files_and_lines_of_others(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text('{"text": "mine"}\n')
    database = Database(tmp_path)
    database.append([record(tasks()[0], cost=1.0), record(tasks()[0], cost=2.0)])
    book = next(path for path in tmp_path.glob("*.jsonl") if path.name != "train.jsonl")
    later = '{"format": "of a later version"}\n'
    book.write_text(book.read_text() + later + '{"torn": ')
    database.rewrite(lambda records: records[:1])
    assert [r.cost for r in database.all()] == [1.0]
    assert book.read_text().endswith("\n" + later)
    database.rewrite(lambda _: [])
    assert book.read_text() == later
    book.unlink()
    assert [path.name for path in tmp_path.iterdir()] == ["train.jsonl"]
    database.append([record(tasks()[0], cost=1.0)])
    database.rewrite(lambda _: [])
    assert [path.name for path in tmp_path.iterdir()] == ["train.jsonl"]
