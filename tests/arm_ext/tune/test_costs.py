# SPDX-License-Identifier: Apache-2.0
import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm.script import tirx as T  # noqa: N812 (the name that TVMScript has everywhere)

from arm_ext.tune import candidate_runner, costs
from arm_ext.tune.candidate_runner import CandidateRunner, Job, MeasurementSite
from arm_ext.tune.measure import Result
from arm_ext.tune.reference import Sample
from tests.arm_ext.tune.standins import A76, tasks

_LINE = 64


def _copy(size: int) -> tvm.tirx.PrimFunc:
    @T.prim_func(s_tir=True)
    def copy(a: T.Buffer((size,), "int8"), b: T.Buffer((size,), "int8")) -> None:
        for i in range(size):
            with T.sblock("copy"):
                vi = T.axis.spatial(size, i)
                b[vi] = a[vi]

    return copy.with_attr("global_symbol", "copy")


@pytest.fixture(scope="module")
def measure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CandidateRunner]:
    made = CandidateRunner(MeasurementSite(A76, "virtual", True, 300, tmp_path_factory.mktemp("costs")))
    yield made
    made.close()


@pytest.mark.parametrize("size", [8 << 10, 192 << 10, 1 << 20])
def test_what_does_not_fit_is_fetched_line_by_line(
    measure: CandidateRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    values = np.arange(size).astype(np.int8)
    (tmp_path / "sample").write_bytes(pickle.dumps(Sample((values,), (), values, 0.0)))
    monkeypatch.setattr(candidate_runner, "build", lambda *_: (_copy(size), ()))
    result = measure(Job(tasks()[0].workload, tasks()[0].default, tmp_path / "sample"))
    assert not result.failure, result.detail
    lines = 2 * size // _LINE
    cache = A76.core
    from_l2, from_memory = (int(result.conditions[f"lines from {where}"]) for where in ("L2", "memory"))
    # Some dozen lines more are the stack's and the caller's.
    for fetched, holds in ((from_l2, cache.l1d.size), (from_memory, cache.l2.size)):
        assert (lines if 2 * size > holds else 0) <= fetched <= (lines if 2 * size > holds else 0) + 64
    assert result.instructions is not None
    assert result.cost is not None
    least = 2 * from_l2 + 8 * from_memory + result.instructions / cache.issue_width
    assert result.cost >= least
    # All lines are read or written once.
    assert 0.97 * least / result.cost <= float(result.conditions["bound"]) <= 1


class _Board:
    """Times of calls, as given; a `Loaded` as far as `seconds` goes."""

    def __init__(self, *rounds: list[float]) -> None:
        self._rounds = list(rounds)
        self.asked = 0

    def seconds(self, _repeats: int, _repeat_ms: int) -> list[float]:
        self.asked += 1
        return self._rounds.pop(0) if len(self._rounds) > 1 else self._rounds[0]


def _seconds(board: _Board, monkeypatch: pytest.MonkeyPatch) -> Result:
    monkeypatch.setattr(costs, "_conditions", lambda _, times: {"repeats": str(len(times))})
    return costs.seconds(board)  # type: ignore[arg-type]  # all that is asked of a Loaded


def test_a_quiet_board_is_timed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    board = _Board([1.0, 1.001, 1.002, 0.999, 1.0, 1.0, 1.001, 1.0, 0.998])
    assert _seconds(board, monkeypatch).cost == 1.0
    assert board.asked == 1


def test_outliers_are_timed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet = [1.0, 1.001, 1.002, 0.999, 1.0, 1.0, 1.001, 1.0, 0.998]
    board = _Board([*quiet[:7], 3.0, 5.0], quiet)
    result = _seconds(board, monkeypatch)
    assert result.cost == 1.0
    assert result.conditions["repeats"] == "16"
    assert board.asked == 2


def test_a_restless_board_is_given_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    board = _Board([1.0, 1.5, 1.2, 1.9, 1.1, 1.7, 1.3, 1.6, 1.4])
    assert _seconds(board, monkeypatch).cost == 1.4
    assert board.asked < 10
