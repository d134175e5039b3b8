# SPDX-License-Identifier: Apache-2.0
import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from arm_ext.board import Board
from schedules.composites.workload import Operand, Step, Workload
from schedules.intrinsics.exp_f32 import ERROR
from schedules.kernels.attention import attention_f32 as kernel
from schedules.kernels.attention.attention_f32 import TILES, Params
from schedules.kernels.common.contract import KernelMatch
from tests.schedules.float_data import FULL, HALF, rounded
from tests.schedules.kernels.refusals import refusals_of
from tests.schedules.programs import (
    BASELINE,
    NEON,
    NEON_CORE,
    Array,
    assembly,
    first_of,
    loops,
    model_so,
    run_on_host,
)

HALF_ULP = 2.0**-24
IN_ORDER = ("cortex-a53", "cortex-a55", "cortex-a510")

# How heads lie behind a projection, with the depth of keys contiguous.
HEADS, KEYS = (0, 2, 1, 3), (0, 2, 3, 1)


class Case:
    """q [*lead, M, K], k [*lead, K, S], v [*lead, S, N]; what they give in binary64, and a bound of the error."""

    def __init__(
        self,
        lead: Sequence[int],
        sizes: tuple[int, int, int, int],
        *,
        axes: tuple[tuple[int, ...], ...] = ((), (), ()),
        scale: float | None = None,
        mask: Array | None = None,
        constant_mask: bool = False,
        dtypes: tuple[str, str] = FULL,
    ) -> None:
        m, depth, keys, n = sizes
        rng = np.random.default_rng(3)
        operands, seen, self.inputs, self.constants = [], [], [], []
        for index, (shape, order) in enumerate(
            zip([(m, depth), (depth, keys), (keys, n)], axes, strict=True)
        ):
            full = (*lead, *shape)
            stored = tuple(full[order.index(axis)] for axis in range(len(order))) or full
            values = rng.normal(size=stored).astype(dtypes[0])
            operands.append(Operand(stored, dtypes[0], "input", index, order))
            self.inputs.append(values)
            seen.append((values.transpose(order) if order else values).astype(np.float64))
        q, k, v = seen
        steps = []
        if scale is not None:
            self.constants.append(np.float32(scale))
            steps.append(Step("scale", Operand((), "float32", "constant", 0)))
        if mask is not None:
            kind, index = ("constant", len(self.constants)) if constant_mask else ("input", 3)
            (self.constants if constant_mask else self.inputs).append(mask)
            steps.append(Step("mask", Operand(mask.shape, str(mask.dtype), kind, index)))
        steps += [Step("softmax"), Step("values", operands[2])]
        with np.errstate(all="ignore"):
            scores = q @ k * (1 if scale is None else np.float32(scale)) + (0 if mask is None else mask)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            weights /= weights.sum(-1, keepdims=True)
        self.expected = weights @ v
        # Scores: a chain of K roundings, scale, mask, factor to the base 2, distance; each of what it works on.
        size = np.abs(q) @ np.abs(k) * abs(scale or 1)
        off = ((depth + 4) * HALF_ULP * size + 4 * HALF_ULP * (size.max() + 1)).max()
        # That moves each weight by as much, relatively; then the powers, two sums over S, and the division.
        relative = 2 * off + 2 * ERROR + (2 * keys + 4) * HALF_ULP
        self.bound = rounded(relative * (weights @ np.abs(v)), self.expected, dtypes[1])
        shape = self.expected.shape
        self.workload = Workload("arm.attention", tuple(operands[:2]), (), tuple(steps), shape, dtypes[1])

    @property
    def result(self) -> tuple[tuple[int, ...], str]:
        return self.workload.output_shape, self.workload.output_dtype

    def arguments(self, params: Params) -> list[Array]:
        return [*self.inputs, *kernel.pack(self.workload, params, self.constants)]

    def on_host(self, params: Params | None = None) -> Array:
        params = params or kernel.default(self.workload, NEON_CORE)
        func = kernel.build(self.workload, params)
        return run_on_host(func, self.arguments(params), *self.result)

    def check(self, actual: Array) -> None:
        assert (np.abs(actual - self.expected) <= self.bound).all()


