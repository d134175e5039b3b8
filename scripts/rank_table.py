#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Print how three ways to rank candidates without a board agree, as Markdown.

    python scripts/rank_table.py mobilenet_v2_int8.onnx --kernels gemm_s8_mmla,depthwise_s8 --candidates 20
    python scripts/rank_table.py mobilenet_v2_fp32.onnx --target neoverse-n1 --kernels gemm_f32 --osaca

They are the number of instructions, the estimate that tuning goes by, and one made another way: of each block that ran,
what its instructions take of the pipes of the core's software optimization guide, and the latency from an
accumulator to itself. With --osaca that is OSACA's of the hottest blocks (pip install osaca), for float code.
"""

import argparse
import pickle
import re
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import numpy as np
from tables import markdown

from arm_ext.frontends.load import import_model
from arm_ext.measure.classify import MAC_CLASSES, InsnClass, classify, disassemble
from arm_ext.measure.cycles import glue
from arm_ext.measure.mca_text import mca_text
from arm_ext.measure.trace import MODEL_IMAGE, Block
from arm_ext.pipeline import Context
from arm_ext.target.profiles import Profile, resolve
from arm_ext.tune.chain import Chain, Job, Site
from arm_ext.tune.costs import Cycles, Loaded
from arm_ext.tune.measure import Result
from arm_ext.tune.reference import sample
from arm_ext.tune.space import space
from arm_ext.tune.task import Task, extract

COLUMNS = (
    "kernel",
    "task",
    "candidates",
    "count ~ estimate",
    "count ~ other",
    "estimate ~ other",
    "pairs misranked by count",
    "fewest instructions is slower by",
)
# Neoverse N2 and N1 software optimization guides, section 2.1 and the tables of chapter 3: vector pipes V0 and V1;
# loads a cycle; a multiply-accumulate hands its sum on to the next after one cycle (integers) or two (floats).
VECTOR_PIPES = 2
LOADS = {"neoverse-n2": 3, "neoverse-n1": 2}
HAND_ON = {InsnClass.FMLA: 2, InsnClass.FP16_FMLA: 2, InsnClass.BF16: 2}
# Differences below this rank nothing.
TIE = 0.02
# Share of the instructions that blocks handed to OSACA hold; it takes a second for each.
HOT = 0.95
SECONDS = 120
OSACA_ARCH = {"neoverse-n1": "n1", "neoverse-n2": "n1", "neoverse-v2": "v2"}


@dataclass
class Traced:
    """The estimate of tuning, which also keeps the blocks that ran."""

    cycles: Cycles
    blocks: list[Block] = field(default_factory=list)

    def __call__(self, kernel: Loaded) -> Result:
        """Costs of the kernel."""
        result = self.cycles(kernel)
        self.blocks = glue([block for block in kernel.trace().blocks if block.image == MODEL_IMAGE])
        return result


def by_pipes(block: Block, profile: Profile) -> float:
    """Cycles of a block that repeats: the fullest pipe, or the longest chain of sums."""
    kinds = Counter(classify(word) for word in block.words)
    loads = kinds[InsnClass.VECTOR_LOAD] + kinds[InsnClass.SCALAR_LOAD]
    vector = kinds[InsnClass.VECTOR] + kinds[InsnClass.VECTOR_STORE] + sum(kinds[k] for k in MAC_CLASSES)
    sums: Counter[str] = Counter()
    for word in block.words:
        if (kind := classify(word)) in MAC_CLASSES:
            sums[disassemble(word)[1].split(",")[0].partition(".")[0]] += HAND_ON.get(kind, 1)
    width = len(block.words) / profile.core.issue_width
    return max(width, vector / VECTOR_PIPES, loads / LOADS[profile.core.mca_cpu], *sums.values(), 0.0)


def by_osaca(block: Block, profile: Profile) -> float:
    """Cycles of a block that repeats, by OSACA: the fullest port, or the longest loop-carried dependency."""
    with tempfile.NamedTemporaryFile("w", suffix=".s") as file:
        file.write("\n".join(mca_text(block.words, profile.core.mca_cpu)) + "\n")
        file.flush()
        arch = OSACA_ARCH[profile.core.mca_cpu]
        command = ["-m", "osaca.osaca", "--arch", arch, "--ignore-unknown", file.name]
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True)
    # The line of totals: one number a port, then the critical path and the loop-carried dependency.
    totals = [line for line in done.stdout.splitlines() if re.fullmatch(r"[\s\d.]+", line) and line.strip()]
    *ports, _, carried = map(float, totals[-1].split())
    return max(*ports, carried)


def other_estimate(blocks: list[Block], profile: Profile, osaca: bool) -> float:
    """Cycles of all blocks, made another way."""
    if not osaca:
        return sum(block.count * by_pipes(block, profile) for block in blocks)
    total, seen, cycles = sum(block.instructions for block in blocks), 0, 0.0
    for block in sorted(blocks, key=lambda block: -block.instructions):
        if seen < HOT * total:
            cycles += block.count * by_osaca(block, profile)
        seen += block.instructions
    return cycles


def correlation(a: list[float], b: list[float]) -> float:
    """Spearman's: of the ranks, those of equal values being their mean."""
    ranks = [[float(np.mean(np.flatnonzero(np.sort(v) == x))) for x in v] for v in (a, b)]
    return float(np.corrcoef(*ranks)[0, 1])


