# SPDX-License-Identifier: Apache-2.0
import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from arm_ext.board import Board
from schedules.cores import CORES
from schedules.kernel import Match, Rejection
from schedules.kernels import matmul_f32
from schedules.kernels.matmul_f32 import TILES, Params
from schedules.workload import Operand, Workload
from tests.schedules.programs import BASELINE, NEON, Array, assembly, linear, loops, model_so, run_on_host

CORE = CORES["neoverse-n2"]
ALL_STEPS = ("bias", "residual", "relu", "clip")

# What an FMLA chain may be off by: k + steps roundings of at most 2**-24 each, of the sum of magnitudes.
HALF_ULP = 2.0**-24


class Case:
    """Operands of a workload and what it should give, with the bound of its error."""

    def __init__(self, workload: Workload) -> None:
        rng = np.random.default_rng(7)
        operands = (*workload.operands, *(s.operand for s in workload.epilogue if s.operand))
        values = {
            (o.kind, o.index): rng.normal(size=o.shape).astype(np.float32) for o in operands if o is not None
        }
        self.inputs = [values["input", i] for i in range(len(workload.inputs))]
        self.constants = [values["constant", i] for i in range(len(values) - len(self.inputs))]
        a, b = self.inputs[0].astype(np.float64), self.constants[0].astype(np.float64)
        self.expected, magnitude = a @ b, np.abs(a) @ np.abs(b)
        for step in workload.epilogue:
            if step.operand is not None:
                other = values[step.operand.kind, step.operand.index]
                self.expected, magnitude = self.expected + other, magnitude + np.abs(other)
            low, high = step.bounds or (0.0, np.inf)
            if step.operand is None:
                self.expected = np.clip(self.expected, low, high)
        self.bound = (b.shape[0] + len(workload.epilogue)) * HALF_ULP * magnitude
        self.workload = workload

    def arguments(self, params: Params) -> list[Array]:
        return [*self.inputs, *matmul_f32.pack(self.workload, params, self.constants)]

    def on_host(self, params: Params) -> Array:
        func = matmul_f32.build(self.workload, params)
        return run_on_host(func, self.arguments(params), self.workload.output_shape, "float32")

    def check(self, actual: Array) -> None:
        assert actual.shape == self.expected.shape
        assert (np.abs(actual - self.expected) <= self.bound).all()


@pytest.mark.parametrize("k", [1, 3, 4, 9, 31])
@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 31), (7, 8), (8, 7), (9, 16), (31, 9), (13, 35)])
def test_sizes_with_tails(m: int, n: int, k: int):
    case = Case(linear(m, n, k, ("bias",)))
    case.check(case.on_host(matmul_f32.default(case.workload, CORE)))


@pytest.mark.parametrize("steps", [(), ("bias", "relu"), ("residual",), ("clip",), ALL_STEPS], ids=str)
def test_epilogue(steps: Sequence[str]):
    case = Case(linear(7, 23, 9, steps))
    case.check(case.on_host(matmul_f32.default(case.workload, CORE)))


def test_leading_dimensions_are_rows():
    case = Case(linear(3, 9, 8, ALL_STEPS, lead=(2, 5)))
    case.check(case.on_host(matmul_f32.default(case.workload, CORE)))


def test_input_that_is_also_the_residual():
    workload = linear(7, 9, 9, ("residual",))
    step = dataclasses.replace(workload.epilogue[0], operand=workload.operands[0])
    case = Case(dataclasses.replace(workload, epilogue=(step,)))
    assert len(case.inputs) == 1
    case.check(case.on_host(matmul_f32.default(case.workload, CORE)))


def test_result_depends_neither_on_tile_nor_block_nor_threads():
    case = Case(linear(31, 53, 37, ALL_STEPS))
    first = case.on_host(Params(*TILES[0], row_block=TILES[0][0], parallel=False))
    case.check(first)
    for rows, vectors in TILES[1:]:
        np.testing.assert_array_equal(first, case.on_host(Params(rows, vectors, 2 * rows, parallel=True)))


def test_every_size_on_a_board(tmp_path: Path, board: Board):
    cases = [
        Case(linear(m, n, k, ALL_STEPS)) for m, n, k in [(1, 7, 9), (8, 31, 31), (9, 1, 1), (128, 64, 65)]
    ]
    calls = []
    for case in cases:
        params = matmul_f32.default(case.workload, CORE)
        func = matmul_f32.build(case.workload, params)
        calls.append((func, case.arguments(params), case.workload.output_shape, "float32"))
    so = model_so(tmp_path / "model.so", calls, BASELINE)
    outputs = board.load(so).run([array for _, arguments, _, _ in calls for array in arguments])
    for case, actual in zip(cases, outputs, strict=True):
        case.check(actual)


