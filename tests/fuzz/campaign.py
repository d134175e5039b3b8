# SPDX-License-Identifier: Apache-2.0
"""Many random graphs, on all processors: shards of a fixed size, each drawn from a seed of its own.

Shard i of a run with seed s has seed s + i: a run of one shard with that seed draws the same graphs.
"""

import os
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context

import numpy as np
import onnx
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from relay_passes.canonicalize import RULES
from tests.fuzz.compiled import outcome_of
from tests.fuzz.describe import features, listing
from tests.fuzz.graphs import Case, float_cases
from tests.fuzz.quantized import quantized_cases

SHARD = 125
"""Graphs of a shard: some tens of seconds."""

KINDS = (*[float_cases] * 3, *[quantized_cases] * 2)
"""In float more, for it is there that most rules apply."""


@dataclass
class Tally:
    """What was drawn, and what the rules did.

    Attributes:
        graphs: How many.
        features: Operators, and operators with an attribute.
        rules: How often each rule was applied.
        definitions: What outputs were held against.
    """

    graphs: int = 0
    features: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=lambda: Counter({rule.name: 0 for rule in RULES}))
    definitions: Counter[str] = field(default_factory=Counter)

    def add(self, other: "Tally") -> None:
        self.graphs += other.graphs
        self.features.update(other.features)
        self.rules.update(other.rules)
        self.definitions.update(other.definitions)


@dataclass(frozen=True)
class Failure:
    """The smallest graph that hypothesis found to fail.

    Attributes:
        seed: Of the shard.
        fault: What is wrong.
        model: The graph, serialised.
        inputs: Its inputs.
    """

    seed: int
    fault: str
    model: bytes
    inputs: tuple[np.ndarray, ...]

    def __str__(self) -> str:
        graph = listing(onnx.load_model_from_string(self.model))
        again = f"again: python scripts/fuzz.py --examples {SHARD} --seed {self.seed}"
        return f"{self.fault}\n{graph}\n{again}"


def shards(examples: int, first_seed: int, jobs: int) -> Iterator[Tally | Failure]:
    """Run shards until there are `examples` graphs; results in the order in which they are ready."""
    # A fork of a process that has used TVM's threads may hang.
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_one_thread)
    with pool:
        pending = [pool.submit(run_shard, first_seed + i) for i in range(-(-examples // SHARD))]
        for future in as_completed(pending):
            yield future.result()


def _one_thread() -> None:
    """Each process is one of as many as there are processors."""
    os.environ["TVM_NUM_THREADS"] = "1"


def run_shard(shard_seed: int) -> Tally | Failure:
    """Draw, compile, run and check the graphs of one shard."""
    tally = Tally()
    smallest: list[tuple[str, Case]] = []

    @seed(shard_seed)
    @settings(
        max_examples=SHARD,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )
    @given(st.sampled_from(KINDS).flatmap(lambda cases: cases()))
    def compiled_as_defined(case: Case) -> None:
        try:
            outcome = outcome_of(case)
        except Exception as err:
            smallest[:] = [(f"{type(err).__name__}: {err}", case)]
            raise
        if outcome.fault:
            smallest[:] = [(outcome.fault, case)]
            raise AssertionError(outcome.fault)
        tally.graphs += 1
        tally.features.update(features(case.model))
        tally.rules.update(outcome.hits)
        tally.definitions.update(outcome.definitions)

    try:
        compiled_as_defined()
    except Exception:
        if not smallest:
            raise
        fault, case = smallest[0]
        return Failure(shard_seed, fault, case.model.SerializeToString(), case.inputs)
    return tally
