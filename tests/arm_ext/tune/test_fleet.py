# SPDX-License-Identifier: Apache-2.0
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from arm_ext.board.virtual import VirtualServer
from arm_ext.common.errors import EnvError, UsageError
from arm_ext.target.profiles import resolve
from arm_ext.tune import fleet as fleet_module
from arm_ext.tune.candidate import Candidate
from arm_ext.tune.candidate_runner import Job, MeasurementSite
from arm_ext.tune.costs import Loaded
from arm_ext.tune.fleet import Fleet
from arm_ext.tune.measure import Result
from arm_ext.tune.reference import sample
from arm_ext.tune.space import space
from tests.arm_ext.board.trackers import running
from tests.arm_ext.tune.standins import A76, RunnerOnEmulators, tasks

_KEY = "vb"


@pytest.fixture(scope="module")
def tracker() -> Iterator[str]:
    """The address of TVM's own tracker."""
    with running() as address:
        yield address


def _board(tracker: str) -> VirtualServer:
    return VirtualServer("cortex-a76", tracker=tracker, key=_KEY)


def test_boards_of_a_tracker_share_the_work_and_one_that_dies_loses_nothing(
    tracker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_module, "CandidateRunner", RunnerOnEmulators)
    task = tasks()[0]
    batch = [(task, candidate) for candidate in space(task)[:6]]
    boards = [_board(tracker) for _ in range(3)]
    order: list[int] = []

    def done(index: int, result: Result) -> None:
        order.append(index)
        if len(order) == 2:
            boards[0].close()
        if len(order) == 4:
            boards[0] = _board(tracker)

    try:
        with Fleet(A76, f"tracker-{tracker}/{_KEY}", jobs=2) as fleet:
            assert fleet.unit == "seconds"
            results = fleet.measure(batch, done)
    finally:
        for board in boards:
            board.close()
    assert sorted(order) == list(range(len(batch)))
    assert [result.failure for result in results] == [""] * len(batch)
    conditions = results[0].conditions
    assert (
        conditions["governor"] == "unknown"
    )  # in an emulator on a machine without cpufreq, or of another kind
    assert float(conditions["spread"]) >= 0
    assert int(conditions["cores"]) >= 1
    assert int(conditions["repeats"]) >= 9


@pytest.mark.parametrize(("deaths", "failure"), [(1, ""), (2, "run")])
def test_a_candidate_whose_board_dies_gets_another_one_once(
    tracker: str, tmp_path: Path, deaths: int, failure: str
) -> None:
    task, boards, left = tasks()[0], [_board(tracker)], [None] * deaths

    def cost(kernel: Loaded) -> Result:
        if left:
            left.pop()
            boards.pop().close()
            boards.append(_board(tracker))
        return Result(kernel.seconds(repeats=1)[0])

    (tmp_path / "sample").write_bytes(pickle.dumps(sample(task)))
    runner = RunnerOnEmulators(MeasurementSite(A76, f"tracker-{tracker}/{_KEY}", False, 300, tmp_path), cost)
    result = runner(Job(task.workload, task.default, tmp_path / "sample"))
    runner.close()
    boards[0].close()
    assert result.failure == failure, result.detail
    assert (result.cost is None) == bool(failure)


def test_an_emulated_board_of_a_tracker_gives_no_times(tracker: str) -> None:
    board = VirtualServer("cortex-a76", tracker=tracker, key="emulated")
    try:
        with (
            Fleet(A76, f"tracker-{tracker}/emulated", jobs=1) as fleet,
            pytest.raises(EnvError, match="is emulated: times measured there mean nothing"),
        ):
            fleet.measure([(tasks()[0], tasks()[0].default)])
    finally:
        board.close()


def test_emulated_boards_count_and_answer_in_the_order_of_the_batch() -> None:
    first, second = tasks()
    batch = [(first, first.default), (second, second.default), (first, Candidate("none", None))]
    with Fleet(A76, "virtual", jobs=1) as fleet:
        assert fleet.unit == "cycles"
        assert "llvm-mca" in fleet.where
        results = fleet.measure(batch)
        (again,) = fleet.measure(batch[:1])
    assert [result.failure for result in results] == ["", "", "build"]
    assert results[0] == again
    assert results[0].cost != results[1].cost


def test_without_a_board_it_is_an_error_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = [(tasks()[0], candidate) for candidate in space(tasks()[0])[:2]]
    away, wrong = (Result(None, failure=kind, detail="gone") for kind in ("board", "run"))
    with Fleet(A76, "127.0.0.1:9", 1) as fleet:
        monkeypatch.setattr(fleet._workers, "run", lambda _, done: [done(0, away), done(1, wrong)])
        assert fleet.measure(batch) == [away, wrong]
        monkeypatch.setattr(fleet._workers, "run", lambda _, done: [done(0, away), done(1, away)])
        with pytest.raises(EnvError, match="gone"):
            fleet.measure(batch)


def test_a_core_without_a_model_is_refused() -> None:
    profile = replace(A76, core=replace(resolve("arm").core, name="znver4"))
    with pytest.raises(UsageError, match="--board local"):
        Fleet(profile, "virtual")
