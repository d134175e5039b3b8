# SPDX-License-Identifier: Apache-2.0
import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from arm_ext.board import Board
from schedules.cores import CORES, X86_64
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import KernelMatch
from schedules.kernels.depthwise import depthwise_s8_patch as kernel
from schedules.kernels.depthwise.depthwise_s8_patch import PATCHES, Params
from schedules.select import Choice, select
from tests.schedules.products import MIXED, QUANTS, SIGNED, UNSIGNED, WIDE, Case, Quant, check, conv
from tests.schedules.programs import BASELINE, DOTPROD, NEON, assembly, loops

N2, A53 = CORES["neoverse-n2"], CORES["cortex-a53"]


def depthwise(
    data: tuple[int, int, int, int],
    size: tuple[int, int],
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    quant: Quant = SIGNED,
    multiplier: int = 1,
    **kwargs: Any,
) -> Case:
    channels = data[3]
    return conv(data, channels * multiplier, size, groups=channels, pads=pads, quant=quant, **kwargs)


CASES = [
    depthwise((1, 9, 9, 9), (5, 5), (2, 2, 2, 2), UNSIGNED),
    depthwise((1, 7, 13, 8), (5, 5), (1, 2, 2, 1), MIXED, strides=(2, 2)),
    depthwise((2, 7, 8, 31), (7, 7), (2, 3, 3, 3), WIDE),
    depthwise((1, 4, 9, 8), (4, 4), (2, 1, 0, 3), strides=(3, 3)),
    depthwise((1, 1, 37, 17), (1, 31), (0, 15, 0, 15), MIXED),
    depthwise((1, 2, 19, 8), (1, 5), (0, 2, 0, 2), strides=(2, 2)),
    depthwise((2, 37, 2, 8), (31, 1), (15, 0, 15, 0), UNSIGNED),
    depthwise((1, 9, 11, 16), (3, 3), (2, 2, 2, 2), WIDE, dilation=(2, 2)),
    depthwise((1, 11, 9, 9), (3, 2), (4, 3, 4, 0), MIXED, dilation=(4, 3), strides=(2, 1)),
    depthwise((1, 1, 23, 8), (1, 4), (0, 6, 0, 3), UNSIGNED, dilation=(1, 3)),
    depthwise((1, 6, 5, 9), (3, 3), (1, 1, 1, 1), UNSIGNED, multiplier=2),
    depthwise((1, 5, 6, 8), (3, 3), quant=WIDE, multiplier=3, strides=(2, 2)),
    depthwise((1, 9, 13, 1), (3, 3), (1, 1, 1, 1), MIXED),
    depthwise((2, 5, 8, 3), (3, 3), quant=WIDE),
    depthwise((1, 6, 9, 5), (5, 5), (2, 4, 2, 4), UNSIGNED, dilation=(1, 2)),
    depthwise((1, 1, 40, 1), (1, 31), (0, 15, 0, 15), multiplier=3),
    depthwise((1, 3, 3, 8), (3, 3), (0, 0, 0, 0), QUANTS[2]),
    depthwise((1, 1, 1, 8), (1, 1)),
]


@pytest.mark.isa("dotprod")
def test_every_value_is_the_definitions(tmp_path: Path, board: Board):
    check(kernel, [(case, kernel.default(case.workload, N2)) for case in CASES], DOTPROD, board, tmp_path)


def test_every_value_is_the_definitions_without_dotprod(tmp_path: Path, board: Board):
    # The weights hold -128; where there are few of them, two meet.
    cases = [(case, kernel.default(case.workload, A53)) for case in CASES]
    assert {params.engine for _, params in cases} == {"mlal1"}
    pairs = [
        (case, dataclasses.replace(p, engine="mlal2")) for case, p in cases if case.constants[0].size > 40
    ]
    assert len(pairs) > 10
    # A third of the cases by one instruction, another third by the other.
    check(kernel, [*cases[1::3], *pairs[::3]], {**BASELINE, "mcpu": "cortex-a53"}, board, tmp_path)


@pytest.mark.isa("dotprod")
def test_every_patch_gives_the_same(tmp_path: Path, board: Board):
    case = depthwise((1, 12, 11, 9), (5, 5), (2, 2, 2, 2), MIXED)
    params = [
        Params(*patch, "sdot", index > 1, index > 1, bool(index % 2))
        for index, patch in enumerate(PATCHES[::3])
    ]
    check(kernel, [(case, each) for each in params], DOTPROD, board, tmp_path)


def test_two_weights_of_minus_128():
    case = depthwise((1, 3, 4, 8), (2, 1))
    case.constants[0][:] = -128
    case.arguments(kernel, Params(1, 1, "mlal1"))
    with pytest.raises(ValueError, match="two weights of -128 are in one 16-bit sum"):
        case.arguments(kernel, Params(1, 1, "mlal2"))


# Products among the instructions of the loop over channels. Of 5 x 5, six outputs: 120 SDOT, 48 loads and as many ZIPs.
SHARES = {
    "5 x 5": (depthwise((1, 14, 14, 32), (5, 5), (2, 2, 2, 2)), 0.35),
    "7 x 7": (depthwise((1, 14, 14, 32), (7, 7), (3, 3, 3, 3)), 0.37),
    "1 x 31": (depthwise((1, 1, 64, 32), (1, 31), (0, 15, 0, 15)), 0.3),
    "dilated": (depthwise((1, 14, 14, 32), (3, 3), (2, 2, 2, 2), dilation=(2, 2)), 0.17),
}


@pytest.mark.parametrize("name", SHARES)
def test_inner_loop(name: str):
    case, share = SHARES[name]
    code = assembly(kernel.build(case.workload, kernel.default(case.workload, N2)), NEON)
    (loop,) = [loop for loop in loops(code) if any(line.startswith("sdot") for line in loop)]
    assert sum(line.startswith("sdot") for line in loop) / len(loop) >= share
    # Two accumulators at most wait on the stack for their requantisation.
    assert sum("[sp" in line for line in loop) <= 24


@pytest.mark.parametrize("core", [N2, A53], ids=["n2", "a53"])
def test_it_is_chosen_where_kernels_are_large_or_channels_few(core: Any):
    for case in CASES[:16]:
        choice = select(case.workload, core)
        assert isinstance(choice, Choice)
        assert choice.kernel == kernel.NAME, case.workload


def test_matches_says_what_it_saw():
    assert kernel.matches(CASES[0].workload, N2) == KernelMatch("int8 depthwise 5 x 5 of 9 channels")


@pytest.mark.parametrize(
    ("case", "limit", "actual"),
    [
        (conv((1, 5, 5, 8), 8, (3, 3), groups=4), "a group each channel", "4 groups of 8 channels"),
        (depthwise((1, 5, 5, 7), (3, 3), strides=(2, 2)), "8 or more, or stride 1", "7, stride 2"),
        (depthwise((1, 5, 5, 2), (3, 3)), "8 or more", "6"),
    ],
    ids=["groups", "stride", "row"],
)
def test_near_misses_name_limit_and_actual(case: Case, limit: str, actual: str):
    answer = kernel.matches(case.workload, N2)
    assert isinstance(answer, Diagnostic)
    assert (answer.limit, answer.actual) == (limit, actual)


def test_cores():
    host = dataclasses.replace(A53, name="x86-64", isa=X86_64)
    answer = kernel.matches(CASES[0].workload, host)
    assert isinstance(answer, Diagnostic)
    assert answer.why() == "x86-64 has no neon"
    assert np.all([params.engine == "sdot" for params in kernel.candidates(CASES[0].workload, N2)])
