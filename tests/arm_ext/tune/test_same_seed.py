# SPDX-License-Identifier: Apache-2.0
"""The same seed makes the same search on emulated boards, whichever candidate is done first."""

from collections.abc import Sequence
from pathlib import Path

from arm_ext.tune.candidate import Candidate
from arm_ext.tune.database import Database
from arm_ext.tune.fleet import Fleet
from arm_ext.tune.measure import OnResult, Result, ignore
from arm_ext.tune.recorded import Recorded
from arm_ext.tune.search import tune
from arm_ext.tune.task import Task
from tests.arm_ext.tune.standins import A76, tasks

_TRIALS = 4


class _Asked:
    """A `Measurer` that keeps what it was asked for, with the answers."""

    def __init__(self, inner: Recorded) -> None:
        self.unit, self.where, self._inner = inner.unit, inner.where, inner
        self.trials: list[tuple[str, Candidate, float | None]] = []

    def measure(self, batch: Sequence[tuple[Task, Candidate]], on_result: OnResult = ignore) -> list[Result]:
        results = self._inner.measure(batch, on_result)
        asked = zip(batch, results, strict=True)
        self.trials += [(task.key, candidate, result.cost) for (task, candidate), result in asked]
        return results


def test_two_boards_make_the_same_trials_in_the_same_order_at_the_same_costs(tmp_path: Path) -> None:
    searches = []
    with Fleet(A76, "virtual", 2) as fleet:
        for name in ("one", "other"):
            asked = _Asked(Recorded(fleet, Database(tmp_path / name, create=True), seed=3))
            tune(tasks(), asked, seed=3, trials=_TRIALS)
            searches.append(asked.trials)
    one, other = searches
    assert len(one) == _TRIALS
    assert all(cost is not None for _, _, cost in one)
    assert one == other
    # They are recorded as they were done, in any order.
    recorded = {(r.task, str(r.candidate), r.cost) for r in Database(tmp_path / "other").all()}
    assert recorded == {(key, str(candidate.encode()), cost) for key, candidate, cost in one}
