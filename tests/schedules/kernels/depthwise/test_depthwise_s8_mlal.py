# SPDX-License-Identifier: Apache-2.0
import dataclasses
from pathlib import Path

import numpy as np
import pytest

from arm_ext.board import Board
from schedules.cores import CORES, X86_64
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import KernelMatch, missing_feature
from schedules.kernels.depthwise import depthwise_s8_mlal as kernel
from schedules.kernels.depthwise.depthwise_s8_mlal import Params
from tests.schedules.products import (
    MIXED,
    NARROWED16,
    SIGNED,
    SIXTEEN_BITS_SHIFTED,
    SYMMETRIC16,
    UNSIGNED,
    WIDENED16,
    Case,
    Quant,
    check,
    conv,
)
from tests.schedules.programs import BASELINE, assembly, loops

CORE = CORES["cortex-a53"]
TARGETS = {name: {**BASELINE, "mcpu": name} for name in ("cortex-a53", "cortex-a72")}
WIDE = Quant(scale=500.0)
# What a model has behind relu6. An odd zero point takes one register more, which a few spills pay for.
RELU6 = Quant(zero_point=-128, border=-128)


def depthwise(
    data: tuple[int, int, int, int],
    size: tuple[int, int],
    strides: tuple[int, int] = (1, 1),
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    quant: Quant = SIGNED,
) -> Case:
    return conv(data, data[3], size, strides=strides, groups=data[3], pads=pads, quant=quant)


CASES = [
    depthwise((1, 9, 12, 8), (3, 3), pads=(1, 1, 1, 1)),
    depthwise((2, 7, 9, 17), (3, 3), pads=(1, 1, 1, 1), quant=UNSIGNED),
    depthwise((1, 10, 31, 11), (3, 3), (2, 2), (0, 0, 1, 1), quant=MIXED),
    depthwise((1, 5, 3, 8), (3, 3), pads=(1, 1, 1, 1), quant=WIDE),
    depthwise((2, 11, 8, 9), (4, 2), (2, 2), (2, 1, 2, 1), quant=MIXED),
    depthwise((1, 4, 9, 8), (1, 2), (1, 3)),
]


def proven(case: Case) -> Params:
    """The default with chains, where `pack` takes them."""
    return dataclasses.replace(kernel.default(case.workload, CORE), chain=2)


def test_every_value_is_the_definitions(tmp_path: Path, board: Board):
    check(kernel, [(case, proven(case)) for case in CASES], TARGETS["cortex-a53"], board, tmp_path)


def test_every_form_gives_the_same(tmp_path: Path, board: Board):
    params = [Params(unroll, chain, parallel=chain == 1) for unroll in (1, 2, 3) for chain in (1, 2)]
    cases = [(CASES[1 + i % 2], each) for i, each in enumerate(params[::-1] + params[:1])]
    check(kernel, cases, TARGETS["cortex-a72"], board, tmp_path)


SIXTEEN_BITS = [
    depthwise((1, 9, 12, 8), (3, 3), pads=(1, 1, 1, 1), quant=SYMMETRIC16),
    depthwise((2, 7, 9, 17), (3, 3), pads=(1, 1, 1, 1), quant=SIXTEEN_BITS_SHIFTED),
    depthwise((1, 10, 31, 31), (3, 3), (2, 2), (0, 0, 1, 1), quant=NARROWED16),
    depthwise((1, 5, 3, 9), (3, 3), pads=(1, 1, 1, 1), quant=WIDENED16),
    depthwise((2, 11, 8, 9), (5, 5), (2, 2), (2, 1, 2, 1), quant=SIXTEEN_BITS_SHIFTED),
    depthwise((1, 4, 9, 8), (1, 2), (1, 3), quant=SYMMETRIC16),
]


@pytest.mark.parametrize("name", TARGETS)
def test_int16_is_the_definitions(name: str, tmp_path: Path, board: Board):
    reload = name == "cortex-a72"
    params = [Params(unroll, reload=reload, parallel=unroll == 2) for unroll in (1, 2, 3)]
    # The cores differ in what they keep in registers: each has a half of the cases.
    cases = [(case, params[place]) for place, case in enumerate(SIXTEEN_BITS[reload::2])]
    check(kernel, cases, TARGETS[name], board, tmp_path)


