# SPDX-License-Identifier: Apache-2.0
import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tvm.relax import op

from arm_ext.board import Board
from schedules.composites.vocabulary import ROWS_F32
from schedules.composites.workload import Composite
from schedules.cores import CORES, X86_64
from schedules.intrinsics.exp_f32 import ERROR
from schedules.kernels.common.contract import KernelMatch, missing_feature
from schedules.kernels.softmax import softmax_f32 as kernel
from schedules.kernels.softmax.softmax_f32 import Params
from schedules.lowering.parse import parse
from tests.schedules.composite_functions import tensor
from tests.schedules.float_data import FULL, HALF, around, rounded
from tests.schedules.kernels.refusals import refusals_of
from tests.schedules.programs import BASELINE, NEON, Array, assembly, loops, model_so

CORE = CORES["neoverse-n2"]
HALF_ULP = 2.0**-24
LEAST_NORMAL = 2.0**-126


class Case:
    """Rows, what they give in binary64, and a bound of the error."""

    def __init__(self, shape: Sequence[int], spread: float = 3, dtypes: tuple[str, str] = FULL) -> None:
        self.x = (np.random.default_rng(3).normal(size=shape) * spread).astype(dtypes[0])
        spec = ROWS_F32[2]
        calls = [lambda v, x: op.nn.softmax(x if v is None else v, -1)]
        parsed = parse(around(tensor(shape, dtypes[0]), calls, dtypes, spec.name), spec)
        assert isinstance(parsed, Composite)
        self.workload = parsed.workload
        distance = self.x.max(-1, keepdims=True) - self.x.astype(np.float64)
        powers = np.exp(-distance)
        self.expected = powers / powers.sum(-1, keepdims=True)
        # As the kernel states it; what is not normal may be 0.
        relative = (distance + shape[-1] / 16 + 11) * HALF_ULP + 2 * ERROR
        self.bound = rounded(relative * self.expected + LEAST_NORMAL, self.expected, dtypes[1])

    def arguments(self) -> list[Array]:
        return [self.x, *kernel.pack(self.workload, Params(parallel=False), ())]


CASES = [
    Case((1,)),
    Case((5, 3)),
    Case((3, 7), spread=60),
    Case((2, 5, 8)),
    Case((40, 9)),
    Case((9, 31), spread=30),
    Case((7, 128)),
    Case((2, 3, 17), spread=0),
    Case((3, 1000)),
    *(
        Case((3, length), dtypes=dtypes)
        for length, dtypes in [
            *((length, (HALF, HALF)) for length in (1, 7, 8, 9, 31, 197)),
            (197, (HALF, "float32")),
            (31, ("float32", HALF)),
            (64, ("float32", HALF)),
        ]
    ),
    Case((3, 31), spread=1e4, dtypes=(HALF, HALF)),
]


def test_errors_are_within_the_stated_bound(tmp_path: Path, board: Board):
    calls = [
        (
            kernel.build(c.workload, Params(bool(i % 2))),
            c.arguments(),
            c.workload.output_shape,
            c.workload.output_dtype,
        )
        for i, c in enumerate(CASES)
    ]
    so = model_so(tmp_path / "model.so", calls, BASELINE)
    outputs = board.load(so).run([array for _, arguments, _, _ in calls for array in arguments])
    for each, actual in zip(CASES, outputs, strict=True):
        assert (np.abs(actual - each.expected) <= each.bound).all(), each.workload


@pytest.mark.parametrize("index", [6, 8, 14])
def test_loops_have_no_stack_access(index: int):
    for loop in loops(assembly(kernel.build(CASES[index].workload, Params(parallel=False)), NEON)):
        assert not [line for line in loop if "[sp" in line]


def test_only_long_calls_are_spread_over_threads():
    assert not kernel.default(CASES[6].workload, CORE).parallel
    assert kernel.default(Case((512, 128)).workload, CORE).parallel


def test_matches_says_what_it_saw():
    assert kernel.matches(CASES[3].workload, CORE) == KernelMatch("float32 softmax of 10 rows of 8")
    assert kernel.matches(CASES[9].workload, CORE) == KernelMatch("float16 softmax of 3 rows of 1")
    assert kernel.matches(CASES[15].workload, CORE) == KernelMatch(
        "float16 to float32 softmax of 3 rows of 197"
    )


def test_conversions_are_part_of_the_estimate():
    full, half = (Case((64, 128), dtypes=(dtype, dtype)).workload for dtype in ("float32", HALF))
    params = Params(parallel=False)
    assert kernel.estimate(full, params, CORE) < kernel.estimate(half, params, CORE)


def test_near_misses_name_limit_and_actual():
    good = CASES[3].workload

    refused = refusals_of(kernel, CORE)

    scalar = dataclasses.replace(CORE, isa=X86_64)
    assert kernel.matches(good, scalar) == missing_feature(kernel.NAME, "neon", scalar)
    assert refused(dataclasses.replace(good, composite="arm.linear")) == ("arm.softmax", "arm.linear")
    assert refused(dataclasses.replace(good, attributes=(("axis", "1"),))) == ("2", "1")
    integers = dataclasses.replace(good, output_dtype="bfloat16")
    assert refused(integers) == ("float32 or float16", "float32, bfloat16")
    empty = dataclasses.replace(good.operands[0], shape=(0, 5, 8))
    assert refused(dataclasses.replace(good, operands=(empty,)))[0] == "1 or more"
