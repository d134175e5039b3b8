# SPDX-License-Identifier: Apache-2.0
"""Regions of random graphs compute on Ethos-U what they compute on the CPU, and what does not is found."""

import os
from collections import Counter

import numpy as np
import pytest

from arm_ext.ethosu.constraints import CONSTRAINTS
from tests.arm_ext.ethosu.test_constraints import UNREACHED
from tests.fuzz import npu
from tests.fuzz.campaign import Tally, run_shard, shards

EXAMPLES, SEED = 1000, 0
LEAST_REJECTIONS = 10


def test_random_regions_compute_what_the_cpu_does() -> None:
    total = Tally()
    for result in shards(range(EXAMPLES), SEED, len(os.sched_getaffinity(0)), npu=True):
        assert isinstance(result, Tally), str(result)
        total.add(result)
    rejected: Counter[str] = Counter()
    for what, times in total.rules.items():
        rejected[what.partition(": ")[2]] += times
    seldom = {
        constraint.reason: rejected[constraint.reason]
        for constraint in CONSTRAINTS
        if rejected[constraint.reason] < LEAST_REJECTIONS and constraint.reason not in UNREACHED
    }
    assert not seldom, f"of {total.graphs} graphs too few violate these (limit {LEAST_REJECTIONS}): {seldom}"


@pytest.mark.parametrize("runs", ["run_model", "run_reference"])
def test_a_wrong_byte_is_found(monkeypatch: pytest.MonkeyPatch, runs: str) -> None:
    right = getattr(npu, runs)

    def wrong(network: object, data: list[np.ndarray]) -> list[np.ndarray]:
        first, *rest = right(network, data)
        return [first ^ np.ones((), first.dtype), *rest]

    monkeypatch.setattr(npu, runs, wrong)
    failure = run_shard(range(4, 5), SEED, npu=True)
    assert "differs in" in str(failure)
    assert "--npu --seed 0 --first 4 --examples 1" in str(failure)
