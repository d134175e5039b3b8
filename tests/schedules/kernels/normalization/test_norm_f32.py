# SPDX-License-Identifier: Apache-2.0
import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from tvm import ir
from tvm.relax import op

from arm_ext.board import Board
from schedules.composites.vocabulary import ROWS_F32
from schedules.composites.workload import Composite, Workload
from schedules.cores import CORES, X86_64
from schedules.kernels.common.contract import KernelMatch
from schedules.kernels.normalization import norm_f32 as kernel
from schedules.kernels.normalization.norm_f32 import Params
from schedules.lowering.parse import parse
from tests.schedules.composite_functions import constant, tensor
from tests.schedules.float_data import FULL, HALF, around, rounded
from tests.schedules.kernels.refusals import refusals_of
from tests.schedules.programs import BASELINE, NEON, Array, assembly, loops, model_so

CORE = CORES["neoverse-n2"]
HALF_ULP = 2.0**-24
EPSILON = 1e-5


class Case:
    """Rows, gamma and beta; what they give in binary64, and a bound of the error."""

    def __init__(
        self,
        shape: Sequence[int],
        *,
        axes: int = 1,
        centred: bool = True,
        mean: float = 0,
        dtypes: tuple[str, str] = FULL,
    ) -> None:
        row, over = tuple(shape)[len(shape) - axes :], tuple(range(-axes, 0))
        rng = np.random.default_rng(3)
        self.x = (rng.normal(size=shape) + mean).astype(dtypes[0])
        parts = [constant(row, seed) for seed in range(2 if centred else 1)]
        self.workload, self.constants = _parsed(self.x.shape, over, parts, dtypes)
        real, gamma, *beta = (array.astype(np.float64) for array in (self.x, *self.constants))
        left = real - real.mean(over, keepdims=True) if centred else real
        rate = 1 / np.sqrt((left**2).mean(over, keepdims=True) + EPSILON)
        self.expected = left * rate * gamma + sum(beta)
        # As the kernel states it.
        roundings = math.prod(row) / 16 + 8
        size = np.abs(left) + (np.abs(real).mean(over, keepdims=True) if centred else 0)
        bound = HALF_ULP * (2 * roundings * np.abs(gamma) * rate * size + 2 * np.abs(sum(beta)))
        self.bound = rounded(bound, self.expected, dtypes[1])

    def arguments(self, params: Params) -> list[Array]:
        return [self.x, *kernel.pack(self.workload, params, self.constants)]


def _parsed(
    shape: tuple[int, ...], over: Sequence[int], parts: Sequence[ir.Constant], dtypes: tuple[str, str]
) -> tuple[Workload, tuple[Array, ...]]:
    spec = ROWS_F32[0 if len(parts) == 2 else 1]

    def call(value: ir.Expr | None, x: ir.Expr) -> ir.Expr:
        data = x if value is None else value
        if len(parts) == 2:
            return op.nn.layer_norm(data, *parts, list(over), EPSILON)
        return op.nn.rms_norm(data, *parts, list(over), EPSILON)

    parsed = parse(around(tensor(shape, dtypes[0]), [call], dtypes, spec.name), spec)
    assert isinstance(parsed, Composite)
    return parsed.workload, parsed.constants


CASES = [
    Case((1,)),
    Case((5, 3), centred=False),
    Case((3, 7), mean=30),
    Case((2, 5, 8)),
    Case((40, 9), centred=False),
    # A mean that squares without it would drown in.
    Case((9, 31), mean=1000),
    Case((7, 128)),
    Case((4, 3, 17), axes=2, mean=-3),
    Case((5, 192), centred=False),
    Case((3, 1001), mean=5),
    *(
        Case((3, length), centred=bool(length % 2), mean=2, dtypes=dtypes)
        for length, dtypes in [
            *((length, (HALF, HALF)) for length in (1, 7, 8, 9, 31, 197)),
            (768, (HALF, HALF)),
            (197, (HALF, "float32")),
            (31, ("float32", HALF)),
        ]
    ),
]


def test_errors_are_within_the_stated_bound(tmp_path: Path, board: Board):
    pairs = [(each, Params(parallel=bool(i % 2))) for i, each in enumerate(CASES)]
    calls = [
        (kernel.build(c.workload, p), c.arguments(p), c.workload.output_shape, c.workload.output_dtype)
        for c, p in pairs
    ]
    so = model_so(tmp_path / "model.so", calls, BASELINE)
    outputs = board.load(so).run([array for _, arguments, _, _ in calls for array in arguments])
    for each, actual in zip(CASES, outputs, strict=True):
        assert (np.abs(actual - each.expected) <= each.bound).all(), each.workload
        if each.workload.composite == "arm.rms_norm" and each.x.dtype == actual.dtype == np.float32:
            defined = kernel.rms_norm(each.x, each.constants[0], EPSILON)
            np.testing.assert_array_equal(actual, defined)


@pytest.mark.parametrize("index", [6, 8, 9, 15, 16])
def test_loops_have_no_stack_access(index: int):
    for loop in loops(assembly(kernel.build(CASES[index].workload, Params(parallel=False)), NEON)):
        assert not [line for line in loop if "[sp" in line]


def test_long_rows_are_normalised_in_six_instructions_a_vector():
    results = loops(assembly(kernel.build(CASES[9].workload, Params(parallel=False)), NEON))[-1]
    assert sum(line.startswith("fmla") for line in results) == kernel.UNROLL
    assert len(results) <= 6 * kernel.UNROLL


def test_only_long_calls_are_spread_over_threads():
    assert not kernel.default(CASES[6].workload, CORE).parallel
    assert kernel.default(Case((512, 128)).workload, CORE).parallel


def test_matches_says_what_it_saw():
    assert kernel.matches(CASES[7].workload, CORE) == KernelMatch("float32 layer norm of 4 rows of 51")
    assert kernel.matches(CASES[4].workload, CORE) == KernelMatch("float32 RMS norm of 40 rows of 9")
    assert kernel.matches(CASES[16].workload, CORE) == KernelMatch("float16 RMS norm of 3 rows of 768")


def test_conversions_are_part_of_the_estimate():
    full, half = (Case((64, 128), dtypes=(dtype, dtype)).workload for dtype in ("float32", HALF))
    params = Params(parallel=False)
    assert kernel.estimate(full, params, CORE) < kernel.estimate(half, params, CORE)


def test_near_misses_name_limit_and_actual():
    good = CASES[3].workload

    refused = refusals_of(kernel, CORE)

    def having(**attributes: str) -> Workload:
        changed = dict(good.attributes) | attributes
        return dataclasses.replace(good, attributes=tuple(changed.items()))

    # The machine that compiles has the same numbers in its self-test.
    assert isinstance(kernel.matches(good, dataclasses.replace(CORE, isa=X86_64)), KernelMatch)
    assert refused(dataclasses.replace(good, composite="arm.linear"))[1] == "arm.linear"
    assert refused(having(axes="(0, 2)")) == ("[1, 2]", "[0, 2]")
    assert refused(having(scale="False")) == ("both", "one")
    empty = dataclasses.replace(good.operands[0], shape=(0, 5, 8))
    assert refused(dataclasses.replace(good, operands=(empty, *good.operands[1:])))[0] == "1 or more"