def row(kernel: str, task: Task, chain: Chain, cost: Traced, count: int, osaca: bool) -> list[str]:
    """Measures candidates of a kernel, evenly over its space."""
    points = [candidate for candidate in space(task) if candidate.kernel == kernel]
    chosen = [points[index] for index in np.linspace(0, len(points) - 1, min(count, len(points)), dtype=int)]
    counts, estimates, others = [], [], []
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(pickle.dumps(sample(task)))
        for candidate in chosen:
            result = chain(Job(task.workload, candidate, Path(file.name)))
            if result.cost is None or result.instructions is None:
                sys.stderr.write(f"{candidate.text()}: {result.failure}: {result.detail}\n")
                continue
            counts.append(float(result.instructions))
            estimates.append(result.cost)
            others.append(other_estimate(cost.blocks, task.profile, osaca))
    pairs = [
        (counts[i] - counts[j], estimates[i] / estimates[j] - 1)
        for i, j in combinations(range(len(counts)), 2)
        if abs(estimates[i] / estimates[j] - 1) > TIE
    ]
    wrong = sum(fewer * slower < 0 for fewer, slower in pairs)
    picked = estimates[counts.index(min(counts))] / min(estimates) - 1
    ways = ((counts, estimates), (counts, others), (estimates, others))
    shape = "x".join(map(str, task.workload.output_shape))
    cells = [f"{correlation(*way):.2f}" for way in ways]
    return [
        kernel,
        f"{task.name} {shape}",
        str(len(counts)),
        *cells,
        f"{wrong} of {len(pairs)}",
        f"{picked:.1%}",
    ]


def main() -> None:
    """Measure each kernel on the task of the model that takes most of its time."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--target", default="neoverse-n2")
    parser.add_argument("--mattr")
    parser.add_argument("--kernels", required=True)
    parser.add_argument("--candidates", type=int, default=17, help="of each kernel")
    parser.add_argument("--osaca", action="store_true")
    args = parser.parse_args()
    profile = resolve(args.target, args.mattr)
    if profile.core.mca_cpu not in LOADS:
        parser.error(f"there are pipes of {', '.join(LOADS)} here, not of {profile.core.mca_cpu}")
    tasks = extract(import_model(args.model).mod, Context(profile))
    cost, rows = Traced(Cycles(profile.core)), []
    with tempfile.TemporaryDirectory() as folder:
        chain = Chain(Site(profile, "virtual", True, SECONDS, Path(folder)), cost)
        for kernel in args.kernels.split(","):
            able = [task for task in tasks if kernel in task.kernels]
            if not able:
                parser.error(f"{args.model} has no task for {kernel}")
            largest = max(able, key=lambda task: task.times * task.estimate)
            rows.append(row(kernel, largest, chain, cost, args.candidates, args.osaca))
        chain.close()
    sys.stdout.write(markdown(COLUMNS, rows) + "\n")


if __name__ == "__main__":
    main()
