# SPDX-License-Identifier: Apache-2.0
"""A cycle estimate for a core: block counts times llvm-mca's cycles of a block, corrected.

The sum compares programs on one core to about 10 %; as an absolute time it comes out 1.15 to 1.6 times too
fast, since every load hits L1 and every branch is predicted.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from arm_ext.common.trace import TranslationBlock
from arm_ext.measure.classify import InsnClass, classify, disassemble
from arm_ext.measure.false_dependency import read_anew, repeats
from arm_ext.measure.mca import Mca
from arm_ext.measure.mca_text import mca_text
from schedules.cores import Core
from schedules.kernels.common.cost_model import fetch_cycles

_CONDITIONAL = re.compile(r"bc?\.\w+|cbn?z|tbn?z")


@dataclass(frozen=True)
class BlockCost:
    """A block, with the total estimated cycles of its executions.

    Attributes:
        block: The block, glued.
        cycles: Estimated for all executions together.
        unmodelled: Dynamic instructions that the core's model has no data for; priced at the dispatch width.
    """

    block: TranslationBlock
    cycles: float
    unmodelled: int


LINE_BYTES = 64
"""Bytes of a cache line, as in the cache model of the counting plugin."""


def line_cycles(l1_misses: int, l2_misses: int) -> float:
    """Return the cycles in which the lines that L1 and L2 had to fetch are carried; see `fetch_cycles`.

    Prefetchers hide the latency, but the buses still carry the bytes.
    """
    return fetch_cycles(l1_misses * LINE_BYTES, l2_misses * LINE_BYTES)


def block_costs(blocks: Sequence[TranslationBlock], core: Core, mca: Mca) -> list[BlockCost]:
    """Estimate the cycles of each block on `core`.

    A block takes no less than its instructions over the core's dispatch width: llvm-mca's neoverse models
    dispatch 8 to 16 a cycle, which none of these cores does.
    """
    return costs_of(glue(blocks), core, mca)


def costs_of(glued: Sequence[TranslationBlock], core: Core, mca: Mca) -> list[BlockCost]:
    """Estimate the cycles of each of the glued blocks on `core`."""
    texts = [mca_text(block.words, core.mca_cpu) for block in glued]
    estimates = mca.estimate(
        [text if repeats(block.words) else read_anew(text) for block, text in zip(glued, texts, strict=True)],
        core.mca_cpu,
    )
    return [
        BlockCost(
            block,
            cycles=block.count * max(estimate.cycles, len(block.words) / core.issue_width),
            unmodelled=block.count * estimate.unmodelled,
        )
        for block, estimate in zip(glued, estimates, strict=True)
    ]


def instructions_by_class(costs: Sequence[BlockCost]) -> Counter[InsnClass]:
    """Return the dynamic instructions of the blocks by class."""
    classes: Counter[InsnClass] = Counter()
    for cost in costs:
        for word in cost.block.words:
            classes[classify(word)] += cost.block.count
    return classes


def glue(blocks: Sequence[TranslationBlock]) -> list[TranslationBlock]:
    """Join blocks that always run in sequence.

    The emulator splits where the program does not, at a page's end or at its size limit. A block that ends without a
    branch goes on in the block that starts right behind it. That one may be entered from elsewhere too: then only as
    many of its executions are joined. Behind a conditional branch it goes on there if both ran equally often: the
    branch was never taken. As two loops, each would wait for sums of its own last round that it never reads.
    """
    at: dict[int, list[TranslationBlock]] = defaultdict(list)
    for block in blocks:
        at[block.vaddr].append(block)
    left = {id(block): block.count for block in blocks}
    glued = []
    # Sorted by address: a block that falls through into another one precedes it.
    for block in sorted(blocks, key=lambda block: block.vaddr):
        count = left[id(block)]
        if not count:
            continue
        words = list(block.words)
        while classify(words[-1]) is not InsnClass.BRANCH or _conditional(words[-1]):
            following = at[block.vaddr + 4 * len(words)]
            onward = max(following, key=lambda block: left[id(block)], default=None)
            if onward is None or left[id(onward)] < count:
                break
            if classify(words[-1]) is InsnClass.BRANCH and not onward.count == block.count == count:
                break
            left[id(onward)] -= count
            words += onward.words
        glued.append(TranslationBlock(block.vaddr, count, tuple(words), block.image, block.symbol))
    return glued


def _conditional(word: int) -> bool:
    """Whether a branch may fall through to the next instruction."""
    return _CONDITIONAL.fullmatch(disassemble(word)[0]) is not None
