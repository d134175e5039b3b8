# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from arm_ext.tune.database import Database
from arm_ext.tune.measure import Result
from arm_ext.tune.recorded import Recorded
from arm_ext.tune.rerank import rerank
from arm_ext.tune.space import space
from tests.arm_ext.tune.standins import A76, StandIn, hashed, tasks

_TASK = tasks()[0]
_BATCH = [(_TASK, candidate) for candidate in space(_TASK)[:6]]


def test_what_was_measured_is_not_measured_again_failures_included(tmp_path: Path) -> None:
    def cost(task: object, candidate: object) -> Result:
        if candidate == _BATCH[1][1]:
            return Result(None, failure="wrong values", detail="7 of 9 values differ")
        return hashed(_TASK, candidate)  # type: ignore[arg-type]

    first, again = StandIn(cost), StandIn(cost)
    results = Recorded(first, Database(tmp_path)).measure(_BATCH[:4])
    told: dict[int, Result] = {}
    recorded = Recorded(again, Database(tmp_path))
    assert recorded.measure(_BATCH, told.__setitem__)[:4] == results
    assert [candidate for _, candidate in again.seen] == [candidate for _, candidate in _BATCH[4:]]
    assert recorded.reused == 4
    assert sorted(told) == list(range(6))
    records = Database(tmp_path).records(A76)
    assert [record.default for record in records] == [True, *[False] * 5]
    assert records[1].failure == "wrong values"
    best = Database(tmp_path).best(A76, _TASK.key)
    assert best is not None
    assert best.cost == min(result.cost for result in told.values() if result.cost is not None)


def test_records_from_before_a_parameter_was_added_are_of_the_same_candidate(tmp_path: Path) -> None:
    task, candidate = next(one for one in _BATCH if hasattr(one[1].params, "k_blocks"))
    database = Database(tmp_path / "now", create=True)
    Recorded(StandIn(hashed), database).measure([(task, candidate)])
    (record,) = database.all()
    del record.candidate["params"]["k_blocks"]
    older = Database(tmp_path / "before", create=True)
    older.append([record])
    stand_in = StandIn(hashed)
    assert Recorded(stand_in, older).measure([(task, candidate)])[0].cost == record.cost
    assert not stand_in.seen


def test_another_place_is_asked_again(tmp_path: Path) -> None:
    Recorded(StandIn(hashed), Database(tmp_path)).measure(_BATCH)
    for other in (StandIn(hashed, where="another model"), StandIn(hashed, unit="seconds")):
        Recorded(other, Database(tmp_path)).measure(_BATCH)
        assert len(other.seen) == len(_BATCH)


def test_a_candidate_is_not_to_blame_for_a_board_that_is_away(tmp_path: Path) -> None:
    away = StandIn(lambda *_: Result(None, failure="board", detail="gone"))
    assert Recorded(away, Database(tmp_path)).measure(_BATCH)[0].failure == "board"
    assert not Database(tmp_path).all()


def test_an_interrupt_keeps_what_was_done(tmp_path: Path) -> None:
    def cost(task: object, candidate: object) -> Result:
        if candidate == _BATCH[3][1]:
            raise KeyboardInterrupt
        return hashed(_TASK, candidate)  # type: ignore[arg-type]

    with pytest.raises(KeyboardInterrupt):
        Recorded(StandIn(cost), Database(tmp_path)).measure(_BATCH)
    assert len(Database(tmp_path).all()) == 3


def test_the_best_are_measured_again_on_a_board_beside_the_default(tmp_path: Path) -> None:
    database = Database(tmp_path)
    results = Recorded(StandIn(hashed), database).measure(_BATCH)
    board = StandIn(lambda *_: Result(1e-6), unit="seconds", where="192.168.0.7:9090")
    rerank(tasks(), Recorded(board, database), database.records(A76), 2, lambda: False)
    ranked = sorted(zip(results, _BATCH, strict=True), key=lambda pair: pair[0].cost or 0)
    expected = {_TASK.default, *(candidate for _, (_, candidate) in ranked[:2])}
    assert {candidate for _, candidate in board.seen} == expected
    assert {key for key, _ in board.seen} == {_TASK.key}  # of the other task nothing is known
    best = database.best(A76, _TASK.key)
    assert best is not None
    assert best.unit == "seconds"