def causal(rows: int, keys: int, low: float) -> Array:
    return np.where(np.tri(rows, keys) > 0, 0, low).astype(np.float32)


CASES = {
    "one": Case((), (1, 1, 1, 1)),
    "tails": Case((2,), (7, 9, 31, 5), scale=0.3),
    "negative scale": Case((2,), (9, 8, 7, 8), scale=-0.5),
    "projections": Case((1, 2), (13, 16, 33, 8), axes=(HEADS, KEYS, HEADS), scale=0.25),
    "values by columns": Case((3,), (5, 7, 18, 9), axes=((), (0, 2, 1), (0, 2, 1))),
    "mask a key": Case((2, 3), (9, 8, 13, 4), mask=np.float32([[[[0, -1e9, 1] * 4 + [2]]], [[[1.5] * 13]]])),
    "mask a query": Case((2,), (9, 8, 13, 4), mask=np.linspace(-3, 3, 9, dtype=np.float32).reshape(9, 1)),
    "causal": Case((2, 2), (31, 8, 31, 9), scale=0.7, mask=causal(31, 31, -np.inf), constant_mask=True),
    "least number": Case((1, 1), (6, 4, 9, 4), scale=0.7, mask=causal(6, 9, float(np.finfo(np.float32).min))),
    "long": Case((1,), (6, 64, 700, 64), scale=0.125),
    **{
        f"float16, {keys} keys": Case((2,), (9, 8, keys, 7), scale=0.3, dtypes=(HALF, HALF))
        for keys in (1, 9, 31, 197)
    },
    "float16, projections": Case((1, 2), (13, 64, 33, 64), axes=(HEADS, KEYS, HEADS), dtypes=(HALF, HALF)),
    "float16, masked": Case(
        (2,), (9, 8, 13, 4), mask=causal(9, 13, -60000).astype(HALF), dtypes=(HALF, HALF)
    ),
    "float16 data": Case((2,), (9, 8, 13, 5), axes=((), (0, 2, 1), ()), dtypes=(HALF, "float32")),
    "float16 result": Case((2,), (9, 8, 13, 5), dtypes=("float32", HALF)),
}


# Those of float16 run on a board, with a few of the others.
LEFT = ("float16, 9 keys", "float16, 31 keys")  # to `-m long`
ON_A_BOARD = [
    name
    for name in CASES
    if name in ("tails", "projections", "causal") or ("float16" in name and name not in LEFT)
]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] * (name in LEFT))
        for name in CASES
        if name not in ON_A_BOARD
    ],
)
def test_error_is_within_its_bound(name: str):
    case = CASES[name]
    case.check(case.on_host())


def test_result_depends_neither_on_tile_nor_threads():
    case = CASES["tails"]
    first = case.on_host(Params(*TILES[0]))
    for rows, vectors in TILES[1::2]:
        np.testing.assert_array_equal(first, case.on_host(Params(rows, vectors, parallel=True)))


def test_masked_keys_count_for_nothing():
    case = Case((1,), (3, 4, 9, 2), mask=np.float32([[0] * 4 + [-np.inf] * 5]))
    before = case.on_host()
    case.inputs[2][:, 4:] = 1e30
    np.testing.assert_array_equal(before, case.on_host())


def test_a_query_without_a_key_is_nan_as_in_every_runtime():
    mask = np.zeros((3, 9), np.float32)
    mask[1] = -np.inf
    actual = Case((), (3, 4, 9, 2), mask=mask).on_host()
    assert np.isnan(actual).any(-1).tolist() == [False, True, False]


