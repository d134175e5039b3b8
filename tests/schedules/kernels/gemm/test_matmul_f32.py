# SPDX-License-Identifier: Apache-2.0
import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import tvm
from onnx import helper
from tvm import relax

import arm_ext
from arm_ext.board import Board
from schedules.composites.workload import Operand, Workload
from schedules.cores import CORES, Core
from schedules.kernels.common.contract import KernelMatch
from schedules.kernels.gemm import gemm_f32
from schedules.kernels.gemm import matmul_f32 as kernel
from schedules.kernels.gemm.matmul_f32 import TILES, Params
from tests.arm_ext.models import model
from tests.schedules import float_cases
from tests.schedules.kernels.refusals import refusals_of
from tests.schedules.programs import (
    BASELINE,
    NEON,
    NEON_CORE,
    Array,
    assembly,
    float_step,
    linear,
    loops,
    model_so,
    run_on_host,
)

CORE, OLD_CORE = CORES["neoverse-n2"], CORES["cortex-a53"]

# How heads of attention lie: queries or values, and keys whose depth is contiguous.
HEADS, KEYS = (0, 2, 1, 3), (0, 2, 3, 1)


class Case:
    """[*lead, M, K] by [*b_lead, K, N]; what they give in binary64, and a bound of the error."""

    def __init__(
        self,
        lead: Sequence[int],
        sizes: tuple[int, int, int],
        *,
        axes: tuple[tuple[int, ...], tuple[int, ...]] = ((), ()),
        b_lead: Sequence[int] | None = None,
        steps: Sequence[str] = (),
        known: bool = False,
    ) -> None:
        m, k, n = sizes
        rng = np.random.default_rng(5)
        shapes = (*lead, m, k), (*(lead if b_lead is None else b_lead), k, n)
        operands, seen = [], []
        self.inputs: list[Array] = []
        self.constants: list[Array] = []
        for shape, order in zip(shapes, axes, strict=True):
            stored = tuple(shape[order.index(axis)] for axis in range(len(order))) or shape
            values = rng.normal(size=stored).astype(np.float32)
            kind = "constant" if known and not operands else "input"
            to = self.constants if kind == "constant" else self.inputs
            operands.append(Operand(stored, "float32", kind, len(to), order))
            to.append(values)
            seen.append((values.transpose(order) if order else values).astype(np.float64))
        a, b = seen
        self.expected, size = a @ b, np.abs(a) @ np.abs(b)
        epilogue = []
        for name in steps:
            step = float_step(name, self.expected.shape, (n,))
            if step.operand is not None:
                to = self.constants if step.operand.kind == "constant" else self.inputs
                step = dataclasses.replace(step, operand=dataclasses.replace(step.operand, index=len(to)))
                other = rng.normal(size=step.operand.shape).astype(np.float32)
                to.append(other)
                self.expected, size = self.expected + other, size + np.abs(other)
            elif name == "relu":
                self.expected = np.maximum(self.expected, 0)
            epilogue.append(step)
        # A chain of K roundings, and one for each step, of the sum of magnitudes.
        self.bound = (k + len(steps)) * float_cases.HALF_ULP * size
        self.workload = Workload(
            "arm.matmul_f32", tuple(operands), (), tuple(epilogue), self.expected.shape, "float32"
        )

    def call(self, params: Params) -> tuple[object, list[Array], tuple[int, ...], str]:
        arguments = [*self.inputs, *kernel.pack(self.workload, params, self.constants)]
        return kernel.build(self.workload, params), arguments, self.workload.output_shape, "float32"

    def on_host(self, params: Params | None = None) -> Array:
        return run_on_host(*self.call(params or kernel.default(self.workload, NEON_CORE)))

    def check(self, actual: Array) -> None:
        assert (np.abs(actual - self.expected) <= self.bound).all()


CASES = [
    Case((), (1, 1, 1)),
    Case((3,), (7, 8, 9)),
    Case((2, 2), (31, 65, 17)),
    Case((1, 2), (13, 31, 40), steps=("bias", "residual", "relu")),
    Case((2,), (1, 67, 48)),
    Case((2,), (1, 9, 31), steps=("bias",)),
    Case((3,), (3, 7, 8)),
    Case((1, 3), (8, 9, 40), axes=(HEADS, KEYS)),
    Case((1, 3), (2, 64, 41), axes=(HEADS, HEADS)),
    Case((2, 3), (25, 40, 31), axes=((), KEYS)),
    Case((2, 3), (5, 16, 8), b_lead=(3,)),
    Case((2, 3), (9, 16, 8), b_lead=()),
    Case((2, 1), (5, 33, 8), b_lead=(1, 3)),
    Case((9,), (7, 31, 9), b_lead=(1,), known=True, steps=("bias",)),
]


@pytest.mark.long  # as on a board, which has all of them, too
def test_error_is_within_its_bound():
    for case in CASES:
        case.check(case.on_host())


