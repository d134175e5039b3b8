# SPDX-License-Identifier: Apache-2.0
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from arm_ext.board import Board
from schedules.composites.workload import Operand, Workload
from schedules.diagnostic import Diagnostic
from schedules.kernels.common.contract import KernelMatch
from schedules.kernels.softmax import softmax_s8 as kernel
from schedules.kernels.softmax.softmax_s8 import Params
from schedules.numerics.tosa.softmax import exponentials, reciprocals, softmax, softmax_routine
from tests.schedules.kernels.softmax.test_softmax_s8 import COARSE, FAST, FINE, PROBABILITIES, SHARES, SLOW
from tests.schedules.numerics.routines import BELOW_POWER, DECIMAL, POWER, UNSIGNED, Per
from tests.schedules.products import Case, check
from tests.schedules.programs import BASELINE, NEON, NEON_CORE, assembly, loops


def case(shape: Sequence[int], x: Per, y: Per) -> Case:
    rng = np.random.default_rng(3)
    info = np.iinfo(x.dtype)
    q = rng.integers(info.min, info.max + 1, shape).astype(x.dtype)
    # Rows of different heights, the first of one value.
    q = np.minimum(q, rng.integers(info.min, info.max + 1, (*shape[:-1], 1))).astype(x.dtype)
    q.reshape(-1, shape[-1])[0] = info.max
    parameters = softmax_routine(shape, -1, x, y).func.attrs
    names = ("axis", "y_multiplier", "y_shift", "y_zero_point")
    tables = tuple(Operand((256,), "int32", "constant", i) for i in range(2))
    workload = Workload(
        "arm.tosa_softmax_s8",
        (Operand(tuple(shape), x.dtype, "input", 0), *tables),
        tuple((name, str(parameters[name])) for name in names),
        (),
        tuple(shape),
        y.dtype,
    )
    return Case(workload, (q,), (exponentials(x), reciprocals()), softmax(q, -1, x, y))


CASES = [
    case((1,), DECIMAL, PROBABILITIES),
    case((3, 7), POWER, SHARES),
    case((2, 5, 8), UNSIGNED, PROBABILITIES),
    case((40, 9), BELOW_POWER, FINE),
    case((9, 31), SLOW, COARSE),
    case((7, 128), DECIMAL, PROBABILITIES),
    case((5, 200), SLOW, FINE),
    case((2, 3, 16), FAST, SHARES),
    case((3, 1000), Per(float(np.float32(0.02)), 0, "uint8"), SHARES),
    # The longest row: its sum is just below 2**31 where all values are the same.
    case((2, 65536), SLOW, SHARES),
]


def test_every_value_is_the_definitions(tmp_path: Path, board: Board):
    pairs = [(each, Params(parallel=bool(i % 2))) for i, each in enumerate(CASES)]
    check(kernel, pairs, BASELINE, board, tmp_path)


def test_inner_loops_leave_the_stack_alone():
    inner = loops(assembly(kernel.build(CASES[8].workload, Params(parallel=False)), NEON))
    for loop in inner:
        assert not [line for line in loop if "[sp" in line]
    (shares,) = (loop for loop in inner if any(line.startswith("sqdmulh") for line in loop))
    # 16 results: loads in pairs; a product, a shift, SQDMULH and SQRSHRN of four; SQADD and SQXTN of eight; a store.
    assert len(shares) <= 2 + 16 + 2 + 2 + 1 + 4
    assert not [line for line in inner if any(i.startswith(("udiv", "sdiv", "fdiv")) for i in line)]


def test_matches_says_what_it_saw_or_lacks():
    good = CASES[1].workload
    assert kernel.matches(good, NEON_CORE) == KernelMatch("softmax of 3 rows of 7")
    small = tuple((name, "16" if name == "y_shift" else value) for name, value in good.attributes)
    answer = kernel.matches(
        Workload(good.composite, good.operands, small, (), good.output_shape, "int8"), NEON_CORE
    )
    assert isinstance(answer, Diagnostic)
    assert (answer.reason, answer.limit, answer.actual) == (
        "a RESCALE of that shift may overflow",
        "17 or more",
        "16",
    )