def test_a_query_whose_keys_are_all_as_far_away_takes_them_alike():
    mask = np.full((1, 9), np.finfo(np.float32).min, np.float32)
    case = Case((), (3, 4, 9, 2), mask=mask)
    np.testing.assert_allclose(case.on_host(), np.tile(case.inputs[2].mean(0), (3, 1)), rtol=1e-5)


def test_on_a_board(tmp_path: Path, board: Board):
    calls = []
    cases = [CASES[name] for name in ON_A_BOARD]
    for case in cases:
        params = kernel.default(case.workload, NEON_CORE)
        func = kernel.build(case.workload, params)
        calls.append((func, case.arguments(params), *case.result))
    so = model_so(tmp_path / "model.so", calls, BASELINE)
    outputs = board.load(so).run([array for _, arguments, _, _ in calls for array in arguments])
    for case, actual in zip(cases, outputs, strict=True):
        case.check(actual)


@pytest.mark.parametrize(
    "target", first_of([NEON, *({**BASELINE, "mcpu": name} for name in IN_ORDER)]), ids=str
)
def test_loops_of_exponentials_have_no_stack_access(target: dict[str, object]):
    work = Case((2,), (10, 64, 128, 64), scale=0.125).workload
    inner = loops(assembly(kernel.build(work, Params(5, 4)), target))
    exponentials = [loop for loop in inner if any(line.startswith("shl") for line in loop)]
    assert exponentials
    for loop in exponentials:
        assert sum(line.startswith("shl") for line in loop) == 4
        assert not [line for line in loop if "[sp" in line]
        # Of a vector: the load, FSUB, eleven of 2**y, four copies of coefficients that FMLA overwrites, the sum, the
        # store, and a share of what LLVM keeps in no register.
        assert len(loop) <= 4 * 21


def test_matches_says_what_it_saw():
    assert kernel.matches(CASES["tails"].workload, NEON_CORE) == KernelMatch(
        "float32 attention of 2 heads 7 x 31, depth 9 and 5"
    )


def test_threads_leave_a_float16_result_as_it_is():
    case = CASES["float16, projections"]
    tile = TILES[0]
    np.testing.assert_array_equal(case.on_host(Params(*tile)), case.on_host(Params(*tile, parallel=True)))


def test_conversions_are_part_of_the_estimate():
    full, half = (Case((2,), (64, 64, 64, 64), dtypes=(d, d)).workload for d in ("float32", HALF))
    params = Params(*TILES[0])
    assert kernel.estimate(full, params, NEON_CORE) < kernel.estimate(half, params, NEON_CORE)


def test_near_misses_name_limit_and_actual():
    good = CASES["tails"].workload

    refused = refusals_of(kernel, NEON_CORE)

    assert refused(dataclasses.replace(good, composite="arm.linear")) == ("arm.attention", "arm.linear")
    q, k = good.operands
    double = dataclasses.replace(good, operands=(dataclasses.replace(q, dtype="float64"), k))
    assert refused(double) == ("float32 or float16", "float64, float32, float32, float32")
    known = dataclasses.replace(good, operands=(q, dataclasses.replace(k, kind="constant")))
    assert refused(known) == ("inputs", "constant")
    assert refused(dataclasses.replace(good, output_shape=(2, 7, 6))) == ("(2,)", "(2, 7, 6)")
    columns = Case((2,), (7, 9, 31, 5), axes=((0, 2, 1), (), ())).workload
    assert refused(columns) == ("1", "(63, 1, 7)")
    tall = Case((2,), (7, 9, 31, 5), mask=np.zeros((1, 1, 1), np.float32)).workload
    enlarged = Step("mask", Operand((3, 1, 1, 1), "float32", "input", 3))
    steps = (enlarged, *tall.epilogue[1:])
    assert refused(dataclasses.replace(tall, epilogue=steps)) == ("(2, 7, 31)", "(3, 1, 1, 1)")
