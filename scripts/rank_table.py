#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Print how well ways to rank candidates without a board agree, as Markdown.

    M="mobilenet_v2_int8.onnx bert_tiny_fp32.onnx"
    python scripts/rank_table.py $M --target neoverse-n1 --kernels gemm_s8_sdot,depthwise_s8,gemm_f32 --osaca

Estimates of candidates, spread evenly over each kernel's space, are compared with the number of instructions and with
cycles made other ways: by hand, from what the instructions of each block that ran take of the pipes of the core's
software optimization guide, and from the latency from an accumulator to itself; and, with --osaca, by OSACA for the
hottest blocks of kernels of float code, the only ones it has data for (pip install osaca). Neither knows caches, so
that the estimate is taken without what caches fetch, but for the last three columns: how slow the fewest instructions
are, how well the kernel's own formula, by which it is chosen without compiling anything, orders cycles with caches, and
how slow what it chooses is. Pairs in one order are of those whose estimates differ by more than 5 %; those of which the
formula says that they are equal are left out of its column.
"""

import argparse
import pickle
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path

import numpy as np
from other_estimates import LOADS, OSACA_ARCH, by_hand, osaca_cycles
from tables import markdown

from arm_ext.common.errors import ArmExtError
from arm_ext.common.trace import MODEL_IMAGE
from arm_ext.frontends.load import import_model
from arm_ext.measure.cycles import BlockCost, block_costs
from arm_ext.pipeline.phases import PhaseOptions
from arm_ext.target.profiles import Profile, resolve
from arm_ext.tune.candidate import Candidate
from arm_ext.tune.candidate_runner import CandidateRunner, Job, MeasurementSite
from arm_ext.tune.costs import Cycles, Loaded
from arm_ext.tune.measure import Result
from arm_ext.tune.reference import sample
from arm_ext.tune.space import space
from arm_ext.tune.task import Task, extract
from schedules.select import kernel_named

COLUMNS = (
    "core, kernel, output",
    "candidates",
    "slowest / fastest",
    "rank correlation: instructions",
    "by hand",
    "OSACA",
    "pairs in one order: instructions",
    "by hand",
    "OSACA",
    "fewest instructions are slower by",
    "with caches, pairs in one order: the formula",
    "its choice is slower by",
)
FLOAT = "_f32"
# Pairs that are closer are left out: the models differ by as much on one block.
APART = 0.05
SECONDS = 120


@dataclass
class Traced:
    """Cost function of tuning that also keeps the costs of the blocks."""

    cycles: Cycles
    costs: list[BlockCost] = field(default_factory=list)

    def __call__(self, kernel: Loaded) -> Result:
        """Return the cost of the kernel."""
        blocks = [block for block in kernel.trace().blocks if block.image == MODEL_IMAGE]
        self.costs = block_costs(blocks, self.cycles.core, self.cycles.mca)
        return self.cycles(kernel)


@dataclass(frozen=True)
class Measured:
    """A candidate.

    Attributes:
        instructions: Instructions of one call.
        estimate: Cycles that tuning goes by.
        computing: Number of these that do not load data which caches have to fetch.
        by_hand: Cycles from the core's guide.
        formula: Cycles by which the kernel is chosen.
        is_chosen: Whether the kernel takes these parameters without tuning.
        osaca: Cycles by OSACA; None where it is not asked.
    """

    instructions: float
    estimate: float
    computing: float
    by_hand: float
    formula: float
    is_chosen: bool
    osaca: float | None


def correlation(a: Sequence[float], b: Sequence[float]) -> float:
    """Return Spearman's rank correlation; equal values have the mean of their ranks."""
    ranks = [[float(np.mean(np.flatnonzero(np.sort(v) == x))) for x in v] for v in (a, b)]
    return float(np.corrcoef(*ranks)[0, 1])


def ordered_likewise(estimates: Sequence[float], others: Sequence[float]) -> tuple[int, int]:
    """Return how many pairs both sequences order alike, and how many pairs there are.

    Pairs are those whose estimates differ by more than `APART`, and whose numbers in `others` are not equal.
    """
    pairs = [
        (estimates[i] - estimates[j]) * (others[i] - others[j]) > 0
        for i, j in combinations(range(len(estimates)), 2)
        if abs(estimates[i] - estimates[j]) > APART * min(estimates[i], estimates[j])
        and others[i] != others[j]
    ]
    return sum(pairs), len(pairs)