@pytest.mark.parametrize(
    ("core", "target"), [(NEON_CORE, NEON), (OLD_CORE, BASELINE)], ids=["neoverse-n2", "cortex-a53"]
)
def test_on_a_board(core: Core, target: dict[str, object], tmp_path: Path, board: Board):
    cases = CASES if core is NEON_CORE else CASES[1::3]  # the cores differ in the sizes of tiles
    calls = [case.call(kernel.default(case.workload, core)) for case in cases]
    so = model_so(tmp_path / "model.so", calls, target)
    outputs = board.load(so).run([array for _, arguments, _, _ in calls for array in arguments])
    for case, actual in zip(cases, outputs, strict=True):
        case.check(actual)


@pytest.mark.parametrize(
    "case", [Case((3,), (31, 35, 43)), Case((3,), (2, 35, 43))], ids=["packed", "direct"]
)
def test_result_depends_neither_on_tile_nor_threads(case: Case):
    first = case.on_host(Params(*TILES[0]))
    case.check(first)
    for rows, vectors in TILES[2::5]:
        np.testing.assert_array_equal(first, case.on_host(Params(rows, vectors, parallel=True)))


def test_sums_are_those_of_the_kernel_with_constant_weights():
    case, weights = Case((), (9, 67, 31)), linear(9, 31, 67)
    params = gemm_f32.default(weights, NEON_CORE)
    packed = gemm_f32.pack(weights, params, [case.inputs[1]])
    func = gemm_f32.build(weights, params)
    expected = run_on_host(func, [case.inputs[0], *packed], (9, 31), "float32")
    np.testing.assert_array_equal(case.on_host(), expected)


@pytest.mark.parametrize("sizes", [(64, 64, 96), (1, 64, 96), (4, 64, 100)], ids=str)
def test_inner_loops_are_fmla_without_stack_access(sizes: tuple[int, int, int]):
    work = Case((2,), sizes).workload
    inner = loops(assembly(kernel.build(work, kernel.default(work, NEON_CORE)), NEON))
    products = [loop for loop in inner if any(line.startswith("fmla") for line in loop)]
    assert products
    for loop in products:
        assert not [line for line in loop if "[sp" in line]


def test_the_estimate_is_above_the_multiplications_and_the_default_the_least():
    work = Case((2,), (64, 64, 64)).workload
    for core in (CORE, OLD_CORE):
        best = kernel.default(work, core)
        assert kernel.estimate(work, best, core) == min(
            kernel.estimate(work, params, core) for params in kernel.candidates(work, core)
        )
        assert kernel.estimate(work, best, core) >= 2 * 64**3 / 4 / core.vector_pipes


def test_matches_says_what_it_saw():
    assert kernel.matches(Case((2, 3), (5, 7, 9)).workload, CORE) == KernelMatch(
        "6 float32 products 5 x 7 x 9 of run time"
    )


def test_near_misses_name_limit_and_actual():
    good = Case((), (2, 3, 4)).workload
    a, b = good.operands
    refused = refusals_of(kernel, CORE)
    assert refused(dataclasses.replace(good, composite="arm.linear")) == ("arm.matmul_f32", "arm.linear")
    half = dataclasses.replace(good, operands=(a, dataclasses.replace(b, dtype="float16")))
    assert refused(half) == ("float32", "float16, float32")
    vector = dataclasses.replace(good, operands=(dataclasses.replace(a, shape=(3,)), b))
    assert refused(vector) == ("2 dimensions or more", "1")
    empty = dataclasses.replace(good, operands=(dataclasses.replace(a, shape=(0, 3)), b))
    assert refused(empty)[0] == "1 or more"
    columns = dataclasses.replace(good, operands=(dataclasses.replace(a, shape=(3, 2), axes=(1, 0)), b))
    assert refused(columns) == ("1", "(1, 2), (4, 1)")


def test_matmul_of_an_onnx_model_that_is_no_attention(tmp_path: Path):
    nodes = [
        helper.make_node("Transpose", ["b"], ["t"], "turn", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["a", "t"], ["s"], "product"),
        helper.make_node("Relu", ["s"], ["y"], "relu"),
    ]
    proto = model(nodes, {"a": [2, 9, 31], "b": [2, 7, 31]}, ["y"])
    result = arm_ext.compile(proto, target="host", output=tmp_path / "a.armpkg")
    assert [each.kernel for each in result.report.kernels] == ["matmul_f32"]
    a, b = (value.astype(np.float32) for value in result.package.selftest().inputs)
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(result.package.so)), tvm.cpu())
    actual = machine["main"](tvm.runtime.tensor(a), tvm.runtime.tensor(b))
    expected = np.maximum(a.astype(np.float64) @ b.astype(np.float64).transpose(0, 2, 1), 0)
    np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-5, atol=1e-5)
