# SPDX-License-Identifier: Apache-2.0
"""Cycles of a block that repeats, made other ways than by llvm-mca: by hand from a core's guide, and by OSACA."""

import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from functools import cache

from arm_ext.measure.classify import MAC_CLASSES, InsnClass, classify, disassemble
from arm_ext.measure.cycles import BlockCost
from arm_ext.measure.mca_text import mca_text
from arm_ext.measure.pipes import ON_PIPES
from schedules.cores import Core

# Software optimization guides of the Neoverse cores, section 2.1: pipes that compute the addresses of loads. N1's two
# serve stores too, and of the three of N2 and V2 two do.
LOADS = {"neoverse-n1": 2, "neoverse-n2": 3, "neoverse-v2": 3}
STORES = 2
ACCESSES = InsnClass.VECTOR_LOAD, InsnClass.SCALAR_LOAD, InsnClass.VECTOR_STORE, InsnClass.SCALAR_STORE
# The same, chapter 3: a multiply-accumulate hands its sum on to the next after one cycle (integers) or two (floats).
# LLVM 19's table of Neoverse V2 says the same: chains of a thousand take llvm-mca 2.0 cycles each of FMLA by element
# (both precisions), 1.0 of SDOT, SMMLA and SMLAL, and 4.0 of BFMMLA; and pairs of vectors twice what one takes, 0.67
# cycles for an LDP. Its tables of N1 and N2 hand nothing on early: there FMLA takes 4, SDOT and SMMLA 2 and 3.
HAND_ON = {InsnClass.FMLA: 2, InsnClass.FP16_FMLA: 2, InsnClass.BF16: 4}
# Share of the instructions that blocks handed to OSACA hold; it takes a second for each.
HOT = 0.95
OSACA_ARCH = {"neoverse-n1": "n1", "neoverse-v2": "v2"}


def by_hand(words: tuple[int, ...], core: Core) -> float:
    """Return the cycles of a block that repeats, by the core's guide: fullest pipe, or longest chain of sums."""
    slots: Counter[InsnClass] = Counter()
    sums: Counter[str] = Counter()
    for word in words:
        kind, (mnemonic, operands) = classify(word), disassemble(word)
        # The guides give pairs of vectors half the throughput of one.
        slots[kind] += 2 if mnemonic.startswith(("ldp", "stp")) and operands.startswith("q") else 1
        if kind in MAC_CLASSES:
            sums[operands.split(",")[0].partition(".")[0]] += HAND_ON.get(kind, 1)
    stores = slots[InsnClass.VECTOR_STORE] + slots[InsnClass.SCALAR_STORE]
    address = max(sum(slots[kind] for kind in ACCESSES) / LOADS[core.mca_cpu], stores / STORES)
    vector = sum(slots[kind] for kind in ON_PIPES) / core.vector_pipes
    return max(len(words) / core.issue_width, vector, address, *sums.values(), 0.0)


@cache
def by_osaca(words: tuple[int, ...], mca_cpu: str) -> float:
    """Return the cycles of a block that repeats, by OSACA: the fullest port, or the longest loop-carried dependency."""
    with tempfile.NamedTemporaryFile("w", suffix=".s") as file:
        file.write("\n".join(mca_text(words, mca_cpu)) + "\n")
        file.flush()
        command = ["-m", "osaca.osaca", "--arch", OSACA_ARCH[mca_cpu], "--ignore-unknown", file.name]
        done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=True)
    # The line of totals: one number a port, then the critical path and the loop-carried dependency.
    totals = [line for line in done.stdout.splitlines() if re.fullmatch(r"[\s\d.]+", line) and line.strip()]
    *ports, _, carried = map(float, totals[-1].split())
    return max(*ports, carried)


def osaca_cycles(costs: Sequence[BlockCost], mca_cpu: str) -> float:
    """Return the cycles of the hottest blocks by OSACA."""
    blocks = sorted((cost.block for cost in costs), key=lambda block: -block.instructions)
    left, cycles = HOT * sum(block.instructions for block in blocks), 0.0
    for block in blocks:
        if left > 0:
            cycles += block.count * by_osaca(block.words, mca_cpu)
        left -= block.instructions
    return cycles
