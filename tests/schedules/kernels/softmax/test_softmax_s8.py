# SPDX-License-Identifier: Apache-2.0
import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tvm.tirx.script.builder import ir as T  # noqa: N812 (the name that TVMScript has everywhere)

from arm_ext.board import Board
from schedules.composites.workload import Operand, Workload
from schedules.cores import X86_64
from schedules.kernels.common.contract import KernelMatch, missing_feature
from schedules.kernels.softmax import quotient_s8
from schedules.kernels.softmax import softmax_s8 as kernel
from schedules.kernels.softmax.softmax_s8 import Params
from schedules.numerics.qdq.softmax import exponentials, softmax
from schedules.tir.emit import i64, kernel_function, load, store
from tests.schedules.kernels.refusals import refusals_of
from tests.schedules.numerics.routines import BELOW_POWER, DECIMAL, POWER, UNSIGNED, Per
from tests.schedules.products import Case, check
from tests.schedules.programs import BASELINE, NEON, NEON_CORE, assembly, loops, model_so

PROBABILITIES = Per(1 / 256, -128, "int8")
SHARES = Per(float(np.float32(1 / 255)), 0, "uint8")
# Shares above the greatest value, which saturate; and a zero point in between.
FINE, COARSE = Per(2.0**-12, -7, "int8"), Per(0.25, 9, "uint8")
# All distances give a share; four do.
SLOW, FAST = Per(2.0**-10, 3, "int8"), Per(2.0, -1, "int8")


def case(shape: Sequence[int], x: Per, y: Per) -> Case:
    rng = np.random.default_rng(3)
    info = np.iinfo(x.dtype)
    q = rng.integers(info.min, info.max + 1, shape).astype(x.dtype)
    # Rows of different heights, the first of one value.
    q = np.minimum(q, rng.integers(info.min, info.max + 1, (*shape[:-1], 1))).astype(x.dtype)
    q.reshape(-1, shape[-1])[0] = info.max
    attributes = {
        "axis": len(shape) - 1,
        "x_scale": x.scale,
        "y_scale": y.scale,
        "y_zero_point": y.zero_point,
    }
    workload = Workload(
        "arm.softmax_s8",
        (Operand(tuple(shape), x.dtype, "input", 0), Operand((256,), "int32", "constant", 0)),
        tuple((name, str(value)) for name, value in sorted(attributes.items())),
        (),
        tuple(shape),
        y.dtype,
    )
    return Case(workload, (q,), (exponentials(x),), softmax(q, -1, x, y))


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
]


def test_every_value_is_the_definitions(tmp_path: Path, board: Board):
    pairs = [(each, Params(parallel=bool(i % 2))) for i, each in enumerate(CASES)]
    check(kernel, pairs, BASELINE, board, tmp_path)


def test_the_quotient_without_a_division_is_the_quotient(tmp_path: Path, board: Board):
    rng = np.random.default_rng(3)
    rows, length = 64, 1024
    x = np.floor(2.0 ** rng.uniform(0, 30, (rows, length))).astype(np.float32)
    x[:, 0] = 0
    by = (2.0 ** rng.uniform(-10, 60, rows)).astype(np.float32)
    # Of the significand of all ones, the reciprocal is the least exact.
    by[:2] = np.nextafter(np.float32(2), np.float32(1)), 2.0**31
    with kernel_function(
        "quotient", [(x.shape, "float32"), (by.shape, "float32"), (x.shape, "float32")]
    ) as function:
        source, divisors, target = function.buffers
        with T.serial(i64(0), i64(rows)) as row:
            divide = quotient_s8.division(T.Bind(load(divisors, row, 1)), exact=False)
            with T.serial(i64(0), i64(length // 4)) as at:
                place = row * length + at * 4
                store(target, divide(load(source, place, 4)), place, 4)
    func = function.prim_func
    assert func is not None
    assert "fdiv v" not in assembly(func, NEON)
    so = model_so(tmp_path / "model.so", [(func, [x, by], x.shape, "float32")], BASELINE)
    (actual,) = board.load(so).run([x, by])
    np.testing.assert_array_equal(actual, x / by[:, None])


def test_inner_loops_have_no_stack_access():
    inner = loops(assembly(kernel.build(CASES[8].workload, Params(parallel=False)), NEON))
    for loop in inner:
        assert not [line for line in loop if "[sp" in line]
    sums = [loop for loop in inner if sum("ldrsw" in line for line in loop) == kernel.UNROLL]
    assert len(sums) == 1
    assert len(sums[0]) <= kernel.LOOKED_UP[False] * kernel.UNROLL


def test_only_long_calls_are_spread_over_threads():
    assert not kernel.default(CASES[5].workload, NEON_CORE).parallel
    assert kernel.default(case((512, 128), DECIMAL, PROBABILITIES).workload, NEON_CORE).parallel
    assert not kernel.default(case((40_000,), DECIMAL, PROBABILITIES).workload, NEON_CORE).parallel


def test_matches_says_what_it_saw():
    answer = kernel.matches(CASES[7].workload, NEON_CORE)
    assert answer == KernelMatch("softmax of 6 rows of 16")


def test_near_misses_name_limit_and_actual():
    good = CASES[2].workload
    refused = refusals_of(kernel, NEON_CORE)

    scalar = dataclasses.replace(NEON_CORE, isa=X86_64)
    assert kernel.matches(good, scalar) == missing_feature(kernel.NAME, "neon", scalar)
    both = "arm.softmax_s8, arm.tosa_softmax_s8"
    assert refused(dataclasses.replace(good, composite="arm.linear")) == (both, "arm.linear")
    assert refused(dataclasses.replace(good, output_dtype="int16")) == ("int8 or uint8", "uint8, int16")
    across = tuple((name, "1" if name == "axis" else value) for name, value in good.attributes)
    assert refused(dataclasses.replace(good, attributes=across)) == ("2", "1")
    empty = dataclasses.replace(good.operands[0], shape=(0, 5, 8))
    assert refused(dataclasses.replace(good, operands=(empty, good.operands[1])))[0] == "1 or more"
