# SPDX-License-Identifier: Apache-2.0
"""Random graphs, divided and offered to an NPU that is not there, compute what they do undivided."""

import pytest

from tests.fuzz import campaign, dispatched
from tests.fuzz.campaign import Tally, run_shard

SEED = 0
# 26 regions in one graph, some of them alike, and few in others.
GRAPHS = range(90, 93)
LEAST_REGIONS = 27


def test_random_graphs_compute_divided_what_they_do_undivided(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(campaign, "npu_outcome_of", dispatched.outcome_of)
    total = run_shard(GRAPHS, SEED, npu=True)
    assert isinstance(total, Tally), str(total)
    assert total.definitions[dispatched.REGIONS] >= LEAST_REGIONS