@pytest.mark.parametrize(("m", "parallel"), [(12, False), (256, False), (256, True)])
def test_inner_loop_is_fmla_without_stack_access(m: int, parallel: bool):
    workload = linear(m, 256, 256, ("bias", "relu"))
    inner = loops(assembly(matmul_f32.build(workload, Params(6, 4, 12, parallel)), NEON))
    fmla = [sum(line.startswith("fmla") for line in loop) for loop in inner]
    # Six rows by four vectors by four k; 256 = 42 * 6 + 4 leaves four rows, 12 none.
    assert sorted(count for count in fmla if count) == ([96] if m == 12 else [64, 96])
    for loop, count in zip(inner, fmla, strict=True):
        if count:
            assert not [line for line in loop if "[sp" in line]
            # 96 of 114 and 64 of 80 in a loop that loads each row of A once and B in pairs.
            assert count / len(loop) >= 0.8


def test_estimated_instructions_of_the_loop_are_those_of_the_assembly():
    workload = linear(12, 16, 256)
    inner = loops(assembly(matmul_f32.build(workload, Params(6, 4, 12, parallel=False)), NEON))
    (length,) = {len(loop) for loop in inner if any(line.startswith("fmla") for line in loop)}
    per_tile = matmul_f32.instructions(workload, Params(6, 4, 12, parallel=False)) / 2
    outside = 2 * 24  # start and store of the accumulators
    assert per_tile - outside == length * 256 / 4


@pytest.mark.parametrize("name", ["cortex-a53", "cortex-a76", "neoverse-v2"])
@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 1000, 1280), (128, 512, 128), (512, 8, 256), (1, 1, 1), (7, 3, 99999)]
)
def test_default_is_the_candidate_with_the_lowest_estimate(m: int, n: int, k: int, name: str):
    workload, core = linear(m, n, k), CORES[name]
    estimates = [matmul_f32.estimate(workload, p, core) for p in matmul_f32.candidates(workload, core)]
    assert matmul_f32.estimate(workload, matmul_f32.default(workload, core), core) == min(estimates)
    assert min(estimates) >= m * n * k / 8  # two FMLA of four lanes a cycle


def test_only_large_calls_are_parallel_and_have_tasks_for_the_threads():
    assert not matmul_f32.default(linear(7, 31, 9), CORE).parallel
    large = matmul_f32.default(linear(512, 16, 256), CORE)
    assert large.parallel
    assert 512 / large.row_block >= 32


def test_weights_are_packed_in_panels_padded_with_zeros():
    workload = linear(6, 18, 2, ("bias",))
    b = np.arange(36, dtype=np.float32).reshape(2, 18)
    packed, bias = matmul_f32.pack(workload, Params(6, 4, 6, parallel=False), [b, np.ones(18, np.float32)])
    np.testing.assert_array_equal(packed[:32].reshape(2, 16), b[:, :16])
    np.testing.assert_array_equal(packed[32:].reshape(2, 4), [[16, 17, 0, 0], [34, 35, 0, 0]])
    np.testing.assert_array_equal(bias, [1] * 18 + [0] * 2)


def test_nan_stays_nan_through_relu_and_clip():
    case = Case(linear(2, 5, 4, ("relu", "clip")))
    case.inputs[0][0] = np.nan
    output = case.on_host(matmul_f32.default(case.workload, CORE))
    assert np.isnan(output[0]).all()
    assert not np.isnan(output[1]).any()


def _rejected(workload: Workload) -> Rejection:
    answer = matmul_f32.matches(workload, CORE)
    assert isinstance(answer, Rejection)
    return answer


def test_matches_says_what_it_saw():
    assert matmul_f32.matches(linear(2, 5, 4), CORE) == Match("float32 matmul 2 x 4 by constant 4 x 5")


def test_near_misses_name_limit_and_actual():
    good = linear(2, 5, 4)
    a, b = good.operands
    half = dataclasses.replace(good, operands=(dataclasses.replace(a, dtype="float16"), b))
    assert (_rejected(half).limit, _rejected(half).actual) == ("float32", "float16, float32")
    variable = dataclasses.replace(good, operands=(a, Operand((4, 5), "float32", "input", 1)))
    assert (_rejected(variable).limit, _rejected(variable).actual) == ("constant", "input")
    batched = dataclasses.replace(good, operands=(a, dataclasses.replace(b, shape=(3, 4, 5))))
    assert (_rejected(batched).limit, _rejected(batched).actual) == ("2 dimensions", "3 dimensions")
    empty = linear(0, 5, 4)
    assert _rejected(empty).limit == "1 or more"
    other = dataclasses.replace(good, composite="arm.conv2d")
    assert (_rejected(other).limit, _rejected(other).actual) == ("arm.linear", "arm.conv2d")


def test_params_that_cannot_be():
    with pytest.raises(ValueError, match="6 x 5 vectors takes 38 registers of 32"):
        Params(6, 5, 6, parallel=False)
    with pytest.raises(ValueError, match="row_block 8 is not a multiple of 6"):
        Params(6, 4, 8, parallel=False)