def test_int16_keeps_weights_and_columns_in_registers():
    case = depthwise((1, 3, 64, 32), (3, 3), quant=SYMMETRIC16)
    code = assembly(kernel.build(case.workload, kernel.default(case.workload, CORE)), TARGETS["cortex-a72"])
    (loop,) = (loop for loop in loops(code) if "smlal" in str(loop))
    assert not any("[sp" in line for line in loop)
    products = [line for line in loop if line.startswith("smlal")]
    # Two columns, nine taps, two vectors of four channels.
    assert len(products) == 2 * 9 * 2
    assert len(products) / len(loop) >= 0.45


def test_sums_that_int32_may_not_hold_are_declined():
    workload = SIXTEEN_BITS[0].workload
    assert kernel.matches(workload, CORE) == KernelMatch("int16 by int8 depthwise 3 x 3 of 8 channels")
    answer = kernel.matches(dataclasses.replace(workload, magnitude=None), CORE)
    assert isinstance(answer, Diagnostic)
    assert answer.reason == "accumulators may exceed int32"


def extreme(weight: int) -> Case:
    """Data and weights that are all alike, without an offset."""
    case = depthwise((1, 3, 4, 8), (3, 3))
    x, w = np.full((1, 3, 4, 8), -128, np.int8), np.full((8, 3, 3, 1), weight, np.int8)
    _, offset, m = case.constants
    value = np.clip(np.rint(9 * -128 * weight * 2.0**-11) - 3, -128, 127)
    constants = (w, offset * 0, np.full_like(m, 2.0**-11))
    workload = dataclasses.replace(case.workload, magnitude=None)
    return Case(workload, (x,), constants, np.full(case.expected.shape, value, np.int8))


def test_two_weights_of_minus_128(tmp_path: Path, board: Board):
    cases = [(extreme(-128), Params(1, chain=1)), (extreme(-127), Params(1, chain=2))]
    check(kernel, [*cases, (extreme(127), Params(1, chain=2))], TARGETS["cortex-a53"], board, tmp_path)
    with pytest.raises(ValueError, match="two weights of -128 are in one 16-bit sum"):
        extreme(-128).arguments(kernel, Params(1, chain=2))
    assert kernel.default(extreme(-127).workload, CORE).chain == 1


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("stride", [1, 2])
def test_inner_loop(name: str, stride: int):
    # One kind of band and no borders: one loop.
    case = depthwise((1, 2 * stride + 3 - stride, 64, 32), (3, 3), (stride, stride), quant=RELU6)
    params = proven(case)
    found = [
        loop
        for loop in loops(assembly(kernel.build(case.workload, params), TARGETS[name]))
        if "smlal" in str(loop)
    ]
    assert len(found) == 1
    assert not any("[sp" in line or line.startswith("mov v") for line in found[0])
    products = [line for line in found[0] if line.startswith(("smull", "smlal", "saddw"))]
    # Of each output column two rows: nine products, and the five sums of both halves.
    assert len(products) == params.unroll * 2 * (9 + 2 * 5)
    assert len(products) / len(found[0]) >= 0.53


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (conv((1, 5, 5, 8), 16, (3, 3), groups=8), "not depthwise"),
        (conv((1, 9, 9, 8), 8, (3, 3), groups=8, dilation=(2, 1)), "kernel is dilated"),
        (depthwise((1, 5, 5, 7), (3, 3)), "too few channels"),
        (depthwise((1, 5, 5, 8), (5, 1)), "kernel is too large"),
    ],
)
def test_what_it_does_not_take(case: Case, reason: str):
    answer = kernel.matches(case.workload, CORE)
    assert isinstance(answer, Diagnostic)
    assert answer.reason == reason


def test_cores():
    workload = CASES[0].workload
    assert isinstance(kernel.matches(workload, CORE), KernelMatch)
    host = dataclasses.replace(CORE, name="x86-64", isa=X86_64)
    assert kernel.matches(workload, host) == missing_feature("depthwise_s8_mlal", "neon", host)
