# SPDX-License-Identifier: Apache-2.0
import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import pytest

from arm_ext.board import Board
from schedules.composites.workload import Operand, Workload
from schedules.cores import CORES, X86_64
from schedules.kernels.common.contract import KernelMatch, missing_feature
from schedules.kernels.normalization import norm_s8 as kernel
from schedules.kernels.normalization.norm_s8 import Params
from schedules.numerics.qdq.norm import Norm, factors, norm
from tests.schedules.kernels.refusals import refusals_of
from tests.schedules.numerics.norm_cases import real_factors
from tests.schedules.numerics.routines import BELOW_POWER, DECIMAL, ODD_POWER, POWER, UNSIGNED, Per, values
from tests.schedules.products import Case, check
from tests.schedules.programs import BASELINE, DOTPROD, NEON, assembly, loops

CORE = CORES["neoverse-n2"]
# Results that fill their range, with an odd zero point; many that saturate; and what a quantiser writes.
FINE, SATURATED, SHIFTED = Per(2.0**-6, -7, "int8"), Per(2.0**-9, 9, "int8"), Per(2.0**-5, 131, "uint8")


def case(shape: Sequence[int], x: Per, y: Per, *, axes: int = 1, centred: bool = True) -> Case:
    shape, what = tuple(shape), Norm(axes, 1e-5, centred)
    row = shape[len(shape) - axes :]
    q = values(x, shape)
    # A row of one value has no variance.
    q.reshape(-1, math.prod(row))[0] = 77
    pair = factors(*real_factors(row, what), y)
    attributes = {
        "axes": axes,
        "spread": what.spread(math.prod(row), x),
        "zero": what.zero(x),
        "y_zero_point": y.zero_point,
    }
    operands = [Operand(shape, x.dtype, "input", 0)]
    operands += [Operand(row, "float32", "constant", index) for index in range(2)]
    workload = Workload(
        "arm.layer_norm_s8" if centred else "arm.rms_norm_s8",
        tuple(operands),
        tuple((name, str(value)) for name, value in sorted(attributes.items())),
        (),
        shape,
        y.dtype,
    )
    return Case(workload, (q,), pair, norm(q, what, *pair, x, y))


CASES = [
    case((1,), DECIMAL, FINE),
    case((3, 7), UNSIGNED, FINE),
    case((2, 5, 8), UNSIGNED, SHIFTED, centred=False),
    case((40, 9), BELOW_POWER, SATURATED, centred=False),
    case((9, 31), ODD_POWER, SHIFTED),
    case((7, 128), DECIMAL, FINE),
    case((4, 3, 17), UNSIGNED, FINE, axes=2),
    case((2, 3, 16), POWER, SHIFTED),
    case((5, 200), UNSIGNED, FINE, centred=False),
    case((3, 1000), BELOW_POWER, SATURATED),
]


@pytest.mark.parametrize("dot", [True, False])
def test_every_value_is_the_definitions(dot: bool, tmp_path: Path, board: Board):
    pairs = [(each, Params(dot, parallel=bool(i % 2))) for i, each in enumerate(CASES)]
    check(kernel, pairs, DOTPROD if dot else BASELINE, board, tmp_path)


@pytest.mark.parametrize("dot", [True, False])
def test_loops_have_no_stack_access(dot: bool):
    # So long that LLVM does not make straight code of it.
    asm = assembly(kernel.build(CASES[9].workload, Params(dot)), NEON)
    inner = loops(asm)
    assert len(inner) == 2
    for loop in inner:
        assert not [line for line in loop if "[sp" in line]
    sums, results = sorted(inner, key=len)
    assert any(line.startswith("sdot") for line in sums) == dot
    # Five loads and the loop's end.
    assert len(results) <= kernel.RESULT + 10


def test_only_long_calls_are_spread_over_threads():
    assert kernel.default(CASES[5].workload, CORE) == Params(dot=True, parallel=False)
    assert kernel.default(case((512, 128), DECIMAL, FINE).workload, CORE).parallel
    assert not kernel.default(case((20_000,), DECIMAL, FINE).workload, CORE).parallel


def test_sums_follow_the_core():
    assert kernel.default(CASES[5].workload, CORES["cortex-a53"]).dot is False


def test_matches_says_what_it_saw():
    assert kernel.matches(CASES[6].workload, CORE) == KernelMatch("layer norm of 4 rows of 51")
    assert kernel.matches(CASES[3].workload, CORE) == KernelMatch("RMS norm of 40 rows of 9")


def test_near_misses_name_limit_and_actual():
    good = CASES[2].workload
    refused = refusals_of(kernel, CORE)

    scalar = dataclasses.replace(CORE, isa=X86_64)
    assert kernel.matches(good, scalar) == missing_feature(kernel.NAME, "neon", scalar)
    assert refused(dataclasses.replace(good, composite="arm.linear"))[1] == "arm.linear"
    assert refused(dataclasses.replace(good, output_dtype="int16")) == ("int8 or uint8", "uint8, int16")
    x = good.operands[0]
    empty = dataclasses.replace(good, operands=(dataclasses.replace(x, shape=(0, 5, 8)), *good.operands[1:]))
    assert refused(empty)[0] == "1 or more"
    long = dataclasses.replace(good, operands=(dataclasses.replace(x, shape=(2, 32769)), *good.operands[1:]))
    assert refused(long) == ("at most 32768", "32769")
