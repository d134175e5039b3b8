# SPDX-License-Identifier: Apache-2.0
"""Many random graphs, on all processors; each has a number, which with the run's seed says what is drawn.

hypothesis draws variations of what it drew before. Here it draws each graph anew, so that in every run all operators
and rules get their share.
"""

import gc
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import active_children, get_context

import numpy as np
import onnx
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

from relay_passes.canonicalize.canonicalize import RULES
from relay_passes.fusion.combine_matmuls import NAME as COMBINE_MATMULS
from relay_passes.rules import resize_to_one, scale_after_product
from tests.fuzz.compiled import Outcome, outcome_of
from tests.fuzz.describe import features, listing
from tests.fuzz.graphs import Case, float_cases
from tests.fuzz.npu import npu_outcome_of
from tests.fuzz.npu_cases import npu_cases
from tests.fuzz.operators import OPERATORS
from tests.fuzz.quantized import quantized_cases
from tests.fuzz.templates import FLOAT_TEMPLATES

SHARD = 25
"""Graphs that a process takes at a time: some seconds."""

_RARE = {resize_to_one.RULE.name}
"""Rules that no step draws, since each would have to be in one graph of 20: their own tests provoke them."""

COUNTED = (
    *(rule.name for rule in RULES if rule.name not in _RARE),
    scale_after_product.RULE.name,
    COMBINE_MATMULS,
)
"""The rules of all phases that are drawn."""

MOST_GRAPHS = 1_000_000
"""Of one run: the next seed draws others."""

PHASES = (Phase.generate, Phase.shrink)
"""Of hypothesis: a graph that fails is made smaller."""

# hypothesis also draws numbers that it finds in the modules loaded so far, which differ from process to process.
_NO_CONSTANTS = Constants()
providers._get_local_constants = lambda: _NO_CONSTANTS
providers.CONSTANTS_CACHE.cache.clear()


@dataclass
class Tally:
    """What was drawn, and what the rules did.

    Attributes:
        numbers: The graphs' numbers.
        features: Operators, and operators with an attribute.
        rules: How often each rule was applied; on NPUs, how often each constraint rejected.
        definitions: What outputs were held against; on NPUs, what ran there.
    """

    numbers: list[int] = field(default_factory=list)
    features: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    definitions: Counter[str] = field(default_factory=Counter)

    @property
    def graphs(self) -> int:
        """How many there are."""
        return len(self.numbers)

    def count(self, number: int, case: Case, outcome: Outcome) -> None:
        """Add one graph."""
        self.numbers.append(number)
        self.features.update(features(case.model))
        self.rules.update(outcome.hits)
        self.definitions.update(outcome.definitions)

    def add(self, other: "Tally") -> None:
        self.numbers += other.numbers
        self.features.update(other.features)
        self.rules.update(other.rules)
        self.definitions.update(other.definitions)


def rejections(tally: Tally) -> Counter[str]:
    """How often constraints rejected, on all accelerators."""
    found: Counter[str] = Counter()
    for what, times in tally.rules.items():
        found[what.partition(": ")[2]] += times
    return found


def covering(tallies: Sequence[Tally], times: int) -> list[int]:
    """The numbers of few graphs that together cover what all of them do, chosen greedily.

    Args:
        tallies: Of one graph each.
        times: How often each rule is to be provoked, as far as all graphs do; each operator is held against its
            definition once.
    """
    left, chosen = list(tallies), Tally()

    def missing(tally: Tally) -> int:
        rules = sum(max(0, min(times, most.rules[name]) - tally.rules[name]) for name in most.rules)
        return rules + len(set(most.definitions) - set(tally.definitions))

    def joined(*parts: Tally) -> Tally:
        total = Tally()
        for part in parts:
            total.add(part)
        return total

    most = joined(*tallies)
    while missing(chosen):
        best = min(left, key=lambda each: missing(joined(chosen, each)))
        left.remove(best)
        chosen.add(best)
    return sorted(chosen.numbers)


@dataclass(frozen=True)
class Failure:
    """The smallest graph that hypothesis found to fail.

    Attributes:
        seed: Of the run.
        number: Of the graph.
        npu: Whether on NPUs.
        fault: What is wrong.
        model: The graph, serialised.
        inputs: Its inputs.
    """

    seed: int
    number: int
    npu: bool
    fault: str
    model: bytes
    inputs: tuple[np.ndarray, ...]

    def __str__(self) -> str:
        graph = listing(onnx.load_model_from_string(self.model))
        options = f"{'--npu ' if self.npu else ''}--seed {self.seed} --first {self.number}"
        again = f"again: python scripts/fuzz.py {options} --examples 1"
        return f"{self.fault}\n{graph}\n{again}"


def shards(
    numbers: range, run_seed: int, jobs: int, *, npu: bool = False, size: int = SHARD
) -> Iterator[Tally | Failure]:
    """Run all graphs of these numbers, `size` at a time; results in the order in which they are ready."""
    # A fork of a process that has used TVM's threads may hang.
    pool = ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_begin)
    others = set(active_children())
    parts = [numbers[i : i + size] for i in range(0, len(numbers), size)]
    try:
        for future in as_completed([pool.submit(run_shard, part, run_seed, npu) for part in parts]):
            yield future.result()
    finally:
        # After a failure other processes may be busy for minutes, making theirs smaller.
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(active_children()) - others:
            process.terminate()


def _begin() -> None:
    """Set up one of several worker processes: one thread each, and no garbage collection of loaded modules."""
    os.environ["TVM_NUM_THREADS"] = "1"
    gc.freeze()


def run_shard(numbers: Sequence[int], run_seed: int, npu: bool = False) -> Tally | Failure:
    """Draw, compile, run and check graphs, up to the first failure."""
    tally = Tally() if npu else Tally(rules=Counter(dict.fromkeys(COUNTED, 0)))
    for number in numbers:
        failure = _run(number, run_seed, npu, tally)
        if failure:
            return failure
    return tally


def _run(number: int, run_seed: int, npu: bool, tally: Tally) -> Failure | None:
    smallest: list[tuple[str, Case]] = []
    strategy = npu_cases if npu else cases

    @seed(run_seed * MOST_GRAPHS + number)
    @settings(
        max_examples=1,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=PHASES,
    )
    # hypothesis starts with the least of all examples, which would always be the same graph.
    @given(st.integers(0, 255).filter(bool).flatmap(lambda _: strategy(number)))
    def compiled_as_defined(case: Case) -> None:
        try:
            outcome = npu_outcome_of(case) if npu else outcome_of(case)
        except Exception as err:
            smallest[:] = [(f"{type(err).__name__}: {err}", case)]
            raise
        if outcome.fault:
            smallest[:] = [(outcome.fault, case)]
            raise AssertionError(outcome.fault)
        tally.count(number, case, outcome)

    try:
        compiled_as_defined()
    except Exception:
        if not smallest:
            raise
        fault, case = smallest[0]
        return Failure(run_seed, number, npu, fault, case.model.SerializeToString(), case.inputs)
    return None


def cases(number: int) -> st.SearchStrategy[Case]:
    """Three graphs in float, for it is there that most rules apply, then two quantised ones.

    The float ones start with each template in turn, the quantised ones with each operator.
    """
    turn, place = divmod(number, 5)
    if place < 3:
        return float_cases(first=FLOAT_TEMPLATES[(3 * turn + place) % len(FLOAT_TEMPLATES)])
    return quantized_cases(first=OPERATORS[(2 * turn + place - 3) % len(OPERATORS)])