def measure(
    task: Task, kernel: str, count: int, chain: CandidateRunner, cost: Traced, osaca: bool
) -> list[Measured]:
    """Measure candidates of a kernel, evenly over its space."""
    points = points_of(task, kernel)
    chosen = [points[index] for index in np.linspace(0, len(points) - 1, min(count, len(points)), dtype=int)]
    core, found = task.profile.core, []
    default = Candidate(kernel, kernel_named(kernel).default(task.workload, core))
    chosen = [default, *(candidate for candidate in chosen if candidate != default)]
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(pickle.dumps(sample(task)))
        for candidate in chosen:
            result = chain(Job(task.workload, candidate, Path(file.name)))
            if result.cost is None or result.instructions is None:
                sys.stderr.write(f"{candidate.text()}: {result.failure}: {result.detail}\n")
                continue
            by_block = (part.block.count * by_hand(part.block.words, core) for part in cost.costs)
            found.append(
                Measured(
                    instructions=result.instructions,
                    estimate=result.cost,
                    computing=sum(part.cycles for part in cost.costs),
                    by_hand=sum(by_block),
                    formula=kernel_named(kernel).estimate(task.workload, candidate.params, core),
                    is_chosen=candidate == default,
                    osaca=osaca_cycles(cost.costs, core.mca_cpu) if osaca else None,
                )
            )
    return found


def points_of(task: Task, kernel: str) -> list[Candidate]:
    """Return all candidates of one kernel."""
    return [candidate for candidate in space(task) if candidate.kernel == kernel]


def row(title: str, found: Sequence[Measured]) -> list[str]:
    """Return a line of the table."""
    computing = [one.computing for one in found]
    ways: list[list[float]] = [[one.instructions for one in found], [one.by_hand for one in found]]
    cycles = [one.osaca for one in found if one.osaca is not None]
    ways += [cycles] if cycles else []
    ranks = [f"{correlation(computing, way):.2f}" for way in ways]
    pairs = [" of ".join(map(str, ordered_likewise(computing, way))) for way in ways]
    none = [] if cycles else ["-"]
    spread = f"{max(computing) / min(computing):.2f}"
    best = min(one.estimate for one in found)
    picked = min(found, key=lambda one: one.instructions).estimate / best
    ordered = ordered_likewise([one.estimate for one in found], [one.formula for one in found])
    chosen = next(one.estimate for one in found if one.is_chosen)
    last = f"{100 * (picked - 1):.1f} %", " of ".join(map(str, ordered)), f"{100 * (chosen / best - 1):.1f} %"
    return [title, str(len(found)), spread, *ranks, *none, *pairs, *none, *last]


def rows(
    models: Sequence[Path], profile: Profile, kernels: Sequence[str], candidates: int, osaca: bool
) -> Iterator[list[str]]:
    """Measure kernels, each on one task.

    Args:
        models: Files of which one has a task for each kernel.
        profile: Profile to compile for.
        kernels: Names of the kernels.
        candidates: Number of candidates of all kernels together.
        osaca: Whether OSACA is asked for kernels of float code.

    Raises:
        ValueError: No model has a task for a kernel.
    """
    tasks = [task for model in models for task in extract(import_model(model).mod, PhaseOptions(profile))]
    chosen = {kernel: largest(tasks, kernel, candidates // len(kernels)) for kernel in kernels}
    left, cost = candidates, Traced(Cycles(profile.core))
    with tempfile.TemporaryDirectory() as folder:
        site = MeasurementSite(profile, "virtual", True, SECONDS, Path(folder))
        with closing(CandidateRunner(site, cost)) as chain:
            # Those with few points first: what they leave goes to the others.
            order = sorted(kernels, key=lambda kernel: len(points_of(chosen[kernel], kernel)))
            for done, kernel in enumerate(order):
                task, count = chosen[kernel], left // (len(order) - done)
                found = measure(task, kernel, count, chain, cost, osaca and kernel.endswith(FLOAT))
                left -= min(count, len(points_of(task, kernel)))
                shape = "x".join(map(str, task.workload.output_shape[1:]))
                yield row(f"{profile.core.name}, {kernel}, {shape}", found)


def largest(tasks: Sequence[Task], kernel: str, count: int) -> Task:
    """Return the task that takes most time, of those with `count` candidates or else with the most candidates.

    Raises:
        ValueError: No task has a candidate of the kernel.
    """
    able = [task for task in tasks if kernel in task.kernels and points_of(task, kernel)]
    if not able:
        raise ValueError(f"none of the models has a task for {kernel}")
    return max(able, key=lambda task: (min(len(points_of(task, kernel)), count), task.times * task.estimate))


def main() -> None:
    """Print the table for the models and kernels that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--target", default="neoverse-v2")
    parser.add_argument("--mattr")
    parser.add_argument("--kernels", required=True)
    parser.add_argument("--candidates", type=int, default=50, help="of all kernels together")
    parser.add_argument("--osaca", action="store_true")
    args = parser.parse_args()
    profile = resolve(args.target, args.mattr)
    if profile.core.mca_cpu not in LOADS or (args.osaca and profile.core.mca_cpu not in OSACA_ARCH):
        known = OSACA_ARCH if args.osaca else LOADS
        parser.error(f"there are pipes of {', '.join(known)} here, not of {profile.core.mca_cpu}")
    if args.osaca and find_spec("osaca") is None:
        parser.error("OSACA is not installed: pip install osaca")
    try:
        found = list(rows(args.models, profile, args.kernels.split(","), args.candidates, args.osaca))
    except (ValueError, ArmExtError) as err:
        parser.error(str(err))
    sys.stdout.write(markdown(COLUMNS, found) + "\n")


if __name__ == "__main__":
    main()
