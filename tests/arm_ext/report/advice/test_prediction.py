# SPDX-License-Identifier: Apache-2.0
import pytest

from arm_ext.report.advice.prediction import predicted_gain
from arm_ext.report.calls import CallRow
from arm_ext.report.profile.record import Counts, ProfiledCall
from tests.arm_ext.report.advice.records import call, profile_of


def row(anchor: str, cycles: int, fetching: int = 0) -> CallRow:
    return CallRow(
        symbol=anchor,
        anchor=anchor,
        sources=(anchor,),
        operators=(),
        output="",
        kernel="",
        macs=0,
        selection_cost=cycles,
        cycles_with_caches=cycles + fetching,
        bytes=0,
    )


def waiting(found: ProfiledCall, estimated_cycles: int) -> ProfiledCall:
    """The call, all but so many of whose cycles carry cache lines."""
    assert found.counts is not None
    counts = Counts(**{**found.counts.model_dump(), "estimated_cycles": estimated_cycles})
    return found.model_copy(update={"counts": counts})


CONV, FC = call(0, "conv", "gemm_f32", 0.6), call(1, "fc", "gemm_f32", 0.3)
NOW = [row("conv", 500, 80), row("fc", 100, 40)]


def test_a_layer_changes_as_its_estimate() -> None:
    then = [row("conv", 250), row("fc", 150)]
    assert predicted_gain(profile_of(CONV, FC), NOW, then) == pytest.approx(0.3 - 0.15)


def test_waits_for_cache_lines_change_as_what_caches_fetch() -> None:
    then = [row("conv", 250, 20), row("fc", 100, 40)]
    profile = profile_of(waiting(CONV, 200), FC)
    assert predicted_gain(profile, NOW, then) == pytest.approx(0.1 + 0.3)


def test_calls_of_one_layer_count_together() -> None:
    then = [row("conv", 100), row("conv", 150), row("fc", 100)]
    assert predicted_gain(profile_of(CONV, FC), NOW, then) == pytest.approx(0.3)


def test_a_new_layer_costs_what_estimates_are_on_average() -> None:
    # 900 cycles were measured where 600 were estimated. The fully connected layer is part of the convolution.
    then = [row("conv", 500), row("cast", 100)]
    assert predicted_gain(profile_of(CONV, FC), NOW, then) == pytest.approx(0.3 - 0.15)


def test_a_model_without_calls_gains_nothing() -> None:
    assert predicted_gain(profile_of(), [], []) == 0
