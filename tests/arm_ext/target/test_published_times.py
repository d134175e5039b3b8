# SPDX-License-Identifier: Apache-2.0
import pytest

from arm_ext.target import published_times as module
from arm_ext.target.profiles import PROFILES
from arm_ext.target.published_times import BOARDS, PublishedTime, published_times, time_interval
from schedules.cores import CORES


def test_rows_are_of_known_cores_and_told_with_their_sources() -> None:
    assert published_times()
    for row in published_times():
        assert row.core in CORES
        assert row.source
        # A ratio beyond these would be of another core, clock or model than the row says.
        assert 0.4 < row.ratio < 2.5, row
    assert BOARDS.keys() <= PROFILES.keys()


def row(core: str, ratio: float, board: str = "a board") -> PublishedTime:
    return PublishedTime(core, board, 1000, "ncnn 1", "net", ratio, 1_000_000, "a page")


def test_an_interval_reaches_from_the_smallest_ratio_to_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [row("cortex-a76", ratio) for ratio in (0.8, 1.1, 0.9)] + [row("cortex-a72", 3.0)]
    monkeypatch.setattr(module, "published_times", lambda: tuple(rows))
    found = time_interval("raspberry-pi-5", "cortex-a76", 2_400_000, by_formula=False)
    assert found is not None
    assert (found.low_ms, found.high_ms, found.published) == (pytest.approx(0.8), pytest.approx(1.1), 3)
    assert found.text() == (
        "0.8 to 1.1 ms on raspberry-pi-5 at 2,400 MHz, one core: estimated, never measured here"
    )
    short = time_interval("raspberry-pi-5", "cortex-a76", 24_000, by_formula=False)
    assert short is not None
    assert short.text().startswith("8 to 11 us on ")
    wider = time_interval("raspberry-pi-5", "cortex-a76", 240_000_000, by_formula=True)
    assert wider is not None
    assert (wider.low_ms, wider.high_ms) == (pytest.approx(80 / 1.25), pytest.approx(110 * 1.25))
    assert wider.text().startswith("64 to 138 ms on ")


def test_rows_of_the_board_itself_count_more_than_those_of_its_core(monkeypatch: pytest.MonkeyPatch) -> None:
    own = [row("cortex-a76", ratio, "Raspberry Pi 5") for ratio in (0.8, 0.9, 1.0)]
    monkeypatch.setattr(module, "published_times", lambda: (*own, row("cortex-a76", 1.5)))
    found = time_interval("raspberry-pi-5", "cortex-a76", 2_400_000, by_formula=False)
    assert found is not None
    assert (found.low_ms, found.high_ms) == (pytest.approx(0.8), pytest.approx(1.0))
    monkeypatch.setattr(module, "published_times", lambda: (*own[:2], row("cortex-a76", 1.5)))
    found = time_interval("raspberry-pi-5", "cortex-a76", 2_400_000, by_formula=False)
    assert found is not None
    assert (found.low_ms, found.high_ms) == (pytest.approx(0.8), pytest.approx(1.5))


@pytest.mark.parametrize(
    ("profile", "core"),
    [("cortex-a76", "cortex-a76"), ("arm", "generic-dotprod"), ("raspberry-pi-4", "cortex-a72")],
)
def test_no_interval_without_a_board_or_without_three_published_times(
    profile: str, core: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [row("cortex-a76", 1.0)] * 3 + [row("cortex-a72", 1.0)] * 2
    monkeypatch.setattr(module, "published_times", lambda: tuple(rows))
    assert time_interval(profile, core, 1e6, by_formula=False) is None
