# SPDX-License-Identifier: Apache-2.0
"""Regions of random graphs compute on Ethos-U what they compute on the CPU, and what does not is found.

A region on one accelerator is one subgraph; a graph has one or more on each.
"""

from functools import partial

import numpy as np
import pytest
from hypothesis import Phase

from arm_ext.ethosu.ops.constraints import CONSTRAINTS
from tests.fuzz import campaign, npu
from tests.fuzz.campaign import Tally, rejections, run_shard

EXAMPLES, SEED = 42, 0
ONE_A_FAMILY = ("ethos-u55-128", "ethos-u65-512", "ethos-u85-128")
# Of an accelerator, and of a constraint on the two accelerators of a family.
LEAST_REGIONS, LEAST_REJECTIONS = 42, 4


@pytest.mark.parametrize(
    "names", [ONE_A_FAMILY, pytest.param(npu.NPUS, marks=pytest.mark.long)], ids=["one a family", "all"]
)
def test_random_regions_compute_what_the_cpu_does(
    monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...]
) -> None:
    monkeypatch.setattr(campaign, "npu_outcome_of", partial(npu.npu_outcome_of, npus=names))
    least = LEAST_REJECTIONS * len(names) // len(npu.NPUS)
    # In this process, as others take as long to begin as for 15 graphs each.
    total = run_shard(range(EXAMPLES), SEED, npu=True)
    assert isinstance(total, Tally), str(total)
    regions = {name: total.definitions[f"{name}: {npu.REGIONS}"] for name in names}
    assert sum(regions.values()) >= LEAST_REGIONS * len(names), regions
    assert min(regions.values()) > LEAST_REGIONS // 2, regions
    rejected = rejections(total)
    seldom = {
        constraint.reason: rejected[constraint.reason]
        for constraint in CONSTRAINTS
        if rejected[constraint.reason] < least
    }
    assert not seldom, f"of {total.graphs} graphs too few violate these (limit {least}): {seldom}"


@pytest.mark.parametrize("runs", ["run_model", "run_reference"])
def test_a_wrong_byte_is_found(monkeypatch: pytest.MonkeyPatch, runs: str) -> None:
    right = getattr(npu, runs)

    def wrong(network: object, data: list[np.ndarray]) -> list[np.ndarray]:
        first, *rest = right(network, data)
        return [first ^ np.ones((), first.dtype), *rest]

    monkeypatch.setattr(npu, runs, wrong)
    monkeypatch.setattr(campaign, "PHASES", (Phase.generate,))
    failure = run_shard(range(4, 5), SEED, npu=True)
    assert "differs in" in str(failure)
    assert "--npu --seed 0 --first 4 --examples 1" in str(failure)
