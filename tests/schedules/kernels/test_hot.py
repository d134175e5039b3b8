# SPDX-License-Identifier: Apache-2.0
"""The innermost loop of each kernel: its instructions, its share of products, and that it leaves the stack alone.

A file of golden/ counts the instructions of a kernel's loop on one core. LLVM comes with TVM's wheel: the counts
change with a kernel, or with the version that is pinned.
"""

import re
from collections.abc import Callable

import pytest

from schedules.select import KERNELS
from tests.schedules.kernels.hot import HOT, ORDERED, Hot, histogram

# On their other cores with `-m long`: what differs there is what LLVM does.
LOOPS, ORDERED_LOOPS = (
    [
        pytest.param(hot, core, id=f"{hot.name}-{core}", marks=[pytest.mark.long] * (core != hot.cores[0]))
        for hot in each
        for core in hot.cores
    ]
    for each in (HOT, ORDERED)
)


def test_every_kernel_has_one():
    missing = sorted({kernel.NAME for kernel in KERNELS} - {hot.kernel for hot in HOT})
    assert not missing, (
        f"{', '.join(missing)} have no loop in tests/schedules/kernels/hot.py; add it, run "
        "`pytest tests/schedules/kernels/test_hot.py --update-golden`, and read what it wrote"
    )


@pytest.mark.parametrize(("hot", "core"), LOOPS)
def test_instructions(hot: Hot, core: str, golden: Callable[[str, str], None]):
    golden(f"{hot.name}/{core}.txt", histogram(hot.hottest(core)) + "\n")


@pytest.mark.parametrize(("hot", "core"), LOOPS)
def test_no_vector_goes_to_the_stack(hot: Hot, core: str):
    assert not on_the_stack(hot.hottest(core))


@pytest.mark.parametrize(("hot", "core"), ORDERED_LOOPS)
def test_no_vector_of_any_loop_goes_to_the_stack(hot: Hot, core: str):
    assert not [line for loop in hot.loops(core) for line in on_the_stack(loop)]


def on_the_stack(loop: list[str]) -> list[str]:
    return [line for line in loop if re.search(r"\b[qdsvz]\d+\b.*\[sp", line)]


@pytest.mark.parametrize(("hot", "core"), [*LOOPS, *ORDERED_LOOPS])
def test_share_of_products(hot: Hot, core: str):
    assert hot.share(hot.hottest(core)) >= hot.floor


def test_a_histogram_counts_mnemonics():
    loop = ["fmla v0.4s, v1.4s, v2.4s", "b.ne .LBB4_7", "fmla v3.4s, v1.4s, v2.4s"]
    assert histogram(loop) == "3: 2 fmla, b.ne"
